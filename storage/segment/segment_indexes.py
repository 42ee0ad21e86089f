"""Data derived from a segment's log file: the three indexes, the largest timestamp, the newest batches.

`LogSegment` reports every batch that it writes or finds, and asks for positions. Everything here can be rebuilt from the log
file; if an index file is invalid, that is done on first use.

    log file   [batch][batch][batch][batch][batch][batch][batch]
    indexes           entry         entry           |
                                      unindexed bytes, less than index.interval.bytes and a batch
    newest                   one by one, the last few hundred
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from ...protocol.records import NO_TIMESTAMP, RecordBatch
from ..disk import paths
from ..disk.files import DamagedFileError, File, Files, WouldWaitError
from ..topics.config import LogConfig
from .batch_scan import SCAN_CHUNK_BYTES, batch_walk
from .index import OffsetIndex, TimeIndex, TransactionIndex
from .index_file import POSITION_MAX, RELATIVE_OFFSET_MAX
from .newest_batches import NewestBatches


class NewEntries(NamedTuple):
    """Index entries of batches that were just written, made by the rule of `SegmentIndexes.note`.

    Index offsets are relative to the segment's base.
    """

    last_offset: int
    max_timestamp_ms: int
    """Largest timestamp of the whole segment so far."""
    max_timestamp_offset: int
    offsets: array[int]
    positions: array[int]
    timestamps: array[int]
    timestamp_offsets: array[int]


class SegmentIndexes:
    """Indexes and other derived data of one segment. Owned by its LogSegment."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, suffix: str, config: LogConfig, log_file: File
    ) -> None:
        """Make the indexes without reading. A missing index file is the same as an empty one."""
        index_bytes = config.segment_index_bytes
        self.base_offset = base_offset
        self.offset = OffsetIndex(
            files, paths.offset_index_path(directory, base_offset, suffix), base_offset, index_bytes
        )
        self.time = TimeIndex(files, paths.time_index_path(directory, base_offset, suffix), base_offset, index_bytes)
        self.txn = TransactionIndex(files, paths.txn_index_path(directory, base_offset, suffix), base_offset)
        self.all = (self.offset, self.time, self.txn)
        self.newest = NewestBatches()
        """Batches noted since open; none once the segment is sealed."""
        self._where = paths.log_path(directory, base_offset, suffix)
        self._distance_bytes = config.index_distance_bytes
        self._log_file = log_file
        self._max_timestamp_ms: int | None = None  # not known yet
        self._max_timestamp_offset = base_offset
        self.is_growing = False
        """Whether the indexes are ready for `note`: the time index lacks its final entry."""
        self._is_full = False
        """Result of `is_full`, while the indexes grow: only `note` adds entries then."""
        self._unindexed_bytes = 0  # since the batch of the last offset index entry, that batch included
        self._is_offset_index_checked = False
        # A search by timestamp in a worker thread, and the owner's first append or fetch, may both need data that was not
        # read yet, or find that an index has to be rebuilt.
        self._preparing = threading.RLock()

    @property
    def max_timestamp_ms(self) -> int:
        """The largest max timestamp of any batch; -1 if none has one."""
        return self._max_timestamp()[0]

    @property
    def is_max_timestamp_known(self) -> bool:
        """Whether `max_timestamp_ms` needs no reading."""
        return self._max_timestamp_ms is not None

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with `max_timestamp_ms`; the base offset if that is -1."""
        return self._max_timestamp()[1]

    def floor_position(self, offset: int, *, at_once: bool = False) -> int:
        """Return the start of a batch at or before the one with `offset`, as near as the offset index has it.

        Raises:
            WouldWaitError: Only if `at_once`: the index has to be read.
        """
        if not self._is_offset_index_checked:
            self._have_offset_index(at_once)
        return self.offset.lookup(offset)[1]

    def batch_before(self, position: int, *, at_once: bool = False) -> int:
        """Return the start of a batch at or before byte `position`, as near as the offset index has it.

        Errors as for `floor_position`.
        """
        if not self._is_offset_index_checked:
            self._have_offset_index(at_once)
        return self.offset.floor_of_position(position)[1]

    def _have_offset_index(self, at_once: bool) -> None:
        if at_once:
            raise WouldWaitError(self._check_offset_index)
        self._check_offset_index()

    def offset_before_timestamp(self, timestamp_ms: int) -> int:
        """Return an offset below which no record is later than `timestamp_ms`, as near as the time index has it."""
        self._check_time_index()
        return self.time.lookup(timestamp_ms)[1]

    def grow(self) -> None:
        """Get ready for `note`: restore the state that an earlier run had before it sealed the segment or stopped."""
        if self.is_growing:
            return
        with self._preparing:
            if not self.is_growing:
                self._take_up()

    def _take_up(self) -> None:
        if self._max_timestamp_ms is None:
            self._load_max_timestamp()
        indexed_offset, indexed_position = self.offset.last_entry
        self._unindexed_bytes = self._log_file.size() - indexed_position
        if self.offset.entry_count == 0:
            indexed_offset -= 1
        # A time index entry beyond the last offset index entry is the final entry of a stop; more batches will follow.
        self.time.truncate_to(indexed_offset + 1)
        self._is_full = self._has_full_index()
        self.is_growing = True

    def note(
        self,
        position: int,
        size_bytes: int,
        base_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
        max_timestamp_offset: int,
    ) -> None:
        """Add a batch at `position` of the log file; in order."""
        largest_ms = self._max_timestamp_ms
        assert largest_ms is not None
        if max_timestamp_ms > largest_ms:
            self._max_timestamp_ms, self._max_timestamp_offset = max_timestamp_ms, max_timestamp_offset
        if self._unindexed_bytes > self._distance_bytes and self._has_room(last_offset, position):
            self.offset.append(last_offset, position)
            self.time.append(max(max_timestamp_ms, largest_ms), self._max_timestamp_offset)
            self._is_full = self._has_full_index()
            self._unindexed_bytes = 0
        self._unindexed_bytes += size_bytes
        self.newest.note(base_offset, last_offset, position)

    def note_batch(self, position: int, batch: RecordBatch) -> None:
        """Add a batch like `note`, from its header."""
        last_offset = batch.last_offset
        self.note(position, batch.size_bytes, batch.base_offset, last_offset, batch.max_timestamp, last_offset)

    def take(self, found: NewEntries) -> None:
        """Add many batches at once, whose index entries the caller has made."""
        self.offset.extend(found.offsets, found.positions)
        self.time.extend(found.timestamp_offsets, found.timestamps)
        self._max_timestamp_ms, self._max_timestamp_offset = found.max_timestamp_ms, found.max_timestamp_offset

    def finish(self) -> None:
        """Add the final time index entry."""
        if not self.is_growing:
            return
        assert self._max_timestamp_ms is not None
        if self._max_timestamp_offset - self.base_offset <= RELATIVE_OFFSET_MAX:
            self.time.append(self._max_timestamp_ms, self._max_timestamp_offset, force=True)
        self.is_growing = False

    def restart(self) -> None:
        """Remove everything but the transaction index. The caller then adds all batches again."""
        self._forget()
        self.offset.reset()
        self.time.reset()
        self._max_timestamp_ms, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._unindexed_bytes = 0
        self._is_full = self._has_full_index()
        self.is_growing = True
        self._is_offset_index_checked = True

    def check(self) -> None:
        """Check the offset index and the time index, and rebuild them if they are invalid."""
        self._check_offset_index()
        self._check_time_index()

    def truncate_to(self, offset: int) -> None:
        """Update the indexes after the log file has lost every batch that reaches `offset` or beyond.

        None of these batches ended a transaction.
        """
        for index in (self.offset, self.time):
            index.truncate_to(offset)
        self._forget()
        self.grow()

    def rebuild(self) -> None:
        """Rebuild the offset index and time index from the batch headers, without checking the records.

        Raises:
            CorruptRecordError: Some bytes of the log file are not a batch; the indexes cover the batches before them.
        """
        with self._preparing:
            self.restart()
            try:
                for position, batch in self._headers(0):
                    self.note_batch(position, batch)
            finally:
                self.finish()

    @property
    def unwritten_count(self) -> int:
        """Number of entries that `flush` may have to write."""
        return sum(index.unwritten_count for index in self.all)

    def flush(self, *, sync: bool) -> None:
        """Bring the index files up to date; with `sync`, make them survive a power loss, except their names."""
        for index in self.all:
            index.flush(sync=sync)

    def _headers(self, position: int) -> Iterator[tuple[int, RecordBatch]]:
        return batch_walk(self._log_file, position, self._where, chunk_bytes=SCAN_CHUNK_BYTES, whole_bytes_max=0)

    def _has_room(self, last_offset: int, position: int) -> bool:
        # The log rolls before an index is full. But a segment of another broker may need more entries than the
        # configuration allows, or have offsets that do not fit an entry. And a cleaned segment of nearly 2 GiB may grow, as
        # rewritten timestamps can take more bytes. Such segments get fewer entries.
        return not (self._is_full or last_offset - self.base_offset > RELATIVE_OFFSET_MAX or position > POSITION_MAX)

    def is_full(self) -> bool:
        """Return whether the segment must roll before another index entry."""
        return self._is_full if self.is_growing else self._has_full_index()

    def _has_full_index(self) -> bool:
        return self.offset.is_full or self.time.is_full

    def _forget(self) -> None:
        self._max_timestamp_ms = None
        self.is_growing = False
        self.newest.clear()

    def _check_offset_index(self) -> None:
        with self._preparing:
            if self._is_offset_index_checked:
                return
            try:
                offset, position = self.offset.last_entry
                if position > 0 and position >= self._log_file.size():
                    raise DamagedFileError(f"{self.offset.path}: offset {offset} is after the log end")
            except DamagedFileError:
                self.rebuild()
            self._is_offset_index_checked = True

    def _check_time_index(self) -> None:
        with self._preparing:
            try:
                self.time.sanity_check()
            except DamagedFileError:
                self.rebuild()

    def _max_timestamp(self) -> tuple[int, int]:
        with self._preparing:  # during a rebuild the value is not final
            if self._max_timestamp_ms is None:
                self._load_max_timestamp()
            assert self._max_timestamp_ms is not None
            return self._max_timestamp_ms, self._max_timestamp_offset

    def _load_max_timestamp(self) -> None:
        self.check()
        timestamp_ms, offset = self.time.last_entry
        position = self.offset.last_entry[1]
        # The time index is updated with each offset index entry, so it can lack only batches after the last one.
        for at, batch in self._headers(position):
            if batch.max_timestamp > timestamp_ms:
                if 0 < at == position:  # the time index lacks this: it was written only in part
                    self.rebuild()
                    return
                timestamp_ms, offset = batch.max_timestamp, batch.last_offset
        self._max_timestamp_ms, self._max_timestamp_offset = timestamp_ms, offset
