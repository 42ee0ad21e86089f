"""One pass over a log of plain and idempotent producers."""

from __future__ import annotations

import gc
import hashlib
import weakref
from dataclasses import replace
from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import CorruptRecordError
from ottla.protocol.records import RecordBatch
from ottla.storage.disk.files import AbortedError
from ottla.storage.filter import clean_rules
from ottla.storage.logs.log import Log
from support.disk.crash_files import CrashFiles
from support.logs.batches import Pair, batch
from support.logs.make_log import (
    DAY_MS,
    Producer,
    all_batches,
    append,
    clean,
    contents,
    data_records,
    latest_values,
    log_with_holes,
    make_log,
    reopen,
)

CODECS = range(5)


def keys(log: Log) -> list[str]:
    """Return the keys of records with a value, in order."""
    return [key.decode() for _, key, value in contents(log) if key is not None and value is not None]


def offsets(log: Log) -> list[int]:
    return [record.offset for each in all_batches(log) for record in each.records() if record.value is not None]


def batch_ends(log: Log) -> list[int]:
    return [each.last_offset for each in all_batches(log)]


def log_of(*batches: list[Pair], **config: Any) -> Log:
    """Return a log with these batches, sealed."""
    log = make_log(**config)
    for pairs in batches:
        append(log, *pairs)
    log.roll(1_000)
    return log


def singles(*names: str) -> list[list[Pair]]:
    return [[(name, f"{name}{at}")] for at, name in enumerate(names)]


# What stays


@pytest.mark.parametrize("codec", CODECS)
def test_the_newest_value_of_each_key_is_kept_at_its_offset(codec: int) -> None:
    log = make_log()
    append(log, ("a", "1"), ("b", "1"), ("a", "2"), codec=codec, headers=(("h", b"x"),))
    append(log, ("c", "1"), ("b", "2"), codec=codec, roll=True)
    append(log, ("c", "2"), codec=codec)

    end, stats = clean(log)

    assert end == 5
    assert contents(log) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2"), (5, b"c", b"2")]
    assert all_batches(log)[0].codec == codec
    assert next(all_batches(log)[0].records()).headers == (("h", b"x"),)
    assert (stats.records_read, stats.records_written, stats.removed.superseded) == (5, 3, 2)
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)


def test_the_active_segment_is_never_touched() -> None:
    log = make_log()
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"))
    append(log, ("a", "3"))
    before = all_batches(log)[1:]
    clean(log)
    assert contents(log) == [(0, b"a", b"1"), (1, b"a", b"2"), (2, b"a", b"3")]
    assert [each.view for each in all_batches(log)[1:]] == [each.view for each in before]


def test_a_batch_that_keeps_all_its_records_is_copied_byte_for_byte() -> None:
    log = log_of([("a", "1"), ("b", "1")], [("c", "1")], [("c", "2")])
    before = [bytes(each.view) for each in all_batches(log)]
    clean(log)
    assert [bytes(each.view) for each in all_batches(log)] == [before[0], before[2]]


def test_a_second_pass_over_the_same_data_changes_nothing() -> None:
    log = log_of([("a", "1"), ("b", "1"), ("a", "2")], [("b", "2"), ("c", "1")], [("a", "3")])
    clean(log)
    before = [bytes(each.view) for each in all_batches(log)]
    clean(log, now_ms=10 * DAY_MS)
    assert [bytes(each.view) for each in all_batches(log)] == before


def test_empty_keys_and_empty_values_are_keys_and_values() -> None:
    log = log_of([("", "1"), ("a", "")], [("", "2")], [("b", "")])
    clean(log)
    clean(log, now_ms=10 * DAY_MS)
    assert contents(log) == [(1, b"a", b""), (2, b"", b"2"), (3, b"b", b"")]


@pytest.mark.scenario(32)
def test_records_without_a_key_are_removed() -> None:
    """Records without a key can only have been written before the topic was compacted."""
    log = log_of([(None, "x"), ("a", "1")], [(None, "y")], [(None, "z"), ("b", "1")], cleanup_policy=("delete",))
    _, stats = clean(log)
    assert keys(log) == ["a", "b"]
    assert stats.removed.keyless == 3
    assert stats.removed.superseded == 0


