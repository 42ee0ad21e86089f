"""Writes a partition directory of the given shape: sealed segments and an active one with a single batch.

The same arguments give the same bytes. This module builds record blocks, because that must be quick, and Ottla's batch builder
seals them. Ottla's recovery makes indexes, producer snapshot and `.txnindex` from the segments.
"""

import random
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path

from ottla.protocol.batch_builder import build_batch, seal_batch
from ottla.protocol.records import TRANSACTIONAL_BIT
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.logs.log_parts import LogPlace, ShutdownState
from ottla.storage.logs.recovery import load_log
from ottla.storage.topics.config import LogConfig

from ...support.logs.batches import varint
from .shapes import Shape

PARTITION = TopicPartition("bench", 0)
CONFIG = LogConfig(cleanup_policy=("compact",))
SEGMENT_BYTES = 64 << 20
"""The size at which the generator rolls, as `segment.ms` would.

`segment.bytes` is 1 GiB, so that a pass makes one segment of all.
"""

WRITTEN_BEFORE_MS = 6 * 3_600_000
"""Age of the first record at the time of the pass: young enough for both sides to know the producers still."""

PRODUCERS, BATCHES_A_TRANSACTION, TRANSACTIONS_AN_ABORTED_ONE = 4, 5, 10
DIFFERENT_VALUES = 2_000


def record_count(shape: Shape, raw_bytes: int) -> int:
    """Return the number of records, in whole batches, of a log with about `raw_bytes` before compression."""
    return raw_bytes // (shape.value_bytes + 30) // shape.records_per_batch * shape.records_per_batch


def first_dirty_offset(shape: Shape, raw_bytes: int) -> int:
    """Return the start of the part that was never cleaned."""
    clean_records = int(record_count(shape, raw_bytes) * shape.clean_part)
    return clean_records // shape.records_per_batch * shape.records_per_batch


def generate(shape: Shape, raw_bytes: int, directory: Path, now_ms: int) -> int:
    """Fill `directory`, which must not exist, for passes at about `now_ms`; returns the bytes of its segments."""
    directory.mkdir(parents=True)
    first_dirty = first_dirty_offset(shape, raw_bytes)
    segment, base_offset, log_bytes = bytearray(), 0, 0
    for batch, offset, is_last in batches_of(shape, raw_bytes, now_ms):
        if segment and (len(segment) + len(batch) > SEGMENT_BYTES or offset == first_dirty or is_last):
            log_bytes += (directory / f"{base_offset:020}.log").write_bytes(segment)
            segment, base_offset = bytearray(), offset
        segment += batch
    log_bytes += (directory / f"{base_offset:020}.log").write_bytes(segment)
    log = open_log(directory, now_ms, clean_shutdown=False)
    log.close(now_ms)
    log.release_files()
    return log_bytes


def open_log(directory: Path, now_ms: int, *, clean_shutdown: bool = True) -> Log:
    return load_log(
        LogPlace(OsFiles(), str(directory), PARTITION),
        CONFIG,
        ShutdownState(is_clean=clean_shutdown),
        now_ms=now_ms,
        rng=random.Random(0),
    )


