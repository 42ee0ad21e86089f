"""One log over files in memory: offsets, rolling, reading, duplicates, transactions, flushing, truncating, swapping."""

import errno
import random
import weakref
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.compression import Codec
from ottla.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ottla.protocol.records import RecordBatch
from ottla.storage.disk import paths
from ottla.storage.disk.files import FileSlice
from ottla.storage.disk.health import Health
from ottla.storage.logs.log import AppendInfo, Log
from ottla.storage.logs.log_parts import LogPlace
from ottla.storage.logs.recovery import load_log
from ottla.storage.produce.record_checks import InvalidRecordError
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.segment import segment as segment_module
from ottla.storage.segment.segment import LogSegment
from ottla.storage.steps import to_the_end
from ottla.storage.topics.config import LogConfig
from ottla.storage.topics.options import MAX_LONG
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, COMMIT, Pair, batch, broken, contents, marker, read_batches
from support.logs.make_log import (
    TP,
    Producer,
    append,
    append_marker,
    delete_old_segments,
    flush_sealed,
    make_log,
    remove_deleted,
    reopen,
)
from support.logs.make_log import contents as log_contents
from support.noted import each_case

DELETE = ("delete",)
ONE_BYTES = len(batch(("k0", "v")))
"""Size of a batch of one small record."""


def put(log: Log, made: bytes | bytearray, **options: Any) -> AppendInfo:
    return log.append(memoryview(bytearray(made)), **{"now_ms": 1_000} | options)


def put_many(log: Log, count: int, **fields: Any) -> None:
    for number in range(count):
        append(log, (f"k{number}", "v"), **fields)


def read(log: Log, offset: int, *, max_bytes: int = 1 << 20, up_to: int | None = None, whole: bool = True) -> FileSlice:
    up_to = log.high_watermark if up_to is None else up_to
    return log.fetch(offset, max_bytes=max_bytes, end=log.locate(up_to), first_batch_whole=whole).records


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def names(log: Log, kind: str = "") -> list[str]:
    return [name for name in log.files.list(log.directory) if kind in name]


def refused(code: ErrorCode) -> "pytest.RaisesExc[KafkaError]":
    return pytest.raises(KafkaError, check=lambda error: error.code == code)


# Appending


def test_offsets_continue_where_the_last_append_ended() -> None:
    log = make_log()

    assert put(log, batch(("a", "1"), ("b", "2"))) == AppendInfo(0, 1, -1, 0)
    assert put(log, batch(("c", "3"))) == AppendInfo(2, 2, -1, 0)
    assert log.log_end_offset == log.high_watermark == log.last_stable_offset == 3
    assert log_contents(log) == [(0, b"a", b"1"), (1, b"b", b"2"), (2, b"c", b"3")]


def test_stored_bytes_equal_those_received_except_offset_and_epoch() -> None:
    log = make_log()
    append(log, ("before", "x"))
    sent = batch(("k", "v"), codec=4)
    put(log, sent, leader_epoch=7)

    stored = read(log, 1).read()

    assert stored[16:] == bytes(sent)[16:]
    assert read_batches(stored)[0].base_offset == 1
    assert read_batches(stored)[0].partition_leader_epoch == 7


def test_the_caller_may_reuse_its_buffer_after_an_append() -> None:
    log = make_log()
    buffer = batch(("k", "v"))
    log.append(memoryview(buffer), now_ms=0)
    buffer[:] = bytes(len(buffer))
    assert log_contents(log) == [(0, b"k", b"v")]


def test_under_log_append_time_records_carry_the_brokers_clock() -> None:
    log = make_log(message_timestamp_type="LogAppendTime")
    assert put(log, batch(("k", "v"), timestamp=5), now_ms=99).log_append_time_ms == 99
    assert [record.timestamp for record in read_batches(read(log, 0).read())[0].records()] == [99]


@pytest.mark.parametrize(
    "made, config, code",
    [
        (broken(batch(("k", "v")), -1), {}, ErrorCode.CORRUPT_MESSAGE),
        (batch(("k", "v"))[:-1], {}, ErrorCode.INVALID_RECORD),
        (batch((None, "v")), {}, ErrorCode.INVALID_RECORD),
        (batch(("k", "v" * 200)), {"max_message_bytes": 200}, ErrorCode.MESSAGE_TOO_LARGE),
        (batch(("k", "v" * 200)), {"segment_bytes": 200}, ErrorCode.RECORD_LIST_TOO_LARGE),
        (marker(ABORT, producer_id=1), {}, ErrorCode.INVALID_RECORD),
    ],
)
def test_a_refused_append_changes_nothing(made: bytearray, config: dict[str, Any], code: ErrorCode) -> None:
    log = make_log(**config)
    append(log, ("k", "v"))
    before = (log.log_end_offset, log.size_bytes, names(log))

    with refused(code):
        put(log, made)

    assert (log.log_end_offset, log.size_bytes, names(log)) == before
    assert append(log, ("k", "v")) == 1


def test_a_keyless_record_on_a_compacted_topic_is_named() -> None:
    log = make_log()
    with pytest.raises(InvalidRecordError) as raised:
        put(log, batch(("k", "v"), (None, "v")))
    assert [error.batch_index for error in raised.value.record_errors] == [1]


