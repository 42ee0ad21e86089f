"""An object store in memory with PyArrow's interface. It counts requests, and fails, stalls or changes on request."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileSystemHandler, FileType, PyFileSystem


class CountingStore(FileSystemHandler):  # type: ignore[misc]  # PyArrow has no types
    """Objects by their paths; directories are the prefixes of names before a slash. An upload exists once it is closed.

    Attributes:
        asked: Number of requests by kind: `open`, `read`, `info`, `list`, `delete`; `write` when an upload begins, `written`
            before the object exists, and `answered` after that.
        bytes_read: Total of all ranges.
        before: Called before each request with (kind, path); raises the error that the test wants.
        type_name: With `gcs` it lists as PyArrow does there: no folders, and an error without a number if nothing exists.
    """

    type_name = "counting"

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        """Path -> bytes, Unix nanoseconds."""
        self.asked: Counter[str] = Counter()
        self.bytes_read = 0
        self.before: Callable[[str, str], None] = lambda kind, path: None
        self._clock_ns = 1_000
        self._lock = threading.Lock()

    def put(self, path: str, data: bytes) -> None:
        with self._lock:
            self._clock_ns += 1
            self.objects[path] = data, self._clock_ns

    def load(self, directory: Path, prefix: str) -> None:
        """Load all files below a directory."""
        for each in sorted(directory.rglob("*")):
            if each.is_file():
                self.put(f"{prefix}/{each.relative_to(directory)}", each.read_bytes())

    def forget(self) -> None:
        self.asked.clear()
        self.bytes_read = 0

    def _ask(self, kind: str, path: str) -> None:
        with self._lock:
            self.asked[kind] += 1
        self.before(kind, path)

    # PyArrow's requests

    def get_type_name(self) -> str:
        return self.type_name

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[FileInfo]:
        for path in paths:
            self._ask("info", path)
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        self._ask("list", selector.base_dir)
        prefix = selector.base_dir.rstrip("/") + "/"
        below = [path.removeprefix(prefix) for path in list(self.objects) if path.startswith(prefix)]
        if not below and not selector.allow_not_found:
            if self.type_name == "gcs":
                raise OSError(f"No such file or directory '{selector.base_dir}'")
            raise FileNotFoundError(2, "No such file or directory", selector.base_dir)
        if self.type_name == "gcs" and not selector.recursive:
            below = [name for name in below if "/" not in name]
        names = {name if selector.recursive else name.partition("/")[0] for name in below}
        return [self._info(prefix + name) for name in sorted(names)]

    def _info(self, path: str) -> FileInfo:
        if (found := self.objects.get(path)) is not None:
            return FileInfo(path, FileType.File, size=len(found[0]), mtime_ns=found[1])
        is_dir = any(other.startswith(path.rstrip("/") + "/") for other in list(self.objects))
        return FileInfo(path, FileType.Directory if is_dir else FileType.NotFound)

    def open_input_file(self, path: str) -> pa.PythonFile:
        self._ask("open", path)
        if path not in self.objects:
            raise FileNotFoundError(2, "No such file or directory", path)
        return pa.PythonFile(_Reader(self, path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        self._ask("write", path)
        return pa.PythonFile(_Writer(self, path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.PythonFile:
        raise NotImplementedError

    def create_dir(self, path: str, recursive: bool) -> None: ...

    def delete_file(self, path: str) -> None:
        self._ask("delete", path)
        if self.objects.pop(path, None) is None:
            raise FileNotFoundError(2, "No such file or directory", path)

    def delete_dir(self, path: str) -> None:
        self.delete_dir_contents(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        for each in [each for each in self.objects if each.startswith(path.rstrip("/") + "/")]:
            self.delete_file(each)

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def move(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError


class _Reader:
    """An open object: each read returns data of the object that has the name at that time, as ranges of a store do."""

    def __init__(self, store: CountingStore, path: str) -> None:
        self._store = store
        self._path = path
        self._at = 0
        self.closed = False

    def read(self, count: int = -1) -> bytes:
        self._store._ask("read", self._path)
        data = self._store.objects[self._path][0][self._at :]
        data = data if count < 0 else data[:count]
        self._at += len(data)
        with self._store._lock:
            self._store.bytes_read += len(data)
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        size_bytes = len(self._store.objects[self._path][0])
        self._at = position if whence == 0 else size_bytes + position if whence == 2 else self._at + position
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self.closed = True

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False


class _Writer:
    """An upload: the object exists once this is closed, and not before, as with uploads in several parts."""

    def __init__(self, store: CountingStore, path: str) -> None:
        self._store = store
        self._path = path
        self._parts: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._store._ask("written", self._path)
            self._store.put(self._path, b"".join(self._parts))
            self._store._ask("answered", self._path)

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


class OpenerOf:
    """A function that opens one store under every s3 address. Not for other processes."""

    def __init__(self, store: CountingStore) -> None:
        self.filesystem: FileSystem = PyFileSystem(store)

    def open(self, address: str) -> tuple[FileSystem, str]:
        return self.filesystem, address.partition("://")[2]


def raising(error: Exception, *, kinds: Sequence[str], times: int) -> Callable[[str, str], None]:
    """Return a `before` that raises the first `times` times."""
    left = [times]

    def before(kind: str, _path: str) -> None:
        if kind in kinds and left[0]:
            left[0] -= 1
            raise error

    return before


def stalling(seconds: float, *, kinds: Sequence[str], times: int) -> Callable[[str, str], None]:
    """Return a `before` that waits `seconds`, the first `times` times."""
    left = [times]

    def before(kind: str, _path: str) -> None:
        if kind in kinds and left[0]:
            left[0] -= 1
            time.sleep(seconds)

    return before
