"""A partition's directory as a reader may find it: at every moment of a server's work on it, and after the server died."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

pytest.importorskip("numpy", reason="needs the extra ottla[spark]")

from ottla.pipeline.errors import SourceChangedError, UsageError
from ottla.pipeline.install.install import install
from ottla.pipeline.stores.segment_files import open_segments
from ottla.protocol.records import batches
from ottla.storage.disk import paths
from ottla.storage.disk.files import Files
from ottla.storage.disk.paths import OFFSET_MAX
from ottla.storage.logs.log import Log
from ottla.storage.segment.segment import LogSegment
from ottla.storage.segment.split import split_segment
from support.disk import crash_files
from support.disk.crash_files import CrashFiles
from support.disk.moving_files import MovingFiles, moments
from support.lives.crash_lives import SECOND_MS
from support.logs.batches import batch
from support.logs.make_log import (
    TP,
    Producer,
    append,
    clean,
    cut_off,
    data_records,
    delete_old_segments,
    log_with_holes,
    make_log,
    remove_deleted,
    reopen,
)
from support.pipeline.install_lives import staged
from support.sizes import size

DIRECTORY = f"/data/{TP}"
LATER_MS = 10**12


class Seen(NamedTuple):
    """The content of a log, as read."""

    records: tuple[tuple[int, bytes | None, bytes | None], ...]
    aborted: frozenset[tuple[int, int]]
    """(producer id, offset of its marker) of the transactions that have data among the records."""


def seen(segments: list[LogSegment]) -> Seen:
    """Return the content of the segments; lookups in the indexes must give the same."""
    found = [each for segment in segments for each in batches(segment.log_file.read_at(0, segment.size_bytes))]
    offsets = [each.base_offset for each in found]
    assert offsets == sorted(set(offsets)), "a batch is there twice, or out of order"
    txns = {txn for segment in segments for txn in segment.txn_index.entries()}
    has_data = {
        (txn.producer_id, txn.last_offset)
        for txn in txns
        for each in found
        if each.producer_id == txn.producer_id
        and each.record_count
        and txn.first_offset <= each.base_offset < txn.last_offset
    }
    for segment in segments:
        own = [header.last_offset for _, header in segment.headers()]
        for offset in (segment.base_offset, *own, OFFSET_MAX):
            below = [header.last_offset for _, header in segment.headers(segment.floor_position(offset))]
            assert [each for each in own if each >= offset] == [each for each in below if each >= offset]
    return Seen(tuple((each.offset, each.key, each.value) for each in data_records(found)), frozenset(has_data))


def read(files: Files, directory: str = DIRECTORY) -> Seen:
    segments = open_segments(files, directory, pause=lambda: None)
    try:
        return seen(segments)
    finally:
        for segment in segments:
            segment.log_file.close()


def loaded(files: CrashFiles, data_dir: str = "/data") -> Seen:
    """Return the log as a start loads it."""
    log = make_log(files.copy(), data_dir=data_dir, now_ms=LATER_MS, recovery_point=OFFSET_MAX, clean_shutdown=True)
    return seen(list(log.segments))


def full_log() -> Log:
    """Return a log with superseded keys, tombstones, and an aborted transaction whose data the next pass removes."""
    log = make_log(segment_bytes=1 << 20, index_interval_bytes=1, file_delete_delay_ms=0)
    append(log, ("a", "1"), ("b", "1"))
    append(log, ("c", "1"), roll=True)
    aborting = Producer(log, 7, transactional=True)
    aborting.write("x", "a")
    aborting.abort()
    append(log, ("a", "2"), ("d", "1"), roll=True)
    append(log, ("b", None), ("e", "1"))
    append(log, ("c", "2"), roll=True)
    append(log, ("f", "1"), roll=True)
    append(log, ("g", "1"))
    log.flush(0)
    return log


def a_pass(log: Log) -> None:
    clean(log)


def a_pass_of_several_groups(log: Log) -> None:
    log.config = make_log(segment_bytes=300).config
    clean(log)


def two_passes(log: Log) -> None:
    clean(log, upper_offset=7)
    remove_deleted(log, LATER_MS)
    clean(log, now_ms=3_000)
    remove_deleted(log, LATER_MS)


def a_roll(log: Log) -> None:
    append(log, ("h", "1"), roll=True)
    append(log, ("i", "1"))
    log.flush(0)


def retention(log: Log) -> None:
    log.advance_log_start(7)
    delete_old_segments(log, LATER_MS, LATER_MS)
    remove_deleted(log, LATER_MS)


def truncation(log: Log) -> None:
    cut_off(log, 4)


def starting_empty(log: Log) -> None:
    cut_off(log, -1)
    log.files.open(paths.log_path(DIRECTORY, 100), create=True).close()


def splitting(log: Log) -> None:
    for segment in log.segments.non_active():
        log.replace_segments(split_segment(segment, 0), [segment], 0)
    remove_deleted(log, LATER_MS)


def stopping(log: Log) -> None:
    log.close(0)


def log_to_split() -> Log:
    return log_with_holes(
        (
            0,
            [
                batch(("a", "1")),
                batch(("b", "1"), base_offset=2**31 + 7),
                batch(("c", "1"), base_offset=2**33),
                batch(("d", "1"), base_offset=2**34),
            ],
        ),
        (2**35, [batch(("a", "2"), base_offset=2**35)]),
        clean_shutdown=True,
    )


WORK: dict[str, tuple[Callable[[], Log], Callable[[Log], None]]] = {
    "a pass": (full_log, a_pass),
    "a pass of several groups": (full_log, a_pass_of_several_groups),
    "two passes": (full_log, two_passes),
    "a roll": (full_log, a_roll),
    "retention": (full_log, retention),
    "truncation": (full_log, truncation),
    "starting again": (full_log, starting_empty),
    "a clean stop": (full_log, stopping),
}
"""Name -> the log, and the work on it."""


def at_work(name: str) -> list[CrashFiles]:
    make, work = WORK[name]
    log = make()
    files = log.files
    assert isinstance(files, CrashFiles)
    files.sync_all()
    found = moments(files, lambda: work(log))
    assert len(found) > 3
    return found


@pytest.mark.parametrize("name", WORK)
def test_at_every_moment_the_log_equals_a_started_servers(name: str) -> None:
    for number, disk in enumerate(at_work(name)[:: size(2, 1)]):
        try:
            found = read(disk)
        except UsageError:
            assert name == "starting again"
            continue
        assert found == loaded(disk), (number, disk.list(DIRECTORY))


ONE_IN = {
    "a pass": size(48, 4),
    "a pass of several groups": size(48, 4),
    "two passes": size(240, 20),
    "retention": 4,
}


@pytest.mark.parametrize("name", ONE_IN)
def test_after_a_crash_at_any_moment_the_log_equals_a_started_servers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test looks at a part of the disks that any subset of directory operations leaves."""
    monkeypatch.setattr(crash_files, "CHANGES_MAX", 6)
    make, work = WORK[name]
    log = make()
    files = log.files
    assert isinstance(files, CrashFiles)
    files.sync_all()
    files.lost_at_most = 2
    known: set[int] = set()
    disks: list[CrashFiles] = []
    files.before_step = lambda: disks.extend(files.after_crash(ordered=False, seen=known, one_in=ONE_IN[name]))
    work(log)
    files.before_step = None
    assert len(disks) > 3
    for disk in disks:
        assert read(disk) == loaded(disk), disk.list(DIRECTORY)


