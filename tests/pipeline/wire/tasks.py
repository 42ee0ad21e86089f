"""Records as Spark's tasks get them, in tasks and batches that are split anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("deleted", pa.bool_()),
        ("time", pa.int64()),
        ("value", pa.int64()),
    ]
)


class Record(NamedTuple):
    """A row of `scanned.frame_of`."""

    partition: int
    offset: int
    key: bytes | None
    deleted: bool
    time: int
    value: int


def tasks(rng: random.Random, records: Sequence[Record]) -> Iterator[list[pa.RecordBatch]]:
    """Yield the batches of each task: one or several ranges of one partition, in order of the offset."""
    for partition in sorted({each.partition for each in records}):
        own = [each for each in records if each.partition == partition]
        while own:
            cut = rng.randint(1, len(own))
            yield list(batches(rng, own[:cut]))
            own = own[cut:]


def batches(rng: random.Random, records: Sequence[Record]) -> Iterator[pa.RecordBatch]:
    left = list(records)
    while left:
        cut = rng.randint(1, min(5, len(left)))
        yield pa.RecordBatch.from_pylist([each._asdict() for each in left[:cut]], schema=SCHEMA)
        left = left[cut:]
