"""Files that keep only their size, and drop the bytes: for dry runs of code that writes segments."""

from __future__ import annotations

from .files import Buffer, WriteAhead


class SizeOnlyFile:
    """A `File` that only grows, and cannot be read unless empty. Operations that a new segment does not use are refused."""

    def __init__(self) -> None:
        self._size_bytes = 0
        self.kept: list[bytes] | None = None
        """If this is a list, it gets a copy of each write."""

    def append(self, data: Buffer) -> None:
        self._size_bytes += len(data)
        if self.kept is not None:
            self.kept.append(bytes(data))

    def write_ahead(self, data: memoryview, head_bytes: int) -> WriteAhead:
        raise NotImplementedError

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        raise NotImplementedError

    def drop_ahead(self) -> None: ...

    def truncate(self, size_bytes: int) -> None:
        self._size_bytes = size_bytes

    def size(self) -> int:
        return self._size_bytes

    def read_at(self, position: int, size_bytes: int) -> bytes:
        if self._size_bytes:
            raise NotImplementedError
        return b""

    def read_into(self, position: int, buffer: memoryview) -> int:
        raise NotImplementedError

    def read_now(self, position: int, size_bytes: int) -> bytes:
        return self.read_at(position, size_bytes)

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        raise NotImplementedError

    def read_ahead(self, position: int, size_bytes: int) -> None:
        raise NotImplementedError

    def mtime_ms(self) -> int:
        return 0

    def fileno(self) -> int:
        raise NotImplementedError

    def preallocate(self, size_bytes: int) -> None: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


class SizeOnlyFiles:
    """The part of `Files` that a segment needs which is written but not kept: no file ever exists."""

    def __init__(self) -> None:
        self._files: dict[str, SizeOnlyFile] = {}

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> SizeOnlyFile:
        return self._files.setdefault(path, SizeOnlyFile())

    def exists(self, path: str) -> bool:
        return False

    def remove(self, path: str) -> None:
        self._files.pop(path, None)

    def sync_dir(self, path: str) -> None: ...
