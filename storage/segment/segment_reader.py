"""Read side of one segment: its files, the position of a given offset or timestamp, and a check of its indexes.

`segment.LogSegment` has the rest: appending, renaming, recovering. Reads return positions, never bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from ...protocol.records import NO_TIMESTAMP, RecordBatch
from ..disk import paths
from ..disk.files import DamagedFileError, Files, FileSlice
from ..steps import Steps, to_the_end
from ..topics.config import LogConfig
from .batch_scan import RECOVERY_CHUNK_BYTES, SCAN_CHUNK_BYTES, batch_steps, batch_walk, find_batch
from .segment_indexes import SegmentIndexes
from .timestamp_search import RECORD_BYTES_MAX, first_record_from


class SegmentReader:
    """State of a segment and all operations that only read it."""

    def __init__(
        self, files: Files, directory: str, base_offset: int, config: LogConfig, now_ms: int, suffix: str
    ) -> None:
        self.files = files
        self.directory = directory
        self.base_offset = base_offset
        self.config = config
        self.suffix = suffix
        self.created_ms = now_ms
        """Time when this object was made, in Unix milliseconds; used for rolling if records have no timestamps."""
        self._log_path = self._path(paths.LOG)
        self.log_file = files.open(self._log_path)
        self._indexes = SegmentIndexes(files, directory, base_offset, suffix, config, self.log_file)
        self.offset_index = self._indexes.offset
        self.time_index = self._indexes.time
        self.txn_index = self._indexes.txn
        self._first_batch_timestamp_ms: int | None = None  # not known yet

    @classmethod
    def open(
        cls, files: Files, directory: str, base_offset: int, config: LogConfig, now_ms: int, suffix: str = ""
    ) -> Self:
        """Open an existing segment. Reads nothing yet.

        Raises:
            FileNotFoundError: The log file is missing. Missing index files are the same as empty ones.
        """
        return cls(files, directory, base_offset, config, now_ms, suffix)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._log_path}, {self.size_bytes} bytes)"

    @property
    def size_bytes(self) -> int:
        """Bytes of record batches."""
        return self.log_file.size()

    @property
    def max_timestamp_ms(self) -> int:
        """The largest max timestamp of any batch; -1 if none has one."""
        return self._indexes.max_timestamp_ms

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with `max_timestamp_ms`; the base offset if that is -1."""
        return self._indexes.max_timestamp_offset

    @property
    def largest_timestamp_ms(self) -> int:
        """Largest timestamp of the segment; if no record has one, the log file's modification time."""
        if (timestamp_ms := self.max_timestamp_ms) >= 0:
            return timestamp_ms
        return self.log_file.mtime_ms()

    @property
    def first_batch_timestamp_ms(self) -> int:
        """Max timestamp of the first append, after a restart that of the first batch; -1 for an empty segment."""
        if self._first_batch_timestamp_ms is None:
            first = next(self.headers(), None)
            if first is None:
                return NO_TIMESTAMP
            self._first_batch_timestamp_ms = first[1].max_timestamp
        return self._first_batch_timestamp_ms

    @property
    def is_age_known(self) -> bool:
        """Whether the timestamps above need no reading from the disk."""
        return self._first_batch_timestamp_ms is not None and self._indexes.is_max_timestamp_known

    def learn_age(self) -> None:
        """Read the timestamps above of a sealed segment. In any thread.

        Raises the same errors of the disk, or for damaged batches, as they do.
        """
        _ = self.max_timestamp_ms
        _ = self.first_batch_timestamp_ms

    def file_paths(self) -> list[str]:
        """List the paths of the segment's files with their present suffix; the index files need not exist."""
        return [self._path(kind) for kind in paths.SEGMENT_KINDS]

    def load_indexes(self) -> None:
        """Load the indexes before their files are renamed or removed, as the owner's thread may still use them."""
        for index in self._indexes.all:
            try:
                index.sanity_check()
            except DamagedFileError:
                index.reset()  # lookups then scan the segment from its start

    def read(
        self, offset: int, *, max_bytes: int, max_position: int | None = None, at_once: bool = False
    ) -> FileSlice | None:
        """Return a slice of the log file with the batches from `offset` on, which can be sent unchanged.

        Args:
            offset: The slice begins with the first batch whose last offset is at or above it.
            max_bytes: The slice ends with the last batch that fits. The first batch is returned even if it does not.
            max_position: End of what may be read: a batch's start, or None for the file's end.
            at_once: Do not wait for the disk. The bytes of the slice itself need not be in memory.

        Returns:
            The slice. None if the segment has no batch at or above `offset`; an empty slice if it has one, but beyond
            `max_position`.

        Raises:
            CorruptRecordError: The bytes between the index entry and the result are not batches.
            WouldWaitError: Only if `at_once`: the index, or a header that the search needs, is not in memory.
        """
        position = self.position_of(offset, at_once=at_once)
        if position is None:
            return None
        end = self.log_file.size()
        if max_position is not None and max_position < end:
            end = max_position
        if end - position > max_bytes:
            end = self._end_of_whole_batches(position, position + max_bytes, at_once)
        return FileSlice(self.log_file, position, max(0, end - position))

    def position_of(self, offset: int, *, at_once: bool = False) -> int | None:
        """Find the position of the first batch whose last offset is at or above `offset`; None if no batch is.

        Raises:
            CorruptRecordError, WouldWaitError: As for `read`.
        """
        newest = self._indexes.newest
        if offset >= newest.first_offset:
            return newest.position_of(offset)
        start = self._indexes.floor_position(offset, at_once=at_once)
        size_bytes = self.log_file.size()
        found = find_batch(self.log_file, start, self._log_path, limit=size_bytes, below=offset, at_once=at_once)
        return None if found is None else found[0]

    def floor_position(self, offset: int) -> int:
        """Return the start of a batch at or before the one with `offset`, as near as the offset index has it."""
        return self._indexes.floor_position(offset)

    def headers(self, from_position: int = 0, *, at_once: bool = False) -> Iterator[tuple[int, RecordBatch]]:
        """Yield (position, batch) of every batch from `from_position`, a batch's start. Only headers are guaranteed to be read.

        Raises:
            CorruptRecordError: No batch can begin where the last one ended, or the last one is cut short.
            WouldWaitError: Only if `at_once`: a header is not in memory.
        """
        return batch_walk(
            self.log_file,
            from_position,
            self._log_path,
            chunk_bytes=SCAN_CHUNK_BYTES,
            whole_bytes_max=0,
            at_once=at_once,
        )

    def batches(
        self, from_position: int = 0, chunk_bytes: int = RECOVERY_CHUNK_BYTES
    ) -> Iterator[tuple[int, RecordBatch]]:
        """Yield (position, batch) like `headers`, with whole batches, read about `chunk_bytes` at a time."""
        return batch_walk(
            self.log_file, from_position, self._log_path, chunk_bytes=chunk_bytes, whole_bytes_max=self.size_bytes
        )

    def next_offset(self) -> int:
        """Return the offset after the last batch; the base offset if the segment is empty."""
        last_offset = self._indexes.newest.last_offset
        if last_offset is None:
            last_offset = self.base_offset - 1
            steps = batch_steps(self.log_file, self.floor_position(paths.OFFSET_MAX), self._log_path)
            for _, _, last_offset in steps:  # noqa: B007 -- only the last one is needed
                pass
        return last_offset + 1

    def find_offset_by_timestamp(self, timestamp_ms: int, starting_offset: int) -> tuple[int, int] | None:
        """Find (timestamp, offset) of the first record from `timestamp_ms` and from offset `starting_offset` on.

        An emptied batch still has the max timestamp of its former records, so `max_timestamp_ms` may be later than any
        record here. The result is then None, and ListOffsets returns "not found" even if later segments have such records,
        as in Apache Kafka.

        Raises:
            CorruptRecordError: A batch that may hold the record cannot be read.
        """
        return to_the_end(self.search_timestamp(timestamp_ms, starting_offset))

    def search_timestamp(
        self, timestamp_ms: int, starting_offset: int, record_bytes_max: int = RECORD_BYTES_MAX
    ) -> Steps[tuple[int, int] | None]:
        """Search like `find_offset_by_timestamp`, in steps, as it may scan the whole segment.

        Yields after some hundred batches, or one that it unpacked. A larger record in a compressed batch ends the search with
        KafkaError INVALID_RECORD.
        """
        offset = max(self._indexes.offset_before_timestamp(timestamp_ms), starting_offset)
        headers = self.headers(self.floor_position(offset))
        return (yield from first_record_from(timestamp_ms, starting_offset, headers, self.log_file, record_bytes_max))

    def sanity_check(self) -> None:
        """Check the ends of the index files, which is cheap, and the whole transaction index.

        Raises:
            DamagedFileError: The offset index is missing, an index is not a whole number of entries, its last
                offset index entry points past the log's end, or the transaction index contradicts itself.
        """
        index = self.offset_index
        if not self.files.exists(index.path):
            raise DamagedFileError(f"{index.path} is missing")
        for each in self._indexes.all:
            if self.files.exists(each.path) and self.files.size(each.path) % each.ENTRY_BYTES:
                raise DamagedFileError(f"{each.path}: size is not a multiple of the entry size")
        if entry := index.last_entry_in_file():
            offset, position = entry
            # Apache Kafka preallocates; the zeros that it leaves when killed look like (base, 0), which is not a valid entry.
            if not (offset >= self.base_offset and 0 < position < self.size_bytes):
                raise DamagedFileError(
                    f"{index.path}: the last entry is {entry}, but the log has {self.size_bytes} bytes"
                )
        self.txn_index.sanity_check()

    def _path(self, kind: str) -> str:
        return paths.segment_path(self.directory, self.base_offset, kind, self.suffix)

    def _end_of_whole_batches(self, position: int, limit: int, at_once: bool) -> int:
        """Find the largest batch end at or below byte `limit`, but at least that of the batch at `position`."""
        end = self._indexes.newest.end_between(position, limit, self.log_file.size())
        if end is not None:
            return end
        start = max(position, self._indexes.batch_before(limit, at_once=at_once))
        found = find_batch(self.log_file, start, self._log_path, limit=limit, at_once=at_once)
        if found is None:
            return self.log_file.size()
        batch_position, batch_end = found
        return batch_end if batch_position == position else batch_position
