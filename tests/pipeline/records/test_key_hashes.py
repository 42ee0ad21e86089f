"""Rows by key: equal keys have one hash, different keys have different ones, and every row is in the bucket of its key."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from types import ModuleType

import pytest

np = pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pa = pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from hypothesis import given
from hypothesis import strategies as st

from ottla.pipeline.records import key_hashes
from ottla.pipeline.records.key_hashes import HASH, by_bucket, by_key, hashed
from support.cleaner.kernels import both

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


@both
@given(st.lists(st.binary(max_size=20) | st.binary(min_size=100, max_size=300), max_size=5), st.binary(max_size=16))
def test_a_hash_is_that_of_hashlib(kernel: ModuleType, keys: list[bytes], salt: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_hashes, "digests", kernel.digests)
        rows = hashed(pa.array([b"another", *keys], pa.binary())[1:], ROW, salt)
    expected = [blake2b(key, digest_size=16, salt=salt).digest() for key in keys]
    assert [row["high"].tobytes() + row["low"].tobytes() for row in rows] == expected


@both
def test_bytes_outside_the_buffer_are_not_hashed(kernel: ModuleType) -> None:
    words = [memoryview(array("q", [value])) for value in (-1, 0, 3, 4, 5)]
    out = memoryview(array("Q", [0, 0]))
    for place, size in ((0, 2), (2, 0), (2, 2), (3, 1), (4, 1), (1, 4), (1, 0)):
        with pytest.raises(IndexError):
            kernel.digests(b"key", words[place], words[size], b"", out)
    with pytest.raises(IndexError):
        kernel.digests(b"key", words[1], words[2], b"", memoryview(array("Q", [0])))
    kernel.digests(b"key", words[1], words[2], b"", out)
    assert out.tobytes() == blake2b(b"key", digest_size=16).digest()


def test_a_null_has_no_hash() -> None:
    with pytest.raises(ValueError, match="a key without bytes"):
        hashed(pa.array([b"a", None], pa.binary()), ROW)
