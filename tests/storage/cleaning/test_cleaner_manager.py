"""The choice of logs for cleaning, and the reasons to leave them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ottla.storage.cleaning.cleaner_manager import CleanerManager
from ottla.storage.cleaning.dirtiness import LogToClean
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.files import Files
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.steps import to_the_end
from support.cleaner.choosing import filthiest
from support.disk.crash_files import CrashFile, CrashFiles
from support.logs.make_log import all_batches, append, clean, data_records, make_log

DIRTY = TopicPartition("dirty", 0)
CLEANER = TopicPartition("cleaner", 0)
CLEANEST = TopicPartition("cleanest", 0)
CHECKPOINT = "/data/cleaner-offset-checkpoint"


def grown_log(files: Files, tp: TopicPartition, segments: int = 4, **config: Any) -> Log:
    """Return a log with `segments` sealed segments of one record each, all of equal size."""
    log = make_log(files, tp=tp, **config)
    for number in range(segments):
        append(log, ("k", str(number)), roll=True)
    return log


class RefusingFiles(CrashFiles):
    """A disk that refuses to open one file."""

    refuses = ""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> CrashFile:
        if path == self.refuses:
            raise OSError("refused")
        return super().open(path, create=create, truncate=truncate)


class World:
    """Three compacted logs, dirty from offsets 0, 1 and 2 of 4 on, and their manager."""

    def __init__(self) -> None:
        self.files = CrashFiles()
        names = (CLEANER, DIRTY, CLEANEST)
        self.logs = {tp: grown_log(self.files, tp, min_cleanable_dirty_ratio=0.1) for tp in names}
        self.told: list[str] = []
        self.manager = CleanerManager(self.files, self.logs, self.told.append)
        self.write({CLEANER: 1, CLEANEST: 2})

    def write(self, offsets: dict[TopicPartition, int]) -> None:
        OffsetCheckpoint(self.files, CHECKPOINT).write(offsets)

    def checkpoint(self) -> dict[TopicPartition, int]:
        return OffsetCheckpoint(self.files, CHECKPOINT).read()

    def chosen(self) -> LogToClean:
        found = filthiest(self.manager, 5_000)
        self.manager.write_corrections("/data")
        assert found is not None
        return found

    def begun(self, *, compacted: bool) -> list[TopicPartition]:
        """Return the partitions that retention may have now, in progress."""
        return begun(self.manager, self.logs.values(), compacted=compacted)


def begun(manager: CleanerManager, logs: Iterable[Log], *, compacted: bool) -> list[TopicPartition]:
    return [log.topic_partition for log in logs if manager.begin_retention(log, compacted=compacted)]


@pytest.fixture
def world() -> World:
    return World()


def fail_if_called() -> None:
    raise AssertionError("nothing was running")


# Choosing


@pytest.mark.scenario(52, 54, 55)
def test_the_dirtiest_log_comes_first_and_is_then_in_progress(world: World) -> None:
    order = []
    while (found := filthiest(world.manager, 5_000)) is not None:
        order.append((found.log.topic_partition, found.first_dirty_offset, found.upper_offset))
    assert order == [(DIRTY, 0, 4), (CLEANER, 1, 4), (CLEANEST, 2, 4)]
    assert world.manager.state_name(DIRTY) == "in progress"


@pytest.mark.scenario(53, 55)
def test_uncleanable_partitions_are_not_chosen(world: World) -> None:
    world.manager.mark_uncleanable(DIRTY, "unreadable")
    assert world.chosen().log.topic_partition == CLEANER
    world.manager.mark_uncleanable(CLEANEST, "unreadable")
    assert filthiest(world.manager, 5_000) is None
    size_bytes = world.logs[DIRTY].segments.first.size_bytes
    assert world.manager.uncleanable_bytes("/data", 5_000) == 4 * size_bytes + 2 * size_bytes
    assert world.manager.uncleanable_bytes("/other", 5_000) == 0


def test_logs_without_compaction_are_not_chosen(world: World) -> None:
    for log in world.logs.values():
        log.config = make_log(cleanup_policy=("delete",)).config
    assert filthiest(world.manager, 5_000) is None
    assert world.manager.max_dirty_ratio == 0.0


def test_a_log_on_a_failed_disk_is_not_chosen(world: World) -> None:
    world.logs[DIRTY].fail(OSError("the disk is gone"))
    assert world.chosen().log.topic_partition == CLEANER


def test_an_overdue_log_is_due_but_a_dirtier_log_comes_first(world: World) -> None:
    lagging: dict[str, Any] = {"min_cleanable_dirty_ratio": 1.0, "max_compaction_lag_ms": 10}
    world.logs[CLEANEST].config = make_log(**lagging).config
    assert world.chosen().log.topic_partition == DIRTY
    assert world.chosen().log.topic_partition == CLEANER
    assert world.chosen().log.topic_partition == CLEANEST
    assert world.manager.max_lag_overdue_ms == 5_000 - 10 - 1_000


def test_the_largest_ratio_is_known_whether_or_not_it_is_due(world: World) -> None:
    for log in world.logs.values():
        log.config = make_log(min_cleanable_dirty_ratio=1.0).config
    assert filthiest(world.manager, 5_000) is None
    assert world.manager.max_dirty_ratio == 1.0


@pytest.mark.scenario(56, 57, 80, 81)
def test_a_wrong_checkpoint_is_corrected_although_another_log_is_chosen(world: World) -> None:
    world.write({CLEANER: 200, CLEANEST: 1})
    world.logs[CLEANEST].advance_log_start(3)
    world.chosen()
    assert world.checkpoint() == {CLEANER: 0, CLEANEST: 3}
    assert world.told == [
        "cleaner-0 is cleaned from offset 0: its checkpoint 200 is invalid",
        "cleanest-0 is cleaned from offset 3: its checkpoint 1 is invalid",
    ]


def test_a_checkpoint_beyond_its_log_is_corrected_before_the_log_passes_it(world: World) -> None:
    world.write({CLEANER: 9, CLEANEST: 2})
    world.manager.correct_checkpoints(["/data"])
    assert world.checkpoint() == {CLEANER: 0, CLEANEST: 2}
    assert world.told == ["cleaner-0 is cleaned from offset 0: its checkpoint 9 is invalid"]


def test_a_deleted_partitions_checkpoint_does_not_apply_to_a_new_partition() -> None:
    """The process died during the deletion. If the new partition counted as clean, its tombstone would go before its value."""
    files, logs = CrashFiles(), dict[TopicPartition, Log]()
    files.make_dir("/data")
    OffsetCheckpoint(files, CHECKPOINT).write({DIRTY: 2})
    manager = CleanerManager(files, logs)
    manager.correct_checkpoints(["/data"])
    assert OffsetCheckpoint(files, CHECKPOINT).read() == {}
    log = logs[DIRTY] = make_log(files, tp=DIRTY, min_cleanable_dirty_ratio=0.0, delete_retention_ms=0)
    append(log, ("k", "deleted"), roll=True)
    append(log, ("k", None), roll=True)
    for number in range(3):
        now_ms = 2_000 + number
        append(log, ("x", str(number)), now_ms=now_ms, roll=True)
        chosen = filthiest(manager, now_ms)
        assert chosen is not None
        manager.save_end_offset(chosen, clean(log, chosen.first_dirty_offset, now_ms=now_ms)[0])
        manager.done_cleaning(chosen)
    assert [record.key for record in data_records(all_batches(log))] == [b"x"]


def test_a_deleted_partitions_checkpoint_is_ignored_on_a_full_disk(world: World) -> None:
    log = world.logs.pop(CLEANER)
    world.files.free_bytes = 0
    world.manager.correct_checkpoints(["/data"])
    world.logs[CLEANER] = log
    (found,) = world.manager.eligibility([log], 0)
    assert (found.first_dirty_offset, log.failure) == (0, None)


def test_a_checkpoint_applies_only_to_logs_of_its_own_directory() -> None:
    files = CrashFiles()
    logs = {CLEANER: grown_log(files, CLEANER), DIRTY: grown_log(files, DIRTY, data_dir="/other")}
    OffsetCheckpoint(files, CHECKPOINT).write({CLEANER: 1, DIRTY: 4})
    OffsetCheckpoint(files, "/other/cleaner-offset-checkpoint").write({CLEANER: 4, DIRTY: 2})
    manager = CleanerManager(files, logs)
    found = manager.eligibility(list(logs.values()), 0)
    assert [each.first_dirty_offset for each in found] == [1, 2]


def test_a_log_start_that_retention_moved_past_the_checkpoint_is_not_reported(world: World) -> None:
    for log in world.logs.values():
        log.config = make_log(cleanup_policy=("compact", "delete")).config
    world.write({CLEANER: 5, CLEANEST: 1})
    world.logs[CLEANEST].advance_log_start(3)
    world.chosen()
    assert world.checkpoint() == {CLEANER: 0, CLEANEST: 3}
    assert world.told == ["cleaner-0 is cleaned from offset 0: its checkpoint 5 is invalid"]


@pytest.mark.scenario(80)
def test_a_wrong_checkpoint_is_corrected_although_nothing_is_dirty() -> None:
    files = CrashFiles()
    log = make_log(files)
    append(log, ("a", "1"))
    manager = CleanerManager(files, {log.topic_partition: log})
    OffsetCheckpoint(files, CHECKPOINT).write({log.topic_partition: 20})
    assert filthiest(manager, 0) is None and manager.dirs_to_correct == {"/data"}
    manager.write_corrections("/data")
    assert not manager.dirs_to_correct
    assert OffsetCheckpoint(files, CHECKPOINT).read() == {log.topic_partition: 0}


@pytest.mark.scenario(51)
def test_kafka_8725_an_unmeasurable_log_is_reported_and_stops_no_round(world: World) -> None:
    segment = world.logs[DIRTY].segments.first
    segment.log_file.truncate(30)
    world.logs[DIRTY] = make_log(world.files, tp=DIRTY, clean_shutdown=True, min_compaction_lag_ms=1)
    assert world.chosen().log.topic_partition == CLEANER
    assert DIRTY in world.manager.uncleanable
    assert [line for line in world.told if line.startswith("dirty-0 cannot be measured")]


def test_an_invalid_checkpoint_is_reported_and_replaced(world: World) -> None:
    """Apache Kafka's cleaner thread dies of such a checkpoint."""
    file = world.files.open(CHECKPOINT, truncate=True)
    file.append(b"0\n1\ndirty 0 many\n")
    found = world.chosen()
    assert found.first_dirty_offset == 0
    assert {world.chosen().log.topic_partition, world.chosen().log.topic_partition, DIRTY, CLEANER} == set(world.logs)
    (told,) = world.told
    assert "not a number" in told and CHECKPOINT in told
    world.manager.save_end_offset(found, 4)
    assert world.checkpoint() == {found.log.topic_partition: 4}


