"""A log of any size with updates, tombstones and two codecs, and what a snapshot of it must hold."""

import random
from array import array
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds

from ottla.protocol.batch_builder import seal_batch
from ottla.protocol.varints import append_varint
from ottla.storage.paths import TopicPartition

from ..support.big_log import write_big_log

TP = TopicPartition("big", 0)
RECORDS_A_BATCH = 160
VALUE_BYTES = 76
TOMBSTONES_IN = 20
"""Batches of which one is all tombstones."""
LZ4 = 3
LZ4_IN = 10
"""Batches of which one is compressed."""


class BigLog:
    """What was written: of each key its newest offset, of each batch its value."""

    def __init__(self, keys: int, seed: int = 1) -> None:
        self.newest = array("q", [-1]) * keys
        """Offset of the key's newest record; -1 if it has none."""
        self.values: list[bytes] = []
        """Of each batch, whose records all have it; empty for tombstones."""
        self._keys = keys
        self._rng = random.Random(seed)

    def write(self, data_dir: Path, size_bytes: int, *, segment_bytes: int) -> None:
        """Write about `size_bytes` of batches."""
        batches = self._batches(size_bytes)
        write_big_log(data_dir, TP, batches, records_a_batch=RECORDS_A_BATCH, segment_bytes=segment_bytes)

    def living(self) -> int:
        """Keys that have a value."""
        return sum(offset >= 0 and bool(self.values[offset // RECORDS_A_BATCH]) for offset in self.newest)

    def snapshot_faults(self, out: Path) -> tuple[int, list[str]]:
        """How many keys there are, and what is wrong with them; a key that is there twice is."""
        seen, rows, faults = bytearray(self._keys), 0, list[str]()
        for batch in ds.dataset(out, format="parquet").to_batches(columns=["key", "value", "offset"]):
            for key, value, offset in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number = int(key, 16)
                if seen[number] or self.newest[number] != offset or value != self.values[offset // RECORDS_A_BATCH]:
                    faults.append(f"{key!r} at offset {offset}")
                seen[number] = 1
            rows += batch.num_rows
        return rows, faults

    def _batches(self, size_bytes: int) -> Iterator[bytearray]:
        """Every record has the timestamp of its batch."""
        rng, keys, newest = self._rng, self._keys, self.newest
        with_value = [_head(index, VALUE_BYTES) for index in range(RECORDS_A_BATCH)]
        without = [_head(index, None) for index in range(RECORDS_A_BATCH)]
        offset = written = number = 0
        while written < size_bytes:
            number += 1
            is_tombstones = number % TOMBSTONES_IN == 0
            heads = without if is_tombstones else with_value
            value = b"" if is_tombstones else rng.randbytes(VALUE_BYTES)
            self.values.append(value)
            tail = b"\1\0" if is_tombstones else _varint(VALUE_BYTES) + value + b"\0"
            parts = []
            for index, head in enumerate(heads):
                key = rng.randrange(keys)
                newest[key] = offset + index
                parts.append(head + b"%016x" % key + tail)
            batch = seal_batch(
                b"".join(parts),
                record_count=RECORDS_A_BATCH,
                base_offset=offset,
                last_offset_delta=RECORDS_A_BATCH - 1,
                attributes=LZ4 if number % LZ4_IN == 0 else 0,
                base_timestamp=1_000 + offset,
                max_timestamp=1_000 + offset,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                partition_leader_epoch=0,
            )
            yield batch
            written += len(batch)
            offset += RECORDS_A_BATCH


def _head(index: int, value_bytes: int | None) -> bytes:
    """A record up to its key of 16 bytes."""
    rest = b"\0\0" + _varint(index) + _varint(16)
    value = b"\1" if value_bytes is None else _varint(value_bytes) + bytes(value_bytes)
    return _varint(len(rest) + 16 + len(value) + 1) + rest


def _varint(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)
