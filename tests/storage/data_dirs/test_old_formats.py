"""Partitions with records of format v0 or v1: reported in one line, and left as they are, however the last stop was."""

from __future__ import annotations

from itertools import product

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk import paths
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.health import DataDirectoryError
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs.retention import may_have_deletable
from ottla.storage.produce.producer_snapshots import encode
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch, old_message
from support.logs.make_log import append, contents, delete_all
from support.noted import each_case

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)
CONFIG = LogConfig(retention_ms=1)


def write(files: CrashFiles, path: str, data: bytes) -> None:
    file = files.open(path, create=True)
    file.append(data)
    file.close()


def old_log(files: CrashFiles, magic: int, where: str, *, indexes: bool, snapshots: bool) -> None:
    """Write two segments with offsets 0, 1 and 2; the old records are in the first, in the second, or after a new batch."""
    old = old_message(magic, 0, b"k", b"v") + old_message(magic, 1, b"k", b"w")
    new = bytes(batch(("k", "v"), ("k", "w")))
    after = bytes(batch(("k", "x"), base_offset=2))
    first, second = {
        "sealed": (old, after),
        "active": (new, old_message(magic, 2, b"k", b"x")),
        "all": (old, old_message(magic, 2, b"k", b"x")),
        "behind a new batch": (bytes(batch(("k", "v"))) + old_message(magic, 1, b"k", b"w"), after),
    }[where]
    for base, data in ((0, first), (2, second)):
        write(files, paths.segment_path(f"/d/{OLD}", base, paths.LOG), data)
        for kind in (paths.INDEX, paths.TIME_INDEX) if indexes else ():
            write(files, paths.segment_path(f"/d/{OLD}", base, kind), b"")
    for offset in (2, 3) if snapshots else ():
        write(files, paths.segment_path(f"/d/{OLD}", offset, paths.SNAPSHOT), encode([]))


def started(files: CrashFiles, notes: list[str]) -> LogManager:
    manager = LogManager(files, ("/d",), note=notes.append)
    manager.load(10**12, 0, config_for=lambda _: CONFIG)
    manager.claim("/d", "cluster-1", lambda _: None)
    return manager


def directory_of(files: CrashFiles) -> dict[str, bytes]:
    return {path: content for path, content in files.snapshot().items() if path.startswith(f"/d/{OLD}/")}


CASES = [
    case
    for case in product(
        (0, 1), ("sealed", "active", "all", "behind a new batch"), (True, False), (True, False), (True, False)
    )
    # After a clean stop that has left everything, damage within a segment is found by a reader.
    if case[1] != "behind a new batch" or not case[2] or not case[3]
]


@each_case("magic, where, is_clean, indexes, snapshots", CASES)
def test_a_log_of_an_old_format_is_reported_once_and_left_alone(
    magic: int, where: str, is_clean: bool, indexes: bool, snapshots: bool
) -> None:
    files = CrashFiles()
    files.make_dir(f"/d/{OLD}")
    files.make_dir(f"/d/{NEW}")
    old_log(files, magic, where, indexes=indexes, snapshots=snapshots)
    OffsetCheckpoint(files, f"/d/{paths.LOG_START_CHECKPOINT}").write({OLD: 1})
    if is_clean:
        write(files, f"/d/{paths.CLEAN_SHUTDOWN_FILE}", b'{"version":0,"brokerEpoch":1}')
    before = directory_of(files)

    for life in range(3):
        notes: list[str] = []
        manager = started(files, notes)
        (told,) = [note for note in notes if f"record format v{magic}" in note]
        assert (
            f"/d/{OLD}/" in told
            and "delete the topic, or stop the broker and move the partition directory" in told
            and "\n" not in told
        )
        old, new = manager.logs[OLD], manager.logs[NEW]
        assert old.failure == told and new.failure is None
        with pytest.raises(KafkaError) as raised:
            append(old, ("k", "v"))
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert not may_have_deletable(old, 10**12), "retention does not meet it every second"
        assert not old.wanting_flush([old], 10**6)
        append(new, ("k", str(life)))
        manager.checkpoint_recovery_points()
        manager.checkpoint_log_starts()
        assert manager.was_clean or life == 0, "a stop beside it is clean"
        manager.close(0)
        if where != "behind a new batch":
            assert directory_of(files) == before
        assert OffsetCheckpoint(files, f"/d/{paths.LOG_START_CHECKPOINT}").read() == {OLD: 1}
    logs = {path: content for path, content in before.items() if path.endswith(paths.LOG)}
    assert {path: directory_of(files)[path] for path in logs} == logs
    assert [value for _, _, value in contents(started(files, []).logs[NEW])] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("magic", [0, 1])
def test_files_added_after_our_clean_stop_are_found(magic: int) -> None:
    files = CrashFiles()
    files.make_dir(f"/d/{OLD}")
    manager = started(files, [])
    append(manager.logs[OLD], ("k", "v"))
    manager.close(0)
    files.remove(paths.segment_path(f"/d/{OLD}", 0, paths.LOG))
    write(files, paths.segment_path(f"/d/{OLD}", 0, paths.LOG), old_message(magic, 0, b"k", b"v" * 99))
    notes: list[str] = []
    assert started(files, notes).logs[OLD].failure in notes


def test_a_topic_of_an_old_format_may_be_deleted() -> None:
    files = CrashFiles()
    files.make_dir(f"/d/{OLD}")
    old_log(files, 1, "all", indexes=True, snapshots=False)
    manager = started(files, [])
    delete_all(manager, [OLD], 0)
    for remove in manager.due_deletions("/d", 10**9):
        remove()
    assert not files.exists(f"/d/{OLD}")


def test_a_directory_of_a_zookeeper_broker_is_reported_as_one() -> None:
    files = CrashFiles()
    files.make_dir("/d")
    text = "#\n#Tue Nov 03 10:00:00 UTC 2020\ncluster.id=abcdefghijklmnopqrstuv\nversion=0\nbroker.id=3\n"
    write(files, f"/d/{paths.META_PROPERTIES}", text.encode())
    with pytest.raises(DataDirectoryError) as raised:
        LogManager(files, ("/d",), node_id=3)
    line = str(raised.value)
    assert "\n" not in line
    for word in ("/d/meta.properties, line 5", "broker.id=3", "ZooKeeper", "KRaft", "remove every meta.properties"):
        assert word in line