def test_keyless_records_below_the_dirty_part_are_removed() -> None:
    log = log_of([(None, "x"), ("a", "1")], [("b", "1")], cleanup_policy=("delete",))
    _, stats = clean(log, 2)
    assert (keys(log), stats.removed.keyless) == (["a", "b"], 1)


def test_keys_with_equal_md5_are_different_keys() -> None:
    """Apache Kafka's map identifies a key by its MD5 and loses one of them."""
    block = (
        "4dc968ff0ee35c209572d4777b721587d36fa7b21bdc56b74a3dc0783e7b9518afbfa20{}a8284bf36e8e4b55b35f427593d849676da0d1"
        "{}5d8360fb5f07fea2"
    )
    one, other = (bytes.fromhex(block.format(*digits)) for digits in (("0", "55"), ("2", "d5")))
    assert one != other and hashlib.md5(one).digest() == hashlib.md5(other).digest()
    log = log_of([(one, "1")], [(other, "2")])
    clean(log)
    assert latest_values(log) == {one: b"1", other: b"2"}


# Tombstones


def test_kafka_4545_a_tombstone_is_removed_by_the_first_pass_after_its_horizon() -> None:
    log = make_log(delete_retention_ms=DAY_MS)
    append(log, ("a", "1"), roll=True)
    append(log, ("a", None), roll=True)

    dirty, _ = clean(log, now_ms=5_000)
    (stamped,) = all_batches(log)
    assert (stamped.base_offset, stamped.delete_horizon_ms) == (1, 5_000 + DAY_MS)
    assert [record.timestamp for record in stamped.records()] == [1_000]
    assert stamped.max_timestamp == 1_000

    append(log, ("b", "1"), roll=True)
    dirty, _ = clean(log, dirty, now_ms=5_000 + DAY_MS - 1)
    assert batch_ends(log) == [1, 2]

    append(log, ("c", "1"), roll=True)
    _, stats = clean(log, dirty, now_ms=5_000 + DAY_MS)
    assert batch_ends(log) == [2, 3]
    assert stats.removed.tombstones == 1


def test_a_tombstone_survives_one_pass_even_without_retention() -> None:
    log = log_of([("a", None)], [("b", "1")], delete_retention_ms=0)
    dirty, _ = clean(log, now_ms=5_000)
    assert batch_ends(log) == [0, 1]
    append(log, ("c", "1"), roll=True)
    clean(log, dirty, now_ms=5_000)
    assert batch_ends(log) == [1, 2]


@pytest.mark.scenario(209)
def test_a_stored_horizon_survives_a_change_of_the_retention() -> None:
    log = make_log(delete_retention_ms=1_000)
    append(log, ("a", None), roll=True)
    append(log, ("b", "1"), roll=True)
    dirty, _ = clean(log, now_ms=5_000)
    log = reopen(log)
    log.config = make_log(delete_retention_ms=DAY_MS).config
    append(log, ("c", "1"), roll=True)
    clean(log, dirty, now_ms=6_000)
    assert keys(log) == ["b", "c"]
    assert batch_ends(log) == [1, 2]


@pytest.mark.scenario(23)
def test_a_tombstone_removes_the_older_value_at_once() -> None:
    log = make_log()
    for number in range(20):
        append(log, (f"k{number}", "v"))
    for number in range(0, 20, 2):
        append(log, (f"k{number}", None))
    log.roll(1_000)
    clean(log)
    assert keys(log) == [f"k{number}" for number in range(1, 20, 2)]


@pytest.mark.scenario(46)
def test_the_horizon_counts_from_the_pass_not_from_the_record() -> None:
    """An old tombstone follows a value from the future."""
    log = make_log(delete_retention_ms=DAY_MS)
    append(log, ("a", "1"), timestamp=50 * DAY_MS, roll=True)
    append(log, ("a", None), timestamp=1, now_ms=50 * DAY_MS, roll=True)
    dirty, _ = clean(log, now_ms=10 * DAY_MS)
    append(log, ("b", "1"), roll=True)
    clean(log, dirty, now_ms=11 * DAY_MS - 1)
    assert [record.offset for record in data_records(all_batches(log))] == [1, 2]


