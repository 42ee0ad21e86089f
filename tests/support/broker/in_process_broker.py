"""A whole broker on a disk in memory, called in process, in the same order every time.

Time stands still unless a test moves it, work of worker threads is done in place by one thread, and Trio runs its tasks in
the order in which they became ready. So a run of the server is a sequence of file operations, and something can happen to the
disk at each of them.

    def work() -> None: ...
    async with running(files) as (broker, client):
        answer = await client.ask(EndTxnRequest(...), 5)
"""

from __future__ import annotations

import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, MutableSequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

from ottla.protocol.connection import encode_request, encode_response, parse_request
from ottla.server.broker.broker import Broker, nodes_of
from ottla.server.broker.run import run_broker
from ottla.server.client.connection import api_of
from ottla.server.cluster.nodes import close_all
from ottla.server.config.static_config import static_config
from ottla.server.faults.table import Faults
from ottla.server.network.dispatcher import RequestingClient, finished
from ottla.server.runtime import threads, time_slices
from ottla.server.runtime.clock import Clock
from support.broker.contexts import context_of
from support.disk.crash_files import CrashFiles

Result = TypeVar("Result")

DATA_DIR = "/data"
PATIENCE_S = 60
NOW_MS = 1_700_000_000_000
OPTIONS = {
    # This much does not fit into the memory of a small test, and nothing is compacted here.
    "log.cleaner.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "log.flush.start.offset.checkpoint.interval.ms": "5000",
    "group.coordinator.rebalance.protocols": "classic,consumer,streams",
}


async def _in_place(work: Callable[..., Result], *arguments: Any, **_: Any) -> Result:
    await trio.lowlevel.checkpoint()
    return work(*arguments)


class _OldestFirst(random.Random):
    """A replacement for the random order in which Trio runs the tasks of a scheduler pass.

    A seed is not enough. One more task in one pass, because a stray client connects, would change the order of all later
    passes.
    """

    def shuffle(self, x: MutableSequence[Any]) -> None:
        x.reverse()  # Trio has sorted them by age, and takes the last one first


def run_in_order(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run `work` in a Trio run of its own, whose clock stands still."""

    async def body() -> Result:
        return await work()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trio.to_thread, "run_sync", _in_place)
        patch.setattr(
            threads, "SIDE_BY_SIDE", 1
        )  # no threads beside that of the caller: the disk in memory is not for many
        patch.setattr("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True)
        patch.setattr("trio._core._run._r", _OldestFirst())
        patch.setattr(
            time_slices, "perf_counter", lambda: 0.0
        )  # else a slow machine ends time slices that a fast one does not
        return trio.run(body, clock=trio.testing.MockClock())


class InProcessClient:
    """A client that passes requests through the codec to the handlers of a node."""

    def __init__(self, broker: Broker, client: RequestingClient | None = None, *, node: int = 0) -> None:
        self._broker = broker
        self._context = context_of(broker, client, node)

    async def ask(self, message: Any, version: int) -> Any:
        """Return the answer; time passes if nothing else happens. AssertionError if no answer ever comes."""
        api = api_of(message)
        frame = bytearray(encode_request(api, version, 0, "client", message))
        request = parse_request(memoryview(frame)[4:])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._lose_patience, api.name)
            answer = await finished(self._broker.handlers[api.key](self._context, request))
            nursery.cancel_scope.cancel()
        encode_response(request, answer)
        return answer

    async def _lose_patience(self, name: str) -> None:
        for _ in range(PATIENCE_S):
            await trio.testing.wait_all_tasks_blocked()
            self._broker.clock.advance(1_000)
        raise AssertionError(f"{name} is not answered")


@asynccontextmanager
async def running(
    files: CrashFiles, nodes: int = 1, /, **options: str
) -> AsyncIterator[tuple[Broker, InProcessClient]]:
    """Run a broker from start to clean stop. `_` in the names of options stands for the point."""
    static = static_config(
        profile="dev",
        flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": DATA_DIR},
        overrides=OPTIONS | {name.replace("_", "."): value for name, value in options.items()},
        nodes=nodes,
    )
    clock = Clock(wall=lambda: NOW_MS, monotonic=lambda: 0)
    rng = random.Random(files.digest())  # else a later run would use the ids of an earlier one
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=rng.getrandbits(128), version=4))  # member ids of groups
        played = nodes_of(static)
        broker = Broker(static, played, clock=clock, files=files, rng=rng, faults=Faults())
        try:
            for node in played:
                node.bind(broker.config.current.listen_backlog)
            async with run_broker(broker):  # one run, which does not end with its data directories
                yield broker, InProcessClient(broker)
        finally:
            close_all(played)


async def pass_time(broker: Broker, by_ms: int) -> None:
    """Let the broker do everything that is due after `by_ms`, and all that follows from it."""
    broker.clock.advance(by_ms)
    await trio.testing.wait_all_tasks_blocked()
