"""Leader epochs are known at once and written later: their state after a kill or a power loss at any moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest

from ottla.storage.logs.log import Log
from ottla.storage.segment.leader_epochs import LeaderEpochs
from support.disk.crash_files import CrashFiles, disks_left
from support.logs.batches import batch
from support.logs.make_log import all_batches, clean, delete_old_segments, make_log
from support.noted import each_case
from support.sizes import size


class Owed(NamedTuple):
    """The facts that a start may rely on."""

    flushed: int
    checkpoint: int
    log_start: int


class Life:
    """A log under several leaders; every step returns what a start may rely on if it is the last one."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        """The epoch under which each offset was written."""
        self.flushed = 0
        self.checkpoint = self.log_start = 0

    def __call__(self, files: CrashFiles) -> None:
        self.__init__()  # type: ignore[misc]
        self.log = log = make_log(files, index_interval_bytes=0, cleanup_policy=("compact", "delete"), retention_ms=50)
        files.sync_dir("/data")
        files.sync_dir("/")
        self.append("a", 0)
        self.append("b", 2)
        self.roll()
        self.append("b", 2)
        self.append("a", 3)
        self.roll()
        self.append("b", 3)
        self.clean()  # nothing is left of epoch 0, nor of what epoch 2 began with
        self.append("c", 5)
        self.flush()
        self.append("d", 7)
        self.roll()
        self.append("e", 8)
        log.advance_log_start(3)
        self.log_start = 3
        self.roll()
        delete_old_segments(log, 1_000, 0)
        self.append("f", 9)
        delete_old_segments(log, 10**6, 0)  # all
        self.append("g", 9)
        log.close(0)

    def append(self, key: str, epoch: int) -> None:
        self.epochs[self.log.log_end_offset] = epoch
        self.log.append(memoryview(batch((key, "v"), timestamp=1_000)), now_ms=1_000, leader_epoch=epoch)

    def roll(self) -> None:
        self.log.roll(0)
        self.note()

    def clean(self) -> None:
        clean(self.log, now_ms=1_000)
        self.note()

    def flush(self) -> None:
        self.log.flush(0)
        self.flushed = self.log.log_end_offset
        self.note()

    def note(self) -> None:
        self.checkpoint = self.log.recovery_checkpoint

    def owed(self) -> Owed:
        return Owed(self.flushed, self.checkpoint, self.log_start)

    def check(self, disk: CrashFiles, owed: Owed, *, is_whole: bool) -> None:
        """Check a start after this moment: it knows the epoch of each of its records, and without losses of every offset."""
        found = make_log(disk, index_interval_bytes=0, recovery_point=owed.checkpoint, log_start_offset=owed.log_start)
        assert found.log_end_offset >= owed.flushed
        wanted: Sequence[int] = range(found.log_start_offset, found.log_end_offset)
        if not is_whole:
            wanted = [each.base_offset for each in all_batches(found) if each.base_offset in wanted]
        assert {at: found.leader_epochs.epoch_for_offset(at) for at in wanted} == {at: self.epochs[at] for at in wanted}


def kills(life: Life) -> Iterator[CrashFiles]:
    """Yield the disk that a dying process leaves before each operation; the operating system survives."""
    number = 0
    while True:
        files = CrashFiles()
        found: list[CrashFiles] = []

        def look(files: CrashFiles = files, found: list[CrashFiles] = found, number: int = number) -> None:
            if len(files.operations) == number and not found:
                found.append(files.copy())
                raise ProcessDies

        files.before_step = look
        try:
            life(files)
        except ProcessDies:
            yield found[0]
            number += 1
        else:
            yield files.copy()
            return


class ProcessDies(BaseException):
    """The end of a process: no error handler runs after it."""


def test_a_kill_at_any_moment_keeps_every_visible_epoch() -> None:
    life, disks = Life(), 0
    for disk in kills(life):
        life.check(disk, life.owed(), is_whole=True)
        disks += 1
    assert disks > 80


def test_a_power_loss_keeps_the_epoch_of_every_kept_record() -> None:
    life, disks = Life(), 0
    for disk, owed in disks_left(life, ordered=True, owed=life.owed, one_in=size(32, 1)):
        disks += 1
        life.check(disk, owed, is_whole=False)
    assert disks > size(0, 1_600)


def syncs(log: Log) -> int:
    assert isinstance(log.files, CrashFiles)
    counts = Counter(operation for operation, _ in log.files.operations)
    return counts["sync"] + counts["sync_dir"]


ON_THE_OWNERS_THREAD: dict[str, Callable[[Log], object]] = {
    "an append under a new epoch": lambda log: log.append(memoryview(batch(("k", "v"))), now_ms=0, leader_epoch=7),
    "a roll": lambda log: log.roll(0),
    "a move of the log start": lambda log: log.advance_log_start(1),
    "the beginning of a flush": lambda log: log.begin_flush(),
    "the beginning of a deletion": lambda log: log.begin_deletion(10**6),
}


@each_case("flushed", [False, True], ids=["not flushed", "flushed"])
@each_case("step", ON_THE_OWNERS_THREAD.values(), ids=ON_THE_OWNERS_THREAD.keys())
def test_the_owning_thread_changes_a_log_without_waiting_for_the_disk(
    step: Callable[[Log], object], flushed: bool
) -> None:
    log = make_log(cleanup_policy=("delete",), retention_ms=1)
    for epoch in range(3):
        log.append(memoryview(batch(("k", "v"))), now_ms=0, leader_epoch=epoch)
    if flushed:
        log.flush(0)
    before = syncs(log)
    step(log)
    assert syncs(log) == before


def test_a_write_that_the_disk_refused_is_repeated_by_the_next() -> None:
    files = CrashFiles()
    epochs = LeaderEpochs(files, "leader-epoch-checkpoint")
    epochs.assign(3, 0)

    for refused in ("create", "append", "sync", "rename", "sync_dir"):

        def refuse(operation: str, path: str, _: int, refused: str = refused) -> None:
            if operation == refused:
                raise OSError(28, "No space left on device")

        files.refuse = refuse
        with pytest.raises(OSError, match="No space"):
            epochs.write()
    files.refuse = None
    epochs.write()
    assert LeaderEpochs(files.copy(), "leader-epoch-checkpoint").entries == ((3, 0),)
