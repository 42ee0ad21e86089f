"""Copies of data directories: complete or missing, and refused if they were changed."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.storage.data_dirs.snapshots import Snapshot, SnapshotError, check_place, copy_out, read, save
from ottla.storage.disk.checkpoints import MetaProperties, write_meta_properties
from support.disk.crash_files import CrashFiles, power_losses
from support.noted import each_case

DIRS = ["/d", "/e"]
ID = "0" * 32
CONTENT = {
    "/d/ottla.json": b"{}",
    "/d/t-0/00000000000000000000.log": b"records" * 300_000,
    "/d/t-0/partition.metadata": b"id",
    "/e/t-1/00000000000000000000.log": b"",
}
NOT_OURS = {
    "/d/.lock": b"",
    "/d/notes.txt": b"mine",
    "/d/t-0/00000000000000000000.log.deleted": b"gone",
    f"/d/x-0.{ID}-delete/00000000000000000000.log": b"gone",
}


def write(files: CrashFiles, path: str, data: bytes) -> None:
    files.make_dir(path.rpartition("/")[0])
    file = files.open(path, create=True)
    file.append(data)
    file.close()


def disk() -> CrashFiles:
    files = CrashFiles()
    files.now_ms = 1_000
    for path, data in (CONTENT | NOT_OURS).items():
        write(files, path, data)
    write_meta_properties(files, "/d", MetaProperties(cluster_id="c", node_id=7, directory_id=None))
    files.sync_all()
    return files


def saved(files: CrashFiles, path: str = "/s/snap") -> Snapshot:
    return save(files, DIRS, files, path, ID, 5_000)


def test_snapshots_read_back_as_saved() -> None:
    files = disk()
    assert saved(files) == read(files, "/s/snap")
    found = read(files, "/s/snap")
    assert (found.node_id, found.clock_ahead_ms) == (7, 5_000)
    assert [sorted(each) for each in found.directories] == [
        ["meta.properties", "ottla.json", "t-0/00000000000000000000.log", "t-0/partition.metadata"],
        ["t-1/00000000000000000000.log"],
    ]
    assert found.size_bytes == sum(map(len, CONTENT.values())) + files.size("/d/meta.properties")


def test_a_copied_snapshot_is_unchanged_including_file_times() -> None:
    files = disk()
    saved(files)
    files.now_ms = 9_000
    files.make_dir("/new/0")
    files.make_dir("/new/1")
    copy_out(files, read(files, "/s/snap"), files, ["/new/0", "/new/1"])
    found = files.snapshot()
    for path, data in CONTENT.items():
        copy = path.replace("/d/", "/new/0/").replace("/e/", "/new/1/")
        assert found[copy] == data
        assert files.mtime_ms(copy) == 1_000
    assert not [path for path in found if path.startswith("/new") and ("deleted" in path or "notes" in path)]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_power_loss_leaves_a_complete_snapshot_or_none(ordered: bool) -> None:
    small = disk()
    for path in ("/d/t-0/00000000000000000000.log", "/d/t-0/00000000000000000000.log.deleted"):
        small.remove(path)
    small.sync_all()
    whole = 0
    for after in power_losses(saved, small, ordered=ordered):
        if after.exists("/s/snap"):
            whole += 1
            snapshot = read(after, "/s/snap")
            after.make_dir("/new/0")
            after.make_dir("/new/1")
            copy_out(after, snapshot, after, ["/new/0", "/new/1"])
    assert whole


def test_a_disk_that_refuses_leaves_no_snapshot() -> None:
    files = disk()

    def refuse(operation: str, path: str, added_bytes: int) -> None:
        if operation == "append" and "/1/" in path:
            raise OSError(errno.ENOSPC, "No space left on device", path)

    write(files, "/e/t-1/partition.metadata", b"id")
    files.refuse = refuse
    with pytest.raises(OSError, match="No space"):
        saved(files)
    assert not [path for path in files.snapshot() if path.startswith("/s/")]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/d/inside", "must not be in the data directory /d: /d/inside"),
        ("/d", "must not be in the data directory /d"),
        ("/notes", "/notes already exists, and is not an empty directory"),
        ("/full", "/full already exists, and is not an empty directory"),
    ],
)
def test_an_existing_path_is_refused(path: str, says: str) -> None:
    files = disk()
    write(files, "/notes", b"mine")
    write(files, "/full/notes", b"mine")
    with pytest.raises(SnapshotError, match=says):
        check_place(files, path, DIRS)
    with pytest.raises(SnapshotError, match=says):
        saved(files, path)


def test_an_empty_directory_is_accepted() -> None:
    files = disk()
    files.make_dir("/empty")
    saved(files, "/empty")
    assert read(files, "/empty").file_count == 5


def test_foreign_directories_have_no_snapshot() -> None:
    files = disk()
    files.remove("/d/meta.properties")
    with pytest.raises(SnapshotError, match="no broker has used it"):
        saved(files)


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[CrashFiles], None]:
    def damage(files: CrashFiles) -> None:
        said = json.loads(files.snapshot()["/s/snap/ottla-snapshot.json"])
        change(said)
        files.remove("/s/snap/ottla-snapshot.json")
        write(files, "/s/snap/ottla-snapshot.json", json.dumps(said).encode())

    return damage


def cut(files: CrashFiles) -> None:
    files.remove("/s/snap/ottla-snapshot.json")
    write(files, "/s/snap/ottla-snapshot.json", b'{"version": 1')


DAMAGE: dict[str, tuple[Callable[[CrashFiles], object], str]] = {
    "not there": (lambda files: files.remove_dir("/s/snap"), "is not a snapshot: directory not found"),
    "without its list": (lambda files: files.remove("/s/snap/ottla-snapshot.json"), "ottla-snapshot.json not found"),
    "with half a list": (cut, "invalid ottla-snapshot.json"),
    "newer": (changed(lambda said: said.update(version=2)), "unsupported snapshot version 2, expected 1"),
    "without an owner": (changed(lambda said: said.pop("node_id")), "invalid ottla-snapshot.json"),
    "without a version": (changed(lambda said: said.pop("version")), "invalid ottla-snapshot.json"),
    "with numbers for files": (changed(lambda said: said.update(directories=[3])), "invalid ottla-snapshot.json"),
    "with a file elsewhere": (
        changed(lambda said: said["directories"][0].update({"../../etc/passwd": [1, 1]})),
        "invalid file name '../../etc/passwd'",
    ),
    "without a file": (
        lambda files: files.remove("/s/snap/0/t-0/partition.metadata"),
        "0/t-0/partition.metadata is missing",
    ),
    "with a longer file": (
        lambda files: files.open("/s/snap/0/ottla.json").append(b"x"),
        "0/ottla.json has 3 bytes, expected 2",
    ),
}


@each_case("damage, says", DAMAGE.values(), ids=DAMAGE.keys())
def test_incomplete_snapshots_are_refused(damage: Callable[[CrashFiles], object], says: str) -> None:
    files = disk()
    saved(files)
    damage(files)
    with pytest.raises(SnapshotError) as caught:
        read(files, "/s/snap")
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_damaged_file_is_refused_during_the_copy() -> None:
    files = disk()
    saved(files)
    files.remove("/s/snap/0/ottla.json")
    write(files, "/s/snap/0/ottla.json", b"[]")
    with pytest.raises(SnapshotError, match=r"is damaged: 0/ottla.json was changed"):
        copy_out(files, read(files, "/s/snap"), files, ["/new/0", "/new/1"])
