"""An exchange of the whole content of data directories: complete or not done, despite power losses and disk errors."""

from __future__ import annotations

import errno
import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import pytest

from ottla.storage.data_dirs.exchange import Exchange, finish, is_unfinished, own_entries
from ottla.storage.data_dirs.manager import LogManager
from ottla.storage.disk import paths
from ottla.storage.disk.files import Files
from ottla.storage.disk.health import DataDirectoryError
from support.disk.crash_files import CrashFiles, PowerLoss, disks_left

ONE = ("/d",)
TWO = ("/d", "/e")
OLD = {
    "ottla.json": b"old catalog",
    "meta.properties": b"old",
    "t-0/partition.metadata": b"old",
    "u-0/partition.metadata": b"u",
}
NEW = {"ottla.json": b"new catalog", "t-0/partition.metadata": b"new", "v-1/partition.metadata": b"new"}


def fill(files: Files, directory: str, content: dict[str, bytes]) -> None:
    for name, data in content.items():
        path = paths.join(directory, name)
        files.make_dir(paths.parent(path))
        file = files.open(path, create=True)
        file.append(data)
        file.sync()
        file.close()
        files.sync_dir(paths.parent(path))
    files.sync_dir(directory)


def disk(data_dirs: Sequence[str] = ONE) -> CrashFiles:
    files = CrashFiles()
    for each in data_dirs:
        files.make_dir(each)
        fill(files, each, OLD)
    files.sync_all()
    return files


def content(files: CrashFiles, data_dir: str) -> dict[str, bytes]:
    """Return the broker's files in a directory."""
    mine = own_entries(files, data_dir)
    found = {
        path.removeprefix(f"{data_dir}/"): data for path, data in files.snapshot().items() if path.startswith(data_dir)
    }
    return {name: data for name, data in found.items() if name.partition("/")[0] in mine}


def exchange(files: Files, data_dirs: Sequence[str] = ONE, new: dict[str, bytes] | None = None) -> None:
    begun = Exchange(files, data_dirs, random.Random(1))
    begun.make()
    for each in begun.staged:
        fill(files, each, NEW if new is None else new)
    begun.apply()


def names(files: CrashFiles, data_dir: str) -> set[str]:
    return set(files.list(data_dir))


def is_removed_by_a_start(name: str) -> bool:
    found = paths.parse_partition_dir(name)
    return isinstance(found, paths.MovingDir) and found.role == "delete"


@pytest.mark.parametrize("data_dirs", [ONE, TWO], ids=["one", "two"])
def test_afterwards_the_new_content_is_there_and_the_old_is_for_a_start_to_remove(data_dirs: Sequence[str]) -> None:
    files = disk(data_dirs)
    exchange(files, data_dirs)
    for each in data_dirs:
        assert content(files, each) == NEW
        left = names(files, each) - {"ottla.json", "t-0", "v-1"}
        assert left and all(map(is_removed_by_a_start, left))
    assert not is_unfinished(files, data_dirs)


def test_an_empty_content_leaves_nothing(data_dirs: Sequence[str] = TWO) -> None:
    files = disk(data_dirs)
    exchange(files, data_dirs, {})
    assert [content(files, each) for each in data_dirs] == [{}, {}]


def test_what_is_none_of_ours_stays() -> None:
    files = disk()
    fill(
        files,
        "/d",
        {"photos-2023/1.jpg": b"mine", "notes.txt": b"mine", f"x-0.{'0' * 32}-stray/a": b"aside", ".lock": b""},
    )
    exchange(files, new={})
    assert names(files, "/d") >= {"photos-2023", "notes.txt", f"x-0.{'0' * 32}-stray", ".lock"}
    assert files.snapshot()["/d/photos-2023/1.jpg"] == b"mine"


