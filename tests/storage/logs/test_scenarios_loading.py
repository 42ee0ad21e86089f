"""Opening, truncating and shortening logs, one scenario each: the state that recovery rebuilds, the snapshots that stay."""

from __future__ import annotations

import pytest

from ottla.storage.disk import paths
from ottla.storage.logs.log import Log
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.segment.index import AbortedTxn
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, COMMIT, batch, marker
from support.logs.make_log import (
    TP,
    Producer,
    append,
    append_marker,
    clean,
    contents,
    delete_old_segments,
    log_with_holes,
    make_log,
    reopen,
)

DIRECTORY = f"/data/{TP}"


def snapshots(log: Log) -> list[int]:
    return [int(name[:20]) for name in log.files.list(log.directory) if name.endswith(paths.SNAPSHOT)]


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def producer_ids(log: Log) -> list[int]:
    return sorted(state.producer_id for state in log.producers)


def idempotent_log(count: int, *, every: int = 1) -> Log:
    """Return a log with `count` records of one producer, rolled after every `every`."""
    log = make_log()
    producer = Producer(log, 1)
    for number in range(count):
        producer.write("k")
        if number % every == every - 1:
            log.roll(1_000)
    return log


def damage(log: Log, base_offset: int, at: int = -1) -> None:
    """Change one byte of a segment's log file without the log's knowledge."""
    file = log.files.open(paths.log_path(log.directory, base_offset))
    data = bytearray(file.read_at(0, file.size()))
    data[at] ^= 0x55
    file.truncate(0)
    file.append(data)


# Producers and their snapshots


@pytest.mark.scenario(111)
def test_after_a_crash_all_missing_snapshots_are_rebuilt() -> None:
    log = idempotent_log(5)
    before = {offset: log.files.open(paths.snapshot_path(DIRECTORY, offset)).read_at(0, 999) for offset in range(1, 6)}
    for offset in before:
        log.files.remove(paths.snapshot_path(DIRECTORY, offset))
    log = reopen(log, clean=False)
    assert {
        offset: log.files.open(paths.snapshot_path(DIRECTORY, offset)).read_at(0, 999) for offset in before
    } == before


@pytest.mark.scenario(113)
@pytest.mark.parametrize("clean", [True, False])
def test_markers_with_decreasing_coordinator_epochs_are_read_unchanged_from_disk(clean: bool) -> None:
    made = []
    for number, coordinator_epoch in enumerate([5, 4]):
        at = 2 * number
        made.append(batch(("k", "v"), base_offset=at, producer_id=1, base_sequence=number, transactional=True))
        made.append(marker(ABORT, producer_id=1, base_offset=at + 1, coordinator_epoch=coordinator_epoch))
    log = log_with_holes((0, made))
    log = reopen(log, clean=clean)
    assert (log.log_end_offset, log.last_stable_offset) == (4, 4)
    assert [txn.last_offset for txn in log.aborted_transactions(0, 4)] == [1, 3]


@pytest.mark.scenario(115)
def test_recovery_forgets_the_producer_whose_segment_was_deleted() -> None:
    log = make_log()
    Producer(log, 1).write("k")
    log.roll(1_000)
    Producer(log, 2).write("k")
    log.roll(1_000)
    log.advance_log_start(1)
    assert delete_old_segments(log, 1_000, 1_000) == 1
    assert producer_ids(log) == [1, 2]
    assert producer_ids(reopen(log, clean=False)) == [2]


@pytest.mark.scenario(138)
def test_without_snapshots_producers_are_replayed_while_only_the_last_segment_is_scanned() -> None:
    log = idempotent_log(9, every=3)
    log.close(0)
    for offset in snapshots(log):
        log.files.remove(paths.snapshot_path(DIRECTORY, offset))
    damage(log, 0)
    log = make_log(log.files, recovery_point=9)
    state = log.producers.get(1)
    assert state is not None and state.last_sequence == 8
    assert (log.log_end_offset, bases(log)) == (9, [0, 3, 6, 9])