def test_only_the_directory_with_the_unreadable_checkpoint_fails() -> None:
    files = RefusingFiles()
    logs = {tp: grown_log(files, tp, data_dir=f"/{tp.topic}") for tp in (DIRTY, CLEANER)}
    manager = CleanerManager(files, logs)
    for tp in logs:
        OffsetCheckpoint(files, f"/{tp.topic}/cleaner-offset-checkpoint").write({tp: 1})
    files.refuses = "/dirty/cleaner-offset-checkpoint"
    found = filthiest(manager, 0)
    assert found is not None and found.log.topic_partition == CLEANER
    assert (logs[DIRTY].failure, logs[CLEANER].failure) == ("refused", None)


def test_a_directory_whose_checkpoint_cannot_be_corrected_fails(world: World) -> None:
    files = RefusingFiles()
    log = grown_log(files, DIRTY)
    manager = CleanerManager(files, {DIRTY: log})
    OffsetCheckpoint(files, CHECKPOINT).write({DIRTY: 20})
    files.refuses = f"{CHECKPOINT}.tmp"
    assert filthiest(manager, 0) is not None
    manager.write_corrections("/data")
    assert log.failure == "refused"


def test_a_checkpoint_that_a_full_disk_cannot_correct_counts_as_corrected(world: World) -> None:
    world.write({DIRTY: 20, CLEANER: 1, CLEANEST: 2})
    world.files.free_bytes = 0
    found = world.chosen()
    assert (found.log.topic_partition, found.first_dirty_offset, found.log.failure) == (DIRTY, 0, None)


