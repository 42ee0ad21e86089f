"""All logs of a broker: data directories, their locks and identities, creation, deletion, checkpoints, stops."""

import errno
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.storage.data_dirs.data_dir import DataDir
from ottla.storage.data_dirs.making import Fill
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import (
    MetaProperties,
    OffsetCheckpoint,
    read_meta_properties,
    read_partition_metadata,
    write_meta_properties,
)
from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.log import Log
from ottla.storage.logs.log_parts import LogPlace
from ottla.storage.logs.recovery import load_log
from ottla.storage.topics.config import LogConfig
from support.calls import calls_of
from support.disk.crash_files import CrashFiles
from support.logs.make_log import append, contents, delete_all, delete_old_segments

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
TOPIC_ID = bytes(range(1, 17))
CLUSTER = "cluster-1"


def locked(files: CrashFiles, *dirs: str, notes: list[str] | None = None, **options: Any) -> LogManager:
    return LogManager(files, dirs or ("/d",), note=notes.append if notes is not None else lambda _: None, **options)


def opened(
    files: CrashFiles,
    *dirs: str,
    notes: list[str] | None = None,
    now_ms: int = 0,
    config: LogConfig = LogConfig(),  # noqa: B008
) -> LogManager:
    manager = locked(files, *dirs, notes=notes)
    manager.load(now_ms, now_ms, config_for=lambda _: config)
    claim(manager)
    return manager


def claim(manager: LogManager, cluster_id: str = CLUSTER) -> None:
    manager.claim(manager.data_dirs[0], cluster_id, lambda _: None)


def create(manager: LogManager, *partitions: TopicPartition, **config: Any) -> list[Log]:
    return manager.create(partitions or [A], topic_id=TOPIC_ID, config=LogConfig(**config), now_ms=0, elapsed_ms=0)


def remove_due(manager: LogManager, now_ms: int) -> None:
    for remove in manager.due_deletions("/d", now_ms):
        remove()


def killed(files: CrashFiles, *dirs: str, **options: Any) -> LogManager:
    """Start again after the process was killed: all writes are there, nothing was closed."""
    return opened(files.copy(), *dirs, **options)


def checkpoint(files: CrashFiles, name: str, data_dir: str = "/d") -> dict[TopicPartition, int]:
    return OffsetCheckpoint(files, f"{data_dir}/{name}").read()


def refuse(files: CrashFiles, operation: str, part: str = "") -> None:
    def no(name: str, path: str, _: int) -> None:
        if name == operation and part in path:
            raise OSError(errno.EIO, "the disk is tired", path)

    files.refuse = no


# Directories


def test_a_new_directory_gets_an_identity() -> None:
    files = CrashFiles()
    manager = locked(files, "/x/d", node_id=4)
    assert files.list("/x/d") == [".lock"]
    claim(manager)
    identity = read_meta_properties(files, "/x/d")
    assert identity is not None
    assert (identity.cluster_id, identity.node_id, len(identity.directory_id or b"")) == (CLUSTER, 4, 16)
    manager.close(0)
    again = locked(files, "/x/d", node_id=4)
    claim(again)
    assert read_meta_properties(files, "/x/d") == identity


def test_every_directory_has_its_own_id() -> None:
    files = CrashFiles()
    opened(files, "/d", "/e")
    identities = [read_meta_properties(files, path) for path in ("/d", "/e")]
    assert len({identity.directory_id for identity in identities if identity}) == 2


def test_the_id_of_a_directory_never_looks_like_an_option() -> None:
    class Draws(random.Random):
        def randbytes(self, n: int) -> bytes:
            return drawn.pop(0)

    drawn = [bytes([0xF8]) * 16, bytes([0xFB]) * 16, bytes([0xFC]) * 16]
    files = CrashFiles()
    manager = LogManager(files, ["/d"], rng=Draws())
    claim(manager)
    identity = read_meta_properties(files, "/d")
    assert identity is not None and identity.directory_id == bytes([0xFC]) * 16


@pytest.mark.scenario(178)
def test_a_second_manager_on_a_directory_is_refused() -> None:
    files = CrashFiles()
    manager = opened(files)
    with pytest.raises(DataDirectoryError, match="/d"):
        locked(files)
    manager.close(0)
    locked(files).release()