def test_a_tombstone_may_have_headers_and_live_neighbours_keep_their_timestamps() -> None:
    log = make_log(delete_retention_ms=0)
    append(log, ("a", None), ("b", "1"), ("c", "1"), timestamp=[10, 30, 20], headers=(("h", b"x"),), roll=True)
    dirty, _ = clean(log, now_ms=5_000)
    (stamped,) = all_batches(log)
    assert [(record.key, record.timestamp) for record in stamped.records()] == [(b"a", 10), (b"b", 30), (b"c", 20)]
    append(log, ("d", "1"), roll=True)
    clean(log, dirty, now_ms=5_000)
    left = all_batches(log)[0]
    assert [(record.key, record.timestamp) for record in left.records()] == [(b"b", 30), (b"c", 20)]
    # The horizon stays with its batch, tombstones or not.
    assert left.delete_horizon_ms == 5_000


def test_a_tombstone_beyond_the_map_is_kept_even_past_its_batchs_horizon() -> None:
    made = batch(("a", None), ("b", None), ("c", None), ("d", "1"), delete_horizon_ms=10)
    log = log_with_holes((0, [made]), (4, []))
    end, stats = clean(log, now_ms=1_000, max_entries=2)
    assert (end, stats.removed.tombstones) == (2, 2)
    assert [record.key for record in data_records(all_batches(log))] == [b"c", b"d"]
    (left,) = all_batches(log)
    assert left.delete_horizon_ms == 10


# The form of a rewritten batch


@pytest.mark.parametrize("codec", CODECS)
def test_a_rewritten_batch_starts_with_the_time_of_its_first_survivor(codec: int) -> None:
    log = make_log()
    append(
        log,
        ("a", "1"),
        ("b", "1"),
        ("c", "x" * 300),
        ("a", "2"),
        timestamp=[1_000, 500_000, 7, 600_000],
        codec=codec,
        producer_id=5,
        producer_epoch=3,
        base_sequence=70,
        partition_leader_epoch=0,
    )
    append(log, ("a", "3"), now_ms=600_000, roll=True)
    clean(log)
    found = all_batches(log)[0]
    records = list(found.records())
    assert [(record.offset, record.timestamp, record.sequence) for record in records] == [(1, 500_000, 71), (2, 7, 72)]
    assert (found.base_offset, found.last_offset) == (0, 3)
    assert (found.base_timestamp, found.max_timestamp) == (500_000, 500_000)
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.codec) == (5, 3, 70, codec)
    assert found.is_crc_valid()


@pytest.mark.scenario(109)
def test_log_append_time_is_still_the_time_of_every_record() -> None:
    log = make_log(message_timestamp_type="LogAppendTime")
    append(log, ("a", "1"), ("b", "1"), ("c", None), timestamp=[1, 2, 3], now_ms=9_000)
    append(log, ("a", "2"), now_ms=9_500, roll=True)
    clean(log)
    found = all_batches(log)[0]
    assert found.is_log_append_time
    assert [record.timestamp for record in found.records()] == [9_000, 9_000]
    assert found.max_timestamp == 9_000


@pytest.mark.scenario(206)
def test_the_codec_of_a_batch_survives_a_change_of_the_topics() -> None:
    """Remaining records keep the codec that their producer chose."""
    log = make_log()
    append(log, ("a", "1"), ("b", "1"), codec=4)
    append(log, ("a", "2"), codec=0, roll=True)
    log.config = make_log(compression_type="lz4").config
    clean(log)
    assert [each.codec for each in all_batches(log)] == [4, 0]


@pytest.mark.parametrize("first_dirty", [0, 4], ids=["in the dirty part", "below it"])
def test_a_pass_refuses_a_compressed_record_that_is_larger_than_the_topic_allows(first_dirty: int) -> None:
    log = make_log()
    for codec in (0, 1):
        append(log, ("a", "v" * 50), ("b", "1"), codec=codec)
    append(log, ("a", "2"), ("b", "2"), roll=True)
    log.config = replace(log.config, max_decompressed_message_bytes=56)
    before = contents(log)
    with pytest.raises(
        CorruptRecordError, match=r"last offset 3: a record is larger than max\.decompressed\.message\.bytes=56"
    ):
        clean(log, first_dirty)
    assert contents(log) == before
    log.config = replace(log.config, max_decompressed_message_bytes=57)
    clean(log, first_dirty)
    assert offsets(log) == [4, 5]


