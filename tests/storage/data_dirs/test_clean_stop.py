"""The marker of a clean stop, and a start that finds files other than those that the stop left."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ottla.storage.data_dirs import clean_stop
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk import paths
from ottla.storage.disk.files import Files
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles, PowerLoss
from support.logs.batches import ABORT, batch, marker
from support.logs.make_log import contents, delete_old_segments

TP = TopicPartition("t", 0)
DIRECTORY = "/d/t-0"
MARK = "/d/.kafka_cleanshutdown"
CONFIG = LogConfig(cleanup_policy=("compact",), index_interval_bytes=0)


def disk_with_mark() -> CrashFiles:
    files = CrashFiles()
    files.make_dir("d")
    write(files, MARK, b"{}")
    files.sync_all()
    return files


def read(files: Files, path: str) -> bytes:
    file = files.open(path)
    return file.read_at(0, file.size())


def write(files: Files, path: str, data: bytes) -> None:
    file = files.open(path, create=True, truncate=True)
    file.append(data)
    file.sync()


def test_a_clean_stop_is_marked_once_and_consumed_once() -> None:
    files = CrashFiles()
    files.make_dir("d")
    assert not clean_stop.take(files, "d")
    clean_stop.write(files, "d", [])
    assert json.loads(read(files, MARK)) == {"version": 0, "brokerEpoch": -1, "logs": {}}
    assert clean_stop.take(files, "d")
    assert not clean_stop.take(files, "d")


def test_a_consumed_mark_never_returns_after_a_power_loss() -> None:
    files = disk_with_mark()
    assert clean_stop.take(files, "d")
    assert [after.exists(MARK) for after in files.after_crash(ordered=False)] == [False]


def test_a_power_loss_while_consuming_the_mark_leaves_it_consumed_or_present() -> None:
    interrupted = disk_with_mark().copy(fail_at=1)
    with pytest.raises(PowerLoss):
        clean_stop.take(interrupted, "d")
    left = [after.exists(MARK) for after in interrupted.after_crash(ordered=False)]
    assert left == [True, False]


# The results of a start


class Started:
    """A start on a directory, with its messages."""

    def __init__(self, files: CrashFiles) -> None:
        self.notes: list[str] = []
        self.manager = LogManager(files, ["/d"], note=self.notes.append)
        self.manager.load(0, 0, config_for=lambda _: CONFIG)
        self.log = self.manager.logs[TP]

    def facts(self) -> object:
        """Return what clients can observe of the log."""
        log = self.log
        return (
            [(each.base_offset, each.size_bytes, tuple(each.txn_index.entries())) for each in log.segments],
            [segment.position_of(offset) for segment in log.segments for offset in range(12)],
            [(each.producer_id, each.producer_epoch, each.batches[-1]) for each in log.producers],
            log.leader_epochs.entries,
            (log.log_start_offset, log.log_end_offset, log.recovery_point),
        )


@pytest.fixture
def stopped() -> CrashFiles:
    """Return a disk after a clean stop: an aborted transaction in the first of two segments, two leader epochs, log start 1."""
    files = CrashFiles()
    manager = LogManager(files, ["/d"])
    manager.load(0, 0, config_for=lambda _: CONFIG)
    (log,) = manager.create([TP], topic_id=bytes(range(16)), config=CONFIG, now_ms=0, elapsed_ms=0)
    log.append(memoryview(batch(("a", "1"))), now_ms=1_000)
    log.append(memoryview(batch(("a", "no"), producer_id=7, transactional=True)), now_ms=1_000, leader_epoch=3)
    log.append(memoryview(marker(ABORT, producer_id=7)), now_ms=1_000, origin=AppendOrigin.COORDINATOR, leader_epoch=3)
    log.roll(1_000)
    log.append(memoryview(batch(("b", "1"), producer_id=8)), now_ms=1_000, leader_epoch=5)
    log.append(memoryview(batch(("c", "1"), producer_id=8, base_sequence=1)), now_ms=1_000, leader_epoch=5)
    log.advance_log_start(1)
    manager.close(0)
    files.sync_all()
    return files


def emptied(_: bytes) -> bytes:
    return b""


def other(data: bytes) -> bytes:
    """Return the data with one bit flipped, near the end."""
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


FIRST, SECOND = f"{0:020}", f"{3:020}"
DAMAGE: list[tuple[str, Callable[[bytes], bytes]]] = [
    (f"{FIRST}.txnindex", emptied),
    (f"{FIRST}.txnindex", other),
    (f"{FIRST}.index", emptied),
    (f"{FIRST}.timeindex", emptied),
    (f"{SECOND}.index", emptied),
    (f"{SECOND}.timeindex", emptied),
    (f"{SECOND}.snapshot", other),
    (f"{5:020}.snapshot", other),
    (f"{5:020}.snapshot", emptied),
    ("leader-epoch-checkpoint", emptied),
    ("leader-epoch-checkpoint", lambda _: b"0\n1\n9 0\n"),
]


@pytest.mark.parametrize("name, change", DAMAGE, ids=[f"{name} {change.__name__}" for name, change in DAMAGE])
def test_a_small_file_changed_since_the_stop_is_rebuilt(
    stopped: CrashFiles, name: str, change: Callable[[bytes], bytes]
) -> None:
    whole = Started(stopped.copy())
    assert not whole.notes
    path = f"{DIRECTORY}/{name}"
    write(stopped, path, change(read(stopped, path)))
    found = Started(stopped)
    assert found.facts() == whole.facts()
    assert name in found.notes[0]


@pytest.mark.parametrize("name", sorted({name for name, _ in DAMAGE if not name.endswith(paths.SNAPSHOT)}))
def test_a_missing_small_file_is_rebuilt(stopped: CrashFiles, name: str) -> None:
    whole = Started(stopped.copy())
    stopped.remove(f"{DIRECTORY}/{name}")
    found = Started(stopped)
    assert found.facts() == whole.facts()
    assert name in found.notes[0]


def test_an_index_not_left_by_the_stop_is_not_trusted(stopped: CrashFiles) -> None:
    whole = Started(stopped.copy())
    write(stopped, f"{DIRECTORY}/{SECOND}.txnindex", read(stopped, f"{DIRECTORY}/{FIRST}.txnindex"))
    assert Started(stopped).facts() == whole.facts()


def test_a_log_start_missing_in_the_checkpoint_is_not_forgotten(stopped: CrashFiles) -> None:
    stopped.remove("/d/log-start-offset-checkpoint")
    assert Started(stopped.copy()).log.log_start_offset == 1
    found = Started(stopped)
    again = stopped.copy()
    again.remove(MARK)
    assert Started(again).log.log_start_offset == found.log.log_start_offset == 1


@pytest.mark.parametrize("name", ["a checkpoint", "no checkpoint"])
def test_a_shortened_log_file_costs_no_later_segments(stopped: CrashFiles, name: str) -> None:
    if name == "no checkpoint":
        stopped.remove("/d/recovery-point-offset-checkpoint")
    path = f"{DIRECTORY}/{FIRST}.log"
    write(stopped, path, read(stopped, path)[:-5])
    found = Started(stopped)
    assert [offset for offset, _, _ in contents(found.log)] == [0, 1, 3, 4]
    assert [each.producer_id for each in found.log.producers] == [7, 8]
    assert [line for line in found.notes if ": not valid batches" in line]


def test_a_log_that_replaced_the_stopped_one_is_served_completely(stopped: CrashFiles) -> None:
    older = batch(("a", "1"), ("a", "2"))
    manager = LogManager(stopped, ["/d"])
    manager.load(0, 0, config_for=lambda _: CONFIG)
    manager.logs[TP].advance_log_start(5)
    delete_old_segments(manager.logs[TP], 0, 0)
    manager.close(0)
    for name in stopped.list(DIRECTORY):
        if name != "partition.metadata":
            stopped.remove(f"{DIRECTORY}/{name}")
    write(stopped, f"{DIRECTORY}/{FIRST}.log", bytes(older))
    stopped.remove("/d/log-start-offset-checkpoint")
    found = Started(stopped).log
    assert (found.log_start_offset, found.log_end_offset) == (0, 2)


def test_a_truncated_log_file_is_recovered_as_after_a_crash(stopped: CrashFiles) -> None:
    path = f"{DIRECTORY}/{SECOND}.log"
    write(stopped, path, read(stopped, path)[:-5])
    found = Started(stopped)
    assert (found.log.log_end_offset, found.log.recovery_point) == (4, 3)
    assert [line for line in found.notes if ": not valid batches" in line]
    # The checkpoint must not vouch for records that are appended next.
    found.log.append(memoryview(batch(("d", "1"))), now_ms=1_000)
    assert "t 0 3" in read(stopped, "/d/recovery-point-offset-checkpoint").decode()


@pytest.mark.parametrize(
    "mark",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":0,"brokerEpoch":4}',
        b'{"logs":[1]}',
        b'{"logs":{"t-0":3}}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_a_foreign_mark_states_only_that_the_stop_was_clean(stopped: CrashFiles, mark: bytes) -> None:
    whole = Started(stopped.copy())
    write(stopped, MARK, mark)
    found = Started(stopped)
    assert found.manager.was_clean
    assert found.facts() == whole.facts()


def test_a_deliberate_change_of_a_log_removes_it_from_the_mark(stopped: CrashFiles) -> None:
    clean_stop.forget(stopped, "/d", str(TP))
    stopped.remove(f"{DIRECTORY}/{FIRST}.txnindex")
    found = Started(stopped)
    assert found.manager.was_clean and not found.notes
    clean_stop.forget(stopped, "/d", str(TP))
    assert not stopped.exists(MARK)
