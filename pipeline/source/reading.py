"""Range of a read: the partitions, and the offsets of each of them.

    read_uncommitted   up to the high watermark       all data
    read_committed     up to the last stable offset   without the data of aborted transactions

It is determined on the driver, one partition at a time, and passed to the tasks as splits. Control batches are not records, and
are never shown.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np

from ...storage.disk import paths
from ...storage.disk.paths import OFFSET_MAX, TopicPartition
from ...storage.segment.index import AbortedTxn
from ..errors import UsageError
from ..objects.addresses import is_address, normalize
from ..objects.tiered import layout_of
from ..stores.log_files import PartitionLog, Split
from ..stores.log_tails import Tail
from ..stores.reading_files import ReadingFiles
from ..stores.store import Store, no_log_error
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
        splits = self.log.splits(from_offset, up_to_offset, max_bytes=max_bytes, since_ms=since_ms)
        if not self.aborted:
            for split in splits:
                yield Task(split, ())
            return
        aborted = sorted(self.aborted, key=lambda txn: txn.last_offset)
        lasts = np.array([txn.last_offset for txn in aborted])
        firsts = np.array([txn.first_offset for txn in aborted])
        earliest = np.minimum.accumulate(firsts[::-1])[::-1]  # of each transaction and all later ones
        for split in splits:
            start, end = lasts.searchsorted(split.from_offset), earliest.searchsorted(split.up_to_offset)
            own = start + np.flatnonzero(firsts[start:end] < split.up_to_offset)
            yield Task(split, tuple(aborted[number] for number in own))


def partitions_of(
    options: ReadOptions, files: ReadingFiles | None = None
) -> tuple[Store | Stores, list[TopicPartition]]:
    """Return the chosen partitions, in order, and the store that has them.

    Args:
        files: Those of the options' stores by default.

    Raises:
        UsageError: The directory does not exist, has no partitions, or lacks one that is named.
    """
    path = _path_of(options)
    store, own = _store_of(options, path, files)
    found = store.topic_partitions() if own is None else [own]
    if not found:
        raise UsageError(f"{path} has no partition directories: it is not a data directory")
    for topic in sorted((options.topics or frozenset()) - {tp.topic for tp in found}):
        raise no_log_error(path, topic, None, found)
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


def store_of(options: ReadOptions) -> Store | Stores:
    """Return the store of `partitions_of`, without a look at its partitions."""
    return _store_of(options, _path_of(options))[0]


def _path_of(options: ReadOptions) -> str:
    is_one = is_address(options.path) and "," not in options.path
    return normalize(options.path) if is_one else os.path.abspath(options.path)


def _store_of(
    options: ReadOptions, path: str, files: ReadingFiles | None = None
) -> tuple[Store | Stores, TopicPartition | None]:
    """Return the store, and the partition if the path is that of a log."""
    files = ReadingFiles(options.fs) if files is None else files
    parent, _, name = path.rpartition("/")
    own = paths.parse_partition_dir(name)
    if isinstance(own, TopicPartition) and not parent.endswith(":/") and _is_log(files, path):
        return Store(parent or "/", files), own
    return opened_store(options.path, files), None


def _is_log(files: ReadingFiles, path: str) -> bool:
    """Return whether this is a partition's directory. Below a layout's root such a name may also be a prefix."""
    return files.is_dir(path) and (layout_of(path) is None or any(map(paths.parse_segment_name, files.list(path))))


@contextmanager
def without_collector() -> Iterator[None]:
    """Make a plan: up to a million objects without cycles, all of which Python's garbage collector would visit several times."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


Tails = MutableMapping[TopicPartition, Tail]


class Bounds(NamedTuple):
    """Start and end of the data that an isolation level shows, and the state of the files from which they follow."""

    start_offset: int
    end_offset: int
    files: object
    """None: they may change without a change of that state."""


class LogReader:
    """Opens the logs of a store, one after the other. It reads each checkpoint once: its caller makes a new one for a new look."""

    def __init__(self, store: Store | Stores, *, committed: bool, tails: Tails | None = None) -> None:
        """
        Args:
            tails: Tails of the last time, updated for the next.
        """
        self._store = store
        self._committed = committed
        self._tails = tails
        self._checkpoint = cache(Store.checkpoint)
        self._has_high_watermarks = cache(_has_high_watermarks)

    @contextmanager
    def opened(self, tp: TopicPartition, *, from_offset: int = 0) -> Iterator[OpenLog]:
        """Open one partition. Errors are those of `PartitionLog`, and of `Stores.store_of`.

        Args:
            from_offset: The first offset to read.
        """
        store = self._store.store_of(tp)
        assert isinstance(store.files, ReadingFiles)
        # Segments of tiered storage may overlap, and each look at a tail costs a request.
        tails = None if is_address(store.data_dir) else self._tails
        high_watermark = None
        if self._has_high_watermarks(store):
            high_watermark = self._checkpoint(store, paths.REPLICATION_CHECKPOINT).get(tp, 0)
        log = PartitionLog(
            store.directory_of(tp),
            tp,
            log_start_offset=self._checkpoint(store, paths.LOG_START_CHECKPOINT).get(tp, 0),
            high_watermark=high_watermark,
            durable_end_offset=self._checkpoint(store, paths.RECOVERY_POINT_CHECKPOINT).get(tp),
            files=store.files,
            committed=self._committed,
            follows=tails is not None,
            tail=None if tails is None else tails.pop(tp, None),
            from_offset=from_offset,
        )
        try:
            end_offset, aborted = log.transactions() if self._committed else (log.readable_end_offset, [])
            if tails is not None and (tail := log.tail) is not None:
                tails[tp] = tail
            yield OpenLog(log, end_offset, aborted)
        finally:
            log.close()

    def bounds(self, tp: TopicPartition, before: Bounds | None) -> Bounds:
        """Return a log's bounds; those of an earlier look if nothing in its directory has changed since. Errors as of `opened`."""
        store = self._store.store_of(tp)
        files = None if is_address(store.data_dir) else self._state(store, tp)
        if before is not None and files is not None and files == before.files:
            return before
        with self.opened(tp, from_offset=OFFSET_MAX) as log:
            # Batches do not change the size of a preallocated file, and two may be written between two ticks of the clock.
            return Bounds(log.start_offset, log.end_offset, None if log.log.torn_bytes else files)

    def _state(self, store: Store, tp: TopicPartition) -> object:
        """Return what every change of a log changes: the names, the last log file, and the checkpoints."""
        directory = store.directory_of(tp)
        try:
            names = store.files.list(directory)
            last = max((name for name in names if name.endswith(paths.LOG)), default="")
            status = os.stat(paths.join(directory, last))
        except FileNotFoundError:
            return None
        checkpoints = [self._checkpoint(store, name).get(tp) for name in _CHECKPOINTS]
        # A hash, as a stream of thousands of partitions would keep millions of names.
        return hash("\n".join(names)), status.st_ino, status.st_size, status.st_ctime_ns, checkpoints


_CHECKPOINTS = (paths.REPLICATION_CHECKPOINT, paths.LOG_START_CHECKPOINT, paths.RECOVERY_POINT_CHECKPOINT)


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
