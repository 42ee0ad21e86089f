"""What is known of a segment's log file besides its bytes: the three indexes, the largest timestamp, the newest batches.

`LogSegment` tells of every batch that it writes or finds, and asks where to look. All of this follows from the log file
and can be made from it again; where an index file makes no sense, that is done on first use.

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
    """What batches that were just written mean for the indexes, found by the rule of `SegmentIndexes.note`.

    Index offsets are relative to the segment's base.
    """

    last_offset: int
    max_timestamp_ms: int
    """The largest of the whole segment so far."""
    max_timestamp_offset: int
    offsets: array[int]
    positions: array[int]
    timestamps: array[int]
    timestamp_offsets: array[int]


class SegmentIndexes:
    """See the module's text. Owned by its LogSegment."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, suffix: str, config: LogConfig, log_file: File
    ) -> None:
        """Reads nothing. Index files may be missing, which is as good as empty."""
        index_bytes = config.segment_index_bytes
        self.base_offset = base_offset
        self.offset = OffsetIndex(
            files, paths.offset_index_path(directory, base_offset, suffix), base_offset, index_bytes
        )
        self.time = TimeIndex(files, paths.time_index_path(directory, base_offset, suffix), base_offset, index_bytes)
        self.txn = TransactionIndex(files, paths.txn_index_path(directory, base_offset, suffix), base_offset)
        self.all = (self.offset, self.time, self.txn)
        self.newest = NewestBatches()
        """Those noted since open; none once the segment is sealed."""
        self._where = paths.log_path(directory, base_offset, suffix)
        self._distance_bytes = config.index_distance_bytes
        self._log_file = log_file
        self._max_timestamp_ms: int | None = None  # not known yet
        self._max_timestamp_offset = base_offset
        self.is_growing = False
        """Whether it is ready for `note`: the time index lacks its final entry."""
        self._unindexed_bytes = 0  # since the batch of the last offset index entry, that batch included
        self._is_offset_index_checked = False
        # A search by timestamp in a worker thread, and the owner's first append or fetch, may both want what no one has
        # read yet, or find that it has to be made anew.
        self._preparing = threading.RLock()

    @property
    def max_timestamp_ms(self) -> int:
        """The largest max timestamp of any batch; -1 if none has one."""
        return self._max_timestamp()[0]

    @property
    def is_max_timestamp_known(self) -> bool:
        """Whether it is told without reading."""
        return self._max_timestamp_ms is not None

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with `max_timestamp_ms`; the base offset if that is -1."""
        return self._max_timestamp()[1]

    def floor_position(self, offset: int, *, at_once: bool = False) -> int:
        """Where some batch begins at or before the one with `offset`, as near as the offset index knows.

        Raises:
            WouldWaitError: Only if `at_once`: the index has to be read.
        """
        if not self._is_offset_index_checked:
            self._have_offset_index(at_once)
        return self.offset.lookup(offset)[1]

    def batch_before(self, position: int, *, at_once: bool = False) -> int:
        """Where some batch begins at or before byte `position`, as near as the offset index knows. Errors as above."""
        if not self._is_offset_index_checked:
            self._have_offset_index(at_once)
        return self.offset.floor_of_position(position)[1]

    def _have_offset_index(self, at_once: bool) -> None:
        if at_once:
            raise WouldWaitError(self._check_offset_index)
        self._check_offset_index()

    def offset_before_timestamp(self, timestamp_ms: int) -> int:
        """An offset below which no record is later than `timestamp_ms`, as near as the time index knows."""
        self._check_time_index()
        return self.time.lookup(timestamp_ms)[1]

    def grow(self) -> None:
        """Get ready for `note`: take up where an earlier run left off, so that all is as if it had never stopped."""
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
        # What a stop added beyond the last offset index entry was its final entry; more batches are to come.
        self.time.truncate_to(indexed_offset + 1)
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
        """Take in a batch that the log file has at `position`, in order."""
        assert self._max_timestamp_ms is not None
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms, self._max_timestamp_offset = max_timestamp_ms, max_timestamp_offset
        if self._unindexed_bytes > self._distance_bytes and self._has_room(last_offset, position):
            self.offset.append(last_offset, position)
            self.time.append(self._max_timestamp_ms, self._max_timestamp_offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size_bytes
        self.newest.note(base_offset, last_offset, position)

    def note_batch(self, position: int, batch: RecordBatch) -> None:
        """`note`, from a header."""
        last_offset = batch.last_offset
        self.note(position, batch.size_bytes, batch.base_offset, last_offset, batch.max_timestamp, last_offset)

    def take(self, found: NewEntries) -> None:
        """`note` for many batches at once, whose entries somebody made already."""
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
        """Forget everything but the transaction index, to be told of all batches anew."""
        self._forget()
        self.offset.reset()
        self.time.reset()
        self._max_timestamp_ms, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._unindexed_bytes = 0
        self.is_growing = True
        self._is_offset_index_checked = True

    def check(self) -> None:
        """Make sure that offset and time index can be used: where they make no sense, make them anew."""
        self._check_offset_index()
        self._check_time_index()

    def truncate_to(self, offset: int) -> None:
        """Follow the log file, which lost every batch that reaches `offset` or beyond; none of them ended a transaction."""
        for index in (self.offset, self.time):
            index.truncate_to(offset)
        self._forget()
        self.grow()

    def rebuild(self) -> None:
        """Make the offset and time index anew from the batch headers, without checking what the batches hold.

        Raises:
            CorruptRecordError: The log file is not batches to its end; the indexes cover what comes before.
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
        """Entries that `flush` may have to write."""
        return sum(index.unwritten_count for index in self.all)

    def flush(self, *, sync: bool) -> None:
        """Bring the index files up to date, and with `sync` make them survive a power loss, names aside."""
        for index in self.all:
            index.flush(sync=sync)

    def _headers(self, position: int) -> Iterator[tuple[int, RecordBatch]]:
        return batch_walk(self._log_file, position, self._where, chunk_bytes=SCAN_CHUNK_BYTES, whole_bytes_max=0)

    def _has_room(self, last_offset: int, position: int) -> bool:
        # The log rolls before an index is full. A segment from elsewhere may need more entries than our
        # configuration allows, or have offsets that no entry can hold, and a cleaned one of nearly 2 GiB grows where
        # timestamps take more bytes than before: then it is indexed more thinly.
        return not (
            self.offset.is_full
            or self.time.is_full
            or last_offset - self.base_offset > RELATIVE_OFFSET_MAX
            or position > POSITION_MAX
        )

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
                    raise DamagedFileError(f"{self.offset.path}: offset {offset} lies past the log's end")
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
        with self._preparing:  # while the indexes are made anew it is not what it says
            if self._max_timestamp_ms is None:
                self._load_max_timestamp()
            assert self._max_timestamp_ms is not None
            return self._max_timestamp_ms, self._max_timestamp_offset

    def _load_max_timestamp(self) -> None:
        self.check()
        timestamp_ms, offset = self.time.last_entry
        position = self.offset.last_entry[1]
        # With each offset entry came a look at the time index: only what follows the last one can be missing.
        for at, batch in self._headers(position):
            if batch.max_timestamp > timestamp_ms:
                if 0 < at == position:  # the time index should know better: it was written in part only
                    self.rebuild()
                    return
                timestamp_ms, offset = batch.max_timestamp, batch.last_offset
        self._max_timestamp_ms, self._max_timestamp_offset = timestamp_ms, offset
