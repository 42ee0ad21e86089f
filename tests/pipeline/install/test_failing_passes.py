"""A pass, a split or an install fails at any file operation, is repeated in the same process, and then power is lost.

Tests a part of the failures, on a disk that keeps the order of directory operations; `python -m compat.crashes` tries all, and
any order.
"""

from __future__ import annotations

import errno

import pytest

from ottla.protocol.errors import CorruptRecordError
from ottla.storage.disk import paths
from ottla.storage.disk.files import Files
from ottla.storage.segment.split import split_segment
from support.disk.crash_files import CrashFiles
from support.lives.failing_passes import FAILING
from support.logs.make_log import append, clean, delete_old_segments, make_log
from support.sizes import size

ONE_FAILURE_IN = size(1_340, 67)
DIRECTORY = "/data/t-0"


@pytest.mark.parametrize("name", FAILING)
def test_after_any_failure_the_next_pass_and_a_power_loss_are_harmless(name: str) -> None:
    shift = list(FAILING).index(name) * 17
    failures, moments, counts = FAILING[name].search(
        ordered=True, one_in=ONE_FAILURE_IN, shift=shift, thinned_to=size(10, 1)
    )
    print(f"{name}: {failures} failures, {moments} moments, {counts}")
    assert not counts.failures
    assert failures > size(0, 3) and counts.after_one_loss > size(0, 5)


def refuse_all(*_: object) -> None:
    raise OSError(errno.EIO, "input/output error")


def leftovers(files: Files) -> list[str]:
    return [name for name in files.list(DIRECTORY) if name.endswith((paths.CLEANED, paths.SWAP))]


@pytest.mark.parametrize("error", [OSError, MemoryError, KeyboardInterrupt, CorruptRecordError])
def test_a_pass_that_fails_leaves_no_cleaned_file(error: type[BaseException]) -> None:
    log = make_log()
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"), roll=True)

    def checkpoint(_: int) -> None:
        if leftovers(log.files):
            raise error("it failed")

    with pytest.raises(error):
        clean(log, checkpoint=checkpoint)
    assert not leftovers(log.files)
    assert clean(log)[0] == 2


def test_files_that_a_failed_pass_left_are_removed_before_the_next_renames() -> None:
    files = CrashFiles()
    log = make_log(files, segment_bytes=80)
    append(log, ("a", "1"), roll=True)
    append(log, ("b", "1"), roll=True)
    append(log, ("a", "2"), roll=True)
    renamed_beside: list[str] = []

    def checkpoint(_: int) -> None:
        if leftovers(files):
            files.refuse = refuse_all

    with pytest.raises(OSError, match="input/output"):
        clean(log, checkpoint=checkpoint)
    assert leftovers(files)
    files.refuse = None
    log.advance_log_start(1)
    delete_old_segments(log, 1_000, 1_000)

    def note(operation: str, path: str, _: int) -> None:
        if operation == "rename":
            renamed_beside.extend(name for name in leftovers(files) if name.startswith(f"{0:020}"))

    files.refuse = note
    clean(log)
    assert not renamed_beside and not leftovers(files)


def test_an_aborted_swap_takes_the_log_offline() -> None:
    """The segments no longer have the names in the list; only a start can repair that."""
    files = CrashFiles()
    log = make_log(files)
    append(log, ("a", "1"), roll=True)
    append(log, ("a", "2"), roll=True)

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == "rename" and path.endswith(paths.INDEX + paths.CLEANED):
            raise MemoryError

    files.refuse = refuse
    with pytest.raises(MemoryError):
        clean(log)
    files.refuse = None
    assert log.failure is not None
    assert [record.value for each in make_log(files).segments for _, b in each.batches() for record in b.records()] == [
        b"1",
        b"2",
    ]


def test_a_split_that_fails_leaves_no_cleaned_file() -> None:
    files = CrashFiles()
    log = make_log(files)
    append(log, ("a", "1"), roll=True)
    segment = log.segments.first

    def refuse(operation: str, path: str, _: int) -> None:
        if operation == "append" and path.endswith(paths.CLEANED):
            raise MemoryError

    files.refuse = refuse
    with pytest.raises(MemoryError):
        split_segment(segment, 0)
    assert not leftovers(files)