def test_a_changed_configuration_applies_to_the_next_append() -> None:
    log = make_log(cleanup_policy=DELETE)
    put(log, batch((None, "v")))
    log.config = LogConfig(cleanup_policy=("compact",))
    with refused(ErrorCode.INVALID_RECORD):
        put(log, batch((None, "v")))


def test_leader_epochs_are_recorded_with_their_first_offsets() -> None:
    log = make_log()
    for epoch in (0, 0, 2, 2, 5):
        put(log, batch(("k", "v")), leader_epoch=epoch)
    assert log.leader_epochs.entries == ((0, 0), (2, 2), (5, 4))


# Rolling


def test_a_batch_that_just_fits_does_not_roll() -> None:
    log = make_log(segment_bytes=3 * ONE_BYTES)
    put_many(log, 3)
    assert bases(log) == [0]
    put_many(log, 1)
    assert bases(log) == [0, 3]


@pytest.mark.parametrize(
    "config, timestamps, expected",
    [
        pytest.param({"segment_ms": 100}, [0, 100, 101], [0, 2], id="longer than segment.ms after the first batch"),
        pytest.param({"segment_ms": 100}, [500, 400, 600, 601], [0, 3], id="older batches do not count"),
        pytest.param({"segment_ms": 100}, [7, 7, 7], [0], id="equal timestamps never roll"),
        pytest.param(
            {"segment_ms": 100, "max_compaction_lag_ms": 50}, [0, 50, 51], [0, 2], id="max.compaction.lag.ms is shorter"
        ),
        pytest.param(
            {"segment_ms": 100, "max_compaction_lag_ms": 50, "cleanup_policy": DELETE},
            [0, 100, 101],
            [0, 2],
            id="max.compaction.lag.ms without compaction",
        ),
        pytest.param(
            {"segment_ms": 100, "max_compaction_lag_ms": 500},
            [0, 100, 101],
            [0, 2],
            id="max.compaction.lag.ms is longer",
        ),
        pytest.param(
            {"segment_index_bytes": 35, "index_interval_bytes": 0}, [1, 2, 3, 4], [0, 2], id="time index full"
        ),
        pytest.param({"segment_index_bytes": 23, "index_interval_bytes": 0}, [1, 2, 3], [0, 1, 2], id="no room at all"),
    ],
)
def test_segments_roll_by_size_time_and_index(
    config: dict[str, Any], timestamps: list[int], expected: list[int]
) -> None:
    log = make_log(**config)
    for timestamp in timestamps:
        append(log, ("k", "v"), timestamp=timestamp)
    assert bases(log) == expected


@pytest.mark.parametrize("index_bytes", [12, 24, 60])
def test_a_segment_whose_indexes_are_larger_than_allowed_now_rolls_or_closes(index_bytes: int) -> None:
    options: dict[str, Any] = {"index_interval_bytes": 2 * ONE_BYTES, "cleanup_policy": DELETE}
    log = make_log(**options)
    for timestamp in range(30):
        append(log, ("k", "v"), timestamp=timestamp)
    log.close(0)
    for ends in False, True:
        log = make_log(log.files, clean_shutdown=True, segment_index_bytes=index_bytes, **options)
        log.segments.active.get_ready()
        if ends:
            append(log, ("k", "v"), timestamp=30)
            assert bases(log) == [0, 30]
        log.close(0)


def test_without_timestamps_the_brokers_clock_decides_about_rolling() -> None:
    log = make_log(segment_ms=100, now_ms=1_000)
    append(log, ("k", "v"), timestamp=-1, now_ms=1_000)
    append(log, ("k", "v"), timestamp=-1, now_ms=1_100)
    assert bases(log) == [0]
    append(log, ("k", "v"), timestamp=-1, now_ms=1_101)
    assert bases(log) == [0, 2]


def test_an_idle_log_does_not_roll() -> None:
    log = make_log(segment_ms=1)
    append(log, ("k", "v"), timestamp=0)
    log.read(0, max_bytes=1, up_to=1)
    assert bases(log) == [0]


def test_jitter_shortens_the_wait_of_each_segment_by_its_own_draw() -> None:
    log = make_log(segment_ms=1_000, segment_jitter_ms=400)
    append(log, ("k", "v"), timestamp=0)
    jitter_ms = log.segments.active.rolling_jitter_ms
    assert 0 <= jitter_ms < 400

    append(log, ("k", "v"), timestamp=1_000 - jitter_ms)
    assert bases(log) == [0]
    append(log, ("k", "v"), timestamp=1_001 - jitter_ms)
    assert bases(log) == [0, 2]

    drawn = {log.roll(0).rolling_jitter_ms for _ in range(50) if append(log, ("k", "v"))}
    assert len(drawn) > 10 and all(0 <= jitter < 400 for jitter in drawn)


def test_jitter_comes_from_the_random_source_given() -> None:
    def jitters(seed: int) -> list[int]:
        files = CrashFiles()
        files.make_dir("/d")
        config, rng = LogConfig(segment_jitter_ms=10**6), random.Random(seed)
        log = load_log(LogPlace(files, "/d", TP), config, now_ms=0, rng=rng)
        return [log.roll(0).rolling_jitter_ms for _ in range(5) if append(log, ("k", "v")) >= 0]

    assert jitters(1) == jitters(1) != jitters(2)


