"""Batches of records with keys of 16 digits; every record has the timestamp of its batch."""

import random
from collections.abc import Callable, Iterator

from ottla.protocol.batch_builder import seal_batch
from ottla.protocol.varints import append_fields

RECORDS_A_BATCH = 160
LZ4 = 3

OnBatch = Callable[[list[int], bytes, int], None]
"""A callback with a batch's keys, the value of all its records (empty for tombstones), and its size in bytes."""


def make_batches(
    key_of: Callable[[int], int],
    *,
    value_bytes: int,
    size_bytes: int,
    tombstones_in: int = 0,
    lz4_in: int = 0,
    on_batch: OnBatch = lambda _keys, _value, _bytes: None,
) -> Iterator[bytearray]:
    """Yield batches of about `size_bytes` in all.

    Args:
        key_of: The key of a record, by its offset.
        tombstones_in, lz4_in: One batch in this number has only tombstones, or is compressed; 0 for none.
    """
    rng = random.Random(1)
    with_value = [_head(index, value_bytes) for index in range(RECORDS_A_BATCH)]
    without = [_head(index, None) for index in range(RECORDS_A_BATCH)]
    offset = written = number = 0
    while written < size_bytes:
        number += 1
        is_tombstones = tombstones_in > 0 and number % tombstones_in == 0
        heads = without if is_tombstones else with_value
        value = b"" if is_tombstones else rng.randbytes(value_bytes)
        tail = b"\1\0" if is_tombstones else varint(value_bytes) + value + b"\0"
        keys = [key_of(offset + index) for index in range(RECORDS_A_BATCH)]
        batch = seal_batch(
            b"".join([head + b"%016x" % key + tail for head, key in zip(heads, keys, strict=True)]),
            record_count=RECORDS_A_BATCH,
            base_offset=offset,
            last_offset_delta=RECORDS_A_BATCH - 1,
            attributes=LZ4 if lz4_in > 0 and number % lz4_in == 0 else 0,
            base_timestamp=1_000 + offset,
            max_timestamp=1_000 + offset,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            partition_leader_epoch=0,
        )
        on_batch(keys, value, len(batch))
        yield batch
        offset += RECORDS_A_BATCH
        written += len(batch)


def _head(index: int, value_bytes: int | None) -> bytes:
    """Return a record up to its key of 16 bytes."""
    rest = b"\0\0" + varint(index) + varint(16)
    value = b"\1" if value_bytes is None else varint(value_bytes) + bytes(value_bytes)
    return varint(len(rest) + 16 + len(value) + 1) + rest


def varint(value: int) -> bytes:
    out = bytearray()
    append_fields(out, [value])
    return bytes(out)
