"""Record batches in single calls, for every test that needs some in a log, a request or a file."""

import struct
import zlib
from collections.abc import Iterable

from ottla.protocol.batch_builder import RecordParts, build_batch
from ottla.protocol.records import COUNT_POSITION, CRC_POSITION, LOG_OVERHEAD_BYTES, RecordBatch, batches
from ottla.protocol.varints import BytesLike

Text = str | bytes | None
Pair = tuple[Text, Text]

COMMIT, ABORT = 1, 0


def as_bytes(text: Text) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def batch(
    *pairs: Pair,
    base_offset: int = 0,
    timestamp: int | Iterable[int] = 1_000,
    offsets: Iterable[int] | None = None,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int | None = None,
    base_sequence: int | None = None,
    transactional: bool = False,
    partition_leader_epoch: int = 0,
    last_offset_delta: int | None = None,
    log_append_time: bool = False,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """Return one batch of (key, value) pairs, as a producer would send it when `base_offset` is left out.

    `timestamp` is one for all records or one each; `offsets` are absolute, from `base_offset` on without gaps unless
    given. With a `producer_id`, epoch and sequence start at 0.
    """
    has_producer = producer_id >= 0
    places = list(range(base_offset, base_offset + len(pairs)) if offsets is None else offsets)
    times = [timestamp] * len(pairs) if isinstance(timestamp, int) else list(timestamp)
    records: list[RecordParts] = [
        (offset, time, as_bytes(key), as_bytes(value), headers)
        for offset, time, (key, value) in zip(places, times, pairs, strict=True)
    ]
    return build_batch(
        records,
        base_offset=base_offset,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch if producer_epoch is not None else (0 if has_producer else -1),
        base_sequence=base_sequence if base_sequence is not None else (0 if has_producer else -1),
        transactional=transactional,
        partition_leader_epoch=partition_leader_epoch,
        last_offset_delta=last_offset_delta,
        log_append_time=log_append_time,
        delete_horizon_ms=delete_horizon_ms,
    )


def marker(
    kind: int,
    *,
    producer_id: int,
    producer_epoch: int = 0,
    base_offset: int = 0,
    timestamp: int = 1_000,
    coordinator_epoch: int = 0,
    partition_leader_epoch: int = 0,
) -> bytearray:
    """Return the control batch that ends a transaction; `kind` is COMMIT or ABORT."""
    key = b"\0\0" + kind.to_bytes(2, "big")
    value = b"\0\0" + coordinator_epoch.to_bytes(4, "big")
    return build_batch(
        [(base_offset, timestamp, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=partition_leader_epoch,
    )


def read_batches(data: BytesLike) -> list[RecordBatch]:
    return list(batches(data))


def contents(data: BytesLike) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return (offset, key, value) of every data record."""
    return [
        (record.offset, record.key, record.value)
        for each in batches(data)
        if not each.is_control
        for record in each.records()
    ]


def broken(data: BytesLike, at: int, *, flip: int = 0xFF) -> bytearray:
    """Return a copy with the bits of `flip` inverted in the byte at `at`; its CRC is not renewed."""
    copy = bytearray(data)
    copy[at] ^= flip
    return copy


def resealed(data: BytesLike, *, count: int | None = None) -> bytearray:
    """Return a copy whose length and CRC, and record count if given, match the content: a false batch, but a complete one."""
    copy = bytearray(data)
    copy[8:12] = (len(copy) - LOG_OVERHEAD_BYTES).to_bytes(4, "big")
    if count is not None:
        copy[COUNT_POSITION : COUNT_POSITION + 4] = count.to_bytes(4, "big")
    copy[CRC_POSITION : CRC_POSITION + 4] = RecordBatch(copy).computed_crc().to_bytes(4, "big")
    return copy


def old_message(magic: int, offset: int, key: bytes = b"k", value: bytes = b"v") -> bytes:
    """Return a message of format v0 or v1. Source: the record formats of Apache Kafka 0.8 and 0.10."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 1_000) if magic else b"")
    body += struct.pack(">i", len(key)) + key + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body
