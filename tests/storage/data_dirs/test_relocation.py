"""A partition that moves from one data directory to another, with a power loss at every step."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable

import pytest

from ottla.storage.data_dirs.inspection import inspect_dirs
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.data_dirs.partition_dirs import assign
from ottla.storage.data_dirs.relocation import Relocation, RelocationError, valid_end
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint, write_partition_metadata
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.segment.leader_epochs import LeaderEpochs
from support.disk.crash_files import CrashFiles
from support.lives.moved_life import CONFIG, DIRS, MOVES, TOPIC_ID, TOPICS, A, caught_up, made, partition_dirs, started
from support.logs.batches import old_message
from support.logs.make_log import append, clean, contents, delete_all, delete_old_segments
from support.sizes import size


def move_of(manager: LogManager, target: str = "/e") -> Relocation:
    return manager.relocation(A, target, 0)


def moved(manager: LogManager, target: str = "/e", allowed_bytes: int = 1 << 20) -> Relocation:
    """Begin, carry out and finish a move."""
    move = move_of(manager, target)
    move.begin()
    caught_up(move, allowed_bytes)
    move.prepare()
    assert move.finish(0)
    manager.delete_later(move.complete(), 0)
    move.release()
    return move


def told(log: Log) -> object:
    """Return all that a log knows."""
    return (
        contents(log),
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        log.leader_epochs.entries,
        [segment.base_offset for segment in log.segments],
        [segment.txn_index.entries() for segment in log.segments],
        [segment.max_timestamp_ms for segment in log.segments],
        [segment.first_batch_timestamp_ms for segment in log.segments],
        [(state.producer_id, state.producer_epoch) for state in log.producers],
    )


@pytest.mark.parametrize("allowed_bytes", [1, 100, 1 << 20])
def test_a_log_goes_on_in_the_other_directory_as_it_was(allowed_bytes: int) -> None:
    manager, log = made()
    before = told(log)
    move = moved(manager, allowed_bytes=allowed_bytes)
    assert told(log) == before
    assert (log.data_dir, log.directory, manager.data_dir_of(A)) == ("/e", "/e/a-0", "/e")
    append(log, ("k9", "after"), roll=True)
    append(log, ("k9", "again"))
    assert [value for _, _, value in contents(log)][-2:] == [b"after", b"again"]
    assert move.copied_up_to == 9
    for remove in manager.due_deletions("/d", 0):
        remove()
    files = log.files
    assert isinstance(files, CrashFiles)
    assert partition_dirs(files) == ["/e/a-0"]
    assert not files.exists(f"/e/a-0/{paths.MOVED_FILE}")
    after = told(log)
    manager.close(0)
    assert told(started(files).logs[A]) == after


def test_indexes_and_snapshots_come_along() -> None:
    manager, log = made()
    files = log.files
    names = {name for name in files.list("/d/a-0") if name != paths.LEADER_EPOCH_CHECKPOINT}
    moved(manager)
    assert names <= {*files.list("/e/a-0")} | {paths.PARTITION_METADATA}
    manager.close(0)
    notes: list[str] = []
    started(files, notes)  # type: ignore[arg-type]
    assert notes == []


def test_the_copy_has_the_leader_epochs_before_it_counts() -> None:
    manager, log = made()
    move = move_of(manager)
    move.begin()
    caught_up(move)
    move.prepare()
    (copy,) = (each for each in partition_dirs(log.files) if each.startswith("/e/"))  # type: ignore[arg-type]
    on_disk = LeaderEpochs(log.files, paths.join(copy, paths.LEADER_EPOCH_CHECKPOINT))
    assert on_disk.entries == log.leader_epochs.entries != ()


def test_what_comes_meanwhile_is_caught_up_with() -> None:
    manager, log = made()
    move = move_of(manager)
    move.begin()
    move.step(1)
    append(log, ("m", "1"), roll=True)
    caught_up(move)
    append(log, ("m", "2"), roll=True)
    move.prepare()
    assert not move.finish(1 << 20)  # the log has rolled
    caught_up(move)
    move.prepare()
    append(log, ("m", "3"))
    assert not move.finish(0)  # more records have arrived
    assert move.finish(1 << 20)
    append(log, ("m", "4"))
    move.complete()
    assert [value for _, _, value in contents(log)][-4:] == [b"1", b"2", b"3", b"4"]
    after = told(log)
    assert told(started(log.files.copy()).logs[A]) == after  # type: ignore[attr-defined]


def test_readers_of_the_old_directory_come_to_their_end() -> None:
    manager, log = made()
    fetched = log.fetch(0, max_bytes=1 << 20, end=log.locate(log.log_end_offset))
    expected = fetched.records.read()
    moved(manager)
    for remove in manager.due_deletions("/d", 0):
        remove()
    assert fetched.records.read() == expected


def test_the_checkpoints_move_along() -> None:
    manager, log = made()
    log.advance_log_start(4)
    manager.checkpoint_log_starts()
    moved(manager)
    files = log.files

    def said(data_dir: str, name: str) -> dict[TopicPartition, int]:
        return OffsetCheckpoint(files, f"{data_dir}/{name}").read()

    assert (said("/d", paths.LOG_START_CHECKPOINT), said("/e", paths.LOG_START_CHECKPOINT)) == ({}, {A: 4})
    assert not said("/d", paths.RECOVERY_POINT_CHECKPOINT)
    assert A in said("/e", paths.RECOVERY_POINT_CHECKPOINT)


def test_a_log_moves_to_and_fro() -> None:
    manager, log = made()
    before = told(log)
    for target in ("/e", "/d", "/e", "/d"):
        moved(manager, target)
        assert told(log) == before
        assert told(started(log.files.copy()).logs[A]) == before  # type: ignore[attr-defined]


def test_a_move_that_is_given_up_leaves_the_log_as_it_was() -> None:
    manager, log = made()
    before = told(log)
    for steps in range(4):
        move = move_of(manager)
        if steps > 0:
            move.begin()
        if steps > 1:
            caught_up(move)
        if steps > 2:
            move.prepare()
        manager.delete_later(move.discard(), 0)
        for remove in manager.due_deletions("/e", 0):
            remove()
        assert told(log) == before
        assert partition_dirs(log.files) == ["/d/a-0"]  # type: ignore[arg-type]


def test_a_flush_that_the_old_disk_refuses_after_the_move_does_not_take_the_new_one_offline() -> None:
    manager, log = made()
    append(log, ("k", "last"))
    flush = log.begin_flush()
    assert flush is not None
    moved(manager)
    log.fail(OSError(errno.EIO, "Input/output error"), flush.health)
    assert (manager.is_offline("/d"), manager.is_offline("/e"), log.failure) == (True, False, None)
    log.flush(0)
    assert log.recovery_point == log.log_end_offset


def test_a_copy_that_was_given_up_is_not_taken_for_the_log_whatever_became_of_that() -> None:
    manager, log = made()
    files = log.files
    assert isinstance(files, CrashFiles)
    move = move_of(manager)
    move.begin()
    caught_up(move)
    move.prepare()
    copied_from = log.segments.active.base_offset
    copy = next(each for each in partition_dirs(files) if each.endswith("-future"))
    files.rename(copy, "/e/a-0")  # the disk renamed it, and reported failure
    move.discard()
    append(log, ("k", "new"), roll=True)
    append(log, ("k", "newer"))
    log.flush(0)
    log.advance_log_start(log.log_end_offset - 1)
    expected = contents(log)[-1:]
    manager.checkpoint_log_starts()
    manager.release()
    for name in list(files.list("/d/a-0")):
        if (found := paths.parse_segment_name(name)) and found.base_offset <= copied_from:
            files.remove(f"/d/a-0/{name}")  # as retention does
    assert contents(started(files).logs[A]) == expected


def test_an_interrupted_move_is_known_at_the_start() -> None:
    manager, log = made()
    move = move_of(manager)
    move.begin()
    move.step(1)
    again = started(log.files.copy())  # type: ignore[attr-defined]
    assert again.interrupted_moves == {A: "/e"}
    for remove in again.due_deletions("/e", 0):
        remove()
    assert again.logs[A].data_dir == "/d"


def test_the_copy_of_a_topic_that_was_deleted_says_nothing_about_one_made_anew() -> None:
    manager, log = made()
    move = move_of(manager)
    move.begin()
    move.step(1)
    files = log.files.copy()  # type: ignore[attr-defined]
    copy = next(each for each in partition_dirs(files) if each.endswith("-future"))
    write_partition_metadata(files, copy, TOPIC_ID[::-1])
    again = started(files)
    assert again.interrupted_moves == {}
    for remove in again.due_deletions("/e", 0):
        remove()
    assert copy not in partition_dirs(files)


def _shorten(log: Log) -> None:
    active = log.segments.active
    active.log_file.truncate(active.size_bytes - 1)


def _retain(log: Log) -> None:
    log.advance_log_start(log.segments.active.base_offset)
    assert delete_old_segments(log, 0, 0)


@pytest.mark.parametrize(
    ("change", "error"), [(_shorten, "was truncated"), (_retain, "lost segments"), (clean, "was changed")]
)
def test_a_log_that_was_changed_meanwhile_is_not_taken_for_the_copy(change: Callable[[Log], None], error: str) -> None:
    manager, log = made()
    move = move_of(manager)
    move.begin()
    caught_up(move)
    move.prepare()
    change(log)
    with pytest.raises(RelocationError, match=f"{error} while it was copied"):
        caught_up(move)
        move.finish(1 << 20)
    assert log.data_dir == "/d"


def refusing(files: CrashFiles, start: str) -> None:
    """Make the disk full below `start` from now on."""

    def refuse(operation: str, path: str, added_bytes: int) -> None:
        if path.startswith(start):
            raise OSError(errno.ENOSPC, "refused", path)

    files.refuse = refuse


def half_moved() -> tuple[LogManager, Log, CrashFiles]:
    """Return a log that has moved on to /e, whose disk has been full since."""
    manager, log = made()
    files = log.files
    assert isinstance(files, CrashFiles)
    log.advance_log_start(6)
    move = move_of(manager)
    move.begin()
    caught_up(move)
    move.prepare()
    assert move.finish(0)
    refusing(files, "/e")
    with pytest.raises(RelocationError):
        move.complete()
    move.release()
    files.refuse = None
    return manager, log, files


def test_records_of_an_old_format_are_not_moved() -> None:
    manager, log = made()
    active = log.segments.active.log_file
    size_bytes = active.size()
    active.truncate(0)
    active.append(old_message(1, 0, value=b"v" * size_bytes))
    move = move_of(manager)
    move.begin()
    with pytest.raises(RelocationError, match="record format v1"):
        caught_up(move)
    assert valid_end(log.files, log.directory, log.segments.active.base_offset) == log.segments.active.base_offset


def test_what_was_put_aside_outlives_an_interrupted_move() -> None:
    manager, log = made()
    files = log.files
    assert isinstance(files, CrashFiles)
    stray = f"/e/{paths.stray_dir_name(*A, 'f' * 32)}"
    files.make_dir(stray)
    move = move_of(manager)
    move.begin()
    move.step(1)
    again = started(files.copy())
    for remove in again.due_deletions("/e", 0):
        remove()
    left = again.logs[A].files
    assert isinstance(left, CrashFiles)
    assert partition_dirs(left) == ["/d/a-0", stray]


def test_a_deleted_log_whose_move_did_not_end_tells_nothing_of_the_next_of_its_name() -> None:
    manager, _, files = half_moved()
    delete_all(manager, [A], 0)
    (log,) = manager.create([A], topic_id=TOPIC_ID, config=CONFIG, now_ms=0, elapsed_ms=0)
    append(log, ("k", "new"))
    log.flush(0)
    manager.checkpoint_log_starts()
    manager.checkpoint_recovery_points()
    assert log.log_start_offset == 0
    expected = contents(log)
    manager.release()
    again = LogManager(files, DIRS)
    again.load(0, 0, config_for=lambda each: CONFIG if each == A else None)
    assert contents(again.logs[A]) == expected


def test_a_log_whose_move_did_not_end_is_known_to_be_in_two_directories() -> None:
    manager, log, files = half_moved()
    assert manager.is_in_two_dirs(A)
    append(log, ("k", "after"))
    expected = contents(log)
    manager.release()
    again = started(files)
    assert not again.is_in_two_dirs(A)
    assert contents(again.logs[A]) == expected


def test_without_the_disk_that_a_log_may_have_gone_to_it_is_not_served() -> None:
    manager, log, files = half_moved()
    append(log, ("k", "after"))
    expected = contents(log)
    manager.checkpoint_log_starts()
    manager.release()

    notes: list[str] = []
    assigned = assign(files, inspect_dirs(files, ["/d"]), TOPICS, notes.append, failed=["/e"])
    assert assigned.undecided == {A: "/e"}
    assigned.apply(files, random.Random(0), notes.append)
    assert notes == [
        ("a-0 was moving to or from /e, whose disk has failed and may have newer records; the partition is offline")
    ]
    alone = LogManager(files, DIRS, failed={"/e": "it has failed"})
    alone.load(0, 0, config_for=lambda _: None)
    alone.checkpoint_log_starts()
    alone.close(0)
    assert OffsetCheckpoint(files, f"/d/{paths.LOG_START_CHECKPOINT}").read() == {A: 6}
    assert contents(started(files).logs[A]) == expected  # the disk works again


def test_without_the_disk_that_a_log_came_from_it_is_not_served_before_all_of_it_is_on_the_other() -> None:
    manager, log, files = half_moved()
    expected = contents(log)
    manager.release()
    assert assign(files, inspect_dirs(files, ["/e"]), TOPICS, print, failed=["/d"]).undecided == {A: "/d"}
    again = started(files)  # with both disks: the move is decided, and the markers are deleted
    assert contents(again.logs[A]) == expected
    again.release()
    assert not files.exists(f"/e/a-0/{paths.MOVED_FILE}")
    assert not assign(files, inspect_dirs(files, ["/e"]), TOPICS, print, failed=["/d"]).undecided


@pytest.mark.parametrize("ends", ["given up", "killed"])
def test_a_log_that_stayed_is_served_without_the_disk_that_it_was_about_to_go_to(ends: str) -> None:
    manager, log = made()
    files = log.files
    assert isinstance(files, CrashFiles)
    move = move_of(manager)
    move.begin()
    caught_up(move)
    move.prepare()
    assert files.exists(f"/d/a-0/{paths.MOVING_FILE}")
    if ends == "given up":
        move.discard()
    else:
        files = files.copy()
        started(files).release()
    assigned = assign(files, inspect_dirs(files, ["/d"]), TOPICS, print, failed=["/e"])
    assert not assigned.undecided
    assert not files.exists(f"/d/a-0/{paths.MOVING_FILE}")


# Changes during a move


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_a_power_loss_leaves_one_whole_log(*, ordered: bool, name: str) -> None:
    counts = (
        MOVES[name]
        .search(
            losses=2,
            ordered=ordered,
            thinned_to=size(20, 1) if ordered else size(184, 23),
            recover_thinned_to=29,
            later_thinned_to=29,
        )
        .counts
    )
    assert not counts.failures, counts.failures
    assert counts.after_one_loss > size(20, 100)


@pytest.mark.parametrize("target", ["/d", "/e"])
def test_a_disk_that_refuses_any_operation_leaves_one_whole_log(target: str) -> None:
    at = 0
    while True:
        manager, log = made()
        before, left = contents(log), [at]
        files = log.files
        assert isinstance(files, CrashFiles)

        def refuse(operation: str, path: str, added_bytes: int, left: list[int] = left) -> None:
            if path.startswith(target):
                left[0] -= 1
                if left[0] == -1:
                    raise OSError(errno.ENOSPC, "refused", path)

        move = move_of(manager)
        files.refuse = refuse
        try:
            move.begin()
            caught_up(move)
            move.prepare()
            assert move.finish(0)
            move.complete()
        except RelocationError:
            files.refuse = None
            if not move.is_decided:
                move.discard()
                assert log.data_dir == "/d"
            assert contents(log) == before
            if log.failure is None:
                append(log, ("k", "after"))
            now = contents(log)
            assert contents(started(files.copy()).logs[A]) == now
        else:
            break
        at += 1
    assert at > 3
