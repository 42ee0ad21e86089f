"""Reading a sealed segment for the cleaner: big reads, whole batches, and as little memory as the batches allow."""

from collections.abc import Iterator
from typing import NamedTuple

from ..protocol.errors import CorruptRecordError
from ..protocol.records import HEADER_BYTES, LOG_OVERHEAD_BYTES, RecordBatch
from .segment import LogSegment

_LENGTH = slice(8, LOG_OVERHEAD_BYTES)


class Chunk(NamedTuple):
    """Some whole batches that lie back to back in `data`, each with where it begins."""

    data: bytes
    batches: list[tuple[int, RecordBatch]]


def read_chunks(segment: LogSegment, position: int, chunk_bytes: int) -> Iterator[Chunk]:
    """Read a segment from `position`, where a batch begins, to its end.

    Reads `chunk_bytes` at a time; a batch that is larger is read by itself, whatever limit its topic has today.

    Raises:
        CorruptRecordError: No batch can begin where the last one ended, or the last one is cut short.
        OSError: The disk refused.
    """
    file, end = segment.log_file, segment.size_bytes
    chunk_bytes = max(chunk_bytes, HEADER_BYTES)
    while position < end:
        data = file.read_at(position, min(chunk_bytes, end - position))
        size_bytes = LOG_OVERHEAD_BYTES + int.from_bytes(data[_LENGTH], signed=True)
        if not HEADER_BYTES <= size_bytes <= end - position:
            raise CorruptRecordError(
                f"segment {segment.base_offset}: a batch of {size_bytes} bytes at {position}, the end is at {end}"
            )
        if size_bytes > len(data):
            data = file.read_at(position, size_bytes)
        batches = _whole_batches(data)
        if not batches:
            raise CorruptRecordError(f"segment {segment.base_offset}: the file ends at {position + len(data)}")
        yield Chunk(data, batches)
        at, batch = batches[-1]
        position += at + batch.size_bytes


def _whole_batches(data: bytes) -> list[tuple[int, RecordBatch]]:
    found = []
    at, end = 0, len(data)
    while end - at >= HEADER_BYTES:
        batch = RecordBatch(data, at)
        if at + batch.size_bytes > end:
            break
        if batch.record_count < 0 or batch.last_offset_delta < 0:
            raise CorruptRecordError(f"batch at offset {batch.base_offset} has impossible counts: {batch!r}")
        found.append((at, batch))
        at += batch.size_bytes
    return found