def test_an_unmeasurable_log_is_unusable_at_the_start(world: World) -> None:
    """Records appended next would count as clean as soon as they reach the checkpoint."""
    world.write({DIRTY: 20, CLEANER: 1})
    world.files.free_bytes = 0
    world.manager.correct_checkpoints(["/data"])
    assert [world.logs[tp].failure is None for tp in (DIRTY, CLEANER, CLEANEST)] == [False, True, True]


def test_an_entry_kept_by_a_full_disk_ignores_a_recreated_partition(world: World) -> None:
    world.write({CLEANER: 3, CLEANEST: 3})
    world.files.free_bytes = 0
    with pytest.raises(OSError, match="no space"):
        world.manager.forget("/data", [CLEANER])
    log = world.logs[CLEANER]
    (found,) = world.manager.eligibility([log], 0)
    assert found.first_dirty_offset == 0
    world.files.free_bytes = 1 << 20
    world.manager.abort_and_pause(CLEANER, fail_if_called)
    world.manager.cleaned_elsewhere(log, 2)
    assert world.checkpoint() == {CLEANER: 2, CLEANEST: 3}


def test_a_failed_log_is_chosen_after_its_pause(world: World) -> None:
    at_ms = world.manager.retries.put_off(DIRTY, "disk full", 5_000).at_ms
    for expected in (CLEANER, CLEANEST):
        assert world.chosen().log.topic_partition == expected
    assert filthiest(world.manager, at_ms - 1) is None
    found = filthiest(world.manager, at_ms)
    assert found is not None and found.log.topic_partition == DIRTY


