"""Segments from other brokers whose offsets reach more than 31 bits above their base."""

from __future__ import annotations

import pytest

from ottla.storage.disk import paths
from ottla.storage.disk.files import AbortedError
from ottla.storage.logs.log import Log
from ottla.storage.segment.index import AbortedTxn
from ottla.storage.segment.index_file import RELATIVE_OFFSET_MAX
from ottla.storage.segment.split import overflows, split_segment
from support.disk.crash_files import CrashFiles
from support.lives.compacted_life import check_sound
from support.logs.batches import ABORT, batch, marker
from support.logs.make_log import TP, all_batches, append, clean, contents, log_with_holes, make_log, reopen
from support.noted import each_case

FAR = RELATIVE_OFFSET_MAX + 1
"""The first offset that does not fit a segment of base 0."""
DIRECTORY = f"/data/{TP}"


def record(offset: int, key: str = "k", count: int = 1) -> bytearray:
    return batch(*[(f"{key}{number}", "v") for number in range(count)], base_offset=offset)


def disk(base_offset: int, found: list[bytearray]) -> CrashFiles:
    """Return a disk with that one segment; it has no index, as after Kafka's loader removed a bad one."""
    disk = CrashFiles()
    disk.make_dir(DIRECTORY)
    file = disk.open(paths.log_path(DIRECTORY, base_offset), create=True)
    for each in found:
        file.append(each)
    return disk


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


SPLITS: dict[str, tuple[int, list[bytearray], list[int]]] = {
    "one batch does not fit": (0, [record(0), record(FAR)], [0, FAR]),
    "the last one that fits stays": (0, [record(3), record(FAR - 1), record(FAR)], [0, FAR]),
    "a batch whose last offset does not fit": (0, [record(0), record(FAR - 1, count=3)], [0, FAR - 1]),
    "three parts": (0, [record(0), record(FAR + 5), record(FAR + 6), record(2 * FAR + 6)], [0, FAR + 5, 2 * FAR + 6]),
    "no batch fits": (0, [record(FAR), record(FAR + 1)], [FAR]),
    "the only batch begins in reach and ends beyond": (0, [record(FAR - 1, count=3)], [FAR - 1]),
    "a base that is not zero": (7, [record(7), record(FAR + 7)], [7, FAR + 7]),
}


@pytest.mark.scenario(128, 169)
@each_case("clean_shutdown", [True, False], ids=["clean stop", "crash"])
@each_case("base_offset, found, parts", SPLITS.values(), ids=SPLITS)
def test_a_start_splits_an_overflowing_segment(
    base_offset: int, found: list[bytearray], parts: list[int], clean_shutdown: bool
) -> None:
    files = disk(base_offset, found)
    log = make_log(files, clean_shutdown=clean_shutdown, index_interval_bytes=0)

    assert bases(log) == parts
    assert [bytes(each.view) for each in all_batches(log)] == [bytes(each) for each in found]
    check_sound(log)
    assert not [name for name in files.list(DIRECTORY) if name.endswith((".cleaned", ".swap", ".deleted"))]
    end = log.log_end_offset
    assert append(log, ("next", "v")) == end
    files.operations.clear()
    assert bases(reopen(log)) == parts, "there is nothing left to split"
    assert not [path for what, path in files.operations if what == "create" and paths.CLEANED in path]


@pytest.mark.scenario(128, 169)
def test_a_segment_that_fits_is_unchanged() -> None:
    log = make_log(disk(0, [record(0), record(FAR - 1)]))
    assert bases(log) == [0]
    assert not overflows(log.segments.first, FAR)
    assert not overflows(log.segments.first, 5 * FAR), "the next segment may begin far behind"


def test_each_part_keeps_the_aborted_transactions_of_its_markers() -> None:
    found = [
        batch(("a", "aborted"), base_offset=0, producer_id=1, transactional=True),
        batch(("b", "aborted"), base_offset=1, producer_id=2, transactional=True),
        marker(ABORT, base_offset=2, producer_id=1),
        marker(ABORT, base_offset=FAR, producer_id=2),
        record(FAR + 1),
    ]
    log = make_log(disk(0, found))
    assert [each.txn_index.entries() for each in log.segments] == [
        [AbortedTxn(1, 0, 2, 1)],
        [AbortedTxn(2, 1, FAR, FAR + 1)],
    ]
    again = reopen(log)
    assert [each.producer_id for each in again.aborted_transactions(0, again.log_end_offset)] == [1, 2]


def test_the_parts_have_the_age_of_the_segment() -> None:
    files = disk(0, [record(0), record(FAR)])
    files.set_mtime_ms(paths.log_path(DIRECTORY, 0), 12_000)
    files.now_ms = 50_000
    log = make_log(files)
    assert [files.mtime_ms(path) for each in log.segments for path in each.file_paths()[:3]] == [12_000] * 6


def test_an_unreadable_segment_is_not_split_and_leaves_no_files() -> None:
    found = [record(0), record(FAR), record(FAR + 1)]
    found[1][16] = 1  # an unknown magic
    files = disk(0, [*found, record(FAR + 2)])
    log = log_with_holes((3 * FAR, []), files=files, clean_shutdown=True)
    assert bases(log) == [0, 3 * FAR]
    assert not [name for name in files.list(DIRECTORY) if name.endswith(".cleaned")]


def overflowing_log() -> Log:
    """Return a log with keys k0, a, b and again k0, of which only the first fits the segment's index."""
    log = make_log()
    append(log, ("k0", "old"))
    segment = log.segments.active
    for number, key in enumerate(("a", "b", "k0")):
        segment.log_file.append(batch((key, "new"), base_offset=FAR + number))
    log.log_end_offset = FAR + 3
    log.roll(0)
    append(log, ("active", "v"))
    return log


@pytest.mark.scenario(40)
def test_the_cleaner_splits_an_overflowing_segment_and_cleans_it_next() -> None:
    log = overflowing_log()
    before = contents(log)

    with pytest.raises(AbortedError, match="split"):
        clean(log)

    assert contents(log) == before
    assert bases(log) == [0, FAR, FAR + 3]
    end_offset, _ = clean(log)
    assert end_offset == FAR + 3
    assert contents(log) == [entry for entry in before if entry[2] != b"old"]
    check_sound(log)


def test_a_split_that_finds_damage_leaves_no_files() -> None:
    log = overflowing_log()
    segment = log.segments.first
    data = bytearray(segment.log_file.read_at(0, segment.size_bytes))
    segment.log_file.truncate(len(data) - 1)
    names = log.files.list(log.directory)
    with pytest.raises(Exception, match="batch"):
        split_segment(segment, 0)
    assert log.files.list(log.directory) == names
