"""LogSegment on CrashFiles, compared with a plain list of its batches."""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import CorruptRecordError
from ottla.protocol.records import RecordBatch
from ottla.storage.disk import paths
from ottla.storage.disk.files import DamagedFileError
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.segment import batch_scan, newest_batches
from ottla.storage.segment.index import AbortedTxn
from ottla.storage.segment.leader_epochs import LeaderEpochs
from ottla.storage.segment.segment import LogSegment
from ottla.storage.segment.segment_indexes import SegmentIndexes
from ottla.storage.topics.config import INDEX_DISTANCE_BYTES_MAX, LogConfig
from support.disk.crash_files import CrashFiles, power_losses
from support.logs.batches import batch
from support.logs.make_log import append as log_append
from support.logs.make_log import clean, make_log
from support.noted import each_case
from support.sizes import size

BASE = 100
EVERY_BATCH = LogConfig(index_interval_bytes=0)


class Batch(NamedTuple):
    """A batch that the test appended."""

    position: int
    data: bytes
    base_offset: int
    last_offset: int
    max_timestamp: int

    @property
    def end(self) -> int:
        return self.position + len(self.data)


def new_disk() -> CrashFiles:
    files = CrashFiles()
    files.make_dir("d")
    return files


def create(
    files: CrashFiles | None = None, config: LogConfig = EVERY_BATCH, *, base_offset: int = BASE, suffix: str = ""
) -> LogSegment:
    return LogSegment.create(files or new_disk(), "d", base_offset, config, 0, suffix)


def reopen(segment: LogSegment) -> LogSegment:
    return LogSegment.open(segment.files, "d", segment.base_offset, segment.config, 0, segment.suffix)


def append(segment: LogSegment, *datas: bytes | bytearray) -> list[Batch]:
    """Append batches in one call."""
    appended = []
    position = segment.size_bytes
    for data in datas:
        header = RecordBatch(data)
        appended.append(Batch(position, bytes(data), header.base_offset, header.last_offset, header.max_timestamp))
        position += len(data)
    latest = max(appended, key=lambda each: each.max_timestamp)
    segment.append(
        b"".join(datas),
        last_offset=appended[-1].last_offset,
        max_timestamp_ms=latest.max_timestamp,
        max_timestamp_offset=latest.last_offset,
    )
    return appended


def fill(segment: LogSegment, count: int, *, records: int = 2, value_bytes: int = 10, step: int = 0) -> list[Batch]:
    """Append `count` batches of `records` records, `step` offsets apart, timestamps 1000 ms apart."""
    appended = []
    offset = segment.next_offset()
    for number in range(count):
        pairs = [(f"k{number}", "v" * value_bytes)] * records
        appended += append(segment, batch(*pairs, base_offset=offset, timestamp=1000 * (number + 1)))
        offset += records + step
    return appended


def found(batches: Sequence[Batch], offset: int) -> int:
    """Return the number of batches before the one with which a read at `offset` begins."""
    return sum(each.last_offset < offset for each in batches)


def index_entries(segment: LogSegment) -> tuple[object, object, object]:
    return segment.offset_index.entries(), segment.time_index.entries(), segment.txn_index.entries()


def exhaust(result: object) -> None:
    """Read an iterator to its end; do nothing with other objects."""
    if isinstance(result, Iterator):
        for _ in result:
            pass


# Reading


@pytest.mark.scenario(189)
def test_an_empty_segment_has_nothing_to_read() -> None:
    segment = create()
    assert segment.read(BASE, max_bytes=1000) is None
    assert segment.position_of(BASE) is None
    assert segment.next_offset() == BASE
    assert list(segment.headers()) == []


@pytest.mark.scenario(189)
@pytest.mark.parametrize("config", [EVERY_BATCH, LogConfig(), LogConfig(index_interval_bytes=200)])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_read_starts_with_the_batch_ending_at_or_above_the_offset(config: LogConfig, is_reopened: bool) -> None:
    segment = create(config=config)
    batches = fill(segment, 20, step=3)
    if is_reopened:
        segment.close()
        segment = reopen(segment)
    for offset in range(BASE - 5, batches[-1].last_offset + 5):
        piece = segment.read(offset, max_bytes=1)
        at = found(batches, offset)
        if at == len(batches):
            assert piece is None
        else:
            assert piece is not None
            assert piece.read() == batches[at].data


@pytest.mark.parametrize("config", [EVERY_BATCH, LogConfig(), LogConfig(index_interval_bytes=200)])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_read_ends_with_the_last_fitting_batch_but_returns_one(config: LogConfig, is_reopened: bool) -> None:
    segment = create(config=config)
    batches = fill(segment, 5)
    if is_reopened:
        segment.close()
        segment = reopen(segment)
    size = len(batches[0].data)
    for max_bytes, expected in [
        (0, 1),
        (1, 1),
        (size, 1),
        (2 * size - 1, 1),
        (2 * size, 2),
        (4 * size, 4),
        (999999, 4),
    ]:
        piece = segment.read(batches[1].base_offset, max_bytes=max_bytes)
        assert piece is not None
        assert piece.read() == b"".join(each.data for each in batches[1 : 1 + expected])


