"""The number of buckets, and rows that are stored in parts, in memory or on disk."""

from __future__ import annotations

import random

import pytest

np = pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.records.fine_buckets import ROW_BYTES_MIN, WORTH_A_ROW_BYTES, Buckets, Parted, buckets_for
from ottla.pipeline.records.key_hashes import HASH, by_bucket
from support.noted import each_case

MIB, TB = 1 << 20, 10**12

CASES = {
    "nothing": ((0, 0, 1), (1, 1)),
    "little in a few segments is for one task": ((MIB // 4, 100, 1), (1, 1)),
    "500 MB of log in eight segments, on two cores": ((80 * MIB, 8, 2), (3, 1)),
    "the same on a hundred": ((80 * MIB, 8, 100), (100, 1)),
    "ten thousand tiny segments, on a hundred": ((25 * MIB, 10_000, 100), (1, 1)),
    "ten thousand segments of 10 TB, on a hundred": ((16 * TB // 10, 10_000, 100), (2_442, 20)),
    "the same on five thousand": ((16 * TB // 10, 10_000, 5_000), (5_000, 10)),
}


@pytest.mark.parametrize("case", CASES)
def test_buckets_are_as_many_as_the_data_is_worth(case: str) -> None:
    (entries_bytes, sources, at_once), expected = CASES[case]
    assert buckets_for(entries_bytes, sources, 32 * MIB, at_once) == expected


@given(st.integers(0, 10**15), st.integers(1, 10**6), st.integers(1, 10**5))
def test_rows_are_linear_in_the_data_and_no_bucket_is_too_large(entries_bytes: int, sources: int, at_once: int) -> None:
    coarse, fine = buckets_for(entries_bytes, sources, 32 * MIB, at_once)
    assert coarse * sources <= entries_bytes // ROW_BYTES_MIN + sources
    assert entries_bytes <= coarse * fine * 32 * MIB
    assert at_once > coarse or coarse * sources <= entries_bytes // WORTH_A_ROW_BYTES + sources or coarse == at_once


def test_fine_buckets_lie_in_the_coarse_ones() -> None:
    rows = np.zeros(3_000, np.dtype(HASH))
    rows["high"] = np.sort(np.random.default_rng(1).integers(0, 2**64, 3_000, np.uint64))
    rows["high"][-1] = 2**64 - 1
    buckets = Buckets(7, 9)
    fine = buckets.bucket_numbers(rows["high"])
    assert fine.tolist() == sorted(fine.tolist())
    assert (fine.min(), fine.max()) == (0, 62)
    of_coarse = [bucket for bucket, data in by_bucket(rows, 7) for _ in range(len(data) // rows.itemsize)]
    assert (fine // np.uint64(9)).tolist() == of_coarse


@each_case("parts", [1, 2, 13, 300])
@each_case("held_bytes", [1, 2_000, 10**9])
def test_each_part_has_its_rows_in_their_order(parts: int, held_bytes: int) -> None:
    rng = random.Random(f"{parts} {held_bytes}")
    put_by, model = Parted(parts, held_bytes), dict[int, list[tuple[tuple[int, int], int]]]()
    for _ in range(20):
        rows = [
            ((rng.getrandbits(64), rng.getrandbits(64)), rng.getrandbits(31)) for _ in range(rng.choice((0, 1, 40)))
        ]
        part_of = np.array([rng.randrange(min(parts, 200)) for _ in rows], np.uint64)
        for part, row in zip(part_of.tolist(), rows, strict=True):
            model.setdefault(part, []).append(row)
        entries = np.array([pair for pair, _ in rows], np.uint64).reshape(-1, 2)
        put_by.add(part_of, (entries, np.array([number for _, number in rows], np.uint32)))
    found = [
        [((int(one), int(other)), int(number)) for (one, other), number in zip(*columns, strict=True)]
        for columns in put_by.each()
    ]
    assert found == [model[part] for part in sorted(model)]


def test_rows_with_fields_go_to_disk_as_they_are() -> None:
    rows = np.zeros(50, np.dtype([*HASH, ("offset", "i8"), ("is_deleted", "u1")]))
    rows["offset"], rows["is_deleted"] = np.arange(50), np.arange(50) % 3 == 0
    put_by = Parted(3, 1)
    for first in (0, 20):
        own = rows[first : first + 20 + first]
        put_by.add(own["offset"] % 3, (own,))
    assert [own["offset"].tolist() for (own,) in put_by.each()] == [[*range(part, 50, 3)] for part in range(3)]


def test_nothing_added_is_no_part() -> None:
    assert list(Parted(4, 1).each()) == []


def test_a_file_that_was_cut_is_an_error() -> None:
    put_by = Parted(2, 1)
    put_by.add(np.array([0, 1]), (np.array([7, 8]),))
    assert put_by._file is not None
    put_by._file.truncate(8)
    with pytest.raises(OSError, match="truncated while in use"):
        list(put_by.each())
