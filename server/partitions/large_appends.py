"""Appends that would keep Trio's thread: what they wait for is done by worker threads, and their connections wait.

    what takes long                                   who does it
    to look at all records of a batch                 one of `Appends.heavy_checks`
    to write megabytes                                a thread of its data directory; other producers of the partition wait
    to read what nobody has in memory after a start,  `threads.bring`
    or to make the log on disk, before all others

After each of them the append begins anew: others may have written meanwhile.
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
from ...storage.logs.large_append import LargeWriteError
from ...storage.logs.log import AppendInfo
from ...storage.produce.record_checks import HeavyBatchError
from ...storage.produce.validation import CheckedBatch
from ..runtime.threads import TRIES_MAX, Work, bring, in_thread
from .appends import Appends
from .topics import Partition

Check: TypeAlias = Callable[[TopicPartition], Awaitable[None]]
"""Returns in a turn in which what a request has for the partition may be appended, or raises why it may not."""


async def append_later(
    appends: Appends, partition: Partition, records: memoryview, check_first: Check | None
) -> AppendInfo:
    """Append a client's batch. What `Log.append` returns, or raises."""
    log = partition.log
    checked: memoryview | CheckedBatch = records
    place: trio.Event | None = None
    tries = 0
    try:
        while True:
            # In the turn of the append, see `transactions.writes`.
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
                    # Markers do not wait for large batches, and memory may be so short that nothing stays in it.
                    at_once=tries < TRIES_MAX,
                )
            except HeavyBatchError:
                check = partial(log.check, records, now_ms=appends.clock.now_ms())
                try:
                    checked = await trio.to_thread.run_sync(check, limiter=appends.heavy_checks)
                except KafkaError as error:
                    # Trio's frames, which the traceback names, name the error. The request would stay until a collection.
                    raise error.with_traceback(None) from None
            except WouldWaitError as cold:
                await bring(cold, log)
            except LargeWriteError as large:
                checked = large.checked
                if place is None:
                    place = appends.large[log] = trio.Event()
                try:
                    await in_thread(Work.WRITE, data_dir_of(log), large.write)
                except OSError as error:
                    raise log.fail(error) from error
    finally:
        if place is not None:
            del appends.large[log]
            place.set()
            log.give_up_large()