def test_when_one_directory_is_refused_none_stays_locked() -> None:
    files = CrashFiles()
    held = DataDir(files, "/e")
    with pytest.raises(DataDirectoryError, match="/e"):
        locked(files, "/d", "/e")
    held.release()
    locked(files, "/d", "/e").release()


@pytest.mark.parametrize(
    "identities, node_id, message",
    [
        ([("c1", 0), ("c2", 0)], 0, "belongs to cluster c2, /d to c1"),
        ([("c1", 1)], 0, "belongs to node 1, but node.id is 0"),
        ([("c1", 0), ("c1", 7)], 0, "/e belongs to node 7"),
    ],
)
def test_foreign_directories_are_refused_and_unchanged(
    identities: Sequence[tuple[str, int]], node_id: int, message: str
) -> None:
    files = CrashFiles()
    for path, (cluster_id, of_node) in zip(("/d", "/e"), identities, strict=False):
        files.make_dir(path)
        write_meta_properties(files, path, MetaProperties(cluster_id=cluster_id, node_id=of_node, directory_id=None))
    before = files.snapshot()
    with pytest.raises(DataDirectoryError, match=message):
        locked(files, "/d", "/e", node_id=node_id)
    assert {path: data for path, data in files.snapshot().items() if ".lock" not in path} == before


def test_another_cluster_is_refused() -> None:
    files = CrashFiles()
    opened(files).close(0)
    before = files.snapshot()
    manager = locked(files)
    with pytest.raises(DataDirectoryError, match="belongs to cluster cluster-1, not to cluster-2"):
        claim(manager, "cluster-2")
    assert files.snapshot() == before


def test_a_broken_identity_is_reported_in_one_line() -> None:
    files = CrashFiles()
    files.make_dir("/d")
    files.open("/d/meta.properties", create=True).append(b"version=7\ncluster.id=x\nnode.id=0\n")
    with pytest.raises(DataDirectoryError) as raised:
        locked(files)
    assert "unknown version" in str(raised.value) and "\n" not in str(raised.value)


def test_a_directory_that_cannot_be_created_is_reported_in_one_line() -> None:
    files = CrashFiles()
    refuse(files, "make_dir")
    with pytest.raises(DataDirectoryError, match=r"data directory /d: .*tired"):
        locked(files)


@pytest.mark.scenario(179)
@pytest.mark.parametrize("path", ["/d", "/d/", "d", "./d//", "/x/../d/"])
def test_paths_may_be_relative_or_end_with_a_slash(path: str) -> None:
    files = CrashFiles()
    manager = opened(files, path)
    append(create(manager)[0], ("k", "v"))
    manager.close(0)
    manager = opened(files, path)
    assert manager.logs[A].log_end_offset == 1
    assert manager.data_dir_of(A) in manager.data_dirs and not manager.data_dirs[0].endswith("/")
    assert checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT, path) == {A: 0}


# Loading


def test_closed_logs_load_unchanged() -> None:
    files = CrashFiles()
    manager = opened(files)
    for number, log in enumerate(create(manager, A, B, C)):
        for _ in range(number + 1):
            append(log, ("k", "v"))
    manager.close(0)

    notes: list[str] = []
    manager = opened(files, notes=notes)

    assert manager.was_clean and notes == []
    assert {tp: log.log_end_offset for tp, log in manager.logs.items()} == {A: 1, B: 2, C: 3}
    assert all(log.recovery_point == log.log_end_offset and log.topic_id == TOPIC_ID for log in manager.logs.values())


def test_a_new_directory_counts_as_not_cleanly_stopped() -> None:
    assert not opened(CrashFiles()).was_clean


def test_every_log_runs_with_its_topics_configuration() -> None:
    files = CrashFiles()
    manager = opened(files)
    create(manager, A, C)
    manager.close(0)
    manager = locked(files)
    configs = {"a": LogConfig(segment_ms=1), "b": LogConfig(segment_ms=2)}
    manager.load(0, 0, config_for=lambda each: configs[each.topic])
    assert (manager.logs[A].config.segment_ms, manager.logs[C].config.segment_ms) == (1, 2)


