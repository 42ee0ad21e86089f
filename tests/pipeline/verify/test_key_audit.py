"""Rows of keys that are processed in parts give the same result as together."""

from __future__ import annotations

import random

import pytest

np = pytest.importorskip("numpy", reason="needs the extra ottla[spark]")
pa = pytest.importorskip("pyarrow", reason="needs the extra ottla[spark]")

from ottla.pipeline.records.key_hashes import by_bucket
from ottla.pipeline.verify.key_audit import KEY_ROW, LEFT, LOST_NEWEST, KeyRows, KeyTable, from_bytes, judge, merge

RECORDS, AT_ONCE = 600, 64


def rows_of(rows_at_once: int, keys: int) -> list[KeyRows]:
    """Return the parts of a log with `keys` keys, in which records are left, or excused, at random."""
    rng = random.Random(keys)
    table = KeyTable(clean_end=500, dirty_from=100, rows_at_once=rows_at_once)
    found = []
    for first in range(0, RECORDS, 20):
        names = [b"k%d" % rng.randrange(keys) for _ in range(20)]
        left, excused = (np.array([rng.random() < 0.5 for _ in names]) for _ in range(2))
        table.add(pa.array(names, pa.binary()), np.arange(first, first + 20), left, excused & ~left)
        found.append(table.overflow())
    return [*found, table.remaining_rows()]


@pytest.mark.parametrize("keys", [5, 40, 500])
def test_parts_merge_to_the_result_of_one_piece(keys: int) -> None:
    whole, parts = rows_of(RECORDS, keys), rows_of(AT_ONCE, keys)
    assert sum(map(len, whole[:-1])) == 0
    assert any(map(len, parts[:-1])) == (keys > AT_ONCE // 2), "few keys stay until the end"
    assert max(map(len, parts)) < 2 * AT_ONCE
    expected = whole[-1]
    assert merge(parts).tobytes() == expected.tobytes()
    assert judge(expected, dirty_from=100, at_most=1_000)[0] > 0


def test_buckets_are_judged_as_all_of_it(keys: int = 300) -> None:
    rows = rows_of(RECORDS, keys)[-1]
    count, verdicts = judge(rows, dirty_from=100, at_most=1_000)
    found = [judge(from_bytes(data), dirty_from=100, at_most=1_000) for _, data in by_bucket(rows, 7)]
    assert len(found) == 7
    assert sum(each for each, _ in found) == count
    assert sorted(each for _, some in found for each in some) == sorted(verdicts)


VERSIONS = {
    "sound": ([(1, 9, True), (2, 3, False), (3, 5, False)], []),
    "the newest is lost": ([(1, 9, False), (2, 3, True)], [(LOST_NEWEST, 1)]),
    "an earlier record is left": ([(1, 3, True), (2, 9, True), (3, 5, False)], [(LEFT, 1)]),
    "a later record is left": ([(1, 9, True), (2, 3, False), (3, 5, True)], [(LEFT, 3)]),
    "the offset decides between equal versions": ([(1, 9, True), (2, 9, False)], [(LOST_NEWEST, 2)]),
    "a record of the dirty part has a higher version": ([(1, 5, False), (12, 9, True)], []),
    "a record of the dirty part has a lower version": ([(1, 5, False), (12, 4, True)], [(LOST_NEWEST, 1)]),
    "the dirty part does not excuse an earlier record": ([(1, 3, True), (2, 5, True), (12, 9, True)], [(LEFT, 1)]),
}


@pytest.mark.parametrize("case", VERSIONS)
@pytest.mark.parametrize("rows_at_once", [1, 100])
def test_the_highest_version_is_the_newest_record(case: str, rows_at_once: int) -> None:
    """Records are (offset, version, whether it is left)."""
    records, expected = VERSIONS[case]
    table = KeyTable(clean_end=10, dirty_from=0, has_versions=True, rows_at_once=rows_at_once)
    found = []
    for offset, version, is_left in records:
        one = np.array([offset]), np.array([is_left]), np.array([False]), np.array([version])
        table.add(pa.array([b"k"], pa.binary()), *one)
        found.append(table.overflow())
    rows = merge([each for each in [*found, table.remaining_rows()] if len(each)])
    again = from_bytes(rows.tobytes(), has_versions=True)
    assert [each[:2] for each in judge(again, dirty_from=0, at_most=9)[1]] == expected


def test_keys_that_share_half_of_their_hash_stay_separate() -> None:
    rows = np.zeros(6, KEY_ROW)
    rows["high"], rows["low"] = 7, [1, 2, 1, 2, 3, 1]
    rows["last"], rows["last_ok"] = [10, 21, 30, 11, 12, 20], [1, 1, 0, 0, 1, 1]
    merged = merge([rows])
    assert merged["low"].tolist() == [1, 2, 3]
    assert merged["last"].tolist() == [30, 21, 12]
    assert merged["last_ok"].tolist() == [0, 1, 1]
