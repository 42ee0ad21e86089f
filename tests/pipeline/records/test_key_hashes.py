"""Rows by key: equal keys have one hash, different keys have different ones, and every row is in the bucket of its key."""

from __future__ import annotations

import pytest

np = pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pa = pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.records.key_hashes import HASH, by_bucket, by_key, hashed

ROW = np.dtype([*HASH, ("number", "i4")])


def test_rows_of_one_key_are_adjacent() -> None:
    rows = hashed(pa.array([b"%d" % (number % 7) for number in range(50)]), ROW)
    rows["number"] = np.arange(50)
    order, starts = by_key(rows)
    groups = np.split(rows["number"][order], starts[1:])
    assert sorted(sorted(group.tolist()) for group in groups) == [list(range(first, 50, 7)) for first in range(7)]


def test_keys_that_share_half_of_their_hash_are_distinct() -> None:
    rows = np.zeros(4, ROW)
    rows["high"], rows["low"], rows["number"] = 9, [2, 1, 2, 1], [0, 1, 2, 3]
    order, starts = by_key(rows)
    assert [sorted(group.tolist()) for group in np.split(rows["number"][order], starts[1:])] == [[1, 3], [0, 2]]


def test_a_salt_makes_another_key() -> None:
    one, other = (hashed(pa.array([b"k"]), ROW, salt) for salt in (b"", b"1"))
    assert (one["high"], one["low"]) != (other["high"], other["low"])


def test_empty_input_has_no_keys_and_no_buckets() -> None:
    none = np.empty(0, ROW)
    assert [found.tolist() for found in by_key(none)] == [[], []]
    assert list(by_bucket(none, 3)) == []


def test_buckets_contain_all_rows_in_order_and_share_no_key() -> None:
    rows = hashed(pa.array([b"%d" % (number % 40) for number in range(200)]), ROW)
    rows = rows[by_key(rows)[0]]
    found = dict(by_bucket(rows, 6))
    assert b"".join(found.values()) == rows.tobytes()
    keys = [set(np.frombuffer(data, ROW)["high"].tolist()) for data in found.values()]
    assert sum(map(len, keys)) == len(set.union(*keys)) == 40