@pytest.mark.scenario(110, 179)
def test_after_a_crash_recovery_starts_at_the_checkpointed_recovery_points() -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = create(manager)
    append(log, ("k", "v"), roll=True)
    append(log, ("k", "v"))
    log.flush(0)
    manager.checkpoint_recovery_points()
    append(log, ("k", "v"))
    assert checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT) == {A: 1}  # where the active segment begins
    assert checkpoint(files, paths.REPLICATION_CHECKPOINT) == {A: 2}

    manager = killed(files)

    assert not manager.was_clean
    assert (manager.logs[A].recovery_point, manager.logs[A].log_end_offset) == (1, 3)


def test_the_recovery_point_is_not_beyond_a_recovered_logs_end() -> None:
    """Otherwise records appended next would count as flushed, and a second crash would leave them unscanned."""
    files = CrashFiles()
    manager = opened(files)
    (log,) = create(manager)
    append(log, ("k", "v"))
    append(log, ("k", "v"), roll=True)
    log.flush(0)
    manager.checkpoint_recovery_points()
    assert checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT) == {A: 2}
    files.remove("/d/a-0/00000000000000000002.log")
    files.open("/d/a-0/00000000000000000000.log").truncate(80)
    after = files.copy()
    assert opened(after).logs[A].log_end_offset == 1
    assert checkpoint(after, paths.RECOVERY_POINT_CHECKPOINT) == {A: 0}


@pytest.mark.parametrize("name", [paths.RECOVERY_POINT_CHECKPOINT, paths.LOG_START_CHECKPOINT])
def test_a_broken_checkpoint_counts_as_empty_and_is_reported(name: str) -> None:
    files = CrashFiles()
    manager = opened(files)
    append(create(manager)[0], ("k", "v"))
    manager.close(0)
    files.open(f"/d/{name}").append(b"nonsense")
    files.remove("/d/.kafka_cleanshutdown")
    notes: list[str] = []
    assert opened(files, notes=notes).logs[A].log_end_offset == 1
    assert len(notes) == 1 and name in notes[0]


def test_directories_without_our_logs_are_left_alone_or_removed() -> None:
    files = CrashFiles()
    unique = "0123456789abcdef0123456789abcdef"
    for name in (
        "__cluster_metadata-0",
        f"a-0.{unique}-stray",
        f"a-1.{unique}-future",
        "lost+found",
        "not-a-partition-",
    ):
        files.make_dir(f"/d/{name}")
    files.make_dir(f"/d/a-2.{unique}-delete")
    files.open("/d/file-0", create=True)
    notes: list[str] = []
    manager = opened(files, notes=notes)
    assert len(manager.logs) == 0
    assert [note.split()[1].rstrip(":") for note in notes] == [f"/d/a-0.{unique}-stray"]
    assert manager.interrupted_moves == {B: "/d"}
    remove_due(manager, 0)
    assert files.list("/d") == sorted(
        [
            ".lock",
            "__cluster_metadata-0",
            f"a-0.{unique}-stray",
            "file-0",
            "log-start-offset-checkpoint",
            "lost+found",
            "meta.properties",
            "not-a-partition-",
            "recovery-point-offset-checkpoint",
        ]
    )


def test_a_partition_in_two_directories_is_refused() -> None:
    files = CrashFiles()
    opened(files, "/d", "/e").close(0)
    for path in ("/d", "/e"):
        files.make_dir(f"{path}/a-0")
    with pytest.raises(DataDirectoryError, match="a-0 is in both /d and /e"):
        opened(files, "/d", "/e")


def test_a_broken_topic_id_is_reported_and_ignored() -> None:
    files = CrashFiles()
    manager = opened(files)
    create(manager)
    manager.close(0)
    files.open("/d/a-0/partition.metadata").truncate(3)
    notes: list[str] = []
    assert opened(files, notes=notes).logs[A].topic_id is None
    assert len(notes) == 1 and "partition.metadata" in notes[0]


def test_known_topic_ids_are_not_read_from_directories() -> None:
    files, read = CrashFiles(), list[str]()
    manager = opened(files)
    create(manager)
    manager.close(0)
    files.refuse_reading = read.append
    manager = locked(files)
    manager.load(0, 0, config_for=lambda _: LogConfig(), topic_id_of={"a": TOPIC_ID}.__getitem__)
    assert manager.logs[A].topic_id == TOPIC_ID
    assert not [path for path in read if "partition.metadata" in path]


# Creating and deleting


