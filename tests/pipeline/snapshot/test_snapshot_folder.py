"""A snapshot that replaces another: killed, refused or without power at any moment, one of them exists, complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from ottla.pipeline.errors import UsageError
from ottla.pipeline.snapshot.snapshot_folder import LEFT_MS, replacing, sync_file
from support.disk.crash_files import CrashFiles, power_losses

OUT = "/s/out"
OLD = {"part-00000.parquet": b"old a", "part-00001.parquet": b"old b", "part-00002.parquet": b"old c"}
NEW = {"part-00000.parquet": b"new a", "part-00003.parquet": b"new b"}
NEWER = {"part-00001.parquet": b"newer"}
NOW_MS = 1_700_000_000_000


def write(files: CrashFiles, content: dict[str, bytes], now_ms: int = NOW_MS) -> None:
    with replacing(OUT, overwrite=True, now_ms=now_ms, files=files) as directory:
        for name, data in content.items():
            unfinished = f"{directory}/.part-{name}.7"
            files.open(unfinished, create=True).append(data)
            sync_file(files, unfinished)
            files.rename(unfinished, f"{directory}/{name}")
        files.open(f"{directory}/.part-00009.8", create=True).append(b"of an executor that died")


def again(files: CrashFiles, *, overwrite: bool = False) -> AbstractContextManager[str]:
    return replacing(OUT, overwrite=overwrite, now_ms=NOW_MS, files=files)


def with_old(*, is_first: bool = False) -> CrashFiles:
    files = CrashFiles()
    files.make_dir("/s")
    if not is_first:
        write(files, OLD)
    files.sync_all()
    return files.copy()


def content(files: CrashFiles, directory: str = OUT) -> dict[str, bytes] | None:
    if not files.is_dir(directory):
        return None
    return {name: files.snapshot()[f"{directory}/{name}"] for name in files.list(directory)}


def snapshot_there(files: CrashFiles) -> dict[str, bytes] | None:
    """Return the snapshot that the next call finds."""
    return content(files) if files.exists(OUT) else content(files, f"{OUT}.replaced")


def lost(files: CrashFiles) -> Iterator[CrashFiles]:
    for ordered in (True, False):
        yield from power_losses(lambda disk: write(disk, NEW), ordered=ordered, start=files)


@pytest.mark.parametrize("is_first", [False, True], ids=["over another", "the first"])
def test_power_may_fail_before_any_operation(is_first: bool) -> None:
    count = 0
    for disk in lost(with_old(is_first=is_first)):
        count += 1
        assert snapshot_there(disk) in (None if is_first else OLD, NEW)
        write(disk, NEWER, NOW_MS + LEFT_MS + 1)
        assert content(disk) == NEWER
        assert disk.list("/s") == ["out"], "what was left a day before is gone"
    assert count > 30


def test_a_process_may_be_killed_before_any_operation() -> None:
    """Finished operations stay: no cleanup runs."""
    start = with_old()
    done = start.copy()
    disks: list[CrashFiles] = []
    done.before_step = lambda: disks.append(done.copy())
    write(done, NEW)
    assert len(disks) > 15
    for disk in disks:
        assert snapshot_there(disk) in (OLD, NEW)
        with pytest.raises(UsageError, match="expected a new folder"), again(disk):
            pass
        assert content(disk) in (OLD, NEW), "the old one is given back"
    assert content(done) == NEW


def test_a_disk_that_refuses_any_operation_leaves_one_snapshot() -> None:
    undisturbed = with_old()
    write(undisturbed, NEW)
    for number in range(len(undisturbed.operations)):
        files = with_old()

        def refuse(operation: str, path: str, _bytes: int, files: CrashFiles = files, number: int = number) -> None:
            if len(files.operations) == number:
                files.refuse = None
                raise OSError(5, f"{operation} refused", path)

        files.refuse = refuse
        try:
            write(files, NEW)
        except OSError:
            assert content(files) in (OLD, NEW)
        else:
            assert content(files) == NEW, "only what was left of the old one could not be removed"
        write(files, NEWER)
        assert content(files) == NEWER


def test_an_error_during_the_write_keeps_the_old_snapshot() -> None:
    files = with_old()
    with pytest.raises(ZeroDivisionError), again(files, overwrite=True):
        raise ZeroDivisionError
    assert content(files) == OLD
    assert files.list("/s") == ["out"]


@pytest.mark.parametrize("ends_first", ["the one that began first", "the other"])
def test_two_concurrent_jobs_write_separate_folders(ends_first: str) -> None:
    """In containers both may be process 1; the second one deleted the first one's files, and both continued in one folder."""
    files = with_old()
    first, second = again(files, overwrite=True), again(files, overwrite=True)
    one = first.__enter__()
    files.open(f"{one}/part-00000.parquet", create=True).append(NEW["part-00000.parquet"])
    other = second.__enter__()
    files.open(f"{other}/part-00001.parquet", create=True).append(NEWER["part-00001.parquet"])
    files.open(f"{one}/part-00003.parquet", create=True).append(NEW["part-00003.parquet"])
    for job, then in ((first, NEW), (second, NEWER)) if ends_first != "the other" else ((second, NEWER), (first, NEW)):
        job.__exit__(None, None, None)
        assert content(files) == then
    assert files.list("/s") == ["out"]


def test_only_leftovers_of_jobs_are_removed_after_a_day() -> None:
    files = with_old()
    old, young = (f"{OUT}.{at}-0a1b.part" for at in (NOW_MS - LEFT_MS - 1, NOW_MS - LEFT_MS))
    others = ["/s/outer.1600000000000-0a1b.part", f"{OUT}.1600000000000-0a1b.parts", f"{OUT}.7.part"]
    for each in (old, young, *others):
        files.make_dir(each)
    write(files, NEW)
    assert set(files.list("/s")) == {each.removeprefix("/s/") for each in (OUT, young, *others)}


def test_leftovers_of_a_dead_executor_do_not_cause_a_refusal() -> None:
    files = with_old()
    files.open(f"{OUT}/.part-00000.17", create=True)
    write(files, NEW)
    assert content(files) == NEW


def test_addresses_are_refused() -> None:
    with (
        pytest.raises(UsageError, match="hdfs://there/out: expected a path"),
        replacing("hdfs://there/out", overwrite=True, now_ms=NOW_MS),
    ):
        pass
