"""A log of any size with updates, tombstones and two codecs, and the expected contents of a snapshot."""

import random
from array import array
from pathlib import Path

import pyarrow.dataset as ds

from ottla.storage.disk.paths import TopicPartition

from ..support.logs.batches import RECORDS_A_BATCH, make_batches
from ..support.logs.big_log import write_big_log

TP = TopicPartition("big", 0)
VALUE_BYTES = 76
TOMBSTONES_IN = 20
"""Batches of which one is all tombstones."""
LZ4_IN = 10
"""Batches of which one is compressed."""


class BigLog:
    """The contents of the log: the newest offset of each key, the value of each batch."""

    def __init__(self, keys: int, seed: int = 1) -> None:
        self.newest = array("q", [-1]) * keys
        """Offset of the key's newest record; -1 if it has none."""
        self.values: list[bytes] = []
        """The value of each batch, which all its records have; empty for tombstones."""
        self._keys = keys
        self._rng = random.Random(seed)

    def write(self, data_dir: Path, size_bytes: int, *, segment_bytes: int) -> None:
        """Write about `size_bytes` of batches."""
        batches = make_batches(
            lambda _: self._rng.randrange(self._keys),
            value_bytes=VALUE_BYTES,
            size_bytes=size_bytes,
            tombstones_in=TOMBSTONES_IN,
            lz4_in=LZ4_IN,
            on_batch=self._note,
        )
        write_big_log(data_dir, TP, batches, records_a_batch=RECORDS_A_BATCH, segment_bytes=segment_bytes)

    def living(self) -> int:
        """Return the number of keys that have a value."""
        return sum(offset >= 0 and bool(self.values[offset // RECORDS_A_BATCH]) for offset in self.newest)

    def snapshot_faults(self, out: Path) -> tuple[int, list[str]]:
        """Return the number of keys, and the errors, e.g. a key that exists twice."""
        seen, rows, faults = bytearray(self._keys), 0, list[str]()
        for batch in ds.dataset(out, format="parquet").to_batches(columns=["key", "value", "offset"]):
            for key, value, offset in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                number = int(key, 16)
                if seen[number] or self.newest[number] != offset or value != self.values[offset // RECORDS_A_BATCH]:
                    faults.append(f"{key!r} at offset {offset}")
                seen[number] = 1
            rows += batch.num_rows
        return rows, faults

    def _note(self, keys: list[int], value: bytes, _: int) -> None:
        first = len(self.values) * RECORDS_A_BATCH
        for index, key in enumerate(keys):
            self.newest[key] = first + index
        self.values.append(value)
