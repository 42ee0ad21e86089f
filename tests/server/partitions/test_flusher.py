"""Group commit on a disk whose syncs the test delays and refuses: the producers' answers, and the log's state afterwards."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.partitions.flusher import Flusher
from ottla.server.runtime.clock import Clock
from ottla.storage.cleaning.cleaner_manager import CleanerManager
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk.checkpoints import OffsetCheckpoint
from ottla.storage.disk.paths import CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_CHECKPOINT
from ottla.storage.logs.log import Log
from support.cleaner.choosing import filthiest
from support.disk.crash_files import CrashFiles
from support.logs.make_log import TP, append, delete_old_segments, flush_sealed, make_log
from support.noted import each_case


class GatedSyncs(CrashFiles):
    """A disk whose next sync of the log file waits for `let_on`, and fails if the test wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs = 0
        self.reached = trio.Event()
        self._gate = threading.Event()
        self._fails = False
        self._token = trio.lowlevel.current_trio_token()
        self.refuse = self._sync_of_log

    def _sync_of_log(self, operation: str, path: str, _: int) -> None:
        if operation == "sync" and path.endswith(".log"):
            self.syncs += 1
            if self.syncs == 1:
                self._token.run_sync_soon(self.reached.set)
                self._gate.wait(60)
                if self._fails:
                    raise OSError(errno.EIO, "Input/output error")

    def let_on(self, *, fails: bool) -> None:
        self._fails = fails
        self._gate.set()


async def answers_of_two(files: GatedSyncs, log: Log, *, fails: bool) -> list[ErrorCode]:
    """Return the answers of two producers, the second of which arrives during the first one's sync."""
    flusher = Flusher(Clock(lambda: 0), lambda log: None)
    answers = []

    async def produce() -> None:
        append(log, ("k", "v"))
        try:
            await flusher.flush([log])
        except KafkaError as error:
            answers.append(error.code)
        else:
            answers.append(ErrorCode.NONE)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        await files.reached.wait()
        nursery.start_soon(produce)
        nursery.start_soon(produce)
        await trio.testing.wait_all_tasks_blocked()
        files.let_on(fails=fails)
    return answers


async def test_producers_that_arrive_during_a_sync_share_the_next() -> None:
    files = GatedSyncs()
    log = make_log(files, flush_messages=1)
    assert await answers_of_two(files, log, fails=False) == [ErrorCode.NONE] * 3
    assert (files.syncs, log.recovery_point) == (2, 3)


async def test_a_failed_sync_fails_all_its_producers_and_is_not_repeated() -> None:
    files = GatedSyncs()
    log = make_log(files, flush_messages=1)
    assert await answers_of_two(files, log, fails=True) == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
    assert (files.syncs, log.recovery_point) == (1, 0)


async def test_a_log_that_fails_during_its_sync_is_not_acknowledged() -> None:
    files = GatedSyncs()
    log = make_log(files, flush_messages=1)

    async def fail() -> None:
        await files.reached.wait()
        log.fail(OSError(errno.EIO, "the disk is gone"))
        files.let_on(fails=False)

    append(log, ("k", "v"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fail)
        with pytest.raises(KafkaError, match="the disk is gone"):
            await Flusher(Clock(lambda: 0), lambda log: None).flush([log])
    assert log.recovery_point == 0


async def test_a_sync_that_cannot_start_fails_its_producers_and_can_be_retried() -> None:
    files = CrashFiles()
    log, flusher = make_log(files, flush_messages=1), Flusher(Clock(lambda: 0), lambda log: None)
    append(log, ("k", "v"))

    def refuse(operation: str, path: str, _: int) -> None:
        raise MemoryError

    files.refuse = refuse
    assert list(await flusher.flush_each([log])) == [log]
    with pytest.raises(KafkaError, match="MemoryError"):
        await flusher.flush([log])
    files.refuse = None
    assert not await flusher.flush_each([log])
    assert (log.failure, log.recovery_point) == (None, 1)


async def test_a_log_that_cannot_be_flushed_does_not_block_the_others() -> None:
    bad_disk = CrashFiles()
    bad, good = make_log(bad_disk), make_log()
    for log in (bad, good):
        append(log, ("k", "v"), roll=True)

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == "sync":
            raise OSError(errno.EIO, "Input/output error")

    bad_disk.refuse = refuse
    flusher = Flusher(Clock(lambda: 0), lambda log: None)
    await flusher.flush_sealed([bad, good])
    assert (bad.recovery_point, good.recovery_point) == (0, 1)
    append(good, ("k", "w"))
    with pytest.raises(KafkaError):
        await flusher.flush([bad, good])
    assert (bad.recovery_point, good.recovery_point) == (0, 2)


# After a failed sync, the disk reports success for everything


def flush(log: Log) -> None:
    log.flush(0)


def flush_rolled(log: Log) -> None:
    flush_sealed(log, 0)


def roll(log: Log) -> None:
    log.roll(0)


def append_more(log: Log) -> None:
    append(log, ("k", "v"))


def retain(log: Log) -> None:
    delete_old_segments(log, 1 << 50, 0)


LATER: dict[str, Callable[[Log], None]] = {
    "flush": flush,
    "flush of sealed segments": flush_rolled,
    "roll": roll,
    "append": append_more,
    "close": lambda log: log.close(0),
    "retention": retain,
}


@each_case("which", ["sync", "sync_dir"])
@each_case("later", LATER.values(), ids=LATER.keys())
def test_after_a_failed_sync_the_recovery_point_stays(later: Callable[[Log], None], which: str) -> None:
    files = CrashFiles()
    log = make_log(files)
    append(log, ("a", "1"), roll=True)
    append(log, ("b", "1"))
    other = log.begin_flush_of_sealed()
    assert other is not None
    log.leader_epochs.write()  # so that a sync of the log fails

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == which:
            raise OSError(errno.ENOSPC, "No space left on device")

    files.refuse = refuse
    with pytest.raises(KafkaError):
        log.flush(0)
    files.refuse = None
    with pytest.raises(KafkaError):
        later(log)
    with pytest.raises(KafkaError):
        log.end_flush(other, 0)
    assert log.recovery_point == 0


def test_after_a_failed_sync_no_stop_is_clean_and_no_checkpoint_moves() -> None:
    files = CrashFiles()
    manager = LogManager(files, ["/data"])
    manager.load(0, 0, config_for=lambda _: make_log().config)
    (log,) = manager.create([TP], topic_id=bytes(16), config=make_log().config, now_ms=0, elapsed_ms=0)
    cleaner = CleanerManager(files, manager.logs, lambda _: None)
    append(log, ("a", "1"), roll=True)
    append(log, ("b", "1"))

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == "sync" and path.endswith("0.log"):
            raise OSError(errno.EIO, "Input/output error")

    files.refuse = refuse
    with pytest.raises(KafkaError):
        log.flush(0)
    files.refuse = None
    manager.checkpoint_recovery_points()
    assert filthiest(cleaner, 1 << 40) is None
    manager.close(0)
    assert not files.exists(f"/data/{CLEAN_SHUTDOWN_FILE}")
    assert OffsetCheckpoint(files, f"/data/{RECOVERY_POINT_CHECKPOINT}").read() == {}
