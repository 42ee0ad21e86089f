"""A log of N keys whose newest records are known by arithmetic, and what a snapshot of it must hold.

    offsets 0 … N-1                 key i, every i                                     (i is the offset)
            N … N+N/16-1            key i with i % 16 == 8, again: offset N + i // 16
            N+N/16 … N+N/8-1        key i with i % 16 == 0, deleted: offset N + N/16 + i // 16

Keys are 16 hexadecimal digits, values 16 digits of their own offset and 24 bytes. One batch in ten is lz4.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from numpy.typing import NDArray

from ottla.protocol.batch_builder import seal_batch
from ottla.storage.disk.paths import TopicPartition

from ..support.logs.batches import varint
from ..support.logs.big_log import write_big_log

TP = TopicPartition("large", 0)
RECORDS_A_BATCH = 1_024
UNIT = 16 * RECORDS_A_BATCH
"""The unit of the numbers of keys."""
LZ4, LZ4_IN = 3, 10
TAIL = b" a value of forty bytes."

_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHIFTS = np.arange(60, -4, -4, dtype=np.uint64)

Numbers = NDArray[np.uint64]


def record_count(keys: int) -> int:
    return keys + keys // 8


def living(keys: int) -> int:
    """Return the number of keys that have a value at the end."""
    return keys - keys // 16


def newest_offsets(keys: int, numbers: Numbers) -> Numbers:
    """Return the newest offsets of these keys, none of which is deleted."""
    return np.where(numbers % 16 == 8, keys + numbers // 16, numbers)


def make_keys_log(data_dir: Path, keys: int, *, segment_bytes: int) -> None:
    assert keys % UNIT == 0
    write_big_log(data_dir, TP, _batches(keys), records_a_batch=RECORDS_A_BATCH, segment_bytes=segment_bytes)


def snapshot_faults(out: Path, keys: int) -> tuple[int, list[str]]:
    """Return the number of rows, and the errors."""
    seen, rows, faults = np.zeros(keys, np.bool_), 0, list[str]()
    for batch in ds.dataset(out, format="parquet").to_batches(columns=["key", "value", "partition", "offset"]):
        if not batch.num_rows:
            continue
        rows += batch.num_rows
        numbers, offsets = _numbers(batch.column("key"), 16), batch.column("offset").to_numpy()
        expected = newest_offsets(keys, numbers)
        for what, wrong in (
            ("not the newest offset", expected != offsets),
            ("another value", _numbers(batch.column("value"), 40) != expected),
            ("a deleted key", numbers % 16 == 0),
            ("there twice", seen[numbers]),
        ):
            if wrong.any():
                faults.append(f"key {int(numbers[wrong][0]):016x}: {what}")
        seen[numbers] = True
    return rows, faults


def _batches(keys: int) -> Iterator[bytearray]:
    with_value, without = _Template(16 + len(TAIL)), _Template(None)
    offset = 0
    for template, every, first in ((with_value, 1, 0), (with_value, 16, 8), (without, 16, 0)):
        for start in range(first, keys, every * RECORDS_A_BATCH):
            numbers = np.arange(start, start + every * RECORDS_A_BATCH, every, dtype=np.uint64)
            codec = LZ4 if offset // RECORDS_A_BATCH % LZ4_IN == 0 else 0
            yield seal_batch(
                template.block(numbers, offset),
                record_count=RECORDS_A_BATCH,
                base_offset=offset,
                last_offset_delta=RECORDS_A_BATCH - 1,
                attributes=codec,
                base_timestamp=1_000 + offset,
                max_timestamp=1_000 + offset,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                partition_leader_epoch=0,
            )
            offset += RECORDS_A_BATCH


class _Template:
    """The records of a batch, with places for the digits of keys and values."""

    def __init__(self, value_bytes: int | None) -> None:
        block, key_at, value_at = bytearray(), [], []
        for index in range(RECORDS_A_BATCH):
            head = b"\0\0" + varint(index) + varint(16)
            value = b"\1" if value_bytes is None else varint(value_bytes) + bytes(16) + TAIL
            block += varint(len(head) + 16 + len(value) + 1) + head
            key_at.append(len(block))
            block += bytes(16)
            value_at.append(len(block) + 1)
            block += value + b"\0"
        self._block = np.frombuffer(block, np.uint8).copy()
        self._key_at = np.array(key_at)[:, None] + np.arange(16)
        self._value_at = None if value_bytes is None else np.array(value_at)[:, None] + np.arange(16)

    def block(self, numbers: Numbers, offset: int) -> bytes:
        self._block[self._key_at] = _digits(numbers)
        if self._value_at is not None:
            self._block[self._value_at] = _digits(np.arange(offset, offset + len(numbers), dtype=np.uint64))
        return self._block.tobytes()


def _digits(numbers: Numbers) -> NDArray[np.uint8]:
    digits: NDArray[np.uint8] = _DIGITS[(numbers[:, None] >> _SHIFTS) & np.uint64(15)]
    return digits


def _numbers(column: pa.Array, length: int) -> Numbers:
    """Return the numbers in the first 16 digits of the values, which all have this length."""
    text = np.frombuffer(b"".join(column.to_pylist()), np.uint8).reshape(-1, length)[:, :16]
    digits = np.where(text >= ord("a"), text - ord("a") + 10, text - ord("0")).astype(np.uint64)
    numbers: Numbers = (digits << _SHIFTS).sum(axis=1, dtype=np.uint64)
    return numbers
