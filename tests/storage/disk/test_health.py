"""Errors that take a data directory offline, and errors that refuse one call that may be tried again."""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.storage.disk.checkpoints import CorruptCheckpointError
from ottla.storage.disk.files import SyncError
from ottla.storage.disk.health import Health, is_disk_failure
from ottla.storage.logs.log import Log
from ottla.storage.produce.validation import AppendOrigin
from ottla.storage.steps import to_the_end
from support.disk.crash_files import CrashFiles
from support.logs.batches import ABORT, batch, marker
from support.logs.make_log import append, contents, delete_old_segments, flush_sealed, make_log, remove_deleted, reopen
from support.noted import each_case

FAILED = ("EIO", "EROFS", "ENXIO", "ENODEV", "EUCLEAN", "EBADMSG", "ESTALE", "ENOTCONN")
REFUSED = (
    *("ENOSPC", "EDQUOT", "EFBIG"),  # space
    *("ENOMEM", "EMFILE", "ENFILE", "EAGAIN", "EINTR"),  # resources that the process or the machine has run out of
    *("EACCES", "EPERM"),
    *("ENOENT", "ENOTDIR", "EEXIST", "EBUSY", "ENAMETOOLONG"),  # names that another program may be changing
    *("EBADF", "EINVAL"),  # bugs of Ottla
)


@pytest.mark.parametrize("name", FAILED)
def test_a_disk_error_is_a_disk_failure(name: str) -> None:
    assert is_disk_failure(OSError(getattr(errno, name), name))


@each_case("name", REFUSED)
def test_any_other_error_is_not_a_disk_failure(name: str) -> None:
    assert not is_disk_failure(OSError(getattr(errno, name), name))


@each_case("name", FAILED + REFUSED)
def test_a_failed_sync_is_a_disk_failure_with_any_error_number(name: str) -> None:
    assert is_disk_failure(SyncError(getattr(errno, name), name))


def test_a_file_with_invalid_content_is_a_disk_failure() -> None:
    assert is_disk_failure(CorruptCheckpointError("f", 1, "nonsense"))


def test_the_first_failure_is_reported() -> None:
    health = Health()
    health.note(OSError(errno.ENOSPC, "no room"))
    assert health.failure is None
    health.note(OSError(errno.EIO, "the first"))
    health.note(OSError(errno.EIO, "the second"))
    assert health.failure is not None and "the first" in health.failure


# A log whose operation is refused


def refusing(files: CrashFiles, number: int, *operations: str, path: str = "") -> None:
    """Refuse these operations from now on, on paths that contain `path`."""

    def refuse(operation: str, at: str, _: int) -> None:
        if operation in operations and path in at:
            raise OSError(number, "refused", at)

    files.refuse = refuse


def disk_of(log: Log) -> CrashFiles:
    assert isinstance(log.files, CrashFiles)
    return log.files


@each_case("name", REFUSED)
def test_a_refused_append_leaves_the_log_readable_and_the_next_retries(name: str) -> None:
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


@each_case("operation, path", STEPS_OF_A_ROLL.values(), ids=STEPS_OF_A_ROLL.keys())
@each_case("ends", ["in a crash", "in a clean stop", "with room again"])
def test_a_roll_that_lacks_room_is_completed_by_the_next_append(operation: str, path: str, ends: str) -> None:
    log = make_log(segment_ms=1_000, segment_bytes=1 << 20, preallocate=True)
    append(log, ("a", "1"), timestamp=1_000)
    for _ in range(2):
        refusing(disk_of(log), errno.ENOSPC, operation, path=path)
        with pytest.raises(KafkaError):
            append(log, ("b", "2"), timestamp=5_000)
        # Batches that fit the old segment must not go there either: its successor has a name already, or may have one.
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


