"""A broker that restarts inside a test's own Trio run, on files that the test chooses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from ottla.server.broker.supervisor import Supervisor, run_supervisor
from ottla.server.config.static_config import static_config
from ottla.server.runtime.clock import Clock
from ottla.storage.disk.files import Files
from support.broker.raw_client import RawClient

PATIENCE_S = 30


@asynccontextmanager
async def lives_in(
    data_dir: Path | str, files: Files | None = None, nodes: int = 1, clock: Clock | None = None, **overrides: str
) -> AsyncIterator[Supervisor]:
    static = static_config(
        profile="dev",
        flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data_dir), "offsets.topic.num.partitions": "1"},
        overrides={name.replace("_", "."): value for name, value in overrides.items()},
        nodes=nodes,
    )
    with trio.fail_after(PATIENCE_S):
        async with run_supervisor(static, files=files, clock=clock) as supervisor:
            yield supervisor


async def ask(supervisor: Supervisor, *requests: Callable[[RawClient], Any]) -> list[Any]:
    """Return the results of these requests, over one connection."""

    def talk() -> list[Any]:
        listener = supervisor.nodes[0].listeners[0]
        with RawClient(listener.host, listener.port) as client:
            return [request(client) for request in requests]

    return await trio.to_thread.run_sync(talk)