def test_timestamps_beyond_64_bits_become_the_values_that_clients_read() -> None:
    records = [(0, 2**63 - 1, b"a", b"1", ()), (1, 2**63 + 9, b"b", b"1", ()), (2, 5, b"c", b"1", ())]
    made = build_batch(records, max_timestamp=2**63 - 1)
    log = log_with_holes((0, [made, batch(("a", "2"), base_offset=3)]), (4, []))
    clean(log)
    found = all_batches(log)[0]
    assert [(record.key, record.timestamp) for record in found.records()] == [(b"b", -(2**63) + 9), (b"c", 5)]
    assert (found.base_timestamp, found.max_timestamp) == (-(2**63) + 9, 5)


# Headers that stay


@pytest.mark.scenario(34)
def test_kafka_17076_the_last_batch_below_the_high_watermark_stays_as_a_bare_header() -> None:
    """Otherwise the log would end earlier after a restart."""
    log = make_log(cleanup_policy=("delete",))
    append(log, ("a", "1"))
    append(log, (None, "x"), (None, "y"), timestamp=7_000, roll=True)
    clean(log)
    first, last = all_batches(log)
    assert first.record_count == 1
    assert (last.base_offset, last.last_offset, last.record_count, last.size_bytes) == (1, 2, 0, 61)
    assert (last.base_timestamp, last.max_timestamp, last.codec) == (-1, 7_000, 0)
    assert last.is_crc_valid()
    assert reopen(log).log_end_offset == 3


@pytest.mark.scenario(34)
@pytest.mark.parametrize(("keeps_range_end", "ends"), [(False, [0, 3]), (True, [0, 2, 3])], ids=["4.4.0", "up to 4.3"])
def test_kafka_20452_a_batch_before_others_stays_as_a_bare_header_only_in_older_releases(
    keeps_range_end: bool, ends: list[int]
) -> None:
    log = make_log(cleanup_policy=("delete",))
    append(log, ("a", "1"))
    append(log, (None, "x"), (None, "y"), roll=True)
    append(log, ("b", "1"))
    end, _ = clean(log, keeps_range_end=keeps_range_end)
    assert (end, batch_ends(log)) == (3, ends)
    assert reopen(log).log_end_offset == 4


@pytest.mark.scenario(6)
def test_kafka_5490_each_producers_last_batch_is_kept_to_recognise_duplicates() -> None:
    log = make_log()
    producers = [Producer(log, number) for number in (1, 2, 3)]
    sent = [
        (producer.batch(*[(name, name) for name in names]), producer.write(*names))
        for producer, names in zip(producers, ("123", "314", "14"), strict=True)
    ]
    log.roll(1_000)
    dirty, _ = clean(log)
    assert batch_ends(log) == [2, 5, 7]
    assert (keys(log), offsets(log)) == (["2", "3", "1", "4"], [1, 3, 6, 7])
    log = reopen(log, clean=False)
    assert [state.last_sequence for state in log.producers] == [2, 2, 1]
    for made, offset in sent:
        again = log.append(memoryview(bytearray(made)), now_ms=1_000)
        assert (again.duplicate, again.base_offset) == (True, offset)

    Producer(log, 4).write("2")
    log.roll(1_000)
    clean(log, dirty)
    assert batch_ends(log) == [2, 5, 7, 8]
    assert (keys(log), offsets(log)) == (["3", "1", "4", "2"], [3, 6, 7, 8])
    assert all_batches(log)[0].record_count == 0
    log = reopen(log, clean=False)
    again = log.append(memoryview(bytearray(sent[0][0])), now_ms=1_000)
    assert (again.duplicate, again.base_offset) == (True, 0)