def test_a_created_partition_exists_with_its_topic_id() -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = create(manager, segment_ms=5)
    assert manager.logs[A] is log and log.topic_id == TOPIC_ID and log.config.segment_ms == 5
    assert read_partition_metadata(files, "/d/a-0") == TOPIC_ID
    assert files.list("/d/a-0") == ["00000000000000000000.log", "partition.metadata"]
    with pytest.raises(FileExistsError):
        create(manager)


def test_new_partitions_use_the_directory_with_the_fewest() -> None:
    manager = opened(CrashFiles(), "/d", "/e")
    create(manager, A, B, C)
    assert [manager.data_dir_of(tp) for tp in (A, B, C)] == ["/d", "/e", "/d"]
    delete_all(manager, [A], 0)
    delete_all(manager, [C], 0)
    create(manager, A)
    assert manager.data_dir_of(A) == "/d"


@pytest.mark.parametrize("operation", ["make_dir", "create", "append", "sync_dir"])
def test_a_creation_that_the_disk_refuses_leaves_nothing(operation: str) -> None:
    files = CrashFiles()
    manager = opened(files)
    before = files.list("/d")
    refuse(files, operation)
    with pytest.raises(OSError):
        create(manager)
    files.refuse = None
    assert files.list("/d") == before and len(manager.logs) == 0
    create(manager)


@pytest.mark.parametrize("nth", range(3))
@pytest.mark.parametrize("operation", ["make_dir", "create", "append"])
def test_a_disk_that_refuses_one_of_many_partitions_keeps_none(operation: str, nth: int) -> None:
    files = CrashFiles()
    manager = opened(files)
    before = files.list("/d")
    left = [nth]

    def refuse_nth(asked: str, path: str, _: int) -> None:
        if asked == operation:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, "no room", path)

    files.refuse = refuse_nth
    with pytest.raises(OSError):
        create(manager, A, B, C)
    files.refuse = None
    assert files.list("/d") == before and len(manager.logs) == 0
    create(manager, A, B, C)


def test_the_cost_per_partition_does_not_grow_with_their_number() -> None:
    def calls_for(count: int) -> tuple[int, int]:
        manager = opened(CrashFiles())
        partitions = [TopicPartition("t", index) for index in range(count)]
        created = calls_of(lambda: create(manager, *partitions))
        return created, calls_of(lambda: delete_all(manager, partitions, 0))

    for few, many in zip(calls_for(20), calls_for(200), strict=True):
        assert many < 11 * few


def test_partitions_change_with_one_table_update_and_one_directory_sync() -> None:
    files = CrashFiles()
    manager = opened(files)
    syncs: list[str] = []
    files.refuse = lambda operation, path, _: syncs.append(path) if operation == "sync_dir" else None
    create(manager, A, B, C)
    assert syncs.count("/d") == 1
    table = manager.logs.values()
    syncs.clear()
    delete_all(manager, [A, B, C], 0)
    assert len(table) == 3 and len(manager.logs) == 0, "who walks the table sees all or none go"


def test_a_deleted_partition_is_set_aside_and_later_removed() -> None:
    files = CrashFiles()
    manager = opened(files)
    log, other = create(manager, A, B, file_delete_delay_ms=500)
    append(log, ("k", "v"))
    held = log.read(0, max_bytes=1, up_to=1)

    delete_all(manager, [A], 1_000)

    assert A not in manager.logs and manager.logs[B] is other
    with pytest.raises(KafkaError) as raised:
        append(log, ("k", "v"))
    assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    aside = [name for name in files.list("/d") if name.endswith("-delete")]
    assert len(aside) == 1 and aside[0].startswith("a-0.")
    remove_due(manager, 1_499)
    assert files.exists(f"/d/{aside[0]}")
    remove_due(manager, 1_500)
    assert not files.exists(f"/d/{aside[0]}")
    assert len(held.read()) > 0
    append(other, ("k", "v"))
    with pytest.raises(KeyError):
        delete_all(manager, [A], 0)


def test_a_recreated_partition_inherits_nothing() -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = create(manager)
    for _ in range(5):
        append(log, ("old", "v"), producer_id=3, base_sequence=log.log_end_offset)
    log.advance_log_start(4)
    log.flush(0)
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_starts()
    delete_all(manager, [A], 0)
    assert checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT) == checkpoint(files, paths.LOG_START_CHECKPOINT) == {}

    (log,) = create(manager)
    assert append(log, ("new", "v")) == 0
    assert contents(killed(files).logs[A]) == [(0, b"new", b"v")]


