"""Two topics key by key: results of tasks and buckets, compared with a model in plain lists, and differences' names."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

import pickle

from ottla.pipeline.wire.differences import COUNT, MISSING, ORDER, VALUE, SideName, difference, has_moved
from ottla.pipeline.wire.equal import (
    Differing,
    FirstLook,
    KeyComparison,
    Newest,
    Version,
    blobs_of,
    judged_blobs,
    look_of,
)
from ottla.pipeline.wire.key_rows import NEWEST, OLDEST
from support.noted import each_case
from support.sizes import size

from .tasks import Record, tasks

PLACES = (SideName("s", "h:1"), SideName("m", "h:2"))


def looked(sides: Sequence[Sequence[Record]], asked: KeyComparison, rng: random.Random) -> FirstLook:
    """Run tasks and buckets, as on Spark."""
    buckets = rng.randint(1, 3)
    blobs = [
        ((bucket,), memoryview(data))
        for side, records in enumerate(sides)
        for batches in tasks(rng, records)
        for bucket, data in blobs_of(iter(batches), side, asked, buckets, rows_at_once=rng.choice((1, 4, 1_000)))
    ]
    rng.shuffle(blobs)
    return look_of([pickle.loads(each) for each in judged_blobs(iter(blobs), asked)])


def history(rng: random.Random) -> list[Record]:
    found = []
    for partition in range(2):
        for offset in range(rng.randrange(30)):
            key = rng.choice((None, b"", b"a", b"b", b"c", b"d"))
            found.append(Record(partition, offset, key, rng.random() < 0.2, offset, rng.choice((1, -1, -(1 << 63)))))
    return found


def changed(rng: random.Random, records: Sequence[Record]) -> list[Record]:
    """Return a mirror: other offsets, and sometimes a fault."""
    found = [each._replace(offset=each.offset * 3 + 7) for each in records]
    for _ in range(rng.randrange(3)):
        if not found:
            break
        number = rng.randrange(len(found))
        match rng.randrange(3):
            case 0:
                del found[number]
            case 1:
                found[number] = found[number]._replace(value=5)
            case _:
                other = rng.randrange(len(found))
                one, two = found[number], found[other]
                found[number] = two._replace(partition=one.partition, offset=one.offset)
                found[other] = one._replace(partition=two.partition, offset=two.offset)
    return found


def model(sides: Sequence[Sequence[Record]], asked: KeyComparison) -> int:
    """Return how many keys differ."""
    of: list[dict[tuple[int, bytes | None], list[tuple[int, bool]]]] = []
    for records in sides:
        own = defaultdict[tuple[int, bytes | None], list[tuple[int, bool]]](list)
        for each in records:
            if each.key is not None or asked.every_version:
                own[each.partition, each.key].append((each.value, each.deleted))
        of.append(own)
    count = 0
    for key in of[0].keys() | of[1].keys():
        here, there = (own.get(key, []) for own in of)
        if asked.every_version:
            count += here != there
        else:
            newest = [None if not own or own[-1][1] else own[-1] for own in (here, there)]
            count += newest[0] != newest[1]
    return count


@each_case("every_version", [False, True])
@each_case("seed", range(size(6, 40)))
def test_the_number_of_differing_keys_equals_a_models(seed: int, every_version: bool) -> None:
    rng = random.Random(seed)
    here = history(rng)
    sides = (here, changed(rng, here))
    asked = KeyComparison(by_time=False, every_version=every_version)
    look = looked(sides, asked, rng)
    assert look.differing == len(look.named) == model(sides, asked)
    for side, records in enumerate(sides):
        for partition in {each.partition for each in records if each.key is not None}:
            own = [each for each in records if each.partition == partition and (every_version or each.key is not None)]
            seen = look.sides[side, partition]
            assert seen == (len(own), len({each.key for each in own}))


def test_with_different_partition_counts_the_latest_record_of_a_key_counts() -> None:
    here = [Record(0, 0, b"a", False, 10, 1), Record(1, 9, b"a", False, 5, 2)]
    there = [Record(2, 7, b"a", False, 10, 1)]
    asked = KeyComparison(by_time=True, every_version=False)
    assert looked((here, there), asked, random.Random(1)).differing == 0
    there = [Record(2, 7, b"a", False, 10, 2)]
    (named,) = looked((here, there), asked, random.Random(1)).named
    assert (named.here, named.there) == (Newest(0, 0), Newest(2, 7))


def test_the_bytes_moved_per_key_are_those_in_the_docs() -> None:
    assert (OLDEST.itemsize, NEWEST.itemsize) == (36, 62)


def version(offset: int, value: int | None) -> Version:
    return Version((0, offset), 0, offset, value or 0, value is None)


def versions(*values: int | None, start: int = 0) -> list[Version]:
    return [version(start + number, value) for number, value in enumerate(values)]


@each_case(
    "here, there, rule, actual",
    [
        ((), (1,), MISSING, "no record of it"),
        ((1,), (), MISSING, "no record of it"),
        ((1, None), (1,), MISSING, "a tombstone"),
        ((1,), (1, None), MISSING, "a tombstone"),
        ((1, 2), (1, 3), VALUE, "another value"),
        ((1,), (1, 2), VALUE, "an older value, that of offset 100 there"),
        ((1, 2), (1,), VALUE, "a newer one: that value is at offset 0 here"),
        ((1, 2), (2, 1), ORDER, "the same in another order: that is at offset 0 here, this at 100 there"),
        ((1, 2), (2,), None, ""),
        ((None,), (), None, ""),
        ((None,), (3, None), None, ""),
        ((), (), None, ""),
    ],
)
def test_a_difference_of_newest_values_is_named(
    here: tuple[int | None, ...], there: tuple[int | None, ...], rule: str | None, actual: str
) -> None:
    found = difference(b"k", versions(*here), versions(*there, start=100), PLACES, every_version=False)
    assert (None if found is None else found.rule) == rule
    assert found is None or (found.actual, found.key) == (actual, b"k")


@pytest.mark.parametrize(
    ("here", "there", "rule", "says"),
    [
        ((1, 2, 3), (2, 1, 3), ORDER, "s-0 at h:1, offset 0, key b'k': expected what is at offset 100 of m-0 at h:2"),
        ((1, 3), (1, 2, 3), COUNT, "found 2; that of offset 101 of m-0 at h:2 is not on the other side"),
        ((1, 1), (1,), COUNT, "found 2; that of offset 0 of s-0 at h:1 is not on the other side"),
        ((None,), (), COUNT, "expected 0 versions"),
        ((), (None,), COUNT, "expected 1 versions"),
        ((1, 2), (1, 2), None, ""),
    ],
)
def test_the_first_different_version_is_named(
    here: tuple[int | None, ...], there: tuple[int | None, ...], rule: str | None, says: str
) -> None:
    found = difference(b"k", versions(*here), versions(*there, start=100), PLACES, every_version=True)
    assert (None if found is None else found.rule) == rule
    assert says in str(found)


@pytest.mark.parametrize(
    ("here", "there", "moved"),
    [((1,), (1, 2), False), ((1,), (1, 2, 3), True), ((1, 1), (1, 2), True), ((), (1, 2), True)],
)
def test_a_key_whose_newest_record_is_elsewhere_has_moved(
    here: tuple[int, ...], there: tuple[int, ...], moved: bool
) -> None:
    before = Differing(0, 1, 2, Newest(0, 0), Newest(0, 101))
    assert has_moved(before, versions(*here), versions(*there, start=100)) is moved
    alone = Differing(0, 1, 2, None, Newest(0, 101))
    assert has_moved(alone, [], versions(1, 2, start=100)) is False
    assert has_moved(alone, versions(1), versions(1, 2, start=100)) is True