@pytest.mark.parametrize("at_once", [1, 2, 5, 6])
def test_the_last_batch_of_each_of_many_producers_is_kept(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clean_rules, "SORTED_AT_ONCE", at_once)
    log, order = make_log(), [3, 1, 4, 0, 2, 3, 1]
    for number, producer_id in enumerate(order):
        sequence = order[:number].count(producer_id)
        append(log, ("k", str(number)), producer_id=producer_id, base_sequence=sequence)
    log.roll(1_000)
    clean(log)
    last = {producer_id: offset for offset, producer_id in enumerate(order)}
    assert {each.producer_id: each.base_offset for each in all_batches(log)} == last
    assert len(all_batches(log)) == len(last)


@pytest.mark.scenario(102)
def test_an_emptied_batch_is_removed_after_its_producer_writes_again() -> None:
    log = make_log()
    first, second = Producer(log, 1), Producer(log, 2)
    first.write("a")
    second.write("a")
    log.roll(1_000)
    dirty, _ = clean(log)
    assert [(each.last_offset, each.record_count) for each in all_batches(log)] == [(0, 0), (1, 1)]
    first.write("b")
    log.roll(1_000)
    clean(log, dirty)
    assert batch_ends(log) == [1, 2]


@pytest.mark.scenario(25)
def test_last_sequences_are_kept_for_each_producer() -> None:
    log = make_log()
    append(log, ("0", "0"))
    producers = [Producer(log, number) for number in (1, 2, 3)]
    for producer in producers:
        producer.write("0")
    producers[1].write("1")
    log.roll(1_000)
    clean(log)
    assert (batch_ends(log), offsets(log)) == ([1, 3, 4], [3, 4])
    states = {state.producer_id: state.last_sequence for state in reopen(log, clean=False).producers}
    assert states == {1: 0, 2: 1, 3: 0}


# A map that is too small


@pytest.mark.scenario(28)
@pytest.mark.parametrize(("first_dirty", "left"), [(2, [1, 2, 3, 4]), (3, [2, 3, 4]), (4, [3, 4])])
def test_kafka_3894_a_map_of_one_key_still_makes_progress(first_dirty: int, left: list[int]) -> None:
    log = log_of(*singles("0", "1", "0", "1", "0"))
    for at in range(2, first_dirty + 1):
        clean(log, at, max_entries=1)
    assert offsets(log) == left


def test_kafka_3587_the_map_may_fill_up_inside_a_batch() -> None:
    log = log_of([("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2"), ("a", "3")], [("c", "2")])
    end, stats = clean(log, max_entries=2)
    # Two keys fill the map; the third record has a known key, but a full map accepts nothing more.
    assert (end, stats.map_utilization) == (2, 1.0)
    assert offsets(log) == [0, 1, 2, 3, 4, 5, 6]
    end, _ = clean(log, end, max_entries=3)
    assert (end, offsets(log)) == (5, [2, 3, 4, 5, 6])
    while end < 7:
        end, _ = clean(log, end, max_entries=2)
    assert offsets(log) == [4, 5, 6]


@pytest.mark.scenario(216)
def test_a_map_much_smaller_than_the_keys_converges() -> None:
    """A small case: 300 keys, a map of 3."""
    log = make_log()
    for number in range(900):
        append(log, (f"k{number * 7 % 300}", str(number)))
    log.roll(1_000)
    want = latest_values(log)
    end, passes = 0, 0
    while end < 900:
        before, (end, _) = end, clean(log, end, max_entries=3)
        assert end > before
        passes += 1
    assert passes == 300
    assert latest_values(log) == want
    assert len(contents(log)) == 300


@pytest.mark.scenario(24)
def test_statistics_of_a_partial_pass() -> None:
    log = log_of(*singles("0", "1", "0", "1", "0"))
    size_bytes = log.segments.first.size_bytes
    end, stats = clean(log, 2, max_entries=3)
    assert end == 5
    assert (stats.records_read, stats.bytes_read) == (5, size_bytes)
    assert (stats.records_written, stats.bytes_written) == (2, log.segments.first.size_bytes)
    assert (stats.removed.keyless, stats.map_record_count, stats.map_entry_count) == (0, 3, 2)
    assert (stats.segments_before, stats.segments_after) == (1, 1)


