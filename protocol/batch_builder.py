"""Writing record batches: whole ones from records, and the few header fields a broker changes in place.

`build_batch` serves whoever makes records of their own (internal topics, markers, tests); `seal_batch` whoever has a
records block already (the cleaner, recompression); the `…_in_place` functions serve the produce path. The layout is
drawn in `records`.
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
    """Return one batch that holds `records`, in the order given, with gaps between offsets where they have gaps.

    Args:
        base_offset: The first record's offset unless given; give it when records at the front are missing.
        last_offset_delta: From the last record unless given; give it when records at the end are missing.
        delete_horizon_ms: Takes the place of the base timestamp, which records are relative to.
        base_timestamp, max_timestamp: The first record's and the largest, unless given; -1 without records.
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
    """Append records to a records block that is not compressed yet."""
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
    """Return a batch around a records block, which is compressed with the codec that `attributes` names, unless it `is_packed`.

    A batch without records carries no codec and no bytes behind its header, whatever `attributes` says.
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
    """Make length and CRC of the batch in `view[start:end]` those of its bytes."""
    _I32.pack_into(view, start + LENGTH_POSITION, end - start - LOG_OVERHEAD_BYTES)
    write_crc(view[start:end])


def assign_in_place(batch: bytearray | memoryview, base_offset: int, partition_leader_epoch: int) -> None:
    """Give a produced batch its place in the log. Both fields lie outside the CRC, which stays as it is."""
    _I64.pack_into(batch, 0, base_offset)
    _I32.pack_into(batch, LEADER_EPOCH_POSITION, partition_leader_epoch)


def set_timestamp_type_in_place(batch: bytearray | memoryview, *, log_append_time: bool, max_timestamp: int) -> None:
    """Make `max_timestamp` the batch's largest and, under log append time, the timestamp of every record.

    The records stay untouched; `batch` is one whole batch, whose CRC is renewed.
    """
    (attributes,) = _I16.unpack_from(batch, ATTRIBUTES_POSITION)
    attributes = attributes | LOG_APPEND_TIME_BIT if log_append_time else attributes & ~LOG_APPEND_TIME_BIT
    _I16.pack_into(batch, ATTRIBUTES_POSITION, attributes)
    _I64.pack_into(batch, MAX_TIMESTAMP_POSITION, max_timestamp)
    write_crc(memoryview(batch))


def write_crc(batch: memoryview) -> None:
    """Renew the CRC of one batch."""
    _U32.pack_into(batch, CRC_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))
