"""Search for the first record of a segment at or after a timestamp."""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import RecordBatch
from .. import kernel
from ..disk.files import File
from ..steps import Steps

SEARCHED_AT_ONCE = 500
"""Number of batches that a search scans between two yields, in about a millisecond."""

RECORD_BYTES_MAX = 2**31 - 1
"""Maximum size of a record in the format."""

_EVER = -(1 << 63)


def first_record_from(
    timestamp_ms: int,
    starting_offset: int,
    headers: Iterable[tuple[int, RecordBatch]],
    file: File,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> Steps[tuple[int, int] | None]:
    """Find (timestamp, offset) of the first record at or after both, None if no record is.

    Yields after some hundred batches, or one that it unpacked.


    Args:
        headers: The batches to search, with their positions in `file`; they need not be whole.
        record_bytes_max: `max.decompressed.message.bytes`.

    Raises:
        CorruptRecordError: A batch that may hold the record cannot be read.
        KafkaError: INVALID_RECORD: such a batch is compressed, and a record before that one is too large.
    """
    for count, (position, header) in enumerate(headers, 1):
        if header.max_timestamp < timestamp_ms or header.last_offset < starting_offset:
            if count % SEARCHED_AT_ONCE == 0:
                yield
            continue
        batch = header if header.is_whole else RecordBatch(file.read_at(position, header.size_bytes))
        if (found := _first_record(batch, timestamp_ms, starting_offset, record_bytes_max)) is not None:
            return found
        yield
    return None


def _first_record(
    batch: RecordBatch, timestamp_ms: int, starting_offset: int, record_bytes_max: int
) -> tuple[int, int] | None:
    """Find (timestamp, offset) of the first record at or after both in one batch."""
    stamped = batch.is_log_append_time  # then all records have the batch's max timestamp
    earliest, least_delta = _EVER if stamped else timestamp_ms, starting_offset - batch.base_offset
    if batch.codec and hasattr(kernel, "RecordWalk"):  # missing in an old compiled kernel
        found, delta, timestamp = _found_in_pieces(batch, earliest, least_delta, record_bytes_max)
        if found == kernel.Found.DAMAGED and (found, delta, 0) != _found_in_pieces(batch, earliest, least_delta):
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"batch at offset {batch.base_offset}: record {delta} is larger than"
                f" max.decompressed.message.bytes={record_bytes_max}",
            )
    else:
        found, delta, timestamp = kernel.find_record(
            batch.payload(), batch.record_count, batch.base_timestamp, earliest, least_delta
        )
    if found == kernel.Found.SOUGHT:
        return batch.max_timestamp if stamped else timestamp, batch.base_offset + delta
    if found != kernel.Found.SOUND:
        raise CorruptRecordError(
            f"batch at offset {batch.base_offset}: cannot read record {delta} of {batch.record_count}"
        )
    return None


def _found_in_pieces(
    batch: RecordBatch, earliest: int, least_delta: int, record_bytes_max: int = RECORD_BYTES_MAX
) -> tuple[int, int, int]:
    """Search a compressed batch like `kernel.find_record`, but unpack only one piece of it at a time. A record that is too large
    counts as damaged."""
    walk = kernel.RecordWalk(batch.record_count, batch.base_timestamp, _EVER, -1, False)
    walk.size_max = record_bytes_max
    walk.seek(earliest, least_delta)
    for piece in batch.pieces():
        found, _, timestamp = walk.feed(piece, 0)
        if found == kernel.Found.SOUGHT:
            return found, walk.offset_delta, timestamp
        if found != kernel.Found.SOUND:
            return found, walk.number, 0
    return walk.end(), walk.number, 0
