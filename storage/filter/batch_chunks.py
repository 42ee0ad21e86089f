"""Reading a sealed segment for the cleaner: big reads into one buffer, and as much memory as the batches need."""

from collections.abc import Iterator

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, LENGTH_POSITION, LOG_OVERHEAD_BYTES, RecordBatch
from ..segment.segment import LogSegment

_LENGTH = slice(LENGTH_POSITION, LOG_OVERHEAD_BYTES)


class ChunkReader:
    """The read buffer of one pass. `view` shows it; what it holds is good until the next read."""

    def __init__(self, chunk_bytes: int) -> None:
        """`chunk_bytes` are read at a time; a batch that is larger is read whole, and the memory for it given back
        after the segment."""
        self._chunk_bytes = max(chunk_bytes, HEADER_BYTES)
        self.view = memoryview(bytearray(self._chunk_bytes))
        self._taken_bytes = 0

    def chunks(self, segment: LogSegment, position: int, end: int | None = None) -> Iterator[int]:
        """Read a segment from `position`, where a batch begins, to `end`, where one ends, or to its own end.

        Yields the size of each chunk in `view`. It begins with a whole batch; how much of it is whole batches must be
        told with `taken` before the next one.

        Raises:
            CorruptRecordError: No batch can begin where the last one ended, or the last one is cut short.
            OSError: The disk refused.
        """
        file, end = segment.log_file, segment.size_bytes if end is None else end
        if len(self.view) > self._chunk_bytes:
            self.view = memoryview(bytearray(self._chunk_bytes))
        while position < end:
            got = file.read_into(position, self.view[: end - position])
            size_bytes = LOG_OVERHEAD_BYTES + int.from_bytes(self.view[:got][_LENGTH], signed=True)
            if not HEADER_BYTES <= size_bytes <= end - position:
                raise CorruptRecordError(
                    f"segment {segment.base_offset}: invalid batch size of {size_bytes} bytes at position {position}"
                    f" (segment end {end})"
                )
            if size_bytes > len(self.view):
                self.view = memoryview(bytearray(size_bytes))
                got = file.read_into(position, self.view)
            if size_bytes > got:
                raise CorruptRecordError(
                    f"segment {segment.base_offset}: unexpected end of file at position {position + got}"
                )
            self._taken_bytes = 0
            yield got
            position += self._taken_bytes

    def taken(self, size_bytes: int) -> None:
        """So many bytes of the chunk were whole batches."""
        self._taken_bytes = size_bytes


def unreadable(segment: LogSegment, view: memoryview, at: int) -> CorruptRecordError:
    """What is wrong with the batch at `view[at:]`, of which the kernel would not have it."""
    where = f"segment {segment.base_offset}"
    try:
        batch = RecordBatch(view, at)
        where = f"{where}, offset {batch.base_offset}"
        if batch.record_count < 0 or batch.last_offset_delta < 0:
            return CorruptRecordError(f"{where}: invalid counts: {batch!r}")
        for _ in batch.spans():
            pass
    except CorruptRecordError as error:
        return CorruptRecordError(f"{where}: {error.message}")
    return CorruptRecordError(f"{where}: invalid records: {batch!r}")
