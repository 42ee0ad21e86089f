"""Power loss before every operation on the files of a log, and again before every operation of its recovery.

Every disk that may be left is opened and checked; `pytest -s` prints their number. What must hold: flushed
records are there, no record is there that was not appended, offsets increase, indexes agree with the log.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest

from ottla.protocol.records import batches
from ottla.storage.data_dirs.making import NewLogs
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.logs import log as log_module
from ottla.storage.logs.log import Log
from ottla.storage.segment.segment import LogSegment
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles, disks_left
from support.lives import compacted_life
from support.logs.batches import ABORT
from support.logs.make_log import (
    append,
    append_marker,
    contents,
    delete_all,
    delete_old_segments,
    flush_sealed,
    make_log,
    remove_deleted,
)
from support.sizes import size

BOTH_MODELS = pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "unordered"])
Record = tuple[int, bytes | None, bytes | None]


def check_sound(log: Log) -> None:
    """Check that the log does not contradict itself, and knows its producers up to its end."""
    compacted_life.check_sound(log)
    assert log.producers.end_offset == log.log_end_offset
    state = log.producers.get(1)
    sequences = [each.last_sequence for segment in log.segments for each in producer_batches(segment)]
    if sequences:
        assert state is not None and state.last_sequence == sequences[-1]


def producer_batches(segment: LogSegment) -> Iterator[Any]:
    data = segment.log_file.read_at(0, segment.size_bytes)
    return (each for each in batches(data) if each.producer_id == 1 and not each.is_control)


# Appending, rolling, flushing


class Growing:
    """A log that grows, and its flushed part when the power was lost."""

    def __init__(self, steps: str) -> None:
        self.steps = steps
        self.flushed = 0
        self.appended = 0

    def __call__(self, files: CrashFiles) -> None:
        self.flushed = self.appended = 0
        log = make_log(files, index_interval_bytes=0)
        files.sync_dir("/data")
        files.sync_dir("/")
        for step in self.steps:
            if step == "a":
                self.appended += 1
                append(log, (f"k{log.log_end_offset}", "v"), producer_id=1, base_sequence=log.log_end_offset)
            elif step == "r":
                log.roll(0)
            elif step == "f":
                log.flush(0)
                self.flushed = log.recovery_point
            elif step == "s":
                flush_sealed(log, 0)
                self.flushed = max(self.flushed, log.recovery_point)
            else:
                log.close(0)
                self.flushed = log.log_end_offset

    def check(self, files: CrashFiles, flushed: int) -> Log:
        log = make_log(files, recovery_point=flushed, index_interval_bytes=0)
        found = contents(log)
        whole = [(at, f"k{at}".encode(), b"v") for at in range(self.appended)]
        assert found[:flushed] == whole[:flushed]
        assert set(found) <= set(whole)
        check_sound(log)
        return log


@BOTH_MODELS
@pytest.mark.parametrize("steps", ["aaf", "afraf", "araaf", "arasa", "afrc"])
def test_flushed_records_survive(steps: str, ordered: bool) -> None:
    """The steps are: a append, r roll, f flush, s flush of the sealed segments, c clean stop."""
    growing = Growing(steps)
    states = 0
    for files, flushed in disks_left(
        growing, ordered=ordered, owed=lambda: growing.flushed, one_in=size(12 if ordered else 48, 1)
    ):
        if not files.is_dir("/data/t-0"):
            assert flushed == 0
            continue
        states += 1
        log = growing.check(files, flushed)
        end = log.log_end_offset
        assert append(log, ("next", "v")) == end
    print(f"{steps}, {'ordered' if ordered else 'unordered'}", states, "disks")


@BOTH_MODELS
def test_recovery_survives_a_power_loss(ordered: bool) -> None:
    """The second recovery finds at least what the first would have found, and later appends are not mixed with it."""
    growing = Growing("afra")
    known: dict[tuple[int, frozenset[tuple[str, bytes]]], list[Record]] = {}

    def found_in(files: CrashFiles, flushed: int) -> list[Record]:
        look = (flushed, frozenset(files.snapshot().items()))
        if look not in known:
            known[look] = contents(growing.check(files, flushed))
        return known[look]

    for broken, flushed in disks_left(growing, ordered=ordered, owed=lambda: growing.flushed, one_in=size(6, 1)):
        look = (flushed, frozenset(broken.snapshot().items()))
        if not broken.is_dir("/data/t-0") or look in known:
            continue
        expected = found_in(broken.copy(), flushed)
        recover = partial(make_log, recovery_point=flushed, index_interval_bytes=0)
        for files, _ in disks_left(recover, broken, ordered=ordered, owed=lambda: None):
            assert found_in(files, flushed) == expected
    print(f"twice, {'ordered' if ordered else 'unordered'}", len(known), "disks")


@BOTH_MODELS
def test_truncated_records_do_not_return_among_later_ones(ordered: bool) -> None:
    """Recovery drops the segments after a damaged place; new records take their offsets; then the power is lost again."""
    start = CrashFiles()
    log = make_log(start, index_interval_bytes=0)
    for number in range(6):
        append(log, (f"old{number}", "v"), producer_id=1, base_sequence=number, roll=number % 2 == 1)
    file = start.open(f"/data/t-0/{2:020}.log")
    data = bytearray(file.read_at(0, file.size()))
    data[-1] ^= 1
    file.truncate(0)
    file.append(data)
    start.sync_all()
    flushed = 0

    def go_on(files: CrashFiles) -> None:
        nonlocal flushed
        flushed = 2
        log = make_log(files, recovery_point=2, index_interval_bytes=0)
        assert log.log_end_offset == 3
        append(log, ("new3", "v"), producer_id=1, base_sequence=3, roll=True)
        append(log, ("new4", "v"), producer_id=1, base_sequence=4)
        log.flush(0)
        flushed = 5

    states = 0
    for files, flushed_then in disks_left(go_on, start, ordered=ordered, owed=lambda: flushed, one_in=size(6, 1)):
        states += 1
        log = make_log(files, recovery_point=flushed_then, index_interval_bytes=0)
        found = [key for _, key, _ in contents(log)]
        assert found[:3] == [b"old0", b"old1", b"old2"]
        assert found[3:] in ([], [b"new3"], [b"new3", b"new4"], [b"new4"])
        assert flushed_then == 2 or len(found) == 5
        check_sound(log)
    print(f"cut and gone on, {'ordered' if ordered else 'unordered'}", states, "disks")


# Shortening


def sealed_disk() -> CrashFiles:
    """Return a disk with segments 0 and 3 and the active 5, flushed; an aborted transaction is in the first."""
    files = CrashFiles()
    log = make_log(files, index_interval_bytes=0)
    append(log, ("x", "0"))
    append(log, ("a", "1"), producer_id=1, transactional=True)
    append_marker(log, ABORT, 1)
    log.roll(0)
    append(log, ("c", "3"))
    append(log, ("b", "4"), roll=True)
    append(log, ("d", "5"))
    log.flush(0)
    files.sync_all()
    return files


BEFORE: list[Record] = [(0, b"x", b"0"), (1, b"a", b"1"), (3, b"c", b"3"), (4, b"b", b"4"), (5, b"d", b"5")]


def opened(files: CrashFiles) -> Log:
    return make_log(files, recovery_point=6, index_interval_bytes=0)


@BOTH_MODELS
def test_retention_deletes_only_allowed_records(ordered: bool) -> None:
    def retain(files: CrashFiles) -> None:
        log = opened(files)
        log.advance_log_start(3)
        delete_old_segments(log, 0, 0)
        remove_deleted(log, 10**9)

    states = 0
    for files, _ in disks_left(retain, sealed_disk(), ordered=ordered, owed=lambda: None):
        states += 1
        log = opened(files)
        found = contents(log)
        assert found[-3:] == BEFORE[-3:] and set(found) <= set(BEFORE)
        check_sound(log)
    print(f"retention, {'ordered' if ordered else 'unordered'}", states, "disks")


@BOTH_MODELS
@pytest.mark.parametrize("at_once", [1, 2])
def test_retention_in_several_steps_leaves_no_transaction_without_its_end(
    at_once: int, ordered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "SEGMENTS_AT_ONCE", at_once)
    files = CrashFiles()
    log = make_log(files, index_interval_bytes=0)
    append(log, ("a", "0"), producer_id=1, transactional=True, roll=True)
    append_marker(log, ABORT, 1)
    log.roll(0)
    append(log, ("c", "2"), roll=True)
    append(log, ("d", "3"))
    log.flush(0)
    files.sync_all()

    def retain(files: CrashFiles) -> None:
        log = make_log(files, recovery_point=4, index_interval_bytes=0)
        log.advance_log_start(3)
        assert delete_old_segments(log, 0, 0) == 3

    states = 0
    for left, _ in disks_left(retain, files, ordered=ordered, owed=lambda: None):
        states += 1
        log = make_log(left, recovery_point=4, index_interval_bytes=0)
        assert log.last_stable_offset == log.log_end_offset == 4
        check_sound(log)
    print(f"retention in steps of {at_once}, {'ordered' if ordered else 'unordered'}", states, "disks")


# The manager

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ID = bytes(range(1, 17))


class Owed(NamedTuple):
    """The certain offset of each log, and the keys that were appended to it."""

    certain: tuple[tuple[TopicPartition, int], ...]
    appended: tuple[tuple[TopicPartition, tuple[bytes, ...]], ...]


class Managing:
    """A broker's history: steps on a manager, and what is certain at each moment."""

    def __init__(self, steps: list[Callable[["Managing"], None]]) -> None:
        self.steps = steps
        self.certain: dict[TopicPartition, int] = {}
        self.appended: dict[TopicPartition, list[bytes]] = {}

    def __call__(self, files: CrashFiles) -> None:
        self.files = files
        self.open()
        for step in self.steps:
            step(self)

    def open(self) -> None:
        self.manager = LogManager(self.files, ["/d"])
        self.manager.load(0, 0, config_for=lambda _: LogConfig())

    def create(self, tp: TopicPartition) -> None:
        self.appended[tp] = []
        self.manager.create([tp], topic_id=ID, config=LogConfig(), now_ms=0, elapsed_ms=0)
        self.certain[tp] = 0

    def promise(self, tp: TopicPartition) -> None:
        self.appended[tp] = []
        self.manager.promise([NewLogs([tp], ID, LogConfig())], now_ms=0, elapsed_ms=0)

    def make(self, tp: TopicPartition) -> None:
        self.manager.logs[tp].make()

    def append(self, tp: TopicPartition, key: bytes, roll: bool = False) -> None:
        self.appended[tp].append(key)
        append(self.manager.logs[tp], (key, "v"), roll=roll)

    def flush(self, tp: TopicPartition) -> None:
        self.manager.logs[tp].flush(0)
        self.certain[tp] = self.manager.logs[tp].log_end_offset

    def delete(self, tp: TopicPartition) -> None:
        self.certain.pop(tp, None)
        delete_all(self.manager, [tp], 0)
        for remove in self.manager.due_deletions("/d", 10**9):
            remove()

    def close(self) -> None:
        ends = {tp: log.log_end_offset for tp, log in self.manager.logs.items()}
        self.manager.close(0)
        self.certain.update(ends)

    def owed(self) -> Owed:
        return Owed(tuple(self.certain.items()), tuple((tp, tuple(keys)) for tp, keys in self.appended.items()))

    def check(self, files: CrashFiles, owed: Owed) -> None:
        certain, appended = dict(owed.certain), dict(owed.appended)
        manager = LogManager(files, ["/d"])
        manager.load(0, 0, config_for=lambda _: LogConfig())
        assert certain.keys() <= manager.logs.keys()
        for tp, log in manager.logs.items():
            keys = [key for _, key, _ in contents(log)]
            assert keys == [key for key in appended[tp] if key in keys], "not what was appended, in order"
            if tp in certain:
                assert keys[: certain[tp]] == [*appended[tp][: certain[tp]]]
            check_sound(log)
        for tp in (A, B):
            if tp in manager.logs:
                delete_all(manager, [tp], 0)
            (log,) = manager.create([tp], topic_id=ID, config=LogConfig(), now_ms=0, elapsed_ms=0)
            assert append(log, ("k", "v")) == 0
        manager.close(0)


