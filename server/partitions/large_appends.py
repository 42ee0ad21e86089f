"""Appends that would block Trio's thread: worker threads do the slow work, and the connections wait.

    slow work                                         done by
    checking all records of a batch                   one of `Appends.heavy_checks`
    writing megabytes                                 a thread of its data directory; other producers of the partition wait
    reading data that a start leaves on disk only,    `threads.load_cold`
    or making the log on disk, before all others

After each of these the append starts again: other producers may have written during it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import trio

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.files import WouldWaitError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import AppendInfo
from ...storage.produce.record_checks import CheckedBatch, LargeBatchError
from ..runtime.threads import TRIES_MAX, Work, in_thread, load_cold
from .appends import Appends
from .topics import Partition

Check: TypeAlias = Callable[[TopicPartition], Awaitable[None]]
"""Function that returns in a step in which the request's batch for the partition may be appended, or raises the reason why
not."""


async def append_later(
    appends: Appends, partition: Partition, records: memoryview, check_first: Check | None
) -> AppendInfo:
    """Append a client's batch. Returns and raises as `Log.append`."""
    log = partition.log
    checked: memoryview | CheckedBatch = records
    place: trio.Event | None = None
    tries = 0
    try:
        while True:
            # Check in the step of the append, see `transactions.writes`.
            if check_first is not None:
                await check_first(partition.topic_partition)
            if place is None and (taken := appends.large.get(log)) is not None:
                await taken.wait()
                continue
            tries += 1
            try:
                return log.append(
                    checked,
                    now_ms=appends.clock.now_ms(),
                    leader_epoch=partition.leader_epoch,
                    # Markers do not wait for large batches, and memory may be so short that the page cache keeps nothing.
                    at_once=tries < TRIES_MAX,
                )
            except WouldWaitError as cold:
                await load_cold(cold, log)
            except LargeBatchError as large:
                if large.begun is None:
                    check = partial(log.check, records, now_ms=appends.clock.now_ms())
                    try:
                        checked = await trio.to_thread.run_sync(check, limiter=appends.heavy_checks)
                    except KafkaError as error:
                        # Trio's frames, which the traceback names, refer to the error. The request would stay in memory until
                        # a garbage collection.
                        raise error.with_traceback(None) from None
                    continue
                checked, ahead = large.begun
                if place is None:
                    place = appends.large[log] = trio.Event()
                try:
                    await in_thread(Work.WRITE, data_dir_of(log), ahead.write)
                except OSError as error:
                    raise log.fail(error) from error
    finally:
        if place is not None:
            del appends.large[log]
            place.set()
            log.give_up_large()
