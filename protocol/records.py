"""Record batches (magic 2) as views over their bytes.

Used wherever batches are read: validation and segments read only headers, the cleaner and the inspection tools
also records. Nothing is copied before a record is read, and no batch is changed here (`batch_builder` writes).

    pos  size  field                        pos  size  field
      0     8  base offset                   27     8  base timestamp, or the delete horizon if bit 6 is set
      8     4  length = whole size - 12      35     8  max timestamp
     12     4  partition leader epoch        43     8  producer id (-1 none)
     16     1  magic = 2                     51     2  producer epoch
     17     4  CRC-32C over 21..end          53     4  base sequence (-1 none)
     21     2  attributes                    57     4  record count
     23     4  last offset delta             61        records, compressed as one block

    attributes: 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon

    record = length varint | attributes i8 | timestamp delta varlong | offset delta varint
             | key length varint, key | value length varint, value
             | header count varint, (key length varint, key, value length varint, value)*

All integers are big endian; a length of -1 means null. Source: KIP-98, KIP-82 (headers), KIP-534 (delete horizon).
"""

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from .checksum import crc32c
from .compression import MAX_DECOMPRESSED_BATCH_BYTES, decompress, unpack
from .errors import CorruptRecordError
from .varints import BytesLike, read_varint, read_varlong

