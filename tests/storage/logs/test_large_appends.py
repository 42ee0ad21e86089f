"""The two steps of appending a large batch: an event between them leaves no part of the batch."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.storage.disk.files import Files, WriteAhead
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.logs import log as log_module
from ottla.storage.logs.log import Log
from ottla.storage.produce.record_checks import CheckedBatch, LargeBatchError
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch
from support.logs.make_log import all_batches, append, contents, make_log, reopen

LARGE = [("large", "v" * 500), ("too", "v" * 500)]


@pytest.fixture(autouse=True)
def small_batches_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "AT_ONCE_WRITTEN_BYTES", 800)


@pytest.fixture(params=["on disk", "in memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    return (OsFiles(), str(tmp_path)) if request.param == "on disk" else (CrashFiles(), "/data")


def opened(files: tuple[Files, str]) -> Log:
    log = make_log(files[0], data_dir=files[1], flush_messages=1 << 60)
    append(log, ("before", "it"))
    return log


def announced(log: Log, records: memoryview | CheckedBatch | None = None) -> tuple[CheckedBatch, WriteAhead]:
    """Do the first step, without the write."""
    with pytest.raises(LargeBatchError) as raised:
        log.append(memoryview(batch(*LARGE)) if records is None else records, now_ms=5_000, at_once=True)
    assert raised.value.begun is not None
    return raised.value.begun


def begun(log: Log) -> CheckedBatch:
    """Do the first step."""
    checked, ahead = announced(log)
    ahead.write()
    return checked


def end(log: Log, checked: CheckedBatch) -> int:
    return log.append(checked, now_ms=5_000, at_once=True).base_offset


def keys(log: Log) -> list[bytes | None]:
    return [key for _, key, _ in contents(log)]


@pytest.mark.parametrize("stamps", [False, True])
def test_a_large_batch_is_appended_like_any_other(files: tuple[Files, str], stamps: bool) -> None:
    log, plain = opened(files), opened((CrashFiles(), "/data"))
    if stamps:
        for each in (log, plain):
            each.config = make_log(message_timestamp_type="LogAppendTime").config
    large = begun(log)
    assert (log.log_end_offset, log.size_bytes, keys(log)) == (1, all_batches(log)[0].size_bytes, [b"before"])
    assert end(log, large) == 1
    plain.append(memoryview(batch(*LARGE)), now_ms=5_000)
    for each in (log, plain):
        append(each, ("behind", "it"))
    assert [bytes(each.view) for each in all_batches(log)] == [bytes(each.view) for each in all_batches(plain)]
    assert contents(reopen(log, clean=False)) == contents(plain)


def _append(log: Log) -> None:
    append(log, ("between", "them"))


def _roll(log: Log) -> None:
    log.roll(0)


def _another(log: Log) -> None:
    begun(log)


def _give_up(log: Log) -> None:
    log.give_up_large()
    log.give_up_large()


@pytest.mark.parametrize("between", [_append, _roll, _another, _give_up])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_change_between_the_steps_restarts_the_append(
    files: tuple[Files, str], between: Callable[[Log], None], is_written: bool
) -> None:
    log = opened(files)
    checked, ahead = announced(log)
    if is_written:
        ahead.write()
    between(log)
    before = keys(log)
    ahead.write()  # the other thread may be late
    assert keys(reopen(log, clean=False)) == keys(log) == before
    checked, again = announced(log, checked)
    again.write()
    assert end(log, checked) == len(before)
    assert keys(reopen(log, clean=False)) == keys(log) == [*before, b"large", b"too"]


def test_a_clean_stop_leaves_no_part_of_the_batch(files: tuple[Files, str]) -> None:
    log = opened(files)
    size_bytes = log.size_bytes
    _, ahead = announced(log)
    ahead.write()
    log.close(0)
    ahead.write()
    log.release_files()
    path = log.segments.active.file_paths()[0]
    assert files[0].size(path) == size_bytes


def test_a_power_loss_during_the_steps_leaves_the_old_log_or_all() -> None:
    def life(files: CrashFiles) -> Log:
        log = make_log(files, flush_messages=1 << 60)
        append(log, ("before", "it"))
        log.flush(0)
        end(log, begun(log))
        begun(log)
        append(log, ("behind", "it"))
        log.flush(0)
        return log

    whole = CrashFiles()
    life(whole)
    seen: set[tuple[bytes | None, ...]] = set()
    disks = 0

    def look() -> None:
        nonlocal disks
        for disk in whole_again.after_crash(ordered=False):
            if disk.exists("/data/t-0"):
                disks += 1
                seen.add(tuple(keys(make_log(disk))))

    whole_again = CrashFiles()
    whole_again.before_step = look
    life(whole_again)
    assert disks > 50
    assert seen == {(), (b"before",), (b"before", b"large", b"too"), (b"before", b"large", b"too", b"behind")}


@pytest.mark.parametrize("step", ["write", "append"])
def test_a_disk_that_refuses_leaves_the_log_unchanged(step: str) -> None:
    files = CrashFiles()
    log = opened((files, "/data"))

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == "append":
            raise OSError(errno.ENOSPC, "No space left on device")

    checked, ahead = announced(log)
    if step == "write":
        files.refuse = refuse
        with pytest.raises(OSError):
            ahead.write()
        log.give_up_large()
    else:
        ahead.write()
        files.refuse = refuse
        with pytest.raises(KafkaError) as refused:
            end(log, checked)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    files.refuse = None
    assert keys(reopen(log, clean=False)) == keys(log) == [b"before"]
    assert end(log, begun(log)) == 1
    assert keys(reopen(log, clean=False)) == [b"before", b"large", b"too"]