def with_old_offsets(files: CrashFiles) -> LogManager:
    """Return a manager whose checkpoints have flushed records of A, and a log start that no segment has."""
    manager = opened(files)
    (log,) = create(manager)
    append(log, *[("old", "v")] * 9)
    log.advance_log_start(9)
    log.flush(0)
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_starts()
    return manager


def deleted_while_checkpoints_are_refused(files: CrashFiles) -> LogManager:
    manager = with_old_offsets(files)
    refuse(files, "append", "-offset-checkpoint")
    with pytest.raises(OSError, match="tired"):
        delete_all(manager, [A], 0)
    files.refuse = None
    return manager


def set_aside_before_the_next_creation(files: CrashFiles) -> LogManager:
    with_old_offsets(files).close(0)
    files.rename(f"/d/{A}", f"/d/{paths.stray_dir_name(*A, '0' * 32)}")
    return opened(files)


@pytest.mark.parametrize("before", [deleted_while_checkpoints_are_refused, set_aside_before_the_next_creation])
def test_no_checkpoint_of_an_earlier_log_applies_to_a_recreated_one(
    before: Callable[[CrashFiles], LogManager],
) -> None:
    files = CrashFiles()
    manager = before(files)
    refuse(files, "append", "-offset-checkpoint")
    with pytest.raises(OSError, match="tired"):
        create(manager)
    files.refuse = None
    (log,) = create(manager)
    append(log, ("new", "v"))
    found = killed(files).logs[A]
    assert (contents(found), found.recovery_point) == ([(0, b"new", b"v")], 0)


@pytest.mark.scenario(181)
def test_overlong_topic_names_can_be_created_and_deleted() -> None:
    files = CrashFiles()
    manager = opened(files)
    long = TopicPartition("x" * 249, 12)
    create(manager, long)
    delete_all(manager, [long], 0)
    assert max(map(len, files.list("/d"))) == 255
    manager.close(0)
    manager = opened(files, now_ms=5)
    assert len(manager.logs) == 0
    remove_due(manager, 5)
    assert not [name for name in files.list("/d") if "xxx" in name]


def test_deletions_overtaken_by_a_stop_are_completed_after_the_next_start() -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = create(manager, B, cleanup_policy=("delete",), retention_ms=1)
    append(log, ("k", "v"), timestamp=0, roll=True)
    create(manager, A)
    delete_all(manager, [A], 0)
    delete_old_segments(log, 100, 100)
    manager.close(0)
    manager = opened(files, now_ms=7)
    remove_due(manager, 7)
    assert not [path for path in files.snapshot() if "delete" in path]


def test_the_table_of_logs_can_be_iterated_while_it_changes() -> None:
    """A worker thread may create partitions while the owner iterates."""
    manager = opened(CrashFiles())
    create(manager, A, B)
    seen = []
    for tp, _ in zip(manager.logs, manager.logs.values(), strict=True):
        seen.append(tp)
        if tp == A:
            create(manager, C)
    assert seen == [A, B] and set(manager.logs) == {A, B, C} and len(manager.logs) == 3


# Jobs


def test_flush_ms_selects_the_logs_that_have_waited() -> None:
    def due(elapsed_ms: int) -> list[Log]:
        return [log for log in manager.logs_in("/d") if log.is_flush_due(elapsed_ms)]

    manager = opened(CrashFiles())
    waiting, patient = create(manager, A, B, flush_ms=100)
    append(waiting, ("k", "v"), now_ms=50)
    assert due(99) == []
    assert due(100) == [waiting]
    waiting.flush(100)
    append(waiting, ("k", "v"))
    append(patient, ("k", "v"))
    assert due(199) == [patient]
    assert due(200) == [waiting, patient]


