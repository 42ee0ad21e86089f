"""Dynamic configs at a start: they hold from its first moment, since loading already forgets, and syncs, by them."""

from __future__ import annotations

import trio

from support.broker.stored_broker import StoredBroker
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch

DAY_MS = 86_400_000


def test_a_producer_is_remembered_for_the_dynamic_expiration() -> None:
    files = CrashFiles()
    with StoredBroker(files) as stored:
        trio.run(
            stored.broker.services.config_changes.alter_broker, "", {"producer.id.expiration.ms": str(20 * DAY_MS)}
        )
        stored.create("t")
        now_ms = stored.broker.clock.now_ms()
        sent = bytes(batch(("k", "v"), producer_id=7, timestamp=now_ms - 2 * DAY_MS))
        stored.log("t", 0).append(memoryview(bytearray(sent)), now_ms=now_ms)
    for killed in (files.copy(), files):
        with StoredBroker(killed) as stored:
            assert stored.log("t", 0).append(memoryview(bytearray(sent)), now_ms=now_ms).duplicate


def test_unsynced_data_of_a_killed_process_are_synced_before_use() -> None:
    files = CrashFiles()
    stored = StoredBroker(files)
    trio.run(stored.broker.services.config_changes.alter_broker, "", {"log.flush.interval.messages": "1"})
    stored.create("t")
    files.sync_all()
    stored.append("t", 0, b"v")
    with StoredBroker(files.copy()) as again:
        log = again.log("t", 0)
        assert (log.log_end_offset, log.recovery_point, log.needs_flush) == (1, 1, False)
