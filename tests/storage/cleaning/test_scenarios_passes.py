"""Passes over whole logs, one scenario each: sizes, small maps, large messages, and the result for every kind of batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.protocol.records import RecordBatch
from ottla.storage.logs.log import Log
from ottla.storage.produce.validation import AppendOrigin
from support.logs.batches import COMMIT, batch, marker
from support.logs.make_log import (
    DAY_MS,
    Producer,
    all_batches,
    append,
    append_marker,
    clean,
    contents,
    log_with_holes,
    make_log,
    reopen,
)
from support.noted import each_case

DELETE = ("delete",)
COMPACT = ("compact",)


def offsets(log: Log) -> list[int]:
    """Return the offsets of data records."""
    return [offset for offset, _, _ in contents(log)]


def with_policy(log: Log, policy: tuple[str, ...]) -> None:
    log.config = replace(log.config, cleanup_policy=policy)


# Records that are removed


@pytest.mark.scenario(3)
def test_exactly_the_rewritten_keys_leave_the_older_segments() -> None:
    log = make_log()
    for number in range(12):
        append(log, (f"{number}", "old"), roll=number % 4 == 3)
    for key in "13579":
        append(log, (key, "new"))
    log.roll(1_000)
    size_bytes = log.size_bytes
    _, stats = clean(log, 12)
    assert offsets(log) == [0, 2, 4, 6, 8, 10, 11, *range(12, 17)]
    assert stats.bytes_read == size_bytes


@pytest.mark.scenario(29)
def test_a_segment_with_an_undecided_record_and_all_later_ones_are_unchanged() -> None:
    log = make_log()
    for number in range(8):
        append(log, ("a", str(number)), roll=number % 2 == 1)
    append(log, ("a", "8"))
    Producer(log, 1, transactional=True).write("b")
    log.roll(1_000)
    append(log, ("a", "10"), roll=True)
    untouched = [bytes(each.view) for each in all_batches(log)[8:]]
    end, _ = clean(log)
    assert (end, offsets(log)) == (8, [7, 8, 9, 10])
    assert [bytes(each.view) for each in all_batches(log)[1:]] == untouched


@pytest.mark.scenario(32)
def test_without_its_keyless_records_a_log_has_the_size_of_the_rest() -> None:
    log = make_log(cleanup_policy=DELETE)
    for number in range(5):
        append(log, (None, f"{number}"))
    keyless_bytes = log.size_bytes
    for number in range(5):
        append(log, (f"k{number}", "v"))
    log.roll(1_000)
    size_bytes = log.size_bytes
    with_policy(log, COMPACT)
    _, stats = clean(log)
    assert log.size_bytes == size_bytes - keyless_bytes
    assert (offsets(log), stats.removed.keyless) == ([5, 6, 7, 8, 9], 5)


@pytest.mark.scenario(34)
def test_fully_superseded_segments_become_one_segment_with_one_empty_batch() -> None:
    log = make_log(cleanup_policy=DELETE)
    for number in range(6):
        append(log, (None, f"{number}"), roll=number % 2 == 1)
    with_policy(log, COMPACT)
    clean(log)
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    (left,) = all_batches(log)
    assert (left.record_count, left.last_offset) == (0, log.segments.active.base_offset - 1)


# Maps


@pytest.mark.scenario(39)
@pytest.mark.parametrize(("first_dirty", "upper"), [(0, 500), (200, 350), (450, 500)])
def test_a_map_holds_exactly_the_keys_of_its_range(first_dirty: int, upper: int) -> None:
    log = make_log()
    for number in range(500):
        append(log, (f"{number}", "v"), roll=number % 50 == 49)
    for number in range(500):
        append(log, (f"{number}", "newer"))
    log.roll(1_000)
    end, stats = clean(log, first_dirty, upper_offset=upper)
    assert (end, stats.map_record_count, stats.map_entry_count) == (upper, upper - first_dirty, upper - first_dirty)
    assert stats.removed.total == 0, "what is newer lies above the range"
    end, stats = clean(log, 500)
    assert (end, stats.map_entry_count, offsets(log)) == (1_000, 500, [*range(500, 1_000)])


@pytest.mark.scenario(43)
def test_a_map_of_two_keys_from_offset_2_holds_2_and_3() -> None:
    log = make_log()
    for key in "cbabc":
        append(log, (key, "v"))
    log.roll(1_000)
    end, stats = clean(log, 2, max_entries=2)
    assert (end, stats.map_record_count, stats.map_entry_count) == (4, 2, 2)
    assert offsets(log) == [0, 2, 3, 4], "of the older ones only 1 has its key in the map"


# Large messages


@pytest.mark.scenario(19, 20)
@pytest.mark.parametrize("max_message_bytes", [2 << 20, 100])
def test_kafka_6834_messages_of_a_mebibyte_pass_through_a_buffer_of_a_kibibyte(max_message_bytes: int) -> None:
    """The pass also copies messages that the topic no longer accepts."""
    log = make_log(max_message_bytes=2 << 20)
    for number in range(4):
        append(log, (f"k{number % 2}", "x" * (1 << 20)))
    log.roll(1_000)
    log.config = replace(log.config, max_message_bytes=max_message_bytes)
    clean(log, io_buffer_bytes=1_024)
    assert offsets(log) == [2, 3]


@pytest.mark.scenario(11)
def test_kafka_6854_a_fully_removed_chunk_is_not_a_chunk_that_was_too_small() -> None:
    log = make_log(max_message_bytes=100, segment_bytes=1_000)
    producer = Producer(log, 1, transactional=True)
    producer.write("1")
    producer.abort()
    producer.write("2")
    producer.write("2")
    producer.commit()
    log.roll(1_000)
    found = []
    now_ms = 10 * DAY_MS
    for _ in range(3):
        clean(log, now_ms=now_ms, io_buffer_bytes=200)
        found.append([record.offset for each in all_batches(log) for record in each.records()])
        now_ms += DAY_MS + 1
    assert found == [[1, 3, 4], [1, 3, 4], [3, 4]]


# The results for batches


def kept_fields(found: RecordBatch) -> tuple[Any, ...]:
    """Return the fields that a pass must not change, whatever it removes from a batch."""
    return (
        *(found.base_offset, found.last_offset, found.partition_leader_epoch),
        *(found.producer_id, found.producer_epoch, found.base_sequence, found.last_sequence),
        *(found.is_transactional, found.is_control, found.is_log_append_time),
    )


@pytest.mark.scenario(99, 100, 106)
@each_case("codec", range(5))
@each_case("transactional", [True, False])
@each_case("timestamp_type", ["CreateTime", "LogAppendTime"])
@each_case("newer_keys, left", [("a", 1), ("ab", 0)])
def test_a_producers_batch_keeps_its_header_when_records_are_removed(
    codec: int, transactional: bool, timestamp_type: str, newer_keys: str, left: int
) -> None:
    log = make_log(message_timestamp_type=timestamp_type)
    made = batch(
        ("a", "1"),
        ("b", "1"),
        timestamp=[10, 20],
        codec=codec,
        producer_id=23,
        producer_epoch=5,
        base_sequence=2**31 - 1,
        transactional=transactional,
    )
    log.append(memoryview(made), now_ms=10, leader_epoch=15)
    before = kept_fields(all_batches(log)[0])
    assert before[2:7] == (15, 23, 5, 2**31 - 1, 0)
    if transactional:
        append_marker(log, COMMIT, 23, producer_epoch=5)
    append(log, *[(key, "2") for key in newer_keys], roll=True)
    clean(log)
    found = all_batches(log)[0]
    assert kept_fields(found) == before
    assert (found.record_count, found.codec) == (left, codec if left else 0)
    assert found.is_crc_valid()


@pytest.mark.scenario(101)
def test_an_emptied_marker_keeps_its_header() -> None:
    log = make_log()
    made = marker(COMMIT, producer_id=23, producer_epoch=5)
    log.append(memoryview(made), now_ms=1_000, leader_epoch=15, origin=AppendOrigin.COORDINATOR)
    append(log, ("a", "1"), roll=True)
    before = kept_fields(all_batches(log)[0])
    clean(log, now_ms=10 * DAY_MS)
    clean(log, now_ms=12 * DAY_MS)
    found = all_batches(log)[0]
    assert kept_fields(found) == before
    assert (found.record_count, found.size_bytes, found.is_crc_valid()) == (0, 61, True)


@pytest.mark.scenario(103)
def test_a_horizon_replaces_the_base_timestamp_and_record_timestamps_stay_the_same() -> None:
    log = make_log(delete_retention_ms=1_000)
    append(log, ("a", "1"), ("b", None), ("c", "1"), timestamp=[5, 10, 15], roll=True)
    clean(log, now_ms=2_000)
    (found,) = all_batches(log)
    assert (found.base_timestamp, found.delete_horizon_ms, found.max_timestamp) == (3_000, 3_000, 15)
    assert [record.timestamp for record in found.records()] == [5, 10, 15]


@pytest.mark.scenario(104)
def test_a_fully_removed_batch_counts_with_its_bytes() -> None:
    log = make_log()
    producer = Producer(log, 1, transactional=True)
    producer.write("a", "b")
    producer.abort()
    producer.write("c")
    producer.commit()
    log.roll(1_000)
    size_bytes = log.size_bytes
    aborted_bytes = all_batches(log)[0].size_bytes
    _, stats = clean(log)
    assert (stats.bytes_read, stats.bytes_written) == (size_bytes, size_bytes - aborted_bytes)
    assert (stats.removed.aborted, stats.removed.total) == (2, 2)


@pytest.mark.scenario(105)
@pytest.mark.parametrize("codec", range(5))
def test_a_batch_with_gaps_may_get_more(codec: int) -> None:
    pairs = [("a", "1"), ("b", "1"), ("c", "1")]
    made = batch(*pairs, offsets=[2, 4, 7], base_offset=1, last_offset_delta=9, codec=codec, timestamp=[7, 8, 9])
    log = log_with_holes((0, [made, batch(("b", "2"), base_offset=20)]), (21, []))
    clean(log)
    found = all_batches(log)[0]
    assert (found.base_offset, found.last_offset, found.codec) == (1, 10, codec)
    assert [(record.offset, record.timestamp) for record in found.records()] == [(2, 7), (7, 9)]


@pytest.mark.scenario(106)
def test_a_batch_without_a_producer_stays_without_one() -> None:
    log = make_log()
    append(log, ("a", "1"), ("b", "1"))
    append(log, ("a", "2"), roll=True)
    clean(log)
    found = all_batches(log)[0]
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.record_count) == (-1, -1, -1, 1)


@pytest.mark.scenario(108)
@pytest.mark.parametrize("codec", range(5))
def test_four_batches_with_keyless_records_become_three(codec: int) -> None:
    log = make_log(cleanup_policy=DELETE)
    for times_and_keys in (
        [(10, None)],
        [(11, "1"), (12, None)],
        [(13, None), (20, "4"), (15, "5")],
        [(16, "6")],
    ):
        pairs = [(key, "v") for _, key in times_and_keys]
        append(log, *pairs, timestamp=[time for time, _ in times_and_keys], codec=codec)
    log.roll(20)
    with_policy(log, COMPACT)
    _, stats = clean(log)
    found = all_batches(log)
    assert [each.base_offset for each in found] == [1, 3, 6]
    assert [each.last_offset for each in found] == [2, 5, 6]
    assert [each.max_timestamp for each in found] == [11, 20, 16]
    assert offsets(log) == [1, 4, 5, 6]
    assert (stats.records_read, stats.records_written) == (7, 4)


def test_kafka_5316_a_pass_may_enlarge_a_batch_beyond_max_message_bytes() -> None:
    """The first remaining record is an hour before the others, so that every timestamp delta takes more bytes than before."""
    count = 400
    now_ms = 10 * 3_600_000
    times = [now_ms, now_ms - 3_600_000, *[now_ms] * (count - 2)]
    log = make_log(message_timestamp_before_max_ms=2**62)
    append(log, *[(f"{number}", "") for number in range(count)], timestamp=times, now_ms=now_ms)
    append(log, ("0", "newer"), roll=True)
    size_bytes = all_batches(log)[0].size_bytes
    log.config = replace(log.config, max_message_bytes=size_bytes)
    clean(log)
    found = all_batches(log)[0]
    assert found.size_bytes > size_bytes
    assert [record.timestamp for record in found.records()] == times[1:]
    assert reopen(log, clean=False).log_end_offset == count + 1