@pytest.mark.parametrize("name", WORK)
def test_a_changing_directory_is_read_in_a_state_it_had(name: str) -> None:
    """The reads begin at every moment: with one step per access, or with a jump to a later moment at any access."""
    found = at_work(name)
    possible = set()
    for disk in found:
        try:
            possible.add(loaded(disk))
        except UsageError:
            continue
    count = len(found)
    for start in range(0, count, size(3, 1)):
        for steps in size((1 + start % 2,), (1, 2, 5)):
            moving = MovingFiles(found, steadily(start, steps))
            assert read(moving) in possible
    for start in range(0, count, size(18, 3)):
        for end in (start + 1, start + 4, count):
            for jump in range(1, 40, size(5, 3)):
                if not end_has_segments(found[min(end, count - 1)]):
                    continue
                moving = MovingFiles(found, at_once(start, end, jump))
                assert read(moving) in possible, (start, end, jump)


def steadily(start: int, looks: int) -> Callable[[int], int]:
    """Return the moments from `start` on, with one step after `looks` accesses."""
    return lambda look: start + look // looks


def at_once(start: int, end: int, look: int) -> Callable[[int], int]:
    """Return the moments before and after a jump at that access."""
    return lambda at: start if at < look else end


def end_has_segments(disk: CrashFiles) -> bool:
    return any(name.endswith(".log") for name in disk.list(DIRECTORY))


def test_a_split_is_read_in_its_state_before_or_after() -> None:
    log = log_to_split()
    files = log.files
    assert isinstance(files, CrashFiles)
    expected = loaded(files)
    for disk in moments(files, lambda: splitting(log)):
        assert read(disk) == expected, disk.list(DIRECTORY)


def test_an_install_does_not_disturb_a_read() -> None:
    life = staged()
    files = life.copy()
    found = moments(files, lambda: install(life.plan, files, now_ms=SECOND_MS))
    for disk in found:
        assert read(disk, life.plan.directory) == loaded(disk, life.plan.data_dir)
    assert len(found) > 80


def test_a_deleted_topic_is_not_damage() -> None:
    log = full_log()
    files = log.files
    assert isinstance(files, CrashFiles)

    def work() -> None:
        files.rename(DIRECTORY, DIRECTORY + "." + "0" * 32 + "-delete")

    before, after = moments(files, work)
    expected = read(before)
    results = set()
    for jump in range(200):
        try:
            moving = MovingFiles([before, after], at_once(0, 1, jump))
            segments = open_segments(moving, DIRECTORY, pause=lambda: None)
        except SourceChangedError as error:
            results.add("was deleted")
            assert "was deleted" in str(error)
        else:
            results.add("read")
            assert seen(segments).records == expected.records
    assert results == {"was deleted", "read"}


def test_an_empty_directory_has_no_segments() -> None:
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    with pytest.raises(UsageError, match="has no segments"):
        read(files)


def test_a_log_that_was_closed_and_opened_is_the_same() -> None:
    log = full_log()
    assert read(log.files) == seen(list(reopen(log).segments))