@pytest.mark.scenario(140)
def test_damage_costs_only_the_snapshots_after_it() -> None:
    log = idempotent_log(9, every=2)
    log.close(0)
    assert snapshots(log) == [2, 4, 6, 8, 9]
    damage(log, 6)
    log = reopen(log, clean=False)
    assert (log.log_end_offset, snapshots(log)) == (7, [2, 4, 6])
    assert snapshots(reopen(log)) == [2, 4, 6, 7]


@pytest.mark.scenario(148)
def test_snapshots_are_removed_after_the_log_start_passes_them() -> None:
    log = idempotent_log(5)
    log.advance_log_start(3)
    delete_old_segments(log, 1_000, 1_000)
    assert (bases(log), snapshots(log)) == ([3, 4, 5], [3, 4, 5])


@pytest.mark.scenario(166)
def test_deleting_segments_forgets_no_active_producer() -> None:
    log = idempotent_log(5)
    log.advance_log_start(5)
    delete_old_segments(log, 1_000, 1_000)
    again = batch(("k", "v"), producer_id=1, base_sequence=5)
    assert log.append(memoryview(again), now_ms=1_000).base_offset == 5


# Indexes


@pytest.mark.scenario(119)
def test_records_without_timestamps_leave_the_time_index_empty() -> None:
    log = make_log(index_interval_bytes=0)
    for number in range(5):
        append(log, (f"{number}", "v"), timestamp=-1, now_ms=1_000)
    log.roll(1_000)
    for _ in range(2):
        assert log.segments.first.time_index.entry_count == 0
        assert log.segments.first.offset_index.entry_count == 4
        log = reopen(log, clean=False)
        log.roll(1_000)


@pytest.mark.scenario(136)
@pytest.mark.parametrize("clean", [True, False])
def test_transaction_indexes_are_rebuilt_with_their_last_stable_offsets(clean: bool) -> None:
    log = make_log()
    one, two, three = (Producer(log, number, transactional=True) for number in (1, 2, 3))
    one.write(*["k"] * 5)
    append(log, *[("k", "v")] * 3)
    assert two.write(*["k"] * 11) == 8
    log.roll(1_000)
    one.write(*["k"] * 10)
    assert one.abort() == 29
    two.write(*["k"] * 6)
    assert three.write(*["k"] * 4) == 36
    log.roll(1_000)
    two.write(*["k"] * 34)
    assert two.abort() == 74
    wanted = [AbortedTxn(1, 0, 29, 8), AbortedTxn(2, 8, 74, 36)]
    assert log.aborted_transactions(0, 75) == wanted
    log.close(0)
    for name in log.files.list(DIRECTORY):
        if name.endswith((".txnindex", ".index")):
            log.files.remove(f"{DIRECTORY}/{name}")
    log = make_log(log.files, clean_shutdown=clean)
    assert (log.aborted_transactions(0, 75), log.last_stable_offset) == (wanted, 36)


@pytest.mark.scenario(125, 126)
@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("count", [1, 3])
def test_offsets_that_do_not_fit_start_a_segment_with_valid_files(codec: int, count: int) -> None:
    log = make_log(index_interval_bytes=0)
    far = 2**31 - 1
    wide = batch(("a", "v"), producer_id=1, base_sequence=0, last_offset_delta=far - 1, codec=codec)
    log.append(memoryview(wide), now_ms=1_000, origin=AppendOrigin.COORDINATOR)
    for number in range(4):
        append(log, *[("b", f"{number}")] * count, codec=codec)
    assert bases(log) == ([0, far + 1] if count == 1 else [0, far])
    assert snapshots(log) == bases(log)[1:]
    active = bases(log)[-1]
    for is_clean in (True, False):
        log = reopen(log, clean=is_clean)
        assert (log.log_end_offset, bases(log)[-1]) == (far + 4 * count, active)
        for segment in log.segments:
            entries = segment.offset_index.entries()
            assert all(segment.base_offset <= offset <= segment.base_offset + 2**31 - 1 for offset, _ in entries)
        assert contents(log)[-1] == (far + 4 * count - 1, b"b", b"3")


