"""Output of a clean pass: batches collected in one buffer, with their CRCs and index entries; one write per chunk."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

from ...protocol.batch_builder import finish_batch, write_crc
from ...protocol.records import HEADER_BYTES
from ...protocol.varints import BytesLike
from ..kernel import RecordFilter
from ..segment.segment import LogSegment
from ..segment.segment_indexes import NewEntries

BATCHES_MAX = 4096
"""Largest number of batches between two writes; a chunk of very small batches takes several writes."""

_ROOM_BYTES = 1 << 16


class OutputEntries(NamedTuple):
    """Arrays in which the kernel notes its output between two writes. The kernel has the number of entries."""

    rebuilt: array[int]
    """Start and end of each batch that needs a CRC."""
    offsets: array[int]
    positions: array[int]
    """Columns of the offset index entries."""
    timestamps: array[int]
    timestamp_offsets: array[int]
    """Columns of the time index entries."""

    @classmethod
    def empty(cls) -> OutputEntries:
        """Return arrays with room for BATCHES_MAX batches."""
        four, eight = bytes(4 * BATCHES_MAX), bytes(8 * BATCHES_MAX)
        return cls(array("q", eight * 2), array("i", four), array("i", four), array("q", eight), array("i", four))


class CleanOutput:
    """The write buffer of one pass: `view` up to `filled`. The kernel and `put` write into it."""

    def __init__(
        self, kernel: RecordFilter, entries: OutputEntries, chunk_bytes: int, on_written: Callable[[int], None]
    ) -> None:
        """
        Args:
            kernel: The filter, which notes in `entries` what is written.
            chunk_bytes: Size of a read; the buffer is a little larger, as batches may grow when they are rewritten.
            on_written: Called with the bytes of each write.
        """
        self._kernel = kernel
        self._entries = entries
        self._size_bytes = chunk_bytes + _ROOM_BYTES
        self.view = memoryview(bytearray(self._size_bytes))
        self.filled = 0
        self._on_written = on_written

    def begin(self, segment: LogSegment) -> None:
        """Direct the output to this segment, which was just created."""
        self._segment = segment
        if len(self.view) > self._size_bytes:
            self.view = memoryview(bytearray(self._size_bytes))
        self._kernel.begin_segment(
            segment.base_offset,
            segment.config.index_distance_bytes,
            segment.offset_index.room,
            segment.time_index.room,
        )

    def put(self, batch: BytesLike, last_offset: int, max_timestamp: int) -> None:
        """Add a batch that needs no CRC."""
        size_bytes = len(batch)
        if size_bytes > len(self.view) - self.filled or self._kernel.is_full:
            self.make_room(size_bytes)
        self.view[self.filled : self.filled + size_bytes] = batch
        self._kernel.note(last_offset, size_bytes, max_timestamp)
        self.filled += size_bytes

    def put_packed(self, header: memoryview, block: bytes, last_offset: int, max_timestamp: int) -> None:
        """Add a batch with these packed records, whose header lacks length and CRC."""
        size_bytes = HEADER_BYTES + len(block)
        if size_bytes > len(self.view) - self.filled or self._kernel.is_full:
            self.make_room(size_bytes)
        view, start = self.view, self.filled
        self.filled = end = start + size_bytes
        view[start : start + HEADER_BYTES] = header
        view[start + HEADER_BYTES : end] = block
        finish_batch(view, start, end)
        self._kernel.note(last_offset, size_bytes, max_timestamp)

    def make_room(self, size_bytes: int) -> None:
        """Write the buffer, and make room for `size_bytes` more."""
        self.flush()
        if size_bytes > len(self.view):
            self.view = memoryview(bytearray(size_bytes))

    def flush(self) -> None:
        """Write the buffer.

        Raises:
            ValueError: An offset is too far above the segment's base. Nothing is written.
            OSError: The disk refused.
        """
        if self.filled:
            self.write(self.view[: self.filled])
            self.filled = 0

    def write(self, view: memoryview) -> None:
        """Write `view`, which has the batches that the kernel has noted. Errors as for `flush`."""
        kernel, entries = self._kernel, self._entries
        ends = iter(entries.rebuilt[: kernel.rebuilt_count])
        for start, end in zip(ends, ends, strict=True):
            write_crc(view[start:end])
        offset_count, time_count = kernel.offset_count, kernel.time_count
        self._segment.append_cleaned(
            view,
            NewEntries(
                kernel.last_offset,
                kernel.max_timestamp,
                kernel.max_timestamp_offset,
                entries.offsets[:offset_count],
                entries.positions[:offset_count],
                entries.timestamps[:time_count],
                entries.timestamp_offsets[:time_count],
            ),
        )
        kernel.flushed()
        self._on_written(len(view))
