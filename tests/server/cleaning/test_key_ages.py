"""Keys of a topic in a running broker go in time, without a client that writes or asks (`ottla.key.retention.ms`)."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from ottla.storage.disk.os_files import OsFiles
from support.broker.conversation import create_topic, produce
from support.broker.served import Served, serving
from support.control.on_demand import log_of

HOUR_MS = 3_600_000
OPTIONS = {"cleanup_policy": "compact", "ottla_key_retention_ms": HOUR_MS, "min_cleanable_dirty_ratio": 1}


@pytest.mark.parametrize("restarts", [False, True])
async def test_keys_of_an_idle_topic_go(tmp_path: Path, restarts: bool) -> None:
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms="1") as served:
        await served.ask(create_topic, "t", **OPTIONS)
        await served.ask(produce, "t", ("k", "v"))
        if not restarts:
            await all_gone_after_two_hours(served)
            return
    async with serving(tmp_path, OsFiles(), log_cleaner_backoff_ms="1") as served:
        await all_gone_after_two_hours(served)


async def all_gone_after_two_hours(served: Served) -> None:
    log = log_of(served.broker)
    assert log.counts.records_max == 1
    served.broker.clock.advance(2 * HOUR_MS)
    with trio.fail_after(60):
        while log.counts.records_max:
            await trio.to_thread.run_sync(bool)  # lets the broker's threads run as well
    assert log.log_end_offset == 1
