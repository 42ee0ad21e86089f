"""The first record of a batch from a timestamp and an offset on: the kernel finds the same as a reader of all records."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import CorruptRecordError
from ottla.protocol.records import HEADER_BYTES, Record, RecordBatch
from ottla.storage.kernel import Found
from support.cleaner.kernels import INTERPRETED, both
from support.sizes import size

EVER = -(1 << 63)


def block_of(*rows: tuple[int, int]) -> bytes:
    """Return the bytes of records (offset delta, timestamp), with base timestamp 0."""
    return bytes(build_batch([(*row, b"k", b"v", ()) for row in rows], base_offset=0, base_timestamp=0)[HEADER_BYTES:])


# Offset deltas have gaps, as after cleaning. Timestamps need not increase.
BLOCK = block_of((0, 10), (3, 30), (4, 20), (9, 40))
CASES: list[tuple[int, int, tuple[int, int, int]]] = [
    (EVER, 0, (Found.SOUGHT, 0, 10)),
    (10, 0, (Found.SOUGHT, 0, 10)),
    (11, 0, (Found.SOUGHT, 3, 30)),
    (11, 4, (Found.SOUGHT, 4, 20)),
    (EVER, 1, (Found.SOUGHT, 3, 30)),
    (31, -5, (Found.SOUGHT, 9, 40)),
    (40, 9, (Found.SOUGHT, 9, 40)),
    (41, 0, (Found.SOUND, 4, 0)),
    (EVER, 10, (Found.SOUND, 4, 0)),
]


@both
@pytest.mark.parametrize(("earliest", "least_delta", "found"), CASES)
def test_the_first_record_at_or_after_both_is_found(
    kernel: ModuleType, earliest: int, least_delta: int, found: tuple[int, int, int]
) -> None:
    assert kernel.find_record(BLOCK, 4, 0, earliest, least_delta) == found


@both
def test_an_unreadable_record_is_reported_with_its_number(kernel: ModuleType) -> None:
    assert kernel.find_record(BLOCK[:-1], 4, 0, 40, 0) == (Found.DAMAGED, 3, 0)
    assert kernel.find_record(BLOCK, 2**31 - 1, 0, 41, 0) == (Found.DAMAGED, 4, 0)
    assert kernel.find_record(BLOCK, 3, 0, 41, 0) == (Found.LEFT_OVER, 3, 0)
    assert kernel.find_record(b"", 0, 0, 0, 0) == (Found.SOUND, 0, 0)


@both
def test_timestamps_wrap_at_64_bits_as_in_java(kernel: ModuleType) -> None:
    assert kernel.find_record(block_of((0, 5)), 1, (1 << 63) - 1, EVER, 0) == (Found.SOUGHT, 0, EVER + 4)


@settings(max_examples=size(35, 300), deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2**40)), max_size=6),
    earliest=st.integers(0, 2**40) | st.just(0),
    least_delta=st.integers(-1, 12),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=2),
)
def test_both_kernels_find_in_any_bytes_the_records_of_a_reader(
    rows: Any, earliest: int, least_delta: int, changes: Any
) -> None:
    from ottla.storage import kernel as installed

    offset, placed = -1, []
    for step, timestamp in rows:
        offset += step
        placed.append((offset, timestamp, b"k", b"v", ()))
    made = build_batch(placed, base_offset=0, base_timestamp=0)
    for at, byte in changes:
        if len(made) > HEADER_BYTES:
            made[HEADER_BYTES + at % (len(made) - HEADER_BYTES)] = byte
    block = bytes(made[HEADER_BYTES:])
    found = installed.find_record(block, len(rows), 0, earliest, least_delta)

    assert INTERPRETED.find_record(block, len(rows), 0, earliest, least_delta) == found

    read: list[Record] = []
    is_whole = False
    with suppress(CorruptRecordError):
        read.extend(RecordBatch(made).records())
        is_whole = True
    match = next((one for one in read if one.timestamp >= earliest and one.offset >= least_delta), None)
    if is_whole:
        assert found[1:] == (match.offset, match.timestamp) if match else found[0] == Found.SOUND
