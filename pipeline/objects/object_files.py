"""File system of addresses for `storage.disk.files.Files`: listings, sizes, times, and objects for reading.

A listing has sizes and times of all its names, a thousand of them per request. It is kept: later calls about names in a
listed directory need no request, and are as old as the listing. `list` always sends a new request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .addresses import FsOptions, Opener, normalize
from .failures import patiently
from .ranges import ObjectFile, ObjectStatus
from .tiered import FoundObject, Listing, layout_of, listing, without_layout

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem


_NAMES_NO_FOLDERS = ("gcs",)
"""Types of PyArrow's file systems whose listings omit directories that have no object of their own. For these everything
below a directory is listed, a thousand names per request.
"""


class ObjectFiles:
    """Files of a store; see the module. Only the opener is sent to executors."""

    def __init__(self, opener: Opener | None = None) -> None:
        self.opener: Opener = FsOptions() if opener is None else opener
        self._listed: dict[str, Listing] = {}

    def __reduce__(self) -> tuple[type[ObjectFiles], tuple[Opener]]:
        return ObjectFiles, (self.opener,)

    def filesystem(self, address: str) -> tuple[FileSystem, str]:
        """Return PyArrow's file system, and the path in it."""
        return self.opener.open(normalize(without_layout(address)))

    def open(self, address: str) -> ObjectFile:
        """Open an object for reading. Raises FileNotFoundError if it does not exist."""
        found = self._cached_object(address)
        if found is None or found.status is None:
            raise FileNotFoundError(2, "No such file or directory", address)
        return self._opened(found)

    def _opened(self, found: FoundObject) -> ObjectFile:
        assert found.status is not None
        return ObjectFile(
            lambda: self.filesystem(found.address), found.address, found.status, found.start, found.size_bytes
        )

    def list(self, directory: str) -> list[str]:
        """List a directory with a new request. Raises FileNotFoundError if it is empty."""
        return sorted(self._list(directory))

    def exists(self, address: str) -> bool:
        return self._cached_object(address) is not None

    def is_dir(self, address: str) -> bool:
        directory, name = _split(address)
        if (listed := self._listed.get(directory)) is not None:
            return name in listed and listed[name].status is None
        return self._listed_dir(address)

    def is_file(self, address: str) -> bool:
        found = self._cached_object(address)
        return found is not None and found.status is not None

    def status(self, address: str) -> ObjectStatus:
        """Return an object's status. Raises FileNotFoundError if it does not exist."""
        found = self._cached_object(address)
        if found is None or found.status is None:
            raise FileNotFoundError(2, "No such file or directory", address)
        return found.status if found.size_bytes is None else found.status._replace(st_size=found.size_bytes)

    def are_still(self, seen: Iterable[tuple[str, int]]) -> bool:
        """Return, by new listings, whether these addresses still belong to the objects with these identities."""
        by_directory: dict[str, list[tuple[str, int]]] = {}
        for address, identity in seen:
            directory, name = _split(address)
            by_directory.setdefault(directory, []).append((name, identity))
        for directory, each in by_directory.items():
            try:
                listed = self._list(directory)
            except FileNotFoundError:
                return False
            statuses = {name: found.status for name, found in listed.items()}
            if any((status := statuses.get(name)) is None or status.st_ino != identity for name, identity in each):
                return False
        return True

    def _cached_object(self, address: str) -> FoundObject | None:
        directory, name = _split(address)
        if (listed := self._listed.get(directory)) is not None:
            return listed.get(name)
        if layout_of(address) is None:
            return self._fetch_object(address)
        try:
            return self._list(directory).get(name)
        except FileNotFoundError:
            return None

    def _fetch_object(self, address: str) -> FoundObject | None:
        from pyarrow.fs import FileType

        def ask() -> FileInfo:
            filesystem, path = self.filesystem(address)
            return filesystem.get_file_info(path)

        info = patiently(ask, address)
        return None if info.type == FileType.NotFound else _found_object(info, address)

    def _listed_dir(self, address: str) -> bool:
        """Return whether a directory exists, by a listing, which also reports missing buckets and wrong credentials."""
        try:
            return bool(self._list(address)) or self._fetch_object(address) is not None
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _list(self, directory: str) -> Listing:
        layout = layout_of(directory)
        if layout is None:
            found: Listing = self._list_plain(directory)
        else:
            found = listing(directory, layout, self._list_plain, self._read)
        self._listed[directory.rstrip("/")] = found
        return found

    def _list_plain(self, directory: str) -> Listing:
        from pyarrow.fs import FileSelector

        def ask() -> Listing:
            filesystem, path = self.filesystem(directory)
            is_deep = filesystem.type_name.rpartition("::")[2] in _NAMES_NO_FOLDERS
            infos = filesystem.get_file_info(FileSelector(path, recursive=is_deep))
            return dict(_listed(infos, path.rstrip("/") + "/", directory.rstrip("/")))

        return patiently(ask, directory)

    def _read(self, found: FoundObject) -> bytes:
        file = self._opened(found)
        return file.read_at(0, file.size())


def _listed(infos: Iterable[FileInfo], prefix: str, address: str) -> Iterator[tuple[str, FoundObject]]:
    """Yield the names directly below a path that ends with a slash, with their addresses. A name with a slash is a folder's."""
    for info in infos:
        name, slash, _ = info.path.removeprefix(prefix).partition("/")
        if name:
            yield name, FoundObject(None, f"{address}/{name}") if slash else _found_object(info, f"{address}/{name}")


def _found_object(info: FileInfo, address: str) -> FoundObject:
    return FoundObject(ObjectStatus.from_info(info) if info.is_file else None, address)


def _split(address: str) -> tuple[str, str]:
    directory, _, name = address.rstrip("/").rpartition("/")
    return directory, name