def test_offsets_more_than_31_bits_above_the_base_start_a_segment() -> None:
    log = make_log()
    huge = batch(("k", "v"), last_offset_delta=2**31 - 2)
    put(log, huge, origin=AppendOrigin.COORDINATOR)
    append(log, ("fits", "v"))
    append(log, ("does not", "v"))
    assert bases(log) == [0, 2**31]
    assert [offset for offset, _, _ in log_contents(log)] == [0, 2**31 - 1, 2**31]


def test_an_empty_active_segment_is_not_rolled() -> None:
    log = make_log()
    assert log.roll(0) is log.roll(0)
    append(log, ("k", "v"), roll=True)
    assert log.roll(0).base_offset == 1
    assert bases(log) == [0, 1]


def test_a_roll_leaves_complete_indexes_and_a_snapshot() -> None:
    log = make_log(index_interval_bytes=0)
    put_many(log, 3)
    log.roll(0)
    assert names(log) == sorted(
        [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex",
            "00000000000000000003.log",
            "00000000000000000003.snapshot",
        ]
    )
    log.segments.first.sanity_check()


@pytest.mark.parametrize("then", ["flushed", "closed", "killed", "deleted"])
def test_long_indexes_are_written_by_the_first_flush_after_the_roll(then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing the indexes of a segment of a gigabyte takes 20 ms, during which every task would wait."""
    monkeypatch.setattr(segment_module, "WRITTEN_AT_ONCE", 0)
    log = make_log(index_interval_bytes=0, cleanup_policy=DELETE, retention_bytes=0)
    put_many(log, 3)
    log.roll(0)
    assert [name for name in names(log) if name.endswith("index")] == []
    match then:
        case "flushed":
            flush_sealed(log, 0)
        case "closed":
            log.close(0)
        case "killed":
            log = reopen(log, clean=False, recovery_point=log.recovery_checkpoint)
        case "deleted":
            flush = log.begin_flush_of_sealed()
            delete_old_segments(log, 0, 0)
            assert flush is not None
            flush.sync()
            remove_deleted(log, 10**9)
            assert [name for name in names(log) if name.endswith("index")] == []
            return
    log.segments.first.sanity_check()
    assert log.segments.first.offset_index.last_entry_in_file() == (2, 2 * ONE_BYTES)


# Reading


def three_segments() -> Log:
    """Return a log with offsets 0-3 and 4-7 in batches of two records, and 8-9 in the active segment."""
    log = make_log()
    for number in range(5):
        append(log, (f"k{number}", "v"), (f"m{number}", "v"), roll=number in (1, 3))
    return log


@pytest.mark.parametrize(
    "offset, expected",
    [(0, range(4)), (1, range(4)), (2, range(2, 4)), (3, range(2, 4)), (4, range(4, 8)), (9, range(8, 10)), (10, ())],
)
def test_a_read_returns_complete_batches_of_one_segment(offset: int, expected: range) -> None:
    assert [at for at, _, _ in contents(read(three_segments(), offset).read())] == list(expected)


@pytest.mark.parametrize(
    "batches_fitting, whole, expected", [(0, True, 2), (0, False, 0), (1, False, 2), (1.9, True, 2), (2, True, 4)]
)
def test_a_read_ends_with_the_last_batch_that_fits(batches_fitting: float, whole: bool, expected: int) -> None:
    log = three_segments()
    max_bytes = int(log.segments.first.size_bytes / 2 * batches_fitting)
    assert len(contents(read(log, 0, max_bytes=max_bytes, whole=whole).read())) == expected


@pytest.mark.parametrize("up_to, expected", [(0, 0), (2, 2), (4, 4), (6, 4), (10, 4)])
def test_a_read_stays_below_the_given_end(up_to: int, expected: int) -> None:
    assert len(contents(read(three_segments(), 0, up_to=up_to).read())) == expected


@each_case(
    "offset, max_batches, whole, up_to, offered_batches, start",
    [
        (0, 9, True, 10, 2, (0, 0)),  # to the end of its segment
        (1, 9, True, 10, 2, (0, 0)),
        (2, 9, True, 10, 1, (0, 1)),
        (0, 1.5, True, 10, 1.5, (0, 0)),  # the part of a batch that a limit leaves counts
        (0, 0.5, True, 10, 1, (0, 0)),
        (0, 0.5, False, 10, 0, (0, 0)),
        (4, 9, True, 6, 1, (4, 0)),  # to the end of the readable part
        (4, 0.5, False, 6, 0, (4, 0)),
        (8, 9, True, 10, 1, (8, 0)),
        (10, 9, True, 10, 0, (8, 1)),  # the end itself
        (6, 9, True, 6, 0, (4, 1)),
        (9, 9, True, 6, 0, (8, 0)),  # beyond the end
    ],
)
def test_a_fetch_returns_its_valid_bytes_and_its_start(
    offset: int, max_batches: float, whole: bool, up_to: int, offered_batches: float, start: tuple[int, int]
) -> None:
    log = three_segments()
    one_batch = log.segments.active.size_bytes
    found = log.fetch(offset, max_bytes=int(max_batches * one_batch), end=log.locate(up_to), first_batch_whole=whole)
    assert found.offered_bytes == int(offered_batches * one_batch)
    assert found.start == (offset, start[0], start[1] * one_batch)


@pytest.mark.parametrize("offset", [-1, 11])
def test_a_read_outside_the_log_is_out_of_range(offset: int) -> None:
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        read(three_segments(), offset)


def test_a_read_below_the_log_start_is_out_of_range() -> None:
    log = three_segments()
    log.advance_log_start(3)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        read(log, 2)
    assert [at for at, _, _ in contents(read(log, 3).read())] == [2, 3]


def replace_with(log: Log, old: list[LogSegment], *kept: bytearray, now_ms: int = 0) -> LogSegment:
    """Put one segment with these batches in place of `old`, as the cleaner does."""
    new = LogSegment.create(log.files, log.directory, old[0].base_offset, log.config, now_ms, paths.CLEANED)
    for made in kept:
        header = RecordBatch(made)
        last = header.last_offset
        new.append(made, last_offset=last, max_timestamp_ms=header.max_timestamp, max_timestamp_offset=last)
    new.on_roll()
    log.replace_segments([new], old, now_ms)
    return new


@pytest.mark.scenario(150)
def test_a_read_in_a_gap_returns_the_next_records_of_later_segments() -> None:
    log = three_segments()
    first, second, _ = log.segments
    replace_with(log, [first], batch(("k", "v"), base_offset=1))
    assert [at for at, _, _ in contents(read(log, 0).read())] == [1]
    assert [at for at, _, _ in contents(read(log, 2).read())] == [4, 5, 6, 7]
    replace_with(log, [second])
    assert [at for at, _, _ in contents(read(log, 2).read())] == [8, 9]


def test_a_read_at_the_end_is_empty() -> None:
    log = make_log()
    assert len(read(log, 0)) == 0 and read(log, 0).read() == b""
    append(log, ("k", "v"))
    assert not read(log, 1)


def test_bytes_that_are_not_batches_are_reported_and_not_sent() -> None:
    log = make_log(index_interval_bytes=0)
    for number in range(4):
        append(log, (f"k{number}", "v"))
    log.roll(0)
    segment = log.segments.first
    fresh = reopen(log)
    damaged = fresh.files.open(segment.log_file._path)  # type: ignore[attr-defined]
    data = bytearray(damaged.read_at(0, damaged.size()))
    data[2 * ONE_BYTES + 16] = 9  # the magic of the third batch
    damaged.truncate(0)
    damaged.append(data)
    with pytest.raises(CorruptRecordError):
        read(fresh, 2)


# Time


def timed(*timestamps: int, rolls: tuple[int, ...] = ()) -> Log:
    log = make_log()
    for number, timestamp in enumerate(timestamps):
        put(log, batch((f"k{number}", "v"), timestamp=timestamp), leader_epoch=number)
        if number in rolls:
            log.roll(0)
    return log


@pytest.mark.parametrize(
    "timestamp, expected",
    [(0, (10, 0, 0)), (10, (10, 0, 0)), (11, (30, 1, 1)), (30, (30, 1, 1)), (31, (40, 3, 3)), (41, None)],
)
def test_a_search_by_time_finds_the_first_late_enough_record(
    timestamp: int, expected: tuple[int, int, int] | None
) -> None:
    assert to_the_end(timed(10, 30, 20, 40, rolls=(1,)).search_timestamp(timestamp)) == expected


def test_a_search_by_time_ends_at_a_compressed_record_that_is_too_large() -> None:
    log = make_log()
    for first, codec in (10, Codec.GZIP), (20, Codec.NONE):
        records = [(number, first + number, b"k", bytes(size), ()) for number, size in enumerate((1, 5_000, 1))]
        put(log, build_batch(records, codec=codec), leader_epoch=0)
    log.config = replace(log.config, max_decompressed_message_bytes=1_000)
    assert to_the_end(log.search_timestamp(10)) == (10, 0, 0), "the record before it"
    assert to_the_end(log.search_timestamp(21)) == (21, 4, 0), "no bound without compression"
    assert to_the_end(log.search_max_timestamp()) == (22, 5, 0)
    for timestamp in 11, 12:
        with pytest.raises(KafkaError, match=r"record 1 is larger than max.decompressed.message.bytes=1000") as raised:
            to_the_end(log.search_timestamp(timestamp))
        assert raised.value.code is ErrorCode.INVALID_RECORD


def test_a_search_by_time_skips_records_below_the_log_start() -> None:
    log = timed(10, 30, 20, 40)
    log.advance_log_start(2)
    assert to_the_end(log.search_timestamp(5)) == (20, 2, 2)


def test_the_largest_timestamp_is_found_anywhere() -> None:
    assert to_the_end(timed(10, 50, 20, 40, rolls=(0, 2)).search_max_timestamp()) == (50, 1, 1)
    assert to_the_end(timed(10, 50, 50, rolls=(1,)).search_max_timestamp()) == (50, 1, 1)
    assert to_the_end(timed().search_max_timestamp()) is None
    assert to_the_end(timed(-1, -1).search_max_timestamp()) is None


def test_a_time_reached_only_by_an_emptied_batch_is_not_found() -> None:
    """Kafka does the same: the batch keeps its max timestamp, so its segment is searched, and no later one."""
    log = timed(10, 99, 50, rolls=(1,))
    emptied = batch(base_offset=1, last_offset_delta=0, timestamp=())
    emptied[35:43] = (99).to_bytes(8, "big")
    replace_with(log, [log.segments.first], batch(("k0", "v"), timestamp=10), emptied)
    assert to_the_end(log.search_timestamp(20)) is None


# Producers


@pytest.mark.scenario(165)
def test_a_repeated_batch_gets_the_first_response() -> None:
    log = make_log()
    for sequence in range(5):
        append(log, ("k", "v"), producer_id=9, base_sequence=sequence, timestamp=100 + sequence)
    for sequence in range(5):
        again = put(log, batch(("k", "v"), producer_id=9, base_sequence=sequence))
        assert again == AppendInfo(sequence, sequence, 100 + sequence, 0, duplicate=True)
    assert log.log_end_offset == 5


@pytest.mark.scenario(165)
def test_a_batch_older_than_the_last_five_is_out_of_order() -> None:
    log = make_log()
    for sequence in range(6):
        append(log, ("k", "v"), producer_id=9, base_sequence=sequence)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        append(log, ("k", "v"), producer_id=9, base_sequence=0)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        append(log, ("k", "v"), producer_id=9, base_sequence=7)


def test_after_a_restart_the_last_batch_is_still_known() -> None:
    log = make_log()
    for sequence in range(2):
        append(log, ("k", "v"), producer_id=9, base_sequence=sequence)
    log = reopen(log)
    assert put(log, batch(("k", "v"), producer_id=9, base_sequence=1)).duplicate
    assert not put(log, batch(("k", "v"), producer_id=9, base_sequence=2)).duplicate


def test_a_duplicate_causes_no_roll_and_no_wake_up() -> None:
    log = make_log(segment_bytes=2 * ONE_BYTES)
    append(log, ("k", "v"), producer_id=9)
    append(log, ("k", "v"))
    assert put(log, batch(("k", "v"), producer_id=9)).duplicate
    assert bases(log) == [0]


# Transactions


@pytest.mark.scenario(163)
def test_an_open_transaction_holds_the_last_stable_offset() -> None:
    log = make_log()
    append(log, ("plain", "v"))
    append(log, ("k", "v"), producer_id=1, transactional=True)
    append(log, ("k", "v"), producer_id=2, transactional=True)
    append(log, ("plain", "v"))
    assert log.last_stable_offset == 1
    assert [at for at, _, _ in contents(read(log, 0, up_to=log.last_stable_offset).read())] == [0]
    assert not read(log, 1, up_to=log.last_stable_offset)

    append_marker(log, COMMIT, 1)
    assert log.last_stable_offset == 2
    append_marker(log, ABORT, 2)
    assert log.last_stable_offset == log.log_end_offset == 6


@pytest.mark.scenario(163)
def test_the_last_stable_offset_is_never_below_the_log_start() -> None:
    log = make_log()
    append(log, ("k", "v"), producer_id=1, transactional=True)
    put_many(log, 3)
    log.advance_log_start(2)
    assert log.last_stable_offset == 2


@pytest.mark.scenario(164)
def test_aborted_transactions_are_returned_for_a_range_across_segments() -> None:
    log = make_log()
    append(log, ("k", "v"), producer_id=1, transactional=True, roll=True)
    append(log, ("k", "v"), producer_id=2, transactional=True, roll=True)
    append_marker(log, COMMIT, 2)
    append_marker(log, ABORT, 1)
    append(log, ("k", "v"), producer_id=3, transactional=True)
    append_marker(log, ABORT, 3)
    end = log.log_end_offset
    assert [(txn.producer_id, txn.first_offset) for txn in log.aborted_transactions(0, end)] == [(1, 0), (3, 4)]
    assert [txn.producer_id for txn in log.aborted_transactions(0, 4)] == [1]
    assert [txn.producer_id for txn in log.aborted_transactions(4, end)] == [3]
    assert log.aborted_transactions(0, end) == reopen(log).aborted_transactions(0, end)


def test_aborted_transactions_are_returned_to_the_end_of_a_completely_read_segment() -> None:
    log = make_log()
    for producer_id in (1, 2):
        append(log, ("k", "v"), producer_id=producer_id, transactional=True)
        append_marker(log, ABORT, producer_id)
        log.roll(0)
    assert [txn.producer_id for txn in log.overlapping_aborted(0, 4, read(log, 0))] == [1]
    assert [txn.producer_id for txn in log.overlapping_aborted(2, 4, read(log, 2))] == [2]


def test_aborted_transactions_are_returned_only_up_to_the_bytes_read() -> None:
    log = make_log(index_interval_bytes=0)
    for producer_id in (1, 2):
        append(log, ("k", "v"), producer_id=producer_id, transactional=True)
        append_marker(log, ABORT, producer_id)
        put_many(log, 3)
    up_to = log.last_stable_offset
    first = read(log, 0, max_bytes=1, up_to=up_to)
    assert [txn.producer_id for txn in log.overlapping_aborted(0, up_to, first)] == [1]
    assert [txn.producer_id for txn in log.overlapping_aborted(0, up_to, read(log, 0))] == [1, 2]


# A failing disk


def refuse(log: Log, operation: str) -> None:
    def no(name: str, path: str, _: int) -> None:
        if name == operation:
            raise OSError(errno.EIO, "the disk is tired", path)

    assert isinstance(log.files, CrashFiles)
    log.files.refuse = no


def test_after_a_disk_error_the_log_is_offline_and_keeps_acknowledged_records() -> None:
    log = make_log()
    append(log, ("k", "v"))
    refuse(log, "append")
    for _ in range(2):
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            append(log, ("lost", "v"))
    assert log.failure is not None and "tired" in log.failure
    for call in (
        lambda: read(log, 0),
        lambda: log.roll(0),
        lambda: log.advance_log_start(1),
        lambda: delete_old_segments(log, 0, 0),
        lambda: to_the_end(log.search_timestamp(0)),
        lambda: to_the_end(log.search_max_timestamp()),
        lambda: log.aborted_transactions(0, 1),
        lambda: log.flush(0),
        lambda: log.close(0),
    ):
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            call()
    assert log.log_end_offset == 1

    log.files.refuse = None  # type: ignore[attr-defined]
    assert log_contents(reopen(log, clean=False)) == [(0, b"k", b"v")]


@pytest.mark.parametrize("operation", ["create", "append"])
def test_a_disk_error_while_rolling_loses_nothing(operation: str) -> None:
    log = make_log()
    append(log, ("k", "v"))
    refuse(log, operation)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        log.roll(0)
    log.files.refuse = None  # type: ignore[attr-defined]
    log = reopen(log, clean=False)
    assert append(log, ("k2", "v")) == 1
    assert log_contents(log) == [(0, b"k", b"v"), (1, b"k2", b"v")]


def test_a_read_of_an_unreadable_file_is_refused() -> None:
    for look in (lambda log: read(log, 1), lambda log: to_the_end(log.search_timestamp(5))):
        log = make_log()
        append(log, ("k", "v"), ("l", "v"))
        log = reopen(log)
        log.segments.active.log_file.close()
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            look(log)
        assert log.failure is None  # a closed descriptor is a bug of Ottla, not an error of the disk


def test_a_disk_error_while_flushing_leaves_the_recovery_point() -> None:
    log = make_log()
    append(log, ("k", "v"))
    refuse(log, "sync")
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        log.flush(0)
    assert log.recovery_point == 0


def test_a_retired_log_returns_its_given_error_code() -> None:
    log = make_log()
    log.retire(Health("deleted", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        append(log, ("k", "v"))


# Flushing


def test_flush_messages_requests_a_flush_after_enough_appends() -> None:
    log = make_log(flush_messages=3)
    put_many(log, 2)
    assert not log.needs_flush
    put_many(log, 1)
    assert log.needs_flush and log.recovery_point == 0
    log.flush(77)
    assert not log.needs_flush and log.recovery_point == 3 and log.last_flush_ms == 77
    assert log.begin_flush() is None


@pytest.mark.parametrize("flush_messages", [2, 100])
@pytest.mark.parametrize("flush_ms", [50, MAX_LONG])
def test_due_and_rolled_logs_want_a_flush(flush_messages: int, flush_ms: int) -> None:
    def made(*, rolled: bool = False, count: int = 1, flushed: bool = False) -> Log:
        log = make_log(flush_messages=flush_messages, flush_ms=flush_ms)
        put_many(log, count)
        if flushed:
            log.flush(0)
        if rolled:
            log.roll(0)
        return log

    offline = made(rolled=True)
    offline.fail(OSError(errno.EIO, "Input/output error"))
    logs = [make_log(), made(), made(count=3), made(flushed=True), made(rolled=True), made(flushed=True, rolled=True)]
    for elapsed_ms in (0, 49, 50):
        wanting = [log for log in logs if log.is_flush_due(elapsed_ms) or log.has_unflushed_segments]
        assert Log.wanting_flush(logs, elapsed_ms) == wanting
        assert Log.wanting_flush([*logs, offline], elapsed_ms) == [*wanting, offline], (
            "what is wrong is found by who goes on"
        )


@pytest.mark.parametrize("flush_messages", [1, 3])
def test_records_that_need_a_flush_are_not_read_before_it(flush_messages: int) -> None:
    log = make_log(flush_messages=flush_messages)
    put_many(log, flush_messages - 1)
    assert log.high_watermark == log.last_stable_offset == flush_messages - 1
    put_many(log, 1)
    running = log.begin_flush()
    assert running is not None
    put_many(log, 2)
    assert log.high_watermark == log.last_stable_offset == flush_messages - 1
    assert not log.read(flush_messages - 1, max_bytes=1 << 20, up_to=log.high_watermark)
    running.sync()
    log.end_flush(running, 0)
    seen = flush_messages if flush_messages == 1 else log.log_end_offset  # two more need no flush of three
    assert log.high_watermark == log.last_stable_offset == seen
    log.flush(0)
    assert log.high_watermark == log.log_end_offset


def test_a_high_watermark_never_decreases_when_flush_messages_shrinks() -> None:
    log = make_log()
    put_many(log, 5)
    log.config = replace(log.config, flush_messages=1)
    assert log.high_watermark == 5
    put_many(log, 1)
    assert log.high_watermark == 5
    log.flush(0)
    assert log.high_watermark == 6


def test_an_open_transaction_after_the_high_watermark_does_not_limit_readers() -> None:
    log = make_log(flush_messages=1)
    Producer(log, 7, transactional=True).write("a")
    assert (log.high_watermark, log.last_stable_offset) == (0, 0)
    log.flush(0)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)


@pytest.mark.parametrize("written_at_once", [segment_module.WRITTEN_AT_ONCE, 0], ids=["short", "long"])
@pytest.mark.parametrize("checkpointed", ["before the roll", "after the roll", "after the next flush"])
def test_a_segment_sealed_after_a_flush_is_found_with_all_its_indexes(
    checkpointed: str, written_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flush has not vouched for the indexes, and the roll does not wait for the disk."""
    monkeypatch.setattr(segment_module, "WRITTEN_AT_ONCE", written_at_once)
    log = make_log(index_interval_bytes=0)
    put_many(log, 3)
    log.flush(0)
    checkpoint = log.recovery_checkpoint
    assert isinstance(log.files, CrashFiles)
    synced = Counter(operation for operation, _ in log.files.operations)["sync"]
    log.roll(0)
    assert Counter(operation for operation, _ in log.files.operations)["sync"] == synced
    if checkpointed != "before the roll":
        checkpoint = log.recovery_checkpoint
    assert checkpoint < 3 and log.has_unflushed_segments
    if checkpointed == "after the next flush":
        flush_sealed(log, 0)
        checkpoint = log.recovery_checkpoint
        assert checkpoint == 3
    log.files.sync_dir("/data")
    log.files.sync_dir("/")
    for files in log.files.after_crash(ordered=False):
        sealed = make_log(files, recovery_point=checkpoint, index_interval_bytes=0).segments.first
        assert sealed.offset_index.entry_count == 2


def test_one_flush_covers_everything_appended_before_its_start() -> None:
    log = make_log()
    put_many(log, 2)
    flush = log.begin_flush()
    assert flush is not None
    put_many(log, 1)
    flush.sync()
    log.end_flush(flush, 0)
    assert log.recovery_point == 2


def test_a_flush_overtaken_by_a_roll_covers_less() -> None:
    """The sealed segment's indexes were not synced, so recovery must still check it."""
    log = make_log()
    put_many(log, 2)
    log.roll(0)
    put_many(log, 2)
    flush = log.begin_flush()
    assert flush is not None
    log.roll(0)
    flush.sync()
    log.end_flush(flush, 0)
    assert log.recovery_point == 2
    flush_sealed(log, 0)
    assert log.recovery_point == 4


def test_sealed_segments_are_flushed_without_the_active_one() -> None:
    log = make_log()
    assert log.begin_flush_of_sealed() is None
    put_many(log, 2)
    log.roll(0)
    put_many(log, 1)
    flush_sealed(log, 5)
    assert log.recovery_point == 2
    assert log.begin_flush_of_sealed() is None


def test_a_flush_ignores_segments_deleted_while_it_runs() -> None:
    log = make_log(cleanup_policy=DELETE, retention_ms=10, file_delete_delay_ms=0)
    append(log, ("k", "v"), timestamp=0, roll=True)
    append(log, ("k", "v"), timestamp=100)
    flush = log.begin_flush()
    assert flush is not None
    assert delete_old_segments(log, 100, 100) == 1
    remove_deleted(log, 100)
    flush.sync()
    log.end_flush(flush, 100)
    assert log.recovery_point == 2


def test_a_flush_releases_segments_replaced_while_it_runs() -> None:
    """The thread that drops the last reference closes the files, which takes long for large ones: this is the syncing one."""
    log = make_log()
    put_many(log, 2)
    log.roll(0)
    flush = log.begin_flush_of_sealed()
    assert flush is not None
    replaced = weakref.ref(log.segments.first)
    replace_with(log, [log.segments.first], batch(("k", "v"), base_offset=1))
    assert replaced() is not None
    flush.sync()
    assert replaced() is None
    log.end_flush(flush, 0)
    assert log.recovery_point == 2


def test_a_failed_flush_must_sync_everything_again() -> None:
    log = make_log()
    put_many(log, 2)
    log.roll(0)
    flush = log.begin_flush_of_sealed()
    assert flush is not None

    def no(operation: str, path: str, _: int) -> None:
        if operation == "sync" and path.endswith(".log"):
            raise OSError(errno.EIO, "the disk is tired", path)

    assert isinstance(log.files, CrashFiles)
    log.files.refuse = no
    for _ in range(2):
        with pytest.raises(OSError, match="tired"):
            flush.sync()


# Log start


@pytest.mark.scenario(167)
def test_the_log_start_only_increases_and_stays_below_the_high_watermark() -> None:
    log = three_segments()
    log.advance_log_start(5)
    log.advance_log_start(3)
    assert log.log_start_offset == 5
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.advance_log_start(11)
    log.advance_log_start(10)
    assert log.log_start_offset == log.log_end_offset == 10


# The swap


def compacted() -> tuple[Log, list[LogSegment]]:
    """Return a log of five one-record segments, and the segments of offsets 0 to 2."""
    log = make_log()
    for number in range(4):
        append(log, (f"k{number}", "v"), producer_id=7, base_sequence=number, roll=True)
    append(log, ("k4", "v"))
    return log, list(log.segments)[:3]


def test_a_swap_replaces_old_segments_by_new_ones() -> None:
    log, old = compacted()
    new = replace_with(log, old, batch(("k2", "v"), base_offset=2))
    assert log.segments.first is new and new in log.segments and old[0] not in log.segments
    assert bases(log) == [0, 3, 4]
    assert [at for at, _, _ in log_contents(log)] == [2, 3, 4]
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert [at for at, _, _ in log_contents(reopen(log))] == [2, 3, 4]


def test_readers_of_the_old_segments_are_not_disturbed() -> None:
    log, old = compacted()
    held = read(log, 1)
    replace_with(log, old, batch(("k2", "v"), base_offset=2))
    assert contents(held.read()) == [(1, b"k1", b"v")]
    remove_deleted(log, 60_000)
    assert contents(held.read()) == [(1, b"k1", b"v")]


def test_replaced_files_and_snapshots_are_renamed_to_deleted() -> None:
    log, old = compacted()
    replace_with(log, old, batch(("k2", "v"), base_offset=2), now_ms=5)
    assert names(log, ".snapshot") == [
        "00000000000000000001.snapshot.deleted",
        "00000000000000000002.snapshot.deleted",
        "00000000000000000003.snapshot",
        "00000000000000000004.snapshot",
    ]
    assert names(log, ".log") == [
        "00000000000000000000.log",
        "00000000000000000000.log.deleted",
        "00000000000000000001.log.deleted",
        "00000000000000000002.log.deleted",
        "00000000000000000003.log",
        "00000000000000000004.log",
    ]
    remove_deleted(log, 60_004)
    assert len(names(log, ".deleted")) == 11
    remove_deleted(log, 60_005)
    assert names(log, ".deleted") == []
    assert not log.deleted_files.waiting


def test_a_second_swap_of_the_same_base_keeps_its_own_files() -> None:
    log, old = compacted()
    first = replace_with(log, old[:2], batch(("k1", "v"), base_offset=1), now_ms=0)
    replace_with(log, [first, old[2]], batch(("k2", "v"), base_offset=2), now_ms=30_000)
    remove_deleted(log, 60_000)
    remove_deleted(log, 90_000)
    assert names(log, ".deleted") == []
    assert [at for at, _, _ in log_contents(reopen(log))] == [2, 3, 4]


def test_an_old_segment_with_a_damaged_index_stays_readable_during_a_swap() -> None:
    log = make_log(index_interval_bytes=0)
    put_many(log, 9, timestamp=5)
    log.roll(0)
    append(log, ("k", "v"))
    log.close(0)
    index = log.files.open(f"{log.directory}/{0:020}.index")
    data = bytearray(index.read_at(0, index.size()))
    data[8:16] = bytes(8)  # the second entry: neither end of the file shows the damage
    index.truncate(0)
    index.append(data)
    log = reopen(log)
    new = LogSegment.create(log.files, log.directory, 0, log.config, 0, paths.CLEANED)
    log.prepare_swap([new], [log.segments.first])
    assert [at for at, _, _ in contents(read(log, 5).read())] == [5, 6, 7, 8]


def test_appends_between_the_steps_of_a_swap_are_kept() -> None:
    log, old = compacted()
    new = LogSegment.create(log.files, log.directory, 0, log.config, 0, paths.CLEANED)
    log.prepare_swap([new], old)
    assert [at for at, _, _ in contents(read(log, 1).read())] == [1]
    append(log, ("k5", "v"), roll=True)
    append(log, ("k6", "v"))
    log.commit_swap([new], old, 0)
    assert bases(log) == [0, 3, 4, 6]
    assert [at for at, _, _ in log_contents(log)] == [3, 4, 5, 6]


def test_a_disk_error_in_a_swap_leaves_one_version_offline() -> None:
    log, old = compacted()
    new = LogSegment.create(log.files, log.directory, 0, log.config, 0, paths.CLEANED)
    refuse(log, "rename")
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        log.replace_segments([new], old, 0)
    log.files.refuse = None  # type: ignore[attr-defined]
    assert len(log_contents(reopen(log, clean=False))) == 5


# Stopping


@pytest.mark.scenario(117)
@pytest.mark.parametrize("clean", [True, False])
def test_a_reopened_log_is_unchanged(clean: bool) -> None:
    log = three_segments()
    pairs: list[Pair] = [("k", "v")]
    append(log, *pairs, producer_id=4, transactional=True)
    log.flush(0)
    before = (log_contents(log), log.log_end_offset, log.last_stable_offset, bases(log), log.leader_epochs.entries)
    log = reopen(log, clean=clean)
    after = (log_contents(log), log.log_end_offset, log.last_stable_offset, bases(log), log.leader_epochs.entries)
    assert after == before
    assert put(log, batch(*pairs, producer_id=4, transactional=True)).duplicate
    assert log.topic_partition == TP and "t-0" in repr(log)


def test_a_clean_stop_needs_no_scan() -> None:
    log = three_segments()
    log = reopen(log)
    assert log.recovery_point == log.log_end_offset == 10
    assert names(log, "10.snapshot") == ["00000000000000000010.snapshot"]


def test_closing_an_idle_log_again_writes_nothing() -> None:
    log = reopen(three_segments())
    assert isinstance(log.files, CrashFiles)
    log.files.operations.clear()
    log.close(0)
    changes = {name for name, _ in log.files.operations} - {"sync", "sync_dir"}
    assert changes == set()