HEADER_FIELDS = (
    ("base_offset", "q"),
    ("length", "i"),
    ("leader_epoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp", "q"),
    ("max_timestamp", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("record_count", "i"),
)
"""(name, type in the notation of `struct` and NumPy), back to back and big endian."""
HEADER = struct.Struct(">" + "".join(kind for _, kind in HEADER_FIELDS))
HEADER_BYTES = HEADER.size
LOG_OVERHEAD = struct.Struct(">qi")
"""Base offset and length: what a reader needs to find the next batch."""
LOG_OVERHEAD_BYTES = LOG_OVERHEAD.size
STEP = struct.Struct(">qi4xb6xi")
"""Base offset, length, magic, last offset delta: enough to step from batch to batch, and to get their offsets."""
_GLANCE = struct.Struct(">qi10xBi")
"""Base offset, length, low byte of the attributes, last offset delta."""
LENGTH_POSITION = 8
LEADER_EPOCH_POSITION = 12
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21
ATTRIBUTES_LOW_BYTE_POSITION = ATTRIBUTES_POSITION + 1
"""Position of the byte with codec and flags; the high byte of the attributes has no bits yet."""
MAX_TIMESTAMP_POSITION = 35
COUNT_POSITION = 57

MAGIC = 2
OLD_LENGTH_MIN = 14
"""Length of the smallest message of magic 0: CRC, magic, attributes, and two lengths. Its base offset, length and magic have
the same positions as in a batch."""

CODEC_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
_SEQUENCE_MASK = 0x7FFF_FFFF
_I64_MIN, _I64_MAX = -(1 << 63), (1 << 63) - 1


def wrapped(timestamp: int) -> int:
    """Reduce a sum of timestamp and delta to 64 bits, as the JVM does: a hostile client may send numbers that overflow."""
    if _I64_MIN <= timestamp <= _I64_MAX:
        return timestamp
    return (timestamp - _I64_MIN) % (1 << 64) + _I64_MIN


def sequence_after(sequence: int, steps: int) -> int:
    """Return the sequence number `steps` after `sequence`; 2**31 - 1 is followed by 0."""
    return (sequence + steps) & _SEQUENCE_MASK


def batch_size(data: BytesLike) -> int:
    """Return the size of the batch at the start of `data` from its length field, unchecked. Needs LOG_OVERHEAD_BYTES."""
    length: int = LOG_OVERHEAD.unpack_from(data)[1]
    return LOG_OVERHEAD_BYTES + length


class Record(NamedTuple):
    """One record with absolute offset and timestamp; `sequence` is -1 if the batch has no producer."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    sequence: int = NO_SEQUENCE


class RecordSpan(NamedTuple):
    """Position of one record in its batch's payload, and the fields that the cleaner needs.

    The record, its length included, is `payload[start:end]`. The value is None for a tombstone only.
    """

    offset: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool
    start: int
    end: int


def packed_block(view: memoryview, at: int) -> tuple[int, memoryview, int]:
    """Return (codec, packed records, last offset) of the batch at `view[at:]`, which must be whole.

    A `RecordBatch` has the same and more, but making one for every batch of a log takes too long.
    """
    base_offset, length, attributes, last_offset_delta = _GLANCE.unpack_from(view, at)
    block = view[at + HEADER_BYTES : at + LOG_OVERHEAD_BYTES + length]
    return attributes & CODEC_MASK, block, base_offset + last_offset_delta


class RecordBatch:
    """The header of the batch at `at`, and access to its records.

    The bytes from `at` on may end before the batch does, for readers of headers only. Then `is_whole` is False, and
    only the header may be used.

    Raises:
        CorruptRecordError: The header is invalid: fewer than 61 bytes, another magic, or an impossible length.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
        "view",
    )
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    size_bytes: int
    view: memoryview

    def __init__(self, data: BytesLike, at: int = 0) -> None:
        if len(data) - at < HEADER_BYTES:
            raise CorruptRecordError(f"incomplete batch header ({len(data) - at} of {HEADER_BYTES} bytes)")
        (
            self.base_offset,
            length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(data, at)
        self.size_bytes = LOG_OVERHEAD_BYTES + length
        if self.magic != MAGIC or self.size_bytes < HEADER_BYTES:
            raise CorruptRecordError(f"invalid batch at byte {at}: magic {self.magic}, length {length}")
        view = memoryview(data)
        self.view = view if self.size_bytes == len(view) and not at else view[at : at + self.size_bytes]

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets {self.base_offset}-{self.last_offset}, {self.record_count} records, "
            f"{self.size_bytes} bytes, attributes {self.attributes:#x})"
        )

    @property
    def is_whole(self) -> bool:
        return len(self.view) == self.size_bytes

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last offset, -1 if the batch has none."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return sequence_after(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_producer(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which on tombstones and markers in this batch may be removed; None until the cleaner sets it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    def computed_crc(self) -> int:
        crc: int = crc32c(self.view[ATTRIBUTES_POSITION:])
        return crc

    def is_crc_valid(self) -> bool:
        return self.computed_crc() == self.crc

    def payload(self, *, max_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES, max_frames: int = sys.maxsize) -> memoryview:
        """Return the records block, unpacked; each call unpacks again. Errors as for `compression.decompress`."""
        block = self.view[HEADER_BYTES:]
        if self.record_count == 0 and not block:
            return block  # emptied by the cleaner; the codec bits may be left, and no codec can unpack an empty block
        return decompress(self.attributes & CODEC_MASK, block, max_bytes=max_bytes, max_frames=max_frames)

    def pieces(self, *, max_frames: int = sys.maxsize) -> Iterator[BytesLike]:
        """Yield the records block, unpacked, in pieces, for callers that keep none of it. As `compression.unpack`."""
        block = self.view[HEADER_BYTES:]
        if self.record_count == 0 and not block:
            return iter(())
        return unpack(self.attributes & CODEC_MASK, block, max_frames=max_frames)

    def records(self, *, max_bytes: int = MAX_DECOMPRESSED_BATCH_BYTES) -> Iterator[Record]:
        """Yield every record. Under log append time each has the batch's max timestamp.

        Raises:
            CorruptRecordError: A length leaves its record or the batch, a record is longer than its fields, a
                header has no name, or the block has another number of records. Records before that were yielded.
        """
        base_timestamp, base_sequence = self.base_timestamp, self.base_sequence
        append_time = self.max_timestamp if self.is_log_append_time else None
        data = bytes(self.payload(max_bytes=max_bytes))
        for offset_delta, timestamp_delta, key, value_at, start, end in _walk(data, self.record_count):
            try:
                value, at = _read_bytes(data, value_at, end)
                headers, at = _read_headers(data, at, end)
            except IndexError:
                raise CorruptRecordError(f"truncated record at byte {start}") from None
            if at != end:
                raise CorruptRecordError(f"length of the record at byte {start} does not match its fields")
            yield Record(
                self.base_offset + offset_delta,
                wrapped(base_timestamp + timestamp_delta) if append_time is None else append_time,
                key,
                value,
                headers,
                NO_SEQUENCE if base_sequence < 0 else sequence_after(base_sequence, offset_delta),
            )

    def spans(self, payload: BytesLike | None = None) -> Iterator[RecordSpan]:
        """Yield the position of each record in the payload.

        Args:
            payload: Result of `payload()`, for callers that cut records out of it; None unpacks again.

        Raises:
            CorruptRecordError: As for `records`, but the content of values and headers is not checked.
        """
        data = bytes(self.payload() if payload is None else payload)
        base_offset = self.base_offset
        for offset_delta, timestamp_delta, key, value_at, start, end in _walk(data, self.record_count):
            # A negative length is an odd number in zig-zag form, which the first byte shows.
            has_value = not data[value_at] & 1
            yield RecordSpan(base_offset + offset_delta, timestamp_delta, key, has_value, start, end)


def batches(data: BytesLike) -> Iterator[RecordBatch]:
    """Yield the batches in `data`, which are back to back.

    Raises:
        CorruptRecordError: A batch cannot begin where the last one ended, or the last one is cut short.
    """
    view = memoryview(data)
    at = 0
    while at < len(view):
        batch = RecordBatch(view, at)
        if not batch.is_whole:
            raise CorruptRecordError(f"batch of {batch.size_bytes} bytes, but only {len(view) - at} bytes are left")
        yield batch
        at += batch.size_bytes