def test_a_request_and_a_config_change_do_not_wait_for_the_pause(world: World) -> None:
    world.manager.retries.put_off(DIRTY, "disk full", 5_000)
    assert to_the_end(world.manager.take(world.logs[DIRTY], 5_000, is_forced=False)) is not None
    world.manager.leave(DIRTY)
    world.manager.retry(DIRTY)
    assert world.chosen().log.topic_partition == DIRTY


def test_each_data_directory_has_its_own_checkpoint() -> None:
    files = CrashFiles()
    logs = {tp: grown_log(files, tp, data_dir=f"/{tp.topic}") for tp in (DIRTY, CLEANER)}
    manager = CleanerManager(files, logs)
    for _ in logs:
        found = filthiest(manager, 0)
        assert found is not None
        manager.save_end_offset(found, 4)
        manager.done_cleaning(found)
    for tp in logs:
        assert OffsetCheckpoint(files, f"/{tp.topic}/cleaner-offset-checkpoint").read() == {tp: 4}


# A pass and its end


@pytest.mark.scenario(65)
def test_a_completed_pass_writes_its_checkpoint(world: World) -> None:
    found = world.chosen()
    end, _ = clean(found.log, found.first_dirty_offset)
    world.manager.save_end_offset(found, end)
    world.manager.done_cleaning(found)
    assert world.checkpoint() == {DIRTY: 4, CLEANER: 1, CLEANEST: 2}
    assert world.manager.state_name(DIRTY) == "not held"
    assert world.chosen().log.topic_partition == CLEANER