@pytest.mark.scenario(139)
def test_damage_below_the_log_start_leaves_one_empty_segment_there() -> None:
    log = idempotent_log(9, every=3)
    log.advance_log_start(5)
    log.close(0)
    damage(log, 0)
    log = reopen(log, clean=False)
    assert (bases(log), log.log_start_offset, log.log_end_offset, contents(log)) == ([5], 5, 5, [])
    assert append(log, ("k", "v")) == 5


@pytest.mark.scenario(159)
@pytest.mark.parametrize(("log_start", "segments"), [(1, 3), (6, 2), (15, 1)])
def test_segments_completely_below_the_log_start_are_deleted(log_start: int, segments: int) -> None:
    log = make_log(cleanup_policy=("delete",), retention_ms=-1)
    for number in range(15):
        append(log, ("k", "v"), roll=number % 5 == 4 and number < 14)
    assert len(log.segments) == 3
    log.advance_log_start(log_start)
    delete_old_segments(log, 1_000, 1_000)
    assert (len(log.segments), log.log_end_offset) == (segments, 15)


# Stable offsets


@pytest.mark.scenario(163)
@pytest.mark.parametrize(("log_start", "stable"), [(2, 3), (4, 4), (6, 6)])
def test_the_last_stable_offset_follows_a_log_start_past_an_open_transaction(log_start: int, stable: int) -> None:
    log = make_log()
    append(log, ("a", "v"), ("b", "v"), ("c", "v"), roll=True)
    Producer(log, 1, transactional=True).write("d", "e", "f")
    log.roll(1_000)
    append(log, ("g", "v"))
    assert log.last_stable_offset == 3
    log.advance_log_start(log_start)
    delete_old_segments(log, 1_000, 1_000)
    assert log.last_stable_offset == stable
    append_marker(log, COMMIT, 1)
    assert log.last_stable_offset == log.log_end_offset


# Swaps


@pytest.mark.scenario(41)
def test_a_crash_in_a_swap_leaves_all_records_or_the_cleaned_ones() -> None:
    files = CrashFiles()
    log = make_log(files)
    for number in range(12):
        append(log, (f"k{number % 5}", f"{number}"), roll=number % 4 == 3)
    disks: list[CrashFiles] = []
    files.refuse = lambda *_: disks.append(files.copy())  # before each operation
    everything = contents(log)
    clean(log)
    left = contents(log)
    assert len(left) == 5 < len(everything)
    wanted = {
        (): everything,
        (".cleaned",): everything,
        (".cleaned", ".swap"): everything,
        (".swap",): left,
        (".deleted", ".swap"): left,
        (".deleted",): left,
    }
    for disk in disks:
        recovered = make_log(disk.copy())
        assert contents(recovered) == wanted[stage_of(disk)]
        assert append(recovered, ("k", "v")) == 12
        clean(recovered)
        assert contents(recovered)[:5] == left
    assert set(map(stage_of, disks)) == set(wanted)


def stage_of(disk: CrashFiles) -> tuple[str, ...]:
    """Return the suffixes of the temporary files that exist."""
    names = disk.list(DIRECTORY)
    return tuple(suffix for suffix in (".cleaned", ".deleted", ".swap") if any(suffix in name for name in names))


@pytest.mark.scenario(129, 130, 131, 132, 133)
def test_a_crash_in_any_stage_of_a_split_keeps_all_records() -> None:
    far = 2**31 + 10
    segments = {0: [0, 1, far, far + 1], far + 5: [far + 5]}
    files = CrashFiles()
    files.make_dir(DIRECTORY)
    for base_offset, found in segments.items():
        file = files.open(paths.log_path(DIRECTORY, base_offset), create=True)
        for offset in found:
            file.append(batch((f"{offset}", "v"), base_offset=offset))
    disks: list[CrashFiles] = []
    files.refuse = lambda *_: disks.append(files.copy())  # before each operation
    make_log(files)
    for disk in disks:
        recovered = make_log(disk.copy())
        assert [offset for offset, _, _ in contents(recovered)] == [0, 1, far, far + 1, far + 5]
        assert bases(recovered) == [0, far, far + 5]
        assert append(recovered, ("k", "v")) == far + 6
    assert set(map(stage_of, disks)) > {(".cleaned",), (".cleaned", ".swap"), (".swap",), (".deleted", ".swap")}
