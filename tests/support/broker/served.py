"""A broker inside a test's own Trio run, on files that the test chooses, and a client whose requests run concurrently."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from ottla.server.broker.broker import Broker
from ottla.server.broker.supervisor import run_supervisor
from ottla.server.config.static_config import static_config
from ottla.server.runtime.clock import Clock
from ottla.storage.disk.files import Files
from support.broker.conversation import address
from support.broker.raw_client import RawClient

from ..sizes import size

FEW_PARTITIONS: dict[str, str] = size(
    {
        "offsets.topic.num.partitions": "3",
        "share.coordinator.state.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
    },
    {},
)
"""Overrides for the internal topics: a short run creates three partitions of each, since fifty directories take long."""


class Served:
    """A broker of a test, and its client."""

    def __init__(self, broker: Broker, client: RawClient) -> None:
        self.broker = broker
        self.client = client

    async def ask(self, request: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call `request(client, *arguments, **options)`, which blocks, in a thread."""
        return await trio.to_thread.run_sync(partial(request, self.client, *arguments, **options))


@asynccontextmanager
async def serving(
    data_dir: Path, files: Files, clock: Clock | None = None, /, **overrides: str
) -> AsyncIterator[Served]:
    """Run one node of the `dev` profile, with FEW_PARTITIONS; `_` in the names of overrides stands for the point."""
    static = static_config(
        profile="dev",
        flags={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data_dir)},
        overrides=FEW_PARTITIONS | {name.replace("_", "."): value for name, value in overrides.items()},
    )
    async with run_supervisor(static, files=files, clock=clock) as supervisor:
        broker = supervisor.broker
        client = await trio.to_thread.run_sync(RawClient, *address(broker))
        with client:
            yield Served(broker, client)
