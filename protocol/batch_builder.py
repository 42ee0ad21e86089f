"""Writing of record batches: whole ones from records, and the few header fields that a broker changes in place.

`build_batch` is for callers that make their own records (internal topics, markers, tests), `seal_batch` for those that have a
records block (the cleaner, recompression). The produce path uses the `…_in_place` functions. `records` has a drawing of the
layout.
"""

import struct
from collections.abc import Iterable

from .checksum import crc32c
from .compression import Codec, compress
from .records import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_BYTES,
    LEADER_EPOCH_POSITION,
    LENGTH_POSITION,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAX_TIMESTAMP_POSITION,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
)
from .varints import BytesLike, append_fields

Headers = Iterable[tuple[str, BytesLike | None]]
RecordParts = tuple[int, int, BytesLike | None, BytesLike | None, Headers]
"""(offset, timestamp, key, value, headers), both numbers absolute."""

_I64 = struct.Struct(">q")
_U32 = struct.Struct(">I")
_I32 = struct.Struct(">i")
_I16 = struct.Struct(">h")


def build_batch(
    records: Iterable[RecordParts],
    *,
    base_offset: int | None = None,
    codec: int = Codec.NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time: bool = False,
    delete_horizon_ms: int | None = None,
    partition_leader_epoch: int = 0,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
) -> bytearray:
    """Return one batch with `records`, in the order given, with the gaps between their offsets.

    Args:
        base_offset: Default: the first record's offset. Needed if records at the front are missing.
        last_offset_delta: Default: that of the last record. Needed if records at the end are missing.
        delete_horizon_ms: Replaces the base timestamp, to which the records' timestamps are relative.
        base_timestamp, max_timestamp: Default: the first and the largest timestamp of the records; -1 without records.
    """
    rows = list(records)
    if base_offset is None:
        base_offset = rows[0][0] if rows else 0
    if last_offset_delta is None:
        last_offset_delta = rows[-1][0] - base_offset if rows else 0
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
    elif base_timestamp is None:
        base_timestamp = rows[0][1] if rows else NO_TIMESTAMP
    if max_timestamp is None:
        max_timestamp = max((row[1] for row in rows), default=NO_TIMESTAMP)
    payload = bytearray()
    append_records(payload, rows, base_offset, base_timestamp)
    attributes = (
        codec
        | (LOG_APPEND_TIME_BIT if log_append_time else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
    )
    return seal_batch(
        payload,
        record_count=len(rows),
        base_offset=base_offset,
        last_offset_delta=last_offset_delta,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        partition_leader_epoch=partition_leader_epoch,
    )


def append_records(
    out: bytearray, records: Iterable[RecordParts], base_offset: int = 0, base_timestamp: int = 0
) -> None:
    """Append records to an uncompressed records block."""
    bodies = []
    for offset, timestamp, key, value, headers in records:
        pairs = tuple(headers)
        fields = [timestamp - base_timestamp, offset - base_offset, key, value, len(pairs)]
        for name, content in pairs:
            fields += name.encode(), content
        body = bytearray(1)  # record attributes: none are defined
        append_fields(body, fields)
        bodies.append(body)
    append_fields(out, bodies)


def seal_batch(
    payload: BytesLike,
    *,
    record_count: int,
    base_offset: int,
    last_offset_delta: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = 0,
    is_packed: bool = False,
) -> bytearray:
    """Return a batch around a records block, which is compressed with the codec in `attributes` unless it `is_packed`.

    A batch without records has no codec and no bytes after its header, whatever `attributes` has.
    """
    if record_count == 0:
        attributes &= ~CODEC_MASK
        block: BytesLike = b""
    else:
        codec = attributes & CODEC_MASK
        block = compress(codec, payload) if codec and not is_packed else payload
    batch = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        HEADER_BYTES + len(block) - LOG_OVERHEAD_BYTES,
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    batch += block
    write_crc(memoryview(batch))
    return batch


def finish_batch(view: memoryview, start: int, end: int) -> None:
    """Set length and CRC of the batch in `view[start:end]` from its bytes."""
    _I32.pack_into(view, start + LENGTH_POSITION, end - start - LOG_OVERHEAD_BYTES)
    write_crc(view[start:end])


def assign_in_place(batch: bytearray | memoryview, base_offset: int, partition_leader_epoch: int) -> None:
    """Set the base offset and leader epoch of a produced batch. The CRC does not cover either, and stays."""
    _I64.pack_into(batch, 0, base_offset)
    _I32.pack_into(batch, LEADER_EPOCH_POSITION, partition_leader_epoch)


def set_timestamp_type_in_place(batch: bytearray | memoryview, *, log_append_time: bool, max_timestamp: int) -> None:
    """Set the batch's max timestamp which, under log append time, is the timestamp of every record.

    The records are not changed; `batch` is one whole batch, whose CRC is computed again.
    """
    (attributes,) = _I16.unpack_from(batch, ATTRIBUTES_POSITION)
    attributes = attributes | LOG_APPEND_TIME_BIT if log_append_time else attributes & ~LOG_APPEND_TIME_BIT
    _I16.pack_into(batch, ATTRIBUTES_POSITION, attributes)
    _I64.pack_into(batch, MAX_TIMESTAMP_POSITION, max_timestamp)
    write_crc(memoryview(batch))


def write_crc(batch: memoryview) -> None:
    """Compute and set the CRC of one batch."""
    _U32.pack_into(batch, CRC_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))