def test_a_checkpoint_overtaken_by_a_deletion_does_not_restore_the_partition() -> None:
    """A worker thread writes the checkpoint, the owner of the logs deletes."""
    files = CrashFiles()
    manager = opened(files)
    for log in create(manager, A, B):
        append(log, ("k", "v"), roll=True)
        log.flush(0)
    done: list[str] = []

    def delete_during_checkpoint(operation: str, path: str, _: int) -> None:
        if operation == "create" and "recovery-point" in path and not done:
            deleter.start()
            while A in manager.logs:  # also what the owner does before it writes the checkpoint
                pass
            done.append(path)

    deleter = threading.Thread(target=lambda: delete_all(manager, [A], 0))
    files.refuse = delete_during_checkpoint
    manager.checkpoint_recovery_points()
    deleter.join()
    assert done and checkpoint(files, paths.RECOVERY_POINT_CHECKPOINT) == {B: 1}


@pytest.mark.scenario(180)
def test_log_starts_are_written_only_where_no_segment_has_them() -> None:
    files = CrashFiles()
    manager = opened(files)
    for log, start in zip(create(manager, A, B, C), (0, 1, 2), strict=True):
        append(log, ("k", "v"), roll=True)
        append(log, ("k", "v"))
        log.advance_log_start(start)
        delete_old_segments(log, 0, 0)
    manager.checkpoint_log_starts()
    assert checkpoint(files, paths.LOG_START_CHECKPOINT) == {C: 2}
    assert {tp: log.log_start_offset for tp, log in killed(files).logs.items()} == {A: 0, B: 1, C: 2}


@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
def test_no_power_loss_restores_records_deleted_before_retention(ordered: bool) -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = create(manager)
    append(log, ("k", "deleted"), roll=True)
    append(log, ("k", "kept"))
    log.flush(0)
    log.advance_log_start(1)
    manager.checkpoint_log_starts()  # DeleteRecords is answered
    delete_old_segments(log, 0, 0)
    manager.checkpoint_log_starts()
    assert checkpoint(files, paths.LOG_START_CHECKPOINT) == {}
    starts = {opened(disk).logs[A].log_start_offset for disk in files.after_crash(ordered=ordered)}
    assert starts == {1}


def test_a_partition_under_deletion_ignores_the_checkpoints_log_start() -> None:
    files = CrashFiles()
    manager = opened(files)
    going, staying = create(manager, A, B)
    for log in (going, staying):
        append(log, ("k", "v"), roll=True)
        append(log, ("k", "w"), ("k", "x"))
        log.advance_log_start(1)
    manager.checkpoint_log_starts()
    delete_old_segments(going, 0, 0)
    staying.advance_log_start(2)
    files.rename(going.directory, f"{going.directory}.0-delete")  # as the owner does, before it drops the log
    manager.checkpoint_log_starts()
    assert checkpoint(files, paths.LOG_START_CHECKPOINT) == {B: 2}


@pytest.mark.scenario(166)
def test_idle_producers_are_forgotten() -> None:
    manager = opened(CrashFiles())
    (log,) = create(manager)
    append(log, ("k", "v"), producer_id=1, timestamp=0)
    assert sum(manager.expire_producers(86_399_999, 86_399_999)) == 0
    assert sum(manager.expire_producers(86_400_000, 86_400_000)) == 1


def test_an_unchanged_checkpoint_is_not_rewritten() -> None:
    files = CrashFiles()
    manager = opened(files)
    append(create(manager)[0], ("k", "v"))
    manager.checkpoint_recovery_points()
    files.operations.clear()
    manager.checkpoint_recovery_points()
    assert files.operations == []


# Failing disks


@pytest.mark.scenario(110)
def test_a_disk_error_takes_exactly_the_logs_of_its_directory_offline() -> None:
    files = CrashFiles()
    manager = opened(files, "/d", "/e")
    in_d, in_e, also_in_d = create(manager, A, B, C)
    told: list[dict[str, str]] = []
    manager.watch(lambda: told.append(manager.failures))
    refuse(files, "append", "/d/a-0")
    with pytest.raises(KafkaError):
        append(in_d, ("k", "v"))
    files.refuse = None
    assert manager.is_offline("/d") and not manager.is_offline("/e")
    assert told == [manager.failures] and list(manager.failures) == ["/d"]
    with pytest.raises(KafkaError) as raised:
        append(also_in_d, ("k", "v"))
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    append(in_e, ("k", "v"))

    assert manager.data_dir_of(create(manager, TopicPartition("new", 0))[0].topic_partition) == "/e"
    manager.close(0)
    assert not files.exists("/d/.kafka_cleanshutdown") and files.exists("/e/.kafka_cleanshutdown")