def test_a_checkpoint_drops_deleted_partitions(world: World) -> None:
    world.write({TopicPartition("gone", 3): 7, CLEANER: 1})
    found = world.chosen()
    world.manager.save_end_offset(found, 2)
    assert world.checkpoint() == {DIRTY: 2, CLEANER: 1}


@pytest.mark.scenario(78)
def test_an_aborted_pass_writes_no_checkpoint(world: World) -> None:
    found, told = world.chosen(), []
    assert not world.manager.is_aborting(DIRTY)
    assert not world.manager.abort_and_pause(DIRTY, lambda: told.append("paused"))
    assert world.manager.is_aborting(DIRTY) and world.manager.is_busy(DIRTY)
    world.manager.save_end_offset(found, 4)
    assert (world.checkpoint(), told) == ({CLEANER: 1, CLEANEST: 2}, [])
    world.manager.done_cleaning(found)
    assert told == ["paused"]
    assert world.manager.state_name(DIRTY) == "paused"
    assert not world.manager.is_busy(DIRTY)


# States


def test_pauses_are_counted(world: World) -> None:
    for _ in range(3):
        assert world.manager.abort_and_pause(DIRTY, fail_if_called)
    assert world.manager.state_name(DIRTY) == "paused 3 times"
    for _ in range(2):
        world.manager.resume([DIRTY])
    assert world.chosen().log.topic_partition == CLEANER
    world.manager.resume([DIRTY])
    assert world.chosen().log.topic_partition == DIRTY


@pytest.mark.scenario(70, 71)
def test_a_pause_during_a_pass_is_counted_with_later_pauses(world: World) -> None:
    found = world.chosen()
    world.manager.abort_and_pause(DIRTY, lambda: None)
    world.manager.done_cleaning(found)
    assert world.manager.abort_and_pause(DIRTY, fail_if_called)
    world.manager.resume([DIRTY])
    world.manager.resume([DIRTY])
    assert world.manager.state_name(DIRTY) == "not held"


def in_state(world: World, state: str) -> LogToClean:
    """Bring DIRTY into a state by the calls that lead there."""
    found = world.chosen()
    if state == "aborting":
        world.manager.abort_and_pause(DIRTY, lambda: None)
    elif state != "in progress":
        world.manager.done_cleaning(found)
        if state == "paused":
            world.manager.abort_and_pause(DIRTY, fail_if_called)
    return found


@pytest.mark.scenario(78, 79)
@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("not held", "done cleaning"),
        ("not held", "done deleting"),
        ("not held", "resume"),
        ("paused", "done cleaning"),
        ("paused", "done deleting"),
        ("in progress", "resume"),
        ("aborting", "resume"),
        ("aborting", "pause"),
    ],
)
def test_steps_that_a_state_does_not_allow_are_errors_and_change_nothing(world: World, state: str, event: str) -> None:
    found = in_state(world, state)
    before = world.manager.state_name(DIRTY)
    steps: dict[str, Callable[[], object]] = {
        "done cleaning": lambda: world.manager.done_cleaning(found),
        "done deleting": lambda: world.manager.done_deleting([DIRTY]),
        "resume": lambda: world.manager.resume([DIRTY]),
        "pause": lambda: world.manager.abort_and_pause(DIRTY, fail_if_called),
    }
    with pytest.raises(RuntimeError, match="dirty-0"):
        steps[event]()
    assert world.manager.state_name(DIRTY) == before


# Deletion and retention


@pytest.mark.scenario(60, 61, 62, 170, 171)
@pytest.mark.parametrize(
    ("policy", "for_deletion", "for_retention"),
    [(("compact",), 1, 0), (("compact", "delete"), 1, 0), (("delete",), 0, 1), ((), 0, 1)],
)
def test_compacted_logs_get_their_retention_from_the_cleaner(
    policy: tuple[str, ...], for_deletion: int, for_retention: int
) -> None:
    log = make_log(cleanup_policy=policy)
    manager = CleanerManager(log.files, {log.topic_partition: log})
    for compacted, wanted in ((True, for_deletion), (False, for_retention)):
        assert len(begun(manager, [log], compacted=compacted)) == wanted
        if wanted:
            assert not begun(manager, [log], compacted=compacted)
            manager.done_deleting([log.topic_partition])
    assert manager.state_name(log.topic_partition) == "not held"