def ended(after: CrashFiles, data_dirs: Sequence[str]) -> list[dict[str, bytes]]:
    """Return the content that a start finds."""
    finish(after, data_dirs)
    assert not is_unfinished(after, data_dirs)
    assert not {paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN} & {name for each in data_dirs for name in names(after, each)}
    return [content(after, each) for each in data_dirs]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("data_dirs", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("new", [NEW, {}], ids=["replaced", "emptied"])
def test_a_power_loss_leaves_all_of_the_old_or_all_of_the_new(
    new: dict[str, bytes], data_dirs: Sequence[str], ordered: bool
) -> None:
    seen = set()
    scenario = partial(exchange, data_dirs=data_dirs, new=new)
    for after, _ in disks_left(scenario, disk(data_dirs), ordered=ordered, owed=lambda: None):
        found = ended(after, data_dirs)
        assert found in ([OLD] * len(data_dirs), [new] * len(data_dirs))
        seen.add(found == [OLD] * len(data_dirs))
    assert seen == {True, False}


@pytest.mark.parametrize("ordered", [True, False])
def test_a_second_power_loss_while_it_is_being_ended_changes_nothing(ordered: bool) -> None:
    at = 0
    while True:
        files = disk(TWO)
        files.fail_at = at
        with suppress(PowerLoss):
            exchange(files, TWO)
            break
        at += 7
        for after in files.after_crash(ordered=True):
            expected = ended(after.copy(), TWO)
            for again, _ in disks_left(lambda each: finish(each, TWO), after, ordered=ordered, owed=lambda: None):
                assert ended(again, TWO) == expected
    assert at > 30


def test_a_disk_that_refuses_any_operation_leaves_one_or_the_other() -> None:
    at = 0
    while True:
        files, left = disk(TWO), [at]

        def refuse(operation: str, path: str, added_bytes: int, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise OSError(errno.EIO, "refused", path)

        begun = Exchange(files, TWO, random.Random(1))
        files.refuse = refuse
        try:
            begun.make()
            for each in begun.staged:
                fill(files, each, NEW)
            begun.apply()
        except OSError:
            files.refuse = None
            begun.drop()
            found = ended(files, TWO)
            assert found in ([OLD, OLD], [NEW, NEW])
        else:
            break
        at += 1
    assert at > 20
    files.refuse = None
    assert ended(files, TWO) == [NEW, NEW]


def test_a_directory_that_cannot_be_looked_into_is_found_before_the_decision() -> None:
    files = disk(TWO)
    fill(files, "/e", {"backup-2023/1.jpg": b"not ours"})

    def refuse(path: str) -> None:
        if path.startswith("/e/backup-2023"):
            raise OSError(errno.EACCES, "refused", path)

    begun = Exchange(files, TWO, random.Random(1))
    begun.make()
    files.refuse_reading = refuse
    with pytest.raises(OSError, match="refused"):
        begun.apply()
    files.refuse_reading = None
    begun.drop()
    assert not is_unfinished(files, TWO)
    assert content(files, "/e") == content(files, "/d") == OLD


def test_dropping_one_that_was_decided_drops_nothing() -> None:
    files = disk(TWO)

    def refuse(operation: str, path: str, added_bytes: int) -> None:
        if operation == "rename" and path.startswith("/e"):
            raise OSError(errno.EIO, "refused", path)

    begun = Exchange(files, TWO, random.Random(1))
    begun.make()
    for each in begun.staged:
        fill(files, each, NEW)
    files.refuse = refuse
    with pytest.raises(OSError, match="refused"):
        begun.apply()
    files.refuse = None
    begun.drop()
    assert is_unfinished(files, TWO)
    assert ended(files, TWO) == [NEW, NEW]


def test_nobody_but_a_start_of_the_broker_opens_directories_in_the_midst_of_one() -> None:
    files = disk()
    files.make_dir(f"/d/{paths.NEXT_CONTENT}")
    for _ in range(2):
        with pytest.raises(DataDirectoryError, match=r"^data directory /d: a reset or restore was interrupted"):
            LogManager(files, ONE)
    files.remove_dir(f"/d/{paths.NEXT_CONTENT}")
    files.remove("/d/meta.properties")
    LogManager(files, ONE).release()
