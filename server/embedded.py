"""The broker inside another program: in its Trio loop, or in a thread of it.

async with ottla.open_broker() as broker: ...         # inside Trio
with ottla.Broker() as broker: broker.bootstrap       # anywhere else
"""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, TypeVar

import trio
import trio.from_thread

from ..storage.files import OsFiles
from ..storage.paths import TopicPartition
from . import broker as server
from .cleaner_status import CleanerStatus
from .clock import Clock
from .opening import static_config_with_stored_id
from .properties import Properties

T = TypeVar("T")


@asynccontextmanager
async def open_broker(
    data_dir: str | None = None,
    *,
    nodes: int = 1,
    profile: str = "dev",
    overrides: Mapping[str, str] | None = None,
    features: Mapping[str, int] | None = None,
    listener: str = "127.0.0.1:0",
    clock: Clock | None = None,
    rng: random.Random | None = None,
    admin: str | None = None,
) -> AsyncIterator[server.Broker]:
    """A broker that serves while the block runs.

    Args:
        data_dir: Where logs are kept; without it a temporary directory, removed at the end.
        nodes: How many broker ids to play, each on a port of its own.
        profile: `dev` (quick reactions) or `kafka` (Apache Kafka's defaults).
        overrides: Broker options by name, as texts.
        features: Finalized levels by name, e.g. `{"transaction.version": 1}`.
        listener: HOST:PORT of the first node; port 0 takes a free one.
        clock: The broker's time; tests move it.
        rng: Source of ids, jitter and replica placement; a seeded one makes them repeat.
        admin: [HOST:]PORT of the admin HTTP listener, on a loopback address; without it there is none.

    Raises:
        ConfigError: An option is refused.
        OSError, DirectoryLockedError and the like: as `broker.run_broker`.
    """
    host, _, port = listener.rpartition(":")
    directory = tempfile.mkdtemp(prefix="ottla-") if data_dir is None else data_dir
    flags = {"listeners": f"PLAINTEXT://{host}:{port}", "log.dirs": directory}
    try:
        static = static_config_with_stored_id(
            OsFiles(),
            profile=profile,
            file=Properties(features=dict(features or {})),
            flags=flags,
            overrides=overrides or {},
            nodes=nodes,
        )
        async with server.run_broker(static, clock=clock, rng=rng, admin=admin) as broker:
            yield broker
    finally:
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)


class Broker:
    """A broker in a thread of this process, for programs and tests that do not run Trio.

    Takes the arguments of `open_broker`. Use it as a context manager, or call `start` and `stop`.
    """

    def __init__(self, data_dir: str | None = None, **options: Any) -> None:
        self._data_dir = data_dir
        self._options = options
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._started: threading.Event
        self._token: trio.lowlevel.TrioToken
        self._stop: trio.Event
        self._broker: server.Broker

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return once the broker serves. After `stop` it may be started again, on the same data directory if it has one.

        Raises:
            RuntimeError: It runs already.
            Whatever kept it from starting; nothing is left behind.
        """
        if self._thread is not None:
            raise RuntimeError("the broker runs already")
        self._started, self._failure = threading.Event(), None
        thread = threading.Thread(target=self._run, name="ottla-broker", daemon=True)
        thread.start()
        self._started.wait()
        if self._failure is not None:
            thread.join()
            raise self._failure
        self._thread = thread

    def stop(self) -> None:
        """Stop cleanly and return when everything is on disk. Raises what went wrong inside, if anything did."""
        if self._thread is None:
            return
        with suppress(trio.RunFinishedError):  # It failed meanwhile.
            self._token.run_sync_soon(self._stop.set)
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure

    @property
    def inner(self) -> server.Broker:
        """The broker itself, which belongs to its own thread: use it inside of what `run` runs."""
        return self._broker

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT[,HOST:PORT…]` for clients."""
        return self._broker.bootstrap

    def advance_clock(self, by_ms: int) -> None:
        """Move the broker's clock; what becomes due by it is due at once."""
        self._call(self._broker.clock.advance, by_ms)

    def stop_node(self, node_id: int) -> None:
        """Stop one node, as `ottla.server.broker.Broker.stop_node`; the others serve on."""
        self.run(self._broker.stop_node, node_id)

    def start_node(self, node_id: int) -> None:
        """Start a stopped node again, as `ottla.server.broker.Broker.start_node`."""
        self.run(self._broker.start_node, node_id)

    def metrics(self) -> dict[str, int | float]:
        """The metrics of logs and cleaner, under Apache Kafka's JMX names; see `ottla.server.metrics`."""
        return self._call(self._broker.metrics)

    def cleaner_status(self) -> dict[TopicPartition, CleanerStatus]:
        """What the cleaner has done to each partition, and what it waits for."""
        return self._call(self._broker.cleaner_status)

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an async function of the broker on its thread and return what it returns."""
        return trio.from_thread.run(function, *args, trio_token=self._token)

    def _call(self, function: Callable[..., T], *args: Any) -> T:
        return trio.from_thread.run_sync(function, *args, trio_token=self._token)

    def _run(self) -> None:
        try:
            trio.run(self._main)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that called us
            self._failure = error
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with open_broker(self._data_dir, **self._options) as self._broker:
            self._started.set()
            await self._stop.wait()