@pytest.mark.scenario(63)
def test_uncleanable_logs_get_no_retention() -> None:
    log = make_log()
    manager = CleanerManager(log.files, {log.topic_partition: log})
    manager.mark_uncleanable(log.topic_partition, "unreadable")
    assert not begun(manager, [log], compacted=True)


@pytest.mark.scenario(64)
def test_cleaner_and_retention_exclude_each_other_across_policy_changes(world: World) -> None:
    compacted, deleted = world.logs[DIRTY].config, make_log(cleanup_policy=("delete",)).config
    world.logs[DIRTY].config = deleted
    assert world.begun(compacted=False) == [DIRTY]
    world.logs[DIRTY].config = compacted
    assert world.chosen().log.topic_partition == CLEANER
    world.manager.done_deleting([DIRTY])
    found = world.chosen()
    assert found.log.topic_partition == DIRTY
    world.logs[DIRTY].config = deleted
    assert not world.begun(compacted=False)
    world.manager.done_cleaning(found)
    assert world.begun(compacted=False) == [DIRTY]


@pytest.mark.scenario(4)
def test_deletion_and_cleaning_exclude_each_other(world: World) -> None:
    found = world.chosen()
    assert set(world.begun(compacted=True)) == {CLEANER, CLEANEST}
    assert filthiest(world.manager, 5_000) is None
    world.manager.done_cleaning(found)
    assert world.begun(compacted=True) == [DIRTY]


# Partitions that come and go


@pytest.mark.scenario(66, 71)
def test_a_deleted_partition_leaves_no_checkpoint_and_no_mark(world: World) -> None:
    world.manager.mark_uncleanable(CLEANER, "unreadable")
    del world.logs[CLEANER]
    world.manager.forget("/data", [CLEANER])
    assert world.checkpoint() == {CLEANEST: 2}
    assert world.manager.uncleanable == {}


@pytest.mark.scenario(82)
def test_marks_of_missing_partitions_are_dropped(world: World) -> None:
    world.manager.mark_uncleanable(CLEANER, "unreadable")
    world.manager.mark_uncleanable(DIRTY, "unreadable")
    del world.logs[CLEANER]
    world.manager.review_marks()
    assert set(world.manager.uncleanable) == {DIRTY}
    assert world.manager.uncleanable_partitions("/data") == [DIRTY]


def test_kafka_19895_a_log_with_a_moved_start_is_retried(world: World) -> None:
    """The damage may lie below the new start."""
    for tp in (DIRTY, CLEANEST):
        world.manager.mark_uncleanable(tp, "unreadable")
    world.logs[DIRTY].advance_log_start(3)
    world.manager.review_marks()
    assert set(world.manager.uncleanable) == {CLEANEST}
    assert DIRTY in world.begun(compacted=True)


def test_the_reason_of_a_mark_is_readable_for_an_unmeasurable_log(world: World) -> None:
    world.logs[DIRTY].segments.first.log_file.truncate(30)
    world.logs[DIRTY] = make_log(world.files, tp=DIRTY, clean_shutdown=True, min_compaction_lag_ms=1)
    (before,) = world.manager.eligibility([world.logs[DIRTY]], 5_000)
    filthiest(world.manager, 5_000)
    (after,) = world.manager.eligibility([world.logs[DIRTY]], 5_000)
    assert after == before
    assert (after.eligible, after.waits_for) == (False, "uncleanable")
    assert after.uncleanable == world.manager.uncleanable[DIRTY].reason != ""
    assert world.manager.uncleanable_bytes("/data", 5_000) == 0
