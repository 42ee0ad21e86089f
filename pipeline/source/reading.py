"""Range of a read: the partitions, and the offsets of each of them.

    read_uncommitted   up to the high watermark       all data
    read_committed     up to the last stable offset   without the data of aborted transactions

It is determined on the driver, one partition at a time, and passed to the tasks as splits. Control batches are not records, and
are never shown.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import NamedTuple

from ...storage.disk import paths
from ...storage.disk.paths import TopicPartition
from ...storage.segment.index import AbortedTxn
from ..errors import UsageError
from ..objects.addresses import is_address, normalize
from ..objects.tiered import layout_of
from ..stores.log_files import PartitionLog, Split
from ..stores.log_tails import Tail
from ..stores.reading_files import ReadingFiles
from ..stores.store import Store
from ..stores.stores import Stores, opened_store
from .read_options import EARLIEST, LATEST, Offsets, ReadOptions


class Task(NamedTuple):
    """One split, and the aborted transactions to leave out."""

    split: Split
    aborted: tuple[AbortedTxn, ...]


class OpenLog(NamedTuple):
    """A partition with the bounds of the data that this isolation level shows."""

    log: PartitionLog
    end_offset: int
    """End offset (exclusive)."""
    aborted: list[AbortedTxn]

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    def tasks(self, from_offset: int, up_to_offset: int, *, max_bytes: int, since_ms: int | None) -> Iterator[Task]:
        """Yield the tasks for an offset range."""
        for split in self.log.splits(from_offset, up_to_offset, max_bytes=max_bytes, since_ms=since_ms):
            own = [txn for txn in self.aborted if txn.first_offset < split.up_to_offset]
            yield Task(split, tuple(txn for txn in own if txn.last_offset >= split.from_offset))


def partitions_of(
    options: ReadOptions, files: ReadingFiles | None = None
) -> tuple[Store | Stores, list[TopicPartition]]:
    """Return the chosen partitions, in order, and the store that has them.

    Args:
        files: Those of the options' stores by default.

    Raises:
        UsageError: The directory does not exist, has no partitions, or lacks one that is named.
    """
    files = ReadingFiles(options.fs) if files is None else files
    path = (
        normalize(options.path)
        if is_address(options.path) and "," not in options.path
        else os.path.abspath(options.path)
    )
    store: Store | Stores
    parent, _, name = path.rpartition("/")
    own = paths.parse_partition_dir(name)
    if isinstance(own, TopicPartition) and not parent.endswith(":/") and _is_log(files, path):
        store, found = Store(parent or "/", files), [own]
    else:
        store = opened_store(options.path, files)
        found = store.topic_partitions()
    if not found:
        raise UsageError(f"{path} has no partition directories: it is not a data directory")
    for topic in sorted((options.topics or frozenset()) - {tp.topic for tp in found}):
        raise UsageError(f"{path} has no log of topic {topic}")
    chosen = [
        tp
        for tp in found
        if (options.topics is None or tp.topic in options.topics)
        and (options.partitions is None or tp.partition in options.partitions)
    ]
    for partition in sorted((options.partitions or frozenset()) - {tp.partition for tp in chosen}):
        raise UsageError(f"{path} has no partition {partition} of the requested topics")
    for given in (
        options.starting_offsets,
        options.ending_offsets,
        options.starting_timestamps_ms,
        options.ending_timestamps_ms,
    ):
        for strange in sorted(set(given or ()) - set(chosen) if not isinstance(given, int) else ()):
            raise UsageError(f"an offset or time is given for {strange}, which is not read")
    return store, chosen


def _is_log(files: ReadingFiles, path: str) -> bool:
    """Return whether this is a partition's directory. Below a layout's root such a name may also be a prefix."""
    return files.is_dir(path) and (layout_of(path) is None or any(map(paths.parse_segment_name, files.list(path))))


Tails = MutableMapping[TopicPartition, Tail]


@contextmanager
def opened(
    store: Store | Stores,
    tp: TopicPartition,
    *,
    committed: bool,
    tails: Tails | None = None,
    from_offset: int = 0,
) -> Iterator[OpenLog]:
    """Open one partition. Errors are those of `PartitionLog`, and of `Stores.store_of`.

    Args:
        tails: Tails of the last time, updated for the next.
        from_offset: With tails, the first offset to read.
    """
    store = store.store_of(tp)
    if is_address(store.data_dir):  # segments of tiered storage may overlap, and each look at a tail costs a request
        tails = None
    high_watermark = None
    if _has_high_watermarks(store):
        high_watermark = store.checkpoint(paths.REPLICATION_CHECKPOINT).get(tp, 0)
    log = PartitionLog(
        store.directory_of(tp),
        tp,
        log_start_offset=store.checkpoint(paths.LOG_START_CHECKPOINT).get(tp, 0),
        high_watermark=high_watermark,
        durable_end_offset=store.checkpoint(paths.RECOVERY_POINT_CHECKPOINT).get(tp),
        files=store.files,
        follows=tails is not None,
        tail=None if tails is None else tails.pop(tp, None),
        from_offset=from_offset,
    )
    try:
        end_offset, aborted = log.transactions() if committed else (log.readable_end_offset, [])
        if tails is not None and (tail := log.tail) is not None:
            tails[tp] = tail
        yield OpenLog(log, end_offset, aborted)
    finally:
        log.close()


def _has_high_watermarks(store: Store) -> bool:
    """Return whether the checkpoint limits the readable data: in Apache Kafka's directories, as replicas may lose the rest.

    In a log of Ottla every whole batch is committed, and the checkpoint lags behind a live broker.
    """
    return not store.is_ottlas and store.files.exists(paths.join(store.data_dir, paths.REPLICATION_CHECKPOINT))


def offset_range(options: ReadOptions, log: OpenLog) -> tuple[int, int]:
    """Return the offsets of a batch read of this partition: from (inclusive) and up to (exclusive).

    Raises:
        UsageError: The log does not have these offsets, or none is given for this partition.
    """
    start = starting_offset(options, log, default=EARLIEST)
    timestamp_ms = options.ending_timestamp_ms
    if timestamp_ms is None and options.ending_timestamps_ms is not None:
        timestamp_ms = _own_offset(options.ending_timestamps_ms, log, "endingOffsetsByTimestamp")
    if timestamp_ms is None:
        end = _resolved(options, log, "endingOffsets", options.ending_offsets, LATEST)
    elif (found := log.log.offset_for_timestamp(timestamp_ms)) is None:
        end = log.end_offset
    else:
        end = min(found, log.end_offset)
    return start, max(start, end)


def starting_offset(options: ReadOptions, log: OpenLog, *, default: int) -> int:
    """Return the offset at which reading begins. `default` is EARLIEST or LATEST.

    Raises:
        UsageError: As `offset_range`; or no record is as late as the given timestamp, and the strategy is not `latest`.
    """
    timestamp_ms = options.starting_timestamp_ms
    if timestamp_ms is None and options.starting_timestamps_ms is not None:
        timestamp_ms = _own_offset(options.starting_timestamps_ms, log, "startingOffsetsByTimestamp")
    if timestamp_ms is None:
        return _resolved(options, log, "startingOffsets", options.starting_offsets, default)
    found = log.log.offset_for_timestamp(timestamp_ms)
    if found is None and options.starting_strategy == "error":
        raise UsageError(
            f"{log.log.of} has no record from timestamp {timestamp_ms} on"
            " (with startingOffsetsByTimestampStrategy=latest, reading begins at the end)"
        )
    return log.end_offset if found is None else min(found, log.end_offset)


def _resolved(options: ReadOptions, log: OpenLog, name: str, given: Offsets | None, default: int) -> int:
    offsets = default if given is None else given
    offset = offsets if isinstance(offsets, int) else _own_offset(offsets, log, name)
    if offset < 0:
        return log.start_offset if offset == EARLIEST else log.end_offset
    return within(options, log, offset, name)


def _own_offset(given: Mapping[TopicPartition, int], log: OpenLog, name: str) -> int:
    if log.log.of not in given:
        raise UsageError(f"option {name} has no entry for {log.log.of}, which is also read")
    return given[log.log.of]


def within(options: ReadOptions, log: OpenLog, offset: int, name: str) -> int:
    """Return the offset if the log has it; else the nearest one, or raise UsageError if `fail_on_data_loss`."""
    if log.start_offset <= offset <= log.end_offset:
        return offset
    if options.fail_on_data_loss:
        raise UsageError(
            f"{name}: offset {offset} of {log.log.of} is outside the readable range {log.start_offset} to {log.end_offset}"
            f" (failOnDataLoss=false reads what the log has)"
        )
    return min(max(offset, log.start_offset), log.end_offset)
