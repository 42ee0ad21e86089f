"""Which errors take a data directory offline, and which refuse one call that may be tried again."""

from __future__ import annotations

import errno

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.storage.checkpoints import CorruptCheckpointError
from ottla.storage.files import SyncError
from ottla.storage.health import Health, is_disk_failure
from support.batches import batch
from support.crash_files import CrashFiles
from support.make_log import append, contents, make_log, reopen

FAILED = ("EIO", "EROFS", "ENXIO", "ENODEV", "EUCLEAN", "EBADMSG", "ESTALE", "ENOTCONN")
REFUSED = (
    *("ENOSPC", "EDQUOT", "EFBIG"),  # room
    *("ENOMEM", "EMFILE", "ENFILE", "EAGAIN", "EINTR"),  # what the process or the machine is short of
    *("EACCES", "EPERM"),
    *("ENOENT", "ENOTDIR", "EEXIST", "EBUSY", "ENAMETOOLONG"),  # names, that somebody may be changing
    *("EBADF", "EINVAL"),  # our own mistakes
)


@pytest.mark.parametrize("name", FAILED)
def test_an_error_of_the_disk_is_the_disks_failure(name: str) -> None:
    assert is_disk_failure(OSError(getattr(errno, name), name))


@pytest.mark.parametrize("name", REFUSED)
def test_any_other_error_is_not(name: str) -> None:
    assert not is_disk_failure(OSError(getattr(errno, name), name))


@pytest.mark.parametrize("name", FAILED + REFUSED)
def test_a_failed_sync_is_the_disks_failure_whatever_its_number(name: str) -> None:
    assert is_disk_failure(SyncError(getattr(errno, name), name))


def test_a_file_that_does_not_hold_what_it_must_is_the_disks_failure() -> None:
    assert is_disk_failure(CorruptCheckpointError("f", 1, "nonsense"))


def test_the_first_failure_is_the_one_that_is_told() -> None:
    health = Health()
    health.note(OSError(errno.ENOSPC, "no room"))
    assert health.failure is None
    health.note(OSError(errno.EIO, "the first"))
    health.note(OSError(errno.EIO, "the second"))
    assert health.failure is not None and "the first" in health.failure


# A log that is refused something


def refusing(files: CrashFiles, number: int, *operations: str, path: str = "") -> None:
    """From now on these operations fail, on paths that contain `path`."""

    def refuse(operation: str, at: str, _: int) -> None:
        if operation in operations and path in at:
            raise OSError(number, "refused", at)

    files.refuse = refuse


def disk_of(log: object) -> CrashFiles:
    files = getattr(log, "files", None)
    assert isinstance(files, CrashFiles)
    return files


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_append_leaves_the_log_readable_and_the_next_one_tries_again(name: str) -> None:
    log = make_log()
    append(log, ("a", "1"))
    refusing(disk_of(log), getattr(errno, name), "append")
    for _ in range(2):
        with pytest.raises(KafkaError, match="refused") as refusal:
            append(log, ("b", "2"))
        assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert log.failure is None and contents(log)
    disk_of(log).refuse = None
    assert append(log, ("b", "2")) == 1
    assert contents(log) == [(0, b"a", b"1"), (1, b"b", b"2")]


STEPS_OF_A_ROLL = {
    "its time index": ("create", ".timeindex"),
    "the next log file": ("create", "1.log"),
    "the reserved space": ("preallocate", "1.log"),
    "the producers": ("create", ".snapshot"),
    "what stands in their file": ("append", ".snapshot"),
}


@pytest.mark.parametrize(("operation", "path"), STEPS_OF_A_ROLL.values(), ids=STEPS_OF_A_ROLL.keys())
@pytest.mark.parametrize("ends", ["in a crash", "in a clean stop", "with room again"])
def test_a_roll_that_has_no_room_for_one_of_its_files_is_made_by_the_next_append(
    operation: str, path: str, ends: str
) -> None:
    log = make_log(segment_ms=1_000, segment_bytes=1 << 20, preallocate=True)
    append(log, ("a", "1"), timestamp=1_000)
    for _ in range(2):
        refusing(disk_of(log), errno.ENOSPC, operation, path=path)
        with pytest.raises(KafkaError):
            append(log, ("b", "2"), timestamp=5_000)
        # What fits the old segment must not go there either: its successor has a name already, or may have one.
        with pytest.raises(KafkaError):
            append(log, ("b", "2"), timestamp=1_500)
        assert contents(log) and log.failure is None
        disk_of(log).refuse = None
    if ends == "with room again":
        assert append(log, ("b", "2"), timestamp=1_500) == 1
        assert [segment.base_offset for segment in log.segments] == [0, 1]
        log = reopen(log)
        assert contents(log) == [(0, b"a", b"1"), (1, b"b", b"2")]
        return
    log = reopen(log, clean=ends == "in a clean stop")
    assert contents(log) == [(0, b"a", b"1")]
    assert append(log, ("b", "2"), timestamp=5_000) == 1
    assert contents(reopen(log)) == [(0, b"a", b"1"), (1, b"b", b"2")]


def test_a_leader_epoch_that_could_not_be_written_is_written_by_the_next_append() -> None:
    log = make_log()
    append(log, ("a", "1"))
    refusing(disk_of(log), errno.ENOSPC, "create", "append", path="leader-epoch-checkpoint")
    with pytest.raises(KafkaError):
        log.append(memoryview(batch(("b", "2"))), now_ms=0, leader_epoch=7)
    disk_of(log).refuse = None
    log.append(memoryview(batch(("b", "2"))), now_ms=0, leader_epoch=7)
    assert [*reopen(log, clean=False).leader_epochs.entries] == [(0, 0), (7, 1)]


def test_a_log_start_that_could_not_be_noted_has_not_moved() -> None:
    log = make_log()
    append(log, ("a", "1"), ("b", "2"))
    refusing(disk_of(log), errno.ENOSPC, "create", "append")
    with pytest.raises(KafkaError):
        log.advance_log_start(1)
    assert log.log_start_offset == 0
    disk_of(log).refuse = None
    log.advance_log_start(1)
    assert (log.log_start_offset, *log.leader_epochs.entries) == (1, (0, 1))
