"""Reading of a sealed segment for the cleaner: large reads into one buffer, which grows only for larger batches."""

from collections.abc import Iterator

from ...protocol.compression import decompress
from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, LENGTH_POSITION, LOG_OVERHEAD_BYTES, RecordBatch, packed_block
from ..kernel import has_longer
from ..segment.segment import LogSegment

_LENGTH = slice(LENGTH_POSITION, LOG_OVERHEAD_BYTES)


class ChunkReader:
    """The read buffer of one pass. `view` shows its content, which is valid until the next read."""

    def __init__(self, chunk_bytes: int) -> None:
        """Make a buffer of `chunk_bytes`. A larger batch is read whole, and its memory is released after the segment."""
        self._chunk_bytes = max(chunk_bytes, HEADER_BYTES)
        self.view = memoryview(bytearray(self._chunk_bytes))
        self._taken_bytes = 0

    def chunks(self, segment: LogSegment, position: int, end: int | None = None) -> Iterator[int]:
        """Read a segment from `position`, the start of a batch, to `end`, the end of one, or to the end of the segment.

        Yields the size of each chunk in `view`. A chunk begins with a whole batch. The caller must report with `advance` how
        many of its bytes are whole batches before it asks for the next one.

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

    def advance(self, size_bytes: int) -> None:
        """Report how many bytes of the chunk were whole batches."""
        self._taken_bytes = size_bytes


def place_of(segment: LogSegment) -> str:
    """Return the name of a segment in messages."""
    return f"segment {segment.base_offset}"


def unpacked(place: str, view: memoryview, at: int, record_bytes_max: int) -> memoryview:
    """Return the unpacked records of the batch at `view[at:]`.

    Args:
        place: Name of what contains the batch, for messages; see `place_of`.

    Raises:
        CorruptRecordError: They cannot be unpacked, or a compressed record has more than `record_bytes_max` bytes.
    """
    codec, block, last_offset = packed_block(view, at)
    payload = decompress(codec, block)
    if codec and has_longer(payload, record_bytes_max):
        raise CorruptRecordError(
            f"{place}, last offset {last_offset}: a record is larger than"
            f" max.decompressed.message.bytes={record_bytes_max}"
        )
    return payload


def unreadable(place: str, view: memoryview, at: int) -> CorruptRecordError:
    """Describe what is wrong with the batch at `view[at:]`, which the kernel has refused."""
    where = place
    try:
        batch = RecordBatch(view, at)
        where = f"{place}, offset {batch.base_offset}"
        if batch.record_count < 0 or batch.last_offset_delta < 0:
            return CorruptRecordError(f"{where}: invalid counts: {batch!r}")
        for _ in batch.spans():
            pass
    except CorruptRecordError as error:
        return CorruptRecordError(f"{where}: {error.message}")
    return CorruptRecordError(f"{where}: invalid records: {batch!r}")