def test_a_read_stops_at_the_given_position_and_is_empty_beyond_it() -> None:
    segment = create()
    batches = fill(segment, 5)
    piece = segment.read(BASE, max_bytes=99999, max_position=batches[2].position)
    assert piece is not None
    assert piece.read() == batches[0].data + batches[1].data
    for offset in (batches[2].base_offset, batches[4].last_offset):
        beyond = segment.read(offset, max_bytes=99999, max_position=batches[2].position)
        assert beyond is not None
        assert len(beyond) == 0
    assert segment.read(batches[4].last_offset + 1, max_bytes=99999, max_position=batches[2].position) is None


def test_a_read_at_the_end_after_an_append_needs_no_disk_read(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = create(config=LogConfig())
    batches = fill(segment, newest_batches.NEWEST_BATCHES_MAX // 2)

    def refuse(*arguments: object) -> bytes:
        raise AssertionError("read from disk")

    monkeypatch.setattr(type(segment.log_file), "read_at", refuse)
    for each in batches:
        piece = segment.read(each.base_offset, max_bytes=each.end - each.position + 1)
        assert piece is not None
        assert (piece.position, piece.size_bytes) == (each.position, len(each.data))
    assert segment.read(batches[-1].last_offset + 1, max_bytes=1000) is None
    assert segment.next_offset() == batches[-1].last_offset + 1


def test_the_number_of_remembered_newest_batches_is_limited() -> None:
    newest = newest_batches.NewestBatches()
    for number in range(10 * newest_batches.NEWEST_BATCHES_MAX):
        newest.note(10 * number, 10 * number + 5, 100 * number)
    assert newest.first_offset > 10 * 8 * newest_batches.NEWEST_BATCHES_MAX
    assert newest.position_of(newest.first_offset) == (newest.first_offset // 10 + 1) * 100
    assert newest.end_between(0, 99, 10**6) is None


def test_header_reads_are_bounded_for_any_batch_size() -> None:
    segment = create()
    (large,) = append(segment, batch(("k", "v" * 100_000), base_offset=BASE))
    ((position, header),) = segment.headers()
    assert (position, header.size_bytes, header.is_whole) == (0, len(large.data), False)
    assert len(header.view) <= batch_scan.SCAN_CHUNK_BYTES
    ((_, whole),) = segment.batches(chunk_bytes=100)
    assert bytes(whole.view) == large.data


@pytest.mark.parametrize("chunk_bytes", [61, 100, 333, 5000])
def test_batches_are_complete_for_any_chunk_size(chunk_bytes: int) -> None:
    segment = create()
    batches = fill(segment, 10, records=5) + append(segment, batch(("k", "v" * 2000), base_offset=200))
    expected = [(each.position, each.data) for each in batches]
    read = [(position, bytes(each.view)) for position, each in segment.batches(chunk_bytes=chunk_bytes)]
    assert read == expected
    from_third = [position for position, _ in segment.batches(batches[3].position, chunk_bytes)]
    assert from_third == [each.position for each in batches[3:]]


@pytest.mark.parametrize("torn_bytes", [1, 26, 27, 60, 61, 62])
def test_a_torn_tail_is_an_error_to_readers_that_reach_it(torn_bytes: int) -> None:
    segment = create()
    batches = fill(segment, 3)
    segment.log_file.append(batches[0].data[:torn_bytes])
    torn = reopen(segment)
    for scan in (torn.headers, torn.batches, torn.next_offset, lambda: torn.position_of(BASE + 99)):
        with pytest.raises(CorruptRecordError, match=f"byte {batches[-1].end}"):
            exhaust(scan())
    piece = torn.read(batches[1].base_offset, max_bytes=1)
    assert piece is not None
    assert piece.read() == batches[1].data


@pytest.mark.parametrize(
    ("at", "value"),
    [(8, b"\xff\xff\xff\xff"), (8, b"\0\0\0\0"), (8, b"\0\0\0\x30"), (8, b"\x7f\xff\xff\xff"), (16, b"\1")],
)
def test_an_invalid_header_is_an_error_and_causes_no_endless_loop(at: int, value: bytes) -> None:
    segment = create()
    fill(segment, 1)
    broken = bytearray(batch(("a", "b"), base_offset=150))
    broken[at : at + len(value)] = value
    position = segment.size_bytes
    segment.log_file.append(broken + bytes(200))
    again = reopen(segment)
    for scan in (again.headers, again.batches, again.next_offset):
        with pytest.raises(CorruptRecordError, match=f"byte {position}"):
            exhaust(scan())


# Appending


def test_an_append_is_one_log_file_operation_and_no_index_operation() -> None:
    segment = create()
    fill(segment, 1)
    files = segment.files
    assert isinstance(files, CrashFiles)
    files.operations.clear()
    fill(segment, 50)
    assert files.operations == [("append", paths.log_path("d", BASE))] * 50


def test_an_append_that_the_disk_refuses_changes_nothing() -> None:
    segment = create()
    batches = fill(segment, 3)
    before = (segment.size_bytes, segment.max_timestamp_ms, segment.next_offset(), index_entries(segment))
    files = segment.files
    assert isinstance(files, CrashFiles)
    files.free_bytes = 10
    with pytest.raises(OSError, match="no space"):
        fill(segment, 1)
    assert (segment.size_bytes, segment.max_timestamp_ms, segment.next_offset(), index_entries(segment)) == before
    files.free_bytes = 10_000
    batches += fill(segment, 1)
    assert [position for position, _ in segment.headers()] == [each.position for each in batches]


def test_an_offset_beyond_31_bits_is_refused_before_anything_is_written() -> None:
    segment = create()
    append(segment, batch(("a", "b"), base_offset=BASE + 2**31 - 1))
    size_bytes = segment.size_bytes
    with pytest.raises(ValueError, match="is out of range for a segment"):
        append(segment, batch(("a", "b"), base_offset=BASE + 2**31))
    assert segment.size_bytes == size_bytes


def test_an_index_entry_is_added_every_index_interval_bytes() -> None:
    segment = create(config=LogConfig(index_interval_bytes=250))
    batches = fill(segment, 10)
    size = len(batches[0].data)
    assert 83 < size < 125  # so that every third batch gets one
    expected = [batches[number] for number in (3, 6, 9)]
    assert segment.offset_index.entries() == [(each.last_offset, each.position) for each in expected]
    assert segment.time_index.entries() == [(each.max_timestamp, each.last_offset) for each in expected]


def test_batches_appended_together_are_indexed_one_by_one() -> None:
    """The cleaner appends many batches at once; recovery, batch by batch, must produce the same entries."""
    one_by_one, together = create(), create()
    batches = fill(one_by_one, 10)
    append(together, *(each.data for each in batches))
    one_by_one.on_roll()
    together.on_roll()
    assert index_entries(one_by_one) == index_entries(together)
    assert together.max_timestamp_ms == batches[-1].max_timestamp


def test_a_full_index_allows_appends_without_entries() -> None:
    """The log rolls when an index is full; a segment from another broker may have had a larger limit."""
    segment = create(config=LogConfig(index_interval_bytes=0, segment_index_bytes=36))
    batches = fill(segment, 10)
    assert segment.time_index.is_full
    segment.on_roll()
    assert len(segment.offset_index.entries()) == 2
    assert segment.time_index.last_entry == (batches[-1].max_timestamp, batches[-1].last_offset)
    piece = segment.read(batches[-1].base_offset, max_bytes=1)
    assert piece is not None
    assert piece.read() == batches[-1].data


# Timestamps


def test_the_largest_timestamp_is_that_of_its_first_batch() -> None:
    segment = create()
    append(segment, batch(("a", "b"), base_offset=BASE, timestamp=5))
    (latest,) = append(segment, batch(("a", "b"), ("c", "d"), base_offset=BASE + 1, timestamp=[9, 7]))
    append(segment, batch(("a", "b"), base_offset=BASE + 3, timestamp=9))
    append(segment, batch(("a", "b"), base_offset=BASE + 4, timestamp=6))
    assert (segment.max_timestamp_ms, segment.max_timestamp_offset) == (9, latest.last_offset)
    segment.close()
    again = reopen(segment)
    assert (again.max_timestamp_ms, again.max_timestamp_offset) == (9, latest.last_offset)
    assert again.largest_timestamp_ms == 9


@pytest.mark.scenario(119)
def test_without_timestamps_a_segment_has_the_time_of_its_file() -> None:
    files = new_disk()
    files.now_ms = 777
    segment = create(files)
    append(segment, batch(("a", "b"), base_offset=BASE, timestamp=-1))
    assert (segment.max_timestamp_ms, segment.max_timestamp_offset) == (-1, BASE)
    assert segment.largest_timestamp_ms == 777
    segment.close()
    assert reopen(segment).max_timestamp_ms == -1
    assert reopen(segment).largest_timestamp_ms == 777


def test_the_first_timestamp_is_that_of_the_first_append_or_first_batch() -> None:
    segment = create()
    assert segment.first_batch_timestamp_ms == -1
    append(
        segment,
        batch(("a", "b"), base_offset=BASE, timestamp=5),
        batch(("a", "b"), base_offset=BASE + 1, timestamp=9),
    )
    append(segment, batch(("a", "b"), base_offset=BASE + 2, timestamp=20))
    assert segment.first_batch_timestamp_ms == 9
    segment.close()
    assert reopen(segment).first_batch_timestamp_ms == 5


@pytest.mark.scenario(189)
def test_the_largest_timestamp_is_found_after_the_end_of_the_index() -> None:
    """This is the state after a flush in mid-segment: the final entry is written at roll and close only."""
    segment = create(config=LogConfig(index_interval_bytes=250))
    batches = fill(segment, 5)
    segment.flush()
    again = reopen(segment)
    assert again.time_index.last_entry == (batches[3].max_timestamp, batches[3].last_offset)
    assert (again.max_timestamp_ms, again.max_timestamp_offset) == (
        batches[4].max_timestamp,
        batches[4].last_offset,
    )


@pytest.mark.parametrize("kept", [None, 0, 1, 2])
def test_a_partly_written_time_index_does_not_hide_the_largest_timestamp(kept: int | None) -> None:
    """Otherwise retention would consider a segment older than it is."""
    segment = create()
    for number, timestamp in enumerate([10, 20, 30, 90, 40]):
        append(segment, batch(("k", "v"), base_offset=BASE + number, timestamp=timestamp))
    segment.close()
    path = segment.time_index.path
    if kept is None:
        segment.files.remove(path)
    else:
        segment.files.open(path).truncate(kept * segment.time_index.ENTRY_BYTES)
    again = reopen(segment)
    assert (again.max_timestamp_ms, again.max_timestamp_offset) == (90, BASE + 3)


@pytest.mark.scenario(189)
@each_case(
    "timestamp, starting_offset, expected",
    [
        (0, BASE, (10, BASE)),
        (10, BASE, (10, BASE)),
        (11, BASE, (30, BASE + 1)),
        (31, BASE, (50, BASE + 5)),
        (51, BASE, None),
        (0, BASE + 1, (30, BASE + 1)),
        (0, BASE + 2, (20, BASE + 2)),
        (21, BASE + 2, (50, BASE + 5)),
        (0, BASE + 4, (50, BASE + 5)),
        (0, BASE + 6, (40, BASE + 6)),
        (0, BASE + 7, None),
    ],
)
@each_case("interval_bytes", [0, 4096])
@each_case("codec", [0, 1, 3])
def test_a_search_by_time_finds_the_first_late_enough_record(
    timestamp: int, starting_offset: int, expected: tuple[int, int] | None, interval_bytes: int, codec: int
) -> None:
    segment = create(config=LogConfig(index_interval_bytes=interval_bytes))
    for base_offset, times in ((BASE, [10, 30, 20]), (BASE + 5, [50, 40])):
        pairs = [("k", "v")] * len(times)
        append(segment, batch(*pairs, base_offset=base_offset, timestamp=times, codec=codec))
    assert segment.find_offset_by_timestamp(timestamp, starting_offset) == expected
    segment.close()
    assert reopen(segment).find_offset_by_timestamp(timestamp, starting_offset) == expected


def test_a_search_by_time_skips_an_emptied_batch_that_claims_the_timestamp() -> None:
    """Kafka does the same: max_timestamp_ms matches, the search finds nothing, and later segments are not searched."""
    segment = create()
    append(segment, batch(("a", "b"), base_offset=BASE, timestamp=10))
    emptied = batch(base_offset=BASE + 1, producer_id=1, last_offset_delta=2)
    struct.pack_into(">q", emptied, 35, 99)  # max timestamp, kept from the removed records
    append(segment, emptied)
    assert segment.max_timestamp_ms == 99
    assert segment.find_offset_by_timestamp(50, BASE) is None
    assert segment.next_offset() == BASE + 4


def test_a_search_by_time_reads_a_batch_larger_than_its_chunk() -> None:
    segment = create()
    pairs = [(f"k{number}", "v" * 1000) for number in range(20)]
    append(segment, batch(*pairs, base_offset=BASE, timestamp=range(20)))
    assert segment.find_offset_by_timestamp(15, BASE) == (15, BASE + 15)


def test_log_append_time_matches_the_first_record_of_a_batch() -> None:
    segment = create()
    append(segment, batch(("a", "b"), ("c", "d"), base_offset=BASE, timestamp=50, log_append_time=True))
    assert segment.find_offset_by_timestamp(20, BASE) == (50, BASE)
    assert segment.find_offset_by_timestamp(20, BASE + 1) == (50, BASE + 1)


# Truncation


# The files


def test_an_empty_segment_writes_its_index_files() -> None:
    """Kafka's loader rebuilds a segment that has no offset index, and logs that."""
    segment = create()
    segment.close()
    names = ["00000000000000000100.index", "00000000000000000100.log", "00000000000000000100.timeindex"]
    assert segment.files.list("d") == names


def test_creating_removes_files_of_the_same_names() -> None:
    files = new_disk()
    for kind in paths.SEGMENT_KINDS:
        files.open(paths.segment_path("d", BASE, kind, paths.CLEANED), create=True).append(b"leftover")
    files.open(paths.log_path("d", BASE), create=True).append(b"not this one")
    segment = create(files, suffix=paths.CLEANED)
    assert segment.size_bytes == 0
    fill(segment, 2)
    segment.flush()
    assert index_entries(reopen(segment)) == index_entries(segment)
    assert files.snapshot()[f"/{paths.log_path('d', BASE)}"] == b"not this one"


def test_opening_a_missing_segment_is_an_error_and_creates_no_file() -> None:
    files = new_disk()
    with pytest.raises(FileNotFoundError):
        LogSegment.open(files, "d", BASE, EVERY_BATCH, 0)
    assert files.list("d") == []


def test_opening_reads_nothing() -> None:
    segment = create()
    fill(segment, 3)
    segment.close()
    for kind in (paths.INDEX, paths.TIME_INDEX):
        segment.files.open(paths.segment_path("d", BASE, kind)).append(b"broken")
    assert reopen(segment).size_bytes == segment.log_file.size()


@pytest.mark.scenario(189)
def test_a_suffix_change_renames_the_files_in_the_order_of_a_swap() -> None:
    files = new_disk()
    segment = create(files, suffix=paths.CLEANED)
    fill(segment, 3)
    segment.txn_index.append(AbortedTxn(1, BASE, BASE + 1, BASE + 2))
    segment.flush()
    files.operations.clear()
    segment.change_suffix(paths.CLEANED, paths.SWAP)
    assert files.operations == [
        ("rename", paths.segment_path("d", BASE, kind, paths.CLEANED)) for kind in paths.SEGMENT_KINDS
    ]
    segment.change_suffix(paths.SWAP, "")
    assert files.list("d") == sorted(paths.segment_file_name(BASE, kind) for kind in paths.SEGMENT_KINDS)
    assert index_entries(reopen(segment)) == index_entries(segment)
    with pytest.raises(ValueError, match="does not have"):
        segment.change_suffix(paths.SWAP, "")


def test_a_deleted_segment_can_be_read_to_the_end() -> None:
    segment = create()
    batches = fill(segment, 3)
    segment.flush()
    segment.rename_deleted()
    assert segment.files.list("d") == sorted(path.removeprefix("d/") for path in segment.file_paths()[:3])
    piece = segment.read(BASE, max_bytes=9999)
    segment.delete_files()
    assert segment.files.list("d") == []
    assert piece is not None
    assert piece.read() == b"".join(each.data for each in batches)
    again = segment.read(batches[1].base_offset, max_bytes=1)
    assert again is not None
    assert again.read() == batches[1].data


def test_closing_twice_or_rolling_before_closing_adds_nothing() -> None:
    segment = create()
    fill(segment, 3)
    segment.on_roll()
    entries = index_entries(segment)
    segment.flush()
    segment.close()
    assert index_entries(reopen(segment)) == entries


def test_a_flushed_segment_survives_a_power_loss_with_its_names() -> None:
    files = new_disk()
    files.sync_all()
    segment = create(files)
    fill(segment, 5)
    segment.flush()
    assert [after.snapshot() for after in files.after_crash(ordered=False)] == [files.snapshot()]


@pytest.mark.scenario(191)
def test_a_preallocated_segment_reserves_space_and_releases_the_rest(tmp_path: object) -> None:
    files, directory = OsFiles(), str(tmp_path)
    config = LogConfig(preallocate=True, segment_bytes=1 << 20)
    path = paths.log_path(directory, BASE)
    for finish in (LogSegment.on_roll, LogSegment.close):
        for count in (0, 3):
            segment = LogSegment.create(files, directory, BASE, config, 0)
            batches = fill(segment, count)
            assert files.size(path) == 1 << 20
            assert segment.size_bytes == sum(len(each.data) for each in batches)
            finish(segment)
            assert files.size(path) == sum(len(each.data) for each in batches)


@pytest.mark.scenario(191)
def test_a_crashed_preallocated_segment_is_truncated_to_its_batches() -> None:
    files = new_disk()
    segment = create(files, LogConfig(preallocate=True, segment_bytes=4096))
    batches = fill(segment, 3)
    again = reopen(segment)
    assert again.size_bytes == 4096
    assert again.recover() == 4096 - batches[-1].end
    assert again.next_offset() == batches[-1].last_offset + 1


# Damaged indexes


def assert_as_rebuilt(segment: LogSegment) -> None:
    """Check that the indexes equal those that recovery builds."""
    before = index_entries(segment)[:2]
    rebuilt = reopen(segment)
    assert rebuilt.recover() == 0
    assert before == index_entries(rebuilt)[:2]


def assert_reads(segment: LogSegment, batches: Iterable[Batch]) -> None:
    for each in batches:
        piece = segment.read(each.base_offset, max_bytes=1)
        assert piece is not None
        assert piece.read() == each.data


@each_case("kind", [paths.INDEX, paths.TIME_INDEX])
@each_case("damage", ["missing", "empty", "zeros", "garbage", "cut", "zero tail", "of another log"])
def test_a_damaged_index_file_never_gives_wrong_answers(kind: str, damage: str) -> None:
    segment = create()
    batches = fill(segment, 10)
    segment.close()
    files, path = segment.files, paths.segment_path("d", BASE, kind)
    good = files.open(path).read_at(0, 9999)
    bad = {
        "missing": None,
        "empty": b"",
        "zeros": bytes(len(good)),
        "garbage": b"\x7f\xde" * (len(good) // 2),
        "cut": good[:-5],
        "zero tail": good + bytes(1200),
        "of another log": b"".join(struct.pack(">ii", n, 10000 + n) for n in range(30)),
    }[damage]
    files.remove(path)
    if bad is not None:
        files.open(path, create=True).append(bad)
    again = reopen(segment)
    assert_reads(again, batches)
    assert again.read(batches[-1].last_offset + 1, max_bytes=1) is None
    assert again.next_offset() == batches[-1].last_offset + 1
    assert again.max_timestamp_ms == batches[-1].max_timestamp
    assert again.find_offset_by_timestamp(batches[5].max_timestamp, BASE) == (
        batches[5].max_timestamp,
        batches[5].base_offset,
    )
    batches += fill(again, 3)
    assert_reads(again, batches)


def test_the_sanity_check_passes_after_close() -> None:
    for count in (0, 1, 10):
        segment = create()
        fill(segment, count)
        segment.close()
        reopen(segment).sanity_check()


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (paths.INDEX, None),
        (paths.INDEX, b"1234567"),
        (paths.INDEX, struct.pack(">ii", 3, 50) + bytes(8000)),
        (paths.INDEX, struct.pack(">ii", 3, 1 << 20)),
        (paths.INDEX, struct.pack(">ii", -3, 50)),
        (paths.INDEX, struct.pack(">ii", 3, -50)),
        (paths.TIME_INDEX, b"1234567"),
        (paths.TXN_INDEX, b"1234567"),
        (paths.TXN_INDEX, struct.pack(">hqqqq", 0, 1, 0, BASE - 1, BASE)),
    ],
)
def test_the_sanity_check_finds_files_to_rebuild(kind: str, content: bytes | None) -> None:
    segment = create()
    fill(segment, 10)
    segment.close()
    path = paths.segment_path("d", BASE, kind)
    segment.files.remove(path)
    if content is not None:
        segment.files.open(path, create=True).append(content)
    with pytest.raises(DamagedFileError):
        reopen(segment).sanity_check()


# Recovery


class Replayed:
    """A substitute for the producer states: it notes the replayed batches, and returns given transactions."""

    def __init__(self, aborted: dict[int, AbortedTxn] | None = None) -> None:
        self.offsets: list[int] = []
        self._aborted = aborted or {}

    def replay(self, batch: RecordBatch) -> AbortedTxn | None:
        self.offsets.append(batch.base_offset)
        return self._aborted.get(batch.base_offset)


def test_recovery_of_a_sound_segment_truncates_nothing_and_reports_every_batch() -> None:
    segment = create()
    batches = fill(segment, 10, step=1)
    segment.close()
    aborted = AbortedTxn(1, BASE, batches[4].last_offset, batches[5].base_offset)
    replayed = Replayed({batches[4].base_offset: aborted})
    again = reopen(segment)
    assert again.recover(replayed) == 0
    assert replayed.offsets == [each.base_offset for each in batches]
    assert again.txn_index.entries() == [aborted]
    assert index_entries(again)[:2] == index_entries(segment)[:2]
    assert again.max_timestamp_ms == batches[-1].max_timestamp


def test_recovery_ignores_the_earlier_state_of_the_segment() -> None:
    segment = create()
    batches = fill(segment, 5)
    assert segment.first_batch_timestamp_ms == batches[0].max_timestamp
    segment.txn_index.append(AbortedTxn(1, BASE, BASE + 1, BASE + 2))
    segment.files.open(paths.log_path("d", BASE)).truncate(batches[2].position)
    segment.log_file = segment.files.open(paths.log_path("d", BASE))
    assert segment.recover() == 0
    assert segment.txn_index.entries() == []
    assert segment.next_offset() == batches[2].base_offset
    assert segment.max_timestamp_ms == batches[1].max_timestamp
    assert segment.read(batches[2].base_offset, max_bytes=1) is None
    assert_reads(segment, batches[:2] + fill(segment, 2))


def test_recovery_restores_the_first_timestamp_from_the_first_batch() -> None:
    """The first timestamp is then that of the first batch, as after a restart."""
    segment = create()
    data = [batch(("a", "b"), base_offset=BASE + number, timestamp=5 + number) for number in range(3)]
    append(segment, *data)
    assert segment.first_batch_timestamp_ms == 7
    segment.recover()
    assert segment.first_batch_timestamp_ms == 5


@pytest.mark.scenario(190)
def test_recovery_learns_leader_epochs_from_the_batches() -> None:
    segment = create()
    for offset, epoch in ((BASE, -1), (BASE + 1, 3), (BASE + 2, 3), (BASE + 3, 7), (BASE + 4, 5)):
        append(segment, batch(("a", "b"), base_offset=offset, partition_leader_epoch=epoch))
    epochs = LeaderEpochs(segment.files, "d/leader-epoch-checkpoint")
    reopen(segment).recover(None, epochs)
    assert epochs.entries == ((3, BASE + 1), (7, BASE + 3))


def patched(data: bytes, at: int, *value: int) -> bytes:
    return data[:at] + bytes(value) + data[at + len(value) :]


DAMAGES: dict[str, Callable[[bytes, bytes], bytes]] = {
    # The results for a batch and for what follows it.
    "bit in the records": lambda bad, rest: patched(bad, len(bad) - 1, bad[-1] ^ 1) + rest,
    "bit in the CRC": lambda bad, rest: patched(bad, 17, bad[17] ^ 1) + rest,
    "zeros": lambda bad, rest: bytes(len(bad) + len(rest)),
    "cut": lambda bad, rest: bad[:-1],
    "cut in the header": lambda bad, rest: bad[:60],
    "length": lambda bad, rest: patched(bad, 8, 0x7F, 0xFF, 0xFF, 0xFF) + rest,
    "magic": lambda bad, rest: patched(bad, 16, 1) + rest,
    "last offset below the first": lambda bad, rest: bytes(batch(base_offset=150, last_offset_delta=-2)) + rest,
    "offsets go back": lambda bad, rest: bytes(batch(("a", "b"), base_offset=BASE - 1)) + rest,
}


@pytest.mark.scenario(190)
@each_case("kept", [0, 1, 5])
@each_case("damage", DAMAGES)
def test_recovery_truncates_at_the_first_bad_batch(kept: int, damage: str) -> None:
    segment = create()
    batches = fill(segment, 6)
    bad = batches[kept]
    whole = b"".join(each.data for each in batches)
    data = whole[: bad.position] + DAMAGES[damage](bad.data, whole[bad.end :])
    files = segment.files
    files.open(paths.log_path("d", BASE), truncate=True).append(data)
    again = reopen(segment)
    cut: list[int] = []
    assert again.recover(before_cut=lambda: cut.append(again.size_bytes)) == len(data) - bad.position
    assert cut == [len(data)]
    assert again.size_bytes == files.size(paths.log_path("d", BASE)) == bad.position
    assert again.next_offset() == (batches[kept - 1].last_offset + 1 if kept else BASE)
    assert_reads(again, batches[:kept])
    more = fill(again, 2)
    assert_reads(again, batches[:kept] + more)
    again.close()
    assert_as_rebuilt(reopen(again))


def test_recovery_truncates_a_segment_at_a_batch_with_a_wrong_crc() -> None:
    segment = create()
    batches = fill(segment, 3)
    data = bytearray(b"".join(each.data for each in batches))
    data[batches[1].end - 1] ^= 1
    segment.files.open(paths.log_path("d", BASE), truncate=True).append(data)
    assert reopen(segment).recover() == len(data) - batches[1].position


def test_recovery_checks_a_batch_larger_than_its_chunk_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_scan, "RECOVERY_CHUNK_BYTES", 1000)
    monkeypatch.setattr("ottla.storage.segment.segment.RECOVERY_CHUNK_BYTES", 1000)
    segment = create()
    large = batch(("k", "v" * 5000), base_offset=BASE)
    append(segment, large)
    fill(segment, 2)
    largest = 0
    real = type(segment.log_file).read_at

    def noted(self: object, position: int, size_bytes: int) -> bytes:
        nonlocal largest
        largest = max(largest, size_bytes)
        return real(self, position, size_bytes)  # type: ignore[arg-type]

    monkeypatch.setattr(type(segment.log_file), "read_at", noted)
    assert reopen(segment).recover() == 0
    assert largest == 1000
    damaged = bytearray(large)
    damaged[4000] ^= 1
    size_bytes = segment.size_bytes
    segment.files.open(paths.log_path("d", BASE), truncate=True).append(damaged)
    assert reopen(segment).recover() == len(damaged) < size_bytes


@settings(max_examples=size(25, 200))
@given(garbage=st.binary(max_size=300), kept_bytes=st.integers(0, 600))
def test_recovery_of_a_log_with_any_tail_ends_with_complete_batches(garbage: bytes, kept_bytes: int) -> None:
    segment = create()
    batches = fill(segment, 5)
    data = b"".join(each.data for each in batches)[:kept_bytes] + garbage
    segment.files.open(paths.log_path("d", BASE), truncate=True).append(data)
    again = reopen(segment)
    again.recover()
    whole = [each for each in batches if each.end <= kept_bytes]
    assert again.size_bytes >= sum(len(each.data) for each in whole)
    assert [bytes(each.view) for _, each in again.batches()][: len(whole)] == [each.data for each in whole]


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_after_any_power_loss_recovery_finds_exactly_the_flushed_batches(ordered: bool) -> None:
    written: list[Batch] = []
    flushed: list[Batch] = []

    def scenario(files: CrashFiles) -> None:
        written.clear()
        flushed.clear()
        segment = LogSegment.create(files, "d", BASE, LogConfig(index_interval_bytes=150), 0)
        for _ in range(3):
            written.extend(fill(segment, 2))
            segment.flush()
            flushed[:] = written
        segment.on_roll()
        segment.flush()

    start = new_disk()
    start.sync_all()
    states = 0
    for files in power_losses(scenario, start, ordered=ordered):
        states += 1
        if not files.exists(paths.log_path("d", BASE)):
            assert not flushed
            continue
        segment = LogSegment.open(files, "d", BASE, LogConfig(index_interval_bytes=150), 0)
        segment.recover()
        recovered = [bytes(each.view) for _, each in segment.batches()]
        # An append that the power loss cut off may be there: everything except its acknowledgement was done.
        extra = recovered[len(written) :]
        assert recovered[: len(flushed)] == [each.data for each in flushed]
        assert recovered[: len(written)] == [each.data for each in written][: len(recovered)]
        assert len(extra) <= 2
        segment.close()
        reopen(segment).sanity_check()
        assert_as_rebuilt(reopen(segment))
    assert states > 30


# All operations together

appends = st.tuples(
    st.just("append"),
    st.lists(  # batches: offset gap before it, timestamps (none: an emptied batch), size of the values
        st.tuples(st.integers(0, 5), st.lists(st.integers(-1, 50), max_size=3), st.integers(0, 100)),
        min_size=1,
        max_size=4,
    ),
)
others = st.one_of(
    st.tuples(st.just("read"), st.tuples(st.integers(-3, 40), st.integers(0, 900), st.integers(0, 20))),
    st.tuples(st.sampled_from(["flush", "restart", "crash and recover"]), st.none()),
)


class Pair:
    """A segment, and its expected content."""

    def __init__(self, interval_bytes: int) -> None:
        self.segment = create(config=LogConfig(index_interval_bytes=interval_bytes))
        self.batches: list[Batch] = []

    @property
    def next_offset(self) -> int:
        return self.batches[-1].last_offset + 1 if self.batches else BASE

    def append(self, shapes: list[tuple[int, list[int], int]]) -> None:
        offset, datas = self.next_offset, []
        for gap, times, value_bytes in shapes:
            offset += gap
            pairs = [("k", "v" * value_bytes)] * len(times)
            datas.append(
                batch(*pairs, base_offset=offset, timestamp=times)
                if times
                else batch(base_offset=offset, producer_id=1, last_offset_delta=gap)
            )
            offset = RecordBatch(datas[-1]).next_offset
        self.batches += append(self.segment, *datas)

    def read(self, offset: int, max_bytes: int, bound_at: int) -> None:
        bound = self.batches[bound_at].position if bound_at < len(self.batches) else None
        piece = self.segment.read(BASE + offset, max_bytes=max_bytes, max_position=bound)
        at = found(self.batches, BASE + offset)
        if at == len(self.batches):
            assert piece is None
            return
        assert piece is not None
        expected = b""
        for each in self.batches[at:]:
            if (bound is not None and each.end > bound) or (expected and len(expected + each.data) > max_bytes):
                break
            expected += each.data
        assert piece.read() == expected

    def run(self, action: str, argument: object) -> None:
        match action:
            case "append":
                self.append(argument)  # type: ignore[arg-type]
            case "read":
                self.read(*argument)  # type: ignore[misc]
            case "flush":
                self.segment.flush()
            case "restart":
                self.segment.close()
                self.segment = reopen(self.segment)
            case "crash and recover":
                self.segment = reopen(self.segment)
                assert self.segment.recover() == 0

    def check(self) -> None:
        assert self.segment.next_offset() == self.next_offset
        assert self.segment.size_bytes == sum(len(each.data) for each in self.batches)
        latest = max(self.batches, key=lambda each: each.max_timestamp, default=None)  # the first of several
        expected = (
            (-1, BASE) if latest is None or latest.max_timestamp < 0 else (latest.max_timestamp, latest.last_offset)
        )
        assert (self.segment.max_timestamp_ms, self.segment.max_timestamp_offset) == expected


@settings(max_examples=size(15, 150), deadline=None)
@given(
    interval_bytes=st.sampled_from([0, 150, 400, 5000]),
    first=appends,
    program=st.lists(st.one_of(appends, others), min_size=5, max_size=25),
)
def test_after_any_operations_reads_and_indexes_match_those_of_recovery(
    interval_bytes: int, first: tuple[str, object], program: list[tuple[str, object]]
) -> None:
    pair = Pair(interval_bytes)
    for action, argument in [first, *program]:
        pair.run(action, argument)
        pair.check()
    pair.segment.close()
    closed = reopen(pair.segment)
    closed.sanity_check()
    assert_reads(closed, pair.batches)
    assert_as_rebuilt(closed)


@pytest.mark.parametrize("interval_bytes", [0, 250, 5000])
def test_restarts_inside_a_segment_leave_no_trace_in_the_indexes(interval_bytes: int) -> None:
    """Each stop writes a final time index entry; if more batches follow, it was not the final one."""
    segment = create(config=LogConfig(index_interval_bytes=interval_bytes))
    fill(segment, 1, records=1)
    segment.close()
    segment = reopen(segment)
    for _ in range(10):
        fill(segment, 1)
        append(segment, batch(("k", "v"), base_offset=segment.next_offset(), timestamp=segment.next_offset() * 10))
        segment.close()
        segment = reopen(segment)
    assert_as_rebuilt(segment)


def test_positions_beyond_two_gibibytes_are_not_indexed() -> None:
    """A cleaned file may become this large, since batches grow when timestamps take more bytes than before."""
    files = new_disk()
    log_file = files.open("d/0.log", create=True)
    indexes = SegmentIndexes(files, "d", 0, "", LogConfig(index_interval_bytes=0), log_file)
    indexes.restart()
    size_bytes = 2**30 - 1
    for number in range(4):
        indexes.note(number * size_bytes, size_bytes, number, number, number, number)
    assert list(indexes.offset.entries()) == [(1, size_bytes), (2, 2 * size_bytes)]
    assert indexes.floor_position(3) == 2 * size_bytes
    assert indexes.max_timestamp_ms == 3


@pytest.mark.parametrize("interval_bytes", [4096, 2**31 - 1])
def test_a_search_scans_little_of_a_segment_at_any_index_interval(interval_bytes: int) -> None:
    value, most_bytes = bytes(INDEX_DISTANCE_BYTES_MAX // 2), 2 * INDEX_DISTANCE_BYTES_MAX
    log = make_log(index_interval_bytes=interval_bytes, min_cleanable_dirty_ratio=0)
    for number in range(6):
        log_append(log, (f"{number}", value))
    log.roll(0)
    clean(log)
    for number in range(6):
        log_append(log, (f"{number} again", value))
    for segment in log.segments:
        positions = [0, *(position for _, position in segment.offset_index.entries()), segment.size_bytes]
        assert max(late - early for early, late in pairwise(positions)) <= most_bytes
