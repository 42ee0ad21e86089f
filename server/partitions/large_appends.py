"""Appends that would keep Trio's thread: what they wait for is done by worker threads, and their connections wait.

    what takes long                                   who does it
    to look at all records of a batch                 one of `Broker.heavy_checks`
    to write megabytes                                a thread of its data directory; other producers of the partition wait
    to read what nobody has in memory after a start   `cold_reads`

After each of them the append begins anew: others may have written meanwhile.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.files import WouldWaitError
from ...storage.logs.log import AppendInfo, LargeWriteError
from ...storage.produce.record_checks import HeavyBatchError
from ...storage.produce.validation import CheckedBatch
from ..runtime.disk import Work, in_thread
from ..transactions.writes import TransactionalWrites
from .cold_reads import TRIES_MAX, bring
from .topics import Partition

if TYPE_CHECKING:
    from ..broker.broker import Broker


async def append_later(
    broker: Broker, partition: Partition, records: memoryview, writes: TransactionalWrites | None
) -> AppendInfo:
    """Append a client's batch. What `Log.append` returns, or raises."""
    log = partition.log
    checked: memoryview | CheckedBatch = records
    place: trio.Event | None = None
    tries = 0
    try:
        while True:
            # In the turn of the append, see `transactions.writes`.
            if writes is not None:
                await writes.check(partition.topic_partition)
            if place is None and (taken := broker.large_appends.get(log)) is not None:
                await taken.wait()
                continue
            tries += 1
            try:
                return log.append(
                    checked,
                    now_ms=broker.clock.now_ms(),
                    leader_epoch=partition.leader_epoch,
                    # Markers do not wait for large batches, and memory may be so short that nothing stays in it.
                    at_once=tries < TRIES_MAX,
                )
            except HeavyBatchError:
                check = partial(log.check, records, now_ms=broker.clock.now_ms())
                checked = await trio.to_thread.run_sync(check, limiter=broker.heavy_checks)
            except WouldWaitError as cold:
                await bring(cold, log)
            except LargeWriteError as large:
                checked = large.checked
                if place is None:
                    place = broker.large_appends[log] = trio.Event()
                try:
                    await in_thread(Work.WRITE, data_dir_of(log), large.write)
                except OSError as error:
                    raise log.fail(error) from error
    finally:
        if place is not None:
            del broker.large_appends[log]
            place.set()
            log.give_up_large()