LIVES: dict[str, list[Callable[[Managing], None]]] = {
    "stop and start": [
        lambda m: m.create(A),
        lambda m: m.append(A, b"1"),
        lambda m: m.close(),
        lambda m: m.open(),
        lambda m: m.append(A, b"2"),
    ],
    "checkpoint behind a flush": [
        lambda m: m.create(A),
        lambda m: m.append(A, b"1", roll=True),
        lambda m: m.append(A, b"2"),
        lambda m: m.flush(A),
        lambda m: m.manager.checkpoint_recovery_points(),
        lambda m: m.append(A, b"3"),
    ],
    "promised, and made by the first append": [
        lambda m: m.promise(A),
        lambda m: m.promise(B),
        lambda m: m.append(A, b"1"),
        lambda m: m.flush(A),
        lambda m: m.append(A, b"2", roll=True),
        lambda m: m.manager.checkpoint_recovery_points(),
        lambda m: m.close(),
        lambda m: m.open(),
        lambda m: m.append(B, b"3"),
        lambda m: m.flush(B),
    ],
    "promised, made and deleted, and promised again": [
        lambda m: m.promise(A),
        lambda m: m.make(A),
        lambda m: m.append(A, b"1"),
        lambda m: m.flush(A),
        lambda m: m.manager.checkpoint_recovery_points(),
        lambda m: m.delete(A),
        lambda m: m.promise(A),
        lambda m: m.delete(A),
        lambda m: m.promise(A),
        lambda m: m.append(A, b"2"),
        lambda m: m.close(),
    ],
    "delete and make anew": [
        lambda m: m.create(A),
        lambda m: m.append(A, b"1"),
        lambda m: m.append(A, b"2"),
        lambda m: m.flush(A),
        lambda m: m.manager.checkpoint_recovery_points(),
        lambda m: m.delete(A),
        lambda m: m.create(A),
        lambda m: m.append(A, b"3"),
        lambda m: m.flush(A),
    ],
}


@BOTH_MODELS
@pytest.mark.parametrize("life", LIVES)
def test_a_data_directory_can_always_be_reopened(life: str, ordered: bool) -> None:
    managing = Managing(LIVES[life])
    states = 0
    for files, owed in disks_left(
        managing, ordered=ordered, owed=managing.owed, one_in=size(20 if ordered else 160, 1)
    ):
        states += 1
        managing.check(files, owed)
    print(f"{life}, {'ordered' if ordered else 'unordered'}", states, "disks")
