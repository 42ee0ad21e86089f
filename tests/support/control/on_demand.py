"""A broker whose cleaner does nothing but what it is asked for, on a clock that stands still, and one compacted topic in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from ottla.server.broker.broker import Broker
from ottla.server.control.clock import idle
from ottla.server.runtime.clock import Clock
from ottla.storage.disk.files import Files
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from support.broker.conversation import create_topic
from support.broker.served import Served, serving
from support.broker.steppable_wall import START_MS
from support.logs.make_log import append

AT_REST = dict.fromkeys(
    ("log_cleaner_backoff_ms", "log_initial_task_delay_ms", "log_retention_check_interval_ms"), "9" * 12
)
T_0 = TopicPartition("t", 0)
PATIENCE_S = 60


def standing_clock() -> Clock:
    """At START_MS until a test moves it."""
    return Clock(lambda: START_MS, lambda: 0)


@asynccontextmanager
async def resting(
    data: Path,
    files: Files | None = None,
    *,
    topic: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> AsyncIterator[tuple[Served, Log]]:
    """The broker, and the log of t-0: compacted, unless `topic` says otherwise. Gives up after a minute."""
    async with serving(data, files or OsFiles(), standing_clock(), **AT_REST | dict(options or {})) as served:
        await served.ask(create_topic, "t", **{"cleanup_policy": "compact"} | dict(topic or {}))
        with trio.fail_after(PATIENCE_S):
            await first_round(served.broker)
            yield served, log_of(served.broker)


async def first_round(broker: Broker) -> None:
    """Return when the cleaner has looked once, and rests; at once if it is switched off."""
    while broker.config.current.log_cleaner_enable and broker.services.cleaning.looked_at_ms is None:
        await trio.sleep(0.001)
    await broker.clock.at_rest()


async def a_round(broker: Broker) -> None:
    """Return when the cleaner has done a round of its own, and rests again."""
    broker.services.cleaning.look_again()
    await idle()
    await broker.clock.at_rest()


def log_of(broker: Broker, topic: str = "t", partition: int = 0) -> Log:
    return broker.services.logs.logs[TopicPartition(topic, partition)]


def write(log: Log, keys: str, *, roll: bool = False, timestamp: int = START_MS) -> None:
    """A batch for each key, whose value is its offset; `roll` closes the segment after each."""
    for key in keys:
        append(log, (key, str(log.log_end_offset)), timestamp=timestamp, now_ms=START_MS, roll=roll)
