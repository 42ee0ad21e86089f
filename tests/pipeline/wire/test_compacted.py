"""One topic alone: the results of tasks and buckets, compared with a model in plain lists."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ottla[spark]'")

import pickle

from ottla.pipeline.verify.key_audit import LEFT
from ottla.pipeline.wire.compacted import (
    NO_KEY,
    STALE,
    JudgedPartition,
    Keys,
    Known,
    SeenPartition,
    blobs_of,
    conclude,
    findings_of,
    judged_blobs,
)
from support.noted import each_case
from support.sizes import size

from .tasks import Record, tasks


def judged(
    records: Sequence[Record],
    known: Known,
    bounds: tuple[int, int],
    *,
    by_gaps: bool = False,
    rng: random.Random | None = None,
) -> JudgedPartition:
    """Run tasks and buckets, as on Spark."""
    rng = rng or random.Random(1)
    buckets = rng.randint(1, 3)
    blobs = [
        ((bucket,), memoryview(data))
        for batches in tasks(rng, records)
        for bucket, data in blobs_of(iter(batches), {0: known}, buckets, rows_at_once=rng.choice((1, 4, 1_000)))
    ]
    rng.shuffle(blobs)
    seen, keys = SeenPartition(), Keys()
    for is_seen, found in map(pickle.loads, judged_blobs(iter(blobs), {0: known})):
        (seen if is_seen else keys).add(found[0])
    return conclude(seen, keys, known, bounds, by_gaps=by_gaps)


def of(offset: int, key: bytes | None, *, deleted: bool = False, time: int = 0) -> Record:
    return Record(0, offset, key, deleted, time, offset)


@each_case("seed", range(size(6, 40)))
def test_findings_equal_those_of_a_model(seed: int) -> None:
    rng = random.Random(seed)
    records = [
        of(offset, rng.choice((None, b"", b"a", b"b", b"c", b"%d" % offset)), deleted=rng.random() < 0.3, time=rng.randrange(50))
        for offset in range(10, 60)
        if rng.random() < rng.choice((0.2, 0.9))
    ]  # fmt: skip
    stale_after_ms = rng.randrange(0, 30)
    known = Known(rng.randrange(10, 61), "said", rng.randrange(10, 61), stale_after_ms)
    found = judged(records, known, (10, 60), rng=rng)
    places = defaultdict[bytes, list[int]](list)
    for each in records:
        if each.key is not None:
            places[each.key].append(each.offset)
    twice = sorted((own[1], own[0]) for own in places.values() if len(own) > 1)
    assert found.keys.pairs == twice and found.keys.keys == len(places)
    assert found.compacted_up_to == (twice[0][0] if twice else None)
    no_key = [each.offset for each in records if each.key is None and each.offset < known.clean_end]
    timed = [each for each in records if each.offset < known.timed_end]
    newest_ms = max((each.time for each in timed), default=-1)
    stale = [each.offset for each in timed if each.deleted and each.time + stale_after_ms < newest_ms]
    left = [first for second, first in twice if second < known.clean_end]
    expected = [(LEFT, first) for first in left] + [(NO_KEY, at) for at in no_key[:1]] + [(STALE, at) for at in stale]
    assert sorted((rule, offset) for rule, offset, _ in found.places) == sorted(expected)
    assert found.finding_count == len(left) + len(no_key) + len(stale)
    assert found.seen.records == len(records) and found.seen.tombstones == sum(each.deleted for each in records)


@each_case(
    "offsets, bounds, clean_end",
    [
        ((5, 6, 7), (5, 8), 0),  # nothing is missing
        ((5, 7), (5, 8), 7),
        ((6, 7), (5, 8), 6),  # the first
        ((5, 6), (5, 9), 9),  # the last
        ((), (5, 8), 8),
        ((), (5, 5), 0),
    ],
)
@each_case("seed", range(5))
def test_without_transactions_the_last_missing_offset_was_removed_by_the_cleaner(
    offsets: tuple[int, ...], bounds: tuple[int, int], clean_end: int, seed: int
) -> None:
    records = [of(offset, b"k%d" % offset) for offset in offsets]
    assert judged(records, Known(), bounds, by_gaps=True, rng=random.Random(seed)).clean_end == clean_end


def test_only_a_superseded_record_below_a_missing_offset_is_reported() -> None:
    records = [of(0, b"a"), of(1, b"b"), of(2, b"a"), of(5, b"c"), of(6, b"c"), of(7, b"b")]
    found = judged(records, Known(), (0, 8), by_gaps=True)
    (finding,) = findings_of(found, "t-0 at h:1", {0: b"a"})
    assert str(finding) == (
        f"{LEFT}: t-0 at h:1, offset 0, key b'a': expected only its key's newest record below 5, as at offset 2,"
        " found also this one"
    )
    assert judged(records, Known(), (0, 8)).finding_count == 0