def test_a_flush_that_cannot_write_a_leader_epoch_fails_and_is_repeated() -> None:
    log = make_log()
    append(log, ("a", "1"))
    log.append(memoryview(batch(("b", "2"))), now_ms=0, leader_epoch=7)
    refusing(disk_of(log), errno.ENOSPC, "create", "append", path="leader-epoch-checkpoint")
    with pytest.raises(KafkaError):
        log.flush(0)
    assert log.recovery_point == 0
    disk_of(log).refuse = None
    log.flush(0)
    assert [*reopen(log, clean=False).leader_epochs.entries] == [(0, 0), (7, 1)]


def test_a_log_start_moves_without_the_disk() -> None:
    log = make_log()
    append(log, ("a", "1"), ("b", "2"))
    refusing(disk_of(log), errno.ENOSPC, "create", "append", "rename", "sync", "sync_dir")
    log.advance_log_start(1)
    assert (log.log_start_offset, *log.leader_epochs.entries) == (1, (0, 1))


@pytest.mark.parametrize("ends", ["with room", "in a crash", "in a clean stop"])
def test_retention_frees_space_on_a_full_disk(ends: str) -> None:
    log = make_log(cleanup_policy=("delete",), retention_ms=1_000)
    for number in range(4):
        log.append(memoryview(batch((f"k{number}", "v"), timestamp=1_000)), now_ms=0, leader_epoch=number)
        if number < 3:
            log.roll(0)
    disk_of(log).free_bytes = 0
    refusing(disk_of(log), errno.ENOSPC, "create")
    assert delete_old_segments(log, 10_000, 0) == 3
    assert (log.log_start_offset, [segment.base_offset for segment in log.segments]) == (3, [3])
    with pytest.raises(KafkaError):
        delete_old_segments(log, 10_000, 0)
    assert contents(log) == [(3, b"k3", b"v")] and log.failure is None
    remove_deleted(log, 10**9)
    disk_of(log).free_bytes, disk_of(log).refuse = 1 << 20, None
    if ends != "with room":
        log = reopen(log, clean=ends == "in a clean stop")
        assert contents(log) == [(3, b"k3", b"v")]
    assert delete_old_segments(log, 10_000, 0) == 1
    assert (log.log_start_offset, log.log_end_offset, log.leader_epochs.entries) == (4, 4, ((3, 4),))


# Every operation of a log's history


NEEDS_ROOM = ("create", "append", "preallocate", "rename", "truncate")


def write(key: str, *, epoch: int = 3, **fields: Any) -> Callable[[Log], object]:
    made = bytes(batch((key, "v" * 30), timestamp=1_000, **fields))
    return lambda log: log.append(memoryview(bytearray(made)), now_ms=0, leader_epoch=epoch)


def abort(log: Log) -> None:
    made = marker(ABORT, producer_id=5)
    log.append(memoryview(made), now_ms=0, leader_epoch=3, origin=AppendOrigin.COORDINATOR)


LIFE: list[Callable[[Log], object]] = [
    write("a", epoch=0),
    write("b"),
    lambda log: log.roll(0),
    write("c", producer_id=5, producer_epoch=0, base_sequence=0, transactional=True),
    lambda log: log.flush(0),
    write("d"),
    abort,
    lambda log: log.advance_log_start(2),
    write("e"),
    lambda log: delete_old_segments(log, 2_000, 0),
    write("f", producer_id=6, producer_epoch=0, base_sequence=0),
    lambda log: flush_sealed(log, 0),
    lambda log: log.advance_log_start(4),
    write("g", epoch=4),
    lambda log: delete_old_segments(log, 2_000, 0),
    lambda log: remove_deleted(log, 10**9),
    write("h", epoch=4),
]


def lived(files: CrashFiles) -> Log:
    """Return the log at its end. A refused call is made again, and until then has changed nothing that can be read."""
    log = make_log(
        files,
        cleanup_policy=("compact", "delete"),
        segment_bytes=250,
        index_interval_bytes=0,
        retention_bytes=-1,
        retention_ms=-1,
    )
    for step in LIFE:
        before = contents(log), log.log_start_offset, log.log_end_offset
        try:
            step(log)
        except (KafkaError, OSError):
            assert log.failure is None
            assert (contents(log), log.log_start_offset, log.log_end_offset) == before
            step(log)
    return log


