"""Files of jobs that only read: more of them than descriptors, and none is read that has taken another's name."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.pipeline.errors import SourceChangedError
from ottla.pipeline.stores.reading_files import Descriptors, LogFile


def opened(path: Path, descriptors: Descriptors) -> LogFile:
    return LogFile(os.open(path, os.O_RDONLY), str(path), descriptors)


def of_these(path: Path) -> int:
    """Return the number of this process's descriptors for files in a folder."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith(str(path))
    return count


def written(folder: Path, count: int) -> list[Path]:
    paths = [folder / str(number) for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(b"%04d" % number * 32)
    return paths


def test_a_thousand_open_files_share_a_few_descriptors(tmp_path: Path) -> None:
    descriptors = Descriptors(lambda: 8)
    files = [opened(path, descriptors) for path in written(tmp_path, 1000)]
    assert of_these(tmp_path) <= 8
    for number in (*range(1000), *reversed(range(1000))):
        assert files[number].read_at(4, 4) == b"%04d" % number
        assert of_these(tmp_path) <= 8
    for file in files:
        file.close()
    assert of_these(tmp_path) == 0


def test_a_frequently_read_file_keeps_its_descriptor(tmp_path: Path) -> None:
    descriptors = Descriptors(lambda: 8)
    (busy_path, *paths) = written(tmp_path, 100)
    busy = opened(busy_path, descriptors)
    busy.read_at(0, 4)
    busy_path.unlink()
    held = []
    for path in paths:
        held.append(opened(path, descriptors))
        assert busy.read_at(0, 4) == b"0000"


def test_dropped_files_leave_no_descriptors(tmp_path: Path) -> None:
    descriptors = Descriptors(lambda: 8)
    for path in written(tmp_path, 100):
        opened(path, descriptors)
    assert of_these(tmp_path) == 0


def evicted(path: Path, descriptors: Descriptors) -> LogFile:
    """Return a file that has released its descriptor."""
    file = opened(path, descriptors)
    assert file.give_back()
    return file


def test_a_file_replaced_since_opening_is_not_read(tmp_path: Path) -> None:
    first, second = written(tmp_path, 2)
    file = evicted(first, Descriptors(lambda: 8))
    os.replace(second, first)
    with pytest.raises(SourceChangedError, match="was replaced while it was read"):
        file.read_at(0, 4)
    with pytest.raises(SourceChangedError):
        file.status()
    assert of_these(tmp_path) == 0


def test_a_file_deleted_since_opening_is_not_read(tmp_path: Path) -> None:
    (path,) = written(tmp_path, 1)
    file = evicted(path, Descriptors(lambda: 8))
    path.unlink()
    with pytest.raises(SourceChangedError, match="was deleted while it was read"):
        file.read_into(0, memoryview(bytearray(4)))


def test_a_reused_inode_is_noticed(tmp_path: Path) -> None:
    (path,) = written(tmp_path, 1)
    file = evicted(path, Descriptors(lambda: 8))
    path.write_bytes(b"other" * 100)  # the same inode, as of a file that was created after this one was deleted
    with pytest.raises(SourceChangedError):
        file.read_at(0, 4)


def test_a_file_that_has_grown_shows_its_original_size(tmp_path: Path) -> None:
    path = tmp_path / "active"
    path.write_bytes(b"")
    empty = evicted(path, Descriptors(lambda: 8))
    path.write_bytes(b"x" * 100)
    some = evicted(path, Descriptors(lambda: 8))
    with path.open("ab") as grows:
        grows.write(b"y" * 100)
    assert (empty.size(), empty.read_at(0, 300)) == (0, b"")
    assert (some.size(), some.read_at(50, 300)) == (100, b"x" * 50)
    assert some.mtime_ms() == path.stat().st_mtime_ns // 1_000_000


def test_a_closed_file_stays_closed(tmp_path: Path) -> None:
    (path,) = written(tmp_path, 1)
    file = opened(path, Descriptors(lambda: 8))
    file.close()
    file.close()
    with pytest.raises(OSError):
        file.read_at(0, 4)
    with pytest.raises(OSError):
        file.status()


def test_threads_may_read_more_files_than_descriptors_allow(tmp_path: Path) -> None:
    descriptors = Descriptors(lambda: 2)
    files = [opened(path, descriptors) for path in written(tmp_path, 20)]
    wrong: list[int] = []

    def read() -> None:
        for number in (*range(20),) * 50:
            if files[number].read_at(8, 4) != b"%04d" % number:
                wrong.append(number)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert of_these(tmp_path) <= 2