def batches_of(shape: Shape, raw_bytes: int, now_ms: int) -> Iterator[tuple[bytearray, int, bool]]:
    """Yield (batch, base offset, whether it is the last one, which is for the active segment)."""
    rng = random.Random(7)
    records = record_count(shape, raw_bytes)
    distinct = records if shape.key_space >= 1 else first_dirty_offset(shape, raw_bytes)
    keys = _keys(rng, records, int(records * shape.key_space), distinct)
    fields = [_value_field(value) for value in values(shape.value_bytes)]
    now_ms -= WRITTEN_BEFORE_MS
    attributes = shape.codec | (TRANSACTIONAL_BIT if shape.transactional else 0)
    offset, numbers = 0, [0] * PRODUCERS
    for number in range(records // shape.records_per_batch):
        producer = number % PRODUCERS
        deltas = list(accumulate(rng.choices((0, 1, 2), k=shape.records_per_batch - 1), initial=0))
        yield (
            seal_batch(
                _block(rng, shape, keys, fields, deltas),
                record_count=shape.records_per_batch,
                base_offset=offset,
                last_offset_delta=shape.records_per_batch - 1,
                attributes=attributes,
                base_timestamp=now_ms,
                max_timestamp=now_ms + deltas[-1],
                producer_id=1_000 + producer if shape.idempotent else -1,
                producer_epoch=0 if shape.idempotent else -1,
                base_sequence=numbers[producer] * shape.records_per_batch if shape.idempotent else -1,
            ),
            offset,
            False,
        )
        offset += shape.records_per_batch
        now_ms += deltas[-1] + 1
        numbers[producer] += 1
        if shape.transactional and numbers[producer] % BATCHES_A_TRANSACTION == 0:
            transaction = numbers[producer] // BATCHES_A_TRANSACTION + producer
            yield (
                _marker(offset, now_ms, 1_000 + producer, transaction % TRANSACTIONS_AN_ABORTED_ONE != 0),
                offset,
                False,
            )
            offset += 1
    if shape.transactional:
        for producer in (each for each in range(PRODUCERS) if numbers[each] % BATCHES_A_TRANSACTION):
            yield _marker(offset, now_ms, 1_000 + producer, True), offset, False
            offset += 1
    yield build_batch([(offset, now_ms, b"the active segment", b"", ())]), offset, True


def _marker(offset: int, now_ms: int, producer_id: int, commit: bool) -> bytearray:
    """Return the control batch that ends a transaction: key is version and kind, value version and coordinator epoch."""
    record = (offset, now_ms, bytes([0, 0, 0, commit]), bytes(6), ())
    return build_batch([record], producer_id=producer_id, producer_epoch=0, transactional=True, control=True)


def _block(
    rng: random.Random, shape: Shape, keys: Iterator[bytes], fields: list[bytes], timestamp_deltas: list[int]
) -> bytes:
    """Return the records of one batch: length, attributes, timestamp delta, offset delta, key, value, no headers."""
    parts: list[bytes] = []
    for offset_delta, timestamp_delta in enumerate(timestamp_deltas):
        key = next(keys)
        field = fields[int(rng.random() * DIFFERENT_VALUES)]
        if shape.tombstones and rng.random() < shape.tombstones:
            field = NO_VALUE
        front = b"\0%b%b%b%b" % (_varint(timestamp_delta), _varint(offset_delta), _varint(len(key)), key)
        parts += _varint(len(front) + len(field)), front, field
    return b"".join(parts)


def _keys(rng: random.Random, records: int, key_space: int, distinct: int) -> Iterator[bytes]:
    """Yield a key for each record: for the first `distinct` ones no key twice, in an order without meaning."""
    step = 7_919 if key_space % 7_919 else 7_927  # prime, and no divisor of the number of keys
    for number in range(records):
        key = number * step % key_space if number < distinct else int(rng.random() * key_space)
        yield b"customer-%d/%b" % (key, b"abcdefghijk"[: key % 12])


def values(value_bytes: int) -> list[bytes]:
    """Return different values of that size. Batches of 100 B values shrink to a half with lz4 and to 30 % with zstd."""
    rng = random.Random(11)
    made = []
    for _ in range(DIFFERENT_VALUES):
        text = b""
        while len(text) < value_bytes:
            text += b'{"id":"%012x","state":"%b","amount":%.2f,"version":%d,"owner":"%08x"}' % (
                rng.getrandbits(48),
                rng.choice((b"active", b"closed", b"new")),
                rng.random() * 10_000,
                rng.randrange(100),
                rng.getrandbits(32),
            )
        made.append(text[:value_bytes])
    return made


def _value_field(value: bytes) -> bytes:
    """Return a record from its value's length on; it has no headers."""
    return _varint(len(value)) + value + b"\0"


_varint = cache(varint)
NO_VALUE = _varint(-1) + b"\0"
