"""Pictures of logs, compared with the logs."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from ottla.storage.cleaning.eligibility import assess_in_pieces
from ottla.storage.logs.log import Log
from ottla.storage.pictures.capturing import picture_in_pieces
from ottla.storage.pictures.contents import BATCH_BYTES_MAX, UNPACKED_BYTES_MAX, RangeScan
from ottla.storage.pictures.log_picture import Bar, Contents, LogPicture, Part
from ottla.storage.steps import to_the_end
from support.logs.make_log import Producer, all_batches, append, clean, log_with_holes, make_log
from support.noted import each_case


def picture(log: Log, checkpoint: int | None = None, now_ms: int = 2_000, **options: Any) -> LogPicture:
    found = to_the_end(assess_in_pieces(log, checkpoint, now_ms))
    return to_the_end(picture_in_pieces(log, found, **options))


def parts(found: LogPicture) -> str:
    """Return the first letters of the parts."""
    return "".join(bar.part[0] for bar in found.bars)


def test_an_empty_log_is_one_empty_active_segment() -> None:
    found = picture(make_log())
    assert found.bars == (Bar(part=Part.ACTIVE, base_offset=0, end_offset=0, size_bytes=0),)
    assert (found.segments, found.size_bytes, found.log_end_offset) == (1, 0, 0)


def test_segments_are_clean_dirty_held_and_active() -> None:
    log = make_log(min_compaction_lag_ms=500)
    for number in range(6):
        append(log, ("k", "v"), timestamp=1_000 + 100 * number, roll=number < 5)
    found = picture(log, checkpoint=2, now_ms=1_850)
    assert parts(found) == "ccddha"
    assert (found.first_dirty_offset, found.upper_offset, found.first_uncleanable_offset) == (2, 4, 4)
    assert (found.bound_by, found.log_end_offset, found.high_watermark) == ("min_compaction_lag", 6, 6)
    assert [bar.size_bytes for bar in found.bars] == [segment.size_bytes for segment in log.segments]


def test_records_after_an_open_transaction_are_held() -> None:
    log = make_log()
    append(log, ("k", "v"), roll=True)
    Producer(log, 7, transactional=True).write("a")
    log.roll(1_000)
    append(log, ("k", "v"))
    found = picture(log)
    assert parts(found) == "dha"
    assert (found.last_stable_offset, found.high_watermark, found.bound_by) == (1, 3, "open_transaction")


def test_a_log_that_is_not_compacted_has_closed_segments() -> None:
    log = make_log(cleanup_policy=("delete",))
    append(log, ("k", "v"), roll=True)
    assert parts(picture(log)) == "ca"
    assert picture(log).bars[0].part is Part.CLOSED


@each_case("count", [1, 7, 60, 61, 500])
@each_case("bars_max", [1, 60, 240])
def test_bundles_lose_nothing_and_keep_the_order(count: int, bars_max: int) -> None:
    rng = random.Random(count)
    log = make_log(min_compaction_lag_ms=500)
    for number in range(count):
        append(log, ("k", "v" * rng.randrange(100)), timestamp=1_000 + number, roll=number < count - 1)
    when = {"checkpoint": count // 3, "now_ms": 1_500 + 2 * count // 3}
    bars = picture(log, **when, bars_max=count).bars
    found = picture(log, **when, bars_max=bars_max).bars
    assert [bar.size_bytes for bar in bars] == [segment.size_bytes for segment in log.segments]
    assert len(found) <= bars_max + len({bar.part for bar in bars}) - 1
    assert sum(bar.size_bytes for bar in found) == sum(bar.size_bytes for bar in bars)
    assert sum(bar.segments for bar in found) == count
    assert all(one.end_offset == next_.base_offset for one, next_ in pairwise(found))
    starts = {bar.base_offset for bar in found}
    assert all(
        bar.base_offset in starts for bar, before in zip(bars[1:], bars, strict=False) if bar.part != before.part
    )


def look(log: Log, low: int, high: int, buckets: int) -> Contents:
    return to_the_end(RangeScan(log, low, high, buckets=buckets).steps())


@pytest.mark.parametrize("codec", [0, 4])
def test_survivors_are_counted_at_their_position(codec: int) -> None:
    """The counts are compared with every record of the log, for random ranges and numbers of buckets."""
    rng = random.Random(codec)
    log = make_log(segment_bytes=2_000)
    for number in range(120):
        pairs = [(f"k{rng.randrange(20)}", None if rng.random() < 0.2 else "v" * 9) for _ in range(rng.randrange(1, 9))]
        append(log, *pairs, timestamp=1_000 + number, codec=codec, roll=number % 9 == 8)
    clean(log, now_ms=5_000)
    there = {record.offset: record for each in all_batches(log) for record in each.records()}
    end = log.log_end_offset
    assert len(there) < end / 2
    for _ in range(60):
        low = rng.randrange(end + 1)
        high = rng.randrange(low, end + 1)
        found = look(log, low, high, rng.randrange(1, 80))
        assert sum(bucket.offsets for bucket in found.buckets) == high - low
        for bucket in found.buckets:
            within = [there[offset] for offset in range(bucket.from_offset, bucket.to_offset) if offset in there]
            assert (bucket.records, bucket.tombstones) == (
                len(within),
                sum(record.value is None for record in within),
            )
        spans = [bucket.offsets for bucket in found.buckets]
        assert not spans or max(spans) - min(spans) <= 1
    whole = look(log, 0, end, 50)
    horizons = [each.delete_horizon_ms for each in all_batches(log) if each.delete_horizon_ms is not None]
    assert whole.horizon is not None
    assert whole.horizon.at_ms == min(horizons)


def test_a_scan_is_bounded_by_unpacked_bytes() -> None:
    log = make_log()
    for _ in range(5):
        append(log, ("k", "v" * (UNPACKED_BYTES_MAX // 3)), codec=4)
    found = look(log, 0, 5, 5)
    assert (found.looked_at_to_offset, found.records) == (3, 3)


def test_a_scan_ends_before_a_batch_that_unpacks_to_too_much() -> None:
    log = make_log()
    append(log, ("k", "v"))
    append(log, ("k", "v" * BATCH_BYTES_MAX), codec=4)
    append(log, ("k", "v"))
    found = look(log, 0, 3, 3)
    assert (found.looked_at_to_offset, found.records) == (1, 1)


def test_markers_are_counted_separately() -> None:
    log = make_log()
    producer = Producer(log, 7, transactional=True)
    producer.write("a", "b")
    producer.commit()
    (bucket,) = look(log, 0, 3, 1).buckets
    assert (bucket.records, bucket.markers, bucket.tombstones) == (3, 1, 0)


def test_gigantic_offsets_have_buckets() -> None:
    log = log_with_holes((2**62, []))
    append(log, ("k", "v"))
    (bucket,) = look(log, 2**62, 2**62 + 1, 200).buckets
    assert (bucket.from_offset, bucket.records) == (2**62, 1)


def test_a_very_large_scan_ends_and_reports_its_position(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.pictures.contents.READ_BYTES_MAX", 300)
    log = make_log()
    for _ in range(10):
        append(log, ("k", "v" * 30))
    found = look(log, 0, 10, 10)
    assert 0 < found.looked_at_to_offset < 10
    assert len(found.buckets) == found.records == found.looked_at_to_offset