def test_without_a_working_directory_nothing_can_be_created() -> None:
    files = CrashFiles()
    manager = opened(files)
    refuse(files, "append", "/d/a-0/00")
    with pytest.raises(KafkaError):
        append(create(manager)[0], ("k", "v"))
    with pytest.raises(KafkaError) as raised:
        create(manager, B)
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline() -> None:
    files = CrashFiles()
    manager = opened(files)
    create(manager)
    refuse(files, "rename", "recovery-point")
    with pytest.raises(OSError):
        manager.checkpoint_recovery_points()
    assert manager.is_offline("/d")


# Stopping


@pytest.mark.scenario(110, 177)
def test_the_clean_stop_mark_is_written_at_stop_and_removed_at_start() -> None:
    files = CrashFiles()
    manager = opened(files)
    assert not files.exists("/d/.kafka_cleanshutdown")
    manager.close(0)
    assert files.exists("/d/.kafka_cleanshutdown")
    opened(files)
    assert not files.exists("/d/.kafka_cleanshutdown")


@pytest.mark.scenario(177)
def test_a_stop_before_all_logs_are_loaded_marks_nothing() -> None:
    files = CrashFiles()
    manager = locked(files)
    manager.close(0)
    assert files.list("/d") == [".lock"]


def test_a_stop_that_the_disk_refuses_is_reported_and_marks_nothing() -> None:
    files = CrashFiles()
    notes: list[str] = []
    manager = opened(files, notes=notes)
    append(create(manager)[0], ("k", "v"))
    refuse(files, "sync", "/a-0/")
    manager.close(0)
    files.refuse = None
    assert len(notes) == 1 and "cannot close" in notes[0]
    assert not files.exists("/d/.kafka_cleanshutdown")
    assert opened(files).logs[A].log_end_offset == 1


@pytest.mark.scenario(182)
def test_a_stop_during_immediate_deletions_is_clean() -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = create(manager, file_delete_delay_ms=0, cleanup_policy=("delete",), retention_bytes=0)
    append(log, ("k", "v"), roll=True)
    delete_old_segments(log, 0, 0)
    delete_all(manager, [A], 0)
    manager.close(0)
    assert opened(files).was_clean


@pytest.mark.scenario(182)
def test_after_a_stop_no_file_is_open() -> None:
    files = CrashFiles()
    manager = opened(files)
    (log,) = create(manager)
    append(log, ("k", "v"), roll=True)
    manager.close(0)
    for segment in log.segments:
        with pytest.raises((OSError, ValueError)):
            segment.log_file.read_at(0, 1)


# Logs that are written before they are published


def filled(place: LogPlace, config: LogConfig) -> int:
    log = load_log(place, config, now_ms=0)
    append(log, ("k1", "a"), ("k2", "b"), ("k3", "c"))
    log.close(0)
    log.release_files()
    return 1


def create_filled(manager: LogManager, fill: Fill) -> list[Log]:
    return manager.create([A, B], topic_id=TOPIC_ID, config=LogConfig(), now_ms=0, elapsed_ms=0, fill=fill)


def test_a_new_log_has_its_initial_records_on_disk() -> None:
    files = CrashFiles()
    manager = opened(files)
    for log in create_filled(manager, filled):
        assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (1, 3, 3)
    for disk in files.after_crash(ordered=False):  # whatever the power loss leaves of the unsynced data
        manager = opened(disk)
        assert [(log.log_start_offset, log.log_end_offset) for log in manager.logs.values()] == [(1, 3)] * 2


@pytest.mark.parametrize(
    "error", [KafkaError(ErrorCode.INVALID_RECORD, "no"), OSError(errno.ENOSPC, "full"), ValueError("no")]
)
def test_a_failed_fill_leaves_nothing(error: Exception) -> None:
    files = CrashFiles()
    manager = opened(files)
    before = files.snapshot().keys()

    def fails_for_the_second(place: LogPlace, config: LogConfig) -> int:
        start = filled(place, config)
        if place.topic_partition == B:
            raise error
        return start

    with pytest.raises(type(error)):
        create_filled(manager, fails_for_the_second)
    assert not manager.logs and files.snapshot().keys() == before
    create_filled(manager, filled)
    assert len(manager.logs) == 2