def null_key_indexes(payload: BytesLike, record_count: int, *, at_most: int | None = None) -> list[int]:
    """Return the indexes of the records without a key: the check of every produce to a compacted topic.

    It steps from record to record and reads only the key's length.

    Args:
        at_most: Stop when this number is found, without a check of the rest.

    Raises:
        CorruptRecordError: A record leaves the block, or the block has another number of records.
    """
    data = bytes(payload)  # indexing bytes is faster than indexing a view, by more than the copy costs
    end = len(data)
    found: list[int] = []
    at = 0
    if record_count < 0:
        raise CorruptRecordError(f"invalid batch of {record_count} records")
    try:
        for index in range(record_count):
            size = data[at]  # still in zig-zag form: an odd one is negative
            if size < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                size = size & 0x7F | high << 7
                at += 2
            else:
                size, at = read_varint(data, at)
                size = size << 1 ^ size >> 31
            record_end = at + (size >> 1)
            if size & 1 or record_end > end:
                raise CorruptRecordError(f"record {index} exceeds its batch")
            at += 1  # attributes
            deltas_at = at
            while data[at] >= 0x80:  # timestamp delta
                at += 1
            at += 1
            while data[at] >= 0x80:  # offset delta
                at += 1
            at += 1
            if at - deltas_at > 6:  # more than one of them may have, so check both
                _, at = read_varlong(data, deltas_at)
                _, at = read_varint(data, at)
            byte = data[at]
            if byte < 0x80 and not byte & 1:
                key_end = at + 1 + (byte >> 1)
            else:
                key_length, at = read_varint(data, at)
                if key_length < 0:
                    found.append(index)
                    if len(found) == at_most:
                        return found
                    key_length = 0
                key_end = at + key_length
            if key_end >= record_end:
                raise CorruptRecordError(f"no value after the key of record {index}")
            at = record_end
    except IndexError:
        raise CorruptRecordError(f"expected {record_count} records, but the block ends in one of them") from None
    if at != end:
        raise CorruptRecordError(f"{end - at} unexpected bytes after the {record_count} records of a batch")
    return found


_SHORT = [(byte >> 1) ^ -(byte & 1) for byte in range(0x80)]
"""Signed values of the one-byte varints."""


def _walk(data: bytes, record_count: int) -> Iterator[tuple[int, int, bytes | None, int, int, int]]:
    """Yield (offset delta, timestamp delta, key, position of the value's length, start, end) of each record."""
    at = 0
    block_end = len(data)
    if record_count < 0:
        raise CorruptRecordError(f"invalid batch of {record_count} records")
    try:
        for _ in range(record_count):
            start = at
            byte = data[at]
            size, at = (_SHORT[byte], at + 1) if byte < 0x80 else read_varint(data, at)
            end = at + size
            if size < 0 or end > block_end:
                raise CorruptRecordError(f"record at byte {start} exceeds its batch")
            at += 1  # record attributes: none are defined
            byte = data[at]
            timestamp_delta, at = (_SHORT[byte], at + 1) if byte < 0x80 else read_varlong(data, at)
            byte = data[at]
            offset_delta, at = (_SHORT[byte], at + 1) if byte < 0x80 else read_varint(data, at)
            byte = data[at]
            key_length, at = (_SHORT[byte], at + 1) if byte < 0x80 else read_varint(data, at)
            value_at = at + key_length if key_length > 0 else at
            if value_at >= end:
                raise CorruptRecordError(f"no value after the key of the record at byte {start}")
            yield (
                offset_delta,
                timestamp_delta,
                None if key_length < 0 else data[at:value_at],
                value_at,
                start,
                end,
            )
            at = end
    except IndexError:
        raise CorruptRecordError(f"expected {record_count} records, but the block ends in one of them") from None
    if at != block_end:
        raise CorruptRecordError(f"{block_end - at} unexpected bytes after the {record_count} records of a batch")


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:  # writers use -1; all readers take any negative length for null
        return None, at
    if length > end - at:
        raise CorruptRecordError(f"field of {length} bytes, but only {end - at} bytes of its record are left")
    return data[at : at + length], at + length


def _read_headers(data: bytes, at: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = read_varint(data, at)
    if count == 0:
        return (), at
    if not 0 < count <= end - at:
        raise CorruptRecordError(f"{count} headers, but only {end - at} bytes are left")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        if name is None:
            raise CorruptRecordError("record header without a name")
        value, at = _read_bytes(data, at, end)
        # Names should be UTF-8, but Apache Kafka does not check that on produce, so a reader must accept others.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), at