def test_a_first_dirty_offset_inside_a_batch_cuts_it_in_two() -> None:
    log = log_of([("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), (None, "x")], cleanup_policy=("delete",))
    end, _ = clean(log, 2)
    assert (end, keys(log), offsets(log)) == (5, ["b", "a", "c"], [1, 2, 3])


# Reading


@pytest.mark.scenario(90, 107)
@pytest.mark.parametrize("io_buffer_bytes", [0, 1, 200, 1 << 20])
def test_batches_of_any_size_pass_through_a_small_buffer(io_buffer_bytes: int) -> None:
    """Batches larger than the topic's present limit pass as well."""
    log = make_log(max_message_bytes=1 << 20)
    for at in range(3):
        append(log, ("a", "x" * 5_000 + str(at)), ("b", str(at)))
        append(log, ("c", str(at)))
    log.roll(1_000)
    log.config = make_log(max_message_bytes=100).config
    clean(log, io_buffer_bytes=io_buffer_bytes)
    assert offsets(log) == [6, 7, 8]


@pytest.mark.scenario(21)
@pytest.mark.parametrize(
    ("at", "byte", "what"),
    [(16, 1, "magic"), (8, 0x7F, "invalid batch size of"), (60, 9, "records"), (57, 0xFF, "counts")],
)
def test_damage_is_an_error_and_nothing_is_replaced(at: int, byte: int, what: str) -> None:
    log = make_log()
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"), roll=True)
    segment = log.segments.first
    data = bytearray(segment.log_file.read_at(0, segment.size_bytes))
    data[at] = byte
    segment.log_file.truncate(0)
    segment.log_file.append(data)
    names = [segment.file_paths() for segment in log.segments]
    with pytest.raises(CorruptRecordError, match=what):
        clean(log)
    assert [segment.file_paths() for segment in log.segments] == names
    assert segment.log_file.read_at(0, 1_000) == data


@pytest.mark.scenario(22)
def test_a_truncated_file_is_an_error() -> None:
    log = log_of([("a", "1" * 100)], [("b", "1" * 100)])
    segment = log.segments.first
    segment.log_file.truncate(segment.size_bytes - 10)
    with pytest.raises(CorruptRecordError):
        clean(log)


def test_a_rewritten_batch_has_a_valid_crc_after_a_wrong_one() -> None:
    log = log_of([("a", "1"), ("b", "1")], [("a", "2")])
    segment = log.segments.first
    data = bytearray(segment.log_file.read_at(0, segment.size_bytes))
    data[17] ^= 0xFF
    segment.log_file.truncate(0)
    segment.log_file.append(data)
    clean(log)
    assert [each.is_crc_valid() for each in all_batches(log)] == [True, True]


# Stopping


class StopAt:
    def __init__(self, call: int) -> None:
        self.left = call

    def __call__(self, _bytes: int) -> None:
        if self.left == 0:
            raise AbortedError
        self.left -= 1


@pytest.mark.scenario(33)
def test_a_pass_stopped_at_any_checkpoint_leaves_no_files() -> None:
    stopped = 0
    for call in range(100):
        log = make_log(segment_bytes=1_000)
        for number in range(30):
            append(log, (f"k{number % 5}", "x" * 100 + str(number)))
        log.roll(1_000)
        want = latest_values(log)
        try:
            clean(log, checkpoint=StopAt(call))
        except AbortedError:
            stopped += 1
        else:
            assert len(contents(log)) == 5
            break
        finally:
            assert latest_values(log) == want
            assert not [name for name in log.files.list(log.directory) if name.endswith(".cleaned")]
    assert stopped > 10


def test_checkpoints_are_notified_of_all_bytes_read_and_written() -> None:
    log = log_of([("a", "1" * 500), ("b", "1")], [("a", "2")])
    heard: list[int] = []
    _, stats = clean(log, checkpoint=heard.append, io_buffer_bytes=200)
    assert sum(heard) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written


def test_files_left_by_an_earlier_pass_are_harmless() -> None:
    log = log_of([("a", "1")], [("a", "2")])
    for kind in (".log", ".index", ".timeindex", ".txnindex"):
        file = log.files.open(f"{log.directory}/{0:020}{kind}.cleaned", create=True)
        file.append(b"leftover")
    clean(log)
    assert contents(log) == [(1, b"a", b"2")]
    assert contents(reopen(log)) == [(1, b"a", b"2")]


# Segments and files


@pytest.mark.scenario(29)
def test_the_cleaned_range_ends_between_two_segments() -> None:
    """Batches at or above that offset are untouched."""
    log = make_log()
    for number in range(8):
        append(log, ("a", str(number)), roll=number % 2 == 1)
    before = [bytes(each.view) for each in all_batches(log)]
    end, _ = clean(log, upper_offset=4)
    assert end == 4
    assert [bytes(each.view) for each in all_batches(log)] == before[3:]


@pytest.mark.scenario(47)
def test_kafka_8764_holes_between_offsets_do_not_stop_a_pass() -> None:
    log = log_with_holes(
        (0, [batch((f"{at}", "v"), base_offset=at) for at in range(10)]),
        (15, [batch((f"{at}", "v"), base_offset=at) for at in range(15, 25)]),
        (30, [batch(("x", "v"), base_offset=1_015)]),
    )
    end, _ = clean(log)
    assert end == 30


@pytest.mark.scenario(42)
def test_distant_offsets_are_no_problem_for_the_map() -> None:
    far = 7_206_178
    log = log_with_holes(
        (0, [batch(("a", "v")), batch(("b", "v"), base_offset=far)]),
        (far + 1, [batch(("c", "v"), base_offset=far + 1)]),
    )
    end, stats = clean(log)
    assert (end, stats.map_record_count) == (far + 1, 2)


def test_the_new_segment_has_the_modification_time_of_its_last_source() -> None:
    files = CrashFiles()
    log = make_log(files)
    for at in range(3):
        files.now_ms = 1_000 * (at + 1)
        append(log, ("a", str(at)), roll=True)
        log.flush(0)
    files.now_ms = 99_000
    clean(log)
    segment = log.segments.first
    assert [files.mtime_ms(path) for path in segment.file_paths() if files.exists(path)] == [3_000] * 3


@pytest.mark.scenario(5)
def test_a_preallocated_segment_is_truncated_to_its_size() -> None:
    log = log_of([("a", "1")], [("a", "2")], preallocate=True, segment_bytes=1 << 16)
    clean(log)
    path = log.segments.first.file_paths()[0]
    assert log.files.size(path) == sum(each.size_bytes for each in all_batches(log))


def test_every_record_is_found_through_the_indexes_of_a_cleaned_segment() -> None:
    log = make_log(index_interval_bytes=200)
    for number in range(200):
        append(log, (f"k{number % 60}", "x" * 30), ("common", str(number)), timestamp=1_000 + number)
    log.roll(2_000)
    clean(log, io_buffer_bytes=2_000)
    segment = log.segments.first
    assert segment.offset_index.entry_count > 5
    kept = data_records(all_batches(log))
    for record in kept:
        found = log.read(record.offset, max_bytes=1, up_to=log.log_end_offset)
        first = RecordBatch(found.read())
        assert first.base_offset <= record.offset <= first.last_offset
    indexes = (segment.offset_index.entries(), segment.time_index.entries())
    assert segment.recover() == 0
    assert (segment.offset_index.entries(), segment.time_index.entries()) == indexes


def test_a_reader_in_the_middle_of_an_old_segment_continues() -> None:
    log = log_of([("a", "1")], [("a", "2")])
    held = log.read(0, max_bytes=1 << 20, up_to=2)
    clean(log)
    assert [record.value for each in (RecordBatch(held.read()),) for record in each.records()] == [b"1"]
    assert RecordBatch(log.read(0, max_bytes=1 << 20, up_to=2).read()).base_offset == 1


@pytest.mark.parametrize("codec", [0, 3])
def test_replaced_segments_are_freed_by_the_pass_without_garbage_collection(codec: int) -> None:
    """A collection would close the files of many passes at once, in an arbitrary thread."""
    log = make_log()
    for at in range(4):
        log.append(memoryview(batch(("k", f"v{at}"), ("j", "v"), codec=codec)), now_ms=0)
        log.roll(0)
    replaced = [weakref.ref(segment) for segment in log.segments.non_active()]
    gc.disable()
    try:
        clean(log)
        assert [segment() for segment in replaced] == [None] * 4
    finally:
        gc.enable()