def known(log: Log) -> list[object]:
    """Return all that a start must find again."""
    return [
        contents(log),
        (log.log_start_offset, log.log_end_offset, log.last_stable_offset),
        log.leader_epochs.entries,
        log.aborted_transactions(0, log.log_end_offset),
        sorted((each.producer_id, each.last_sequence) for each in log.producers),
        [segment.base_offset for segment in log.segments],
    ]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_any_refused_operation_succeeds_when_repeated(clean: bool) -> None:
    undisturbed = lived(CrashFiles())
    expected = known(undisturbed)
    found_again = known(reopen(undisturbed, clean=clean))
    for chosen in range(1_000):
        files, count = CrashFiles(), 0

        def refuse(operation: str, path: str, _: int, chosen: int = chosen) -> None:
            nonlocal count
            count += operation in NEEDS_ROOM
            if operation in NEEDS_ROOM and count == chosen + 1:
                raise OSError(errno.ENOSPC, "refused", path)

        make_log(files).release_files()  # a log that cannot be opened for lack of space is a different case
        files.refuse = refuse
        log = lived(files)
        assert known(log) == expected
        was_refused, count = count > chosen, -1_000_000
        assert known(reopen(log, clean=clean)) == found_again
        if not was_refused:
            assert chosen > 30
            return


class Short(array):  # type: ignore[type-arg]
    """An index column for which no memory is left."""

    def append(self, value: int) -> None:
        raise MemoryError


@pytest.mark.parametrize("column", ["_offsets", "_values"])
@pytest.mark.parametrize("index", ["offset_index", "time_index"])
def test_an_append_without_memory_for_its_index_entry_has_no_effect(index: str, column: str) -> None:
    log = make_log(index_interval_bytes=0)
    append(log, ("a", "1"), timestamp=1_000)
    entries = getattr(log.segments.active, index)
    before = getattr(entries, column)
    setattr(entries, column, Short(before.typecode, before))
    with pytest.raises(MemoryError):
        append(log, ("lost", "1"), timestamp=2_000)
    assert (log.log_end_offset, contents(log)) == (1, [(0, b"a", b"1")])
    setattr(entries, column, before)
    for number in range(3):
        assert append(log, ("b", str(number)), timestamp=3_000 + number) == 1 + number
    assert [offset for offset, _, _ in contents(log)] == [0, 1, 2, 3]
    found = to_the_end(log.search_timestamp(3_001))
    assert found is not None and found.offset == 2
    for clean in (True, False):
        log = reopen(log, clean=clean)
        assert [offset for offset, _, _ in contents(log)] == [0, 1, 2, 3]


def test_an_append_that_cannot_be_reverted_is_the_last() -> None:
    """The next batch would get the same offsets, and a start would end the log before it."""
    files = CrashFiles()
    log = make_log(files, index_interval_bytes=0)
    append(log, ("a", "1"), timestamp=1_000)
    entries = log.segments.active.offset_index
    entries._values = Short(entries._values.typecode, entries._values)

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == "truncate":
            raise OSError(errno.ENOSPC, "No space left on device")

    files.refuse = refuse
    with pytest.raises(KafkaError, match="of a failed append from the file"):
        append(log, ("lost", "1"), timestamp=2_000)
    files.refuse = None
    with pytest.raises(KafkaError, match="of a failed append from the file"):
        append(log, ("b", "1"), timestamp=3_000)


def test_a_failure_is_reported_once_to_its_listener() -> None:
    health, told = Health(), list[str | None]()
    health.on_failure = lambda: told.append(health.failure)
    health.note(OSError(errno.ENOSPC, "No space left on device"))
    assert told == []
    health.note(OSError(errno.EIO, "Input/output error"))
    health.fail("something else")
    assert told == [health.failure] == ["[Errno 5] Input/output error"]
