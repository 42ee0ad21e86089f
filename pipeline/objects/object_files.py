"""What `storage.disk.files.Files` asks of a file system, answered for addresses: listings, sizes, times, objects for reading.

A listing has sizes and times of all it names, a thousand of them a request. It is kept: what is asked afterwards of something in a
directory that was listed costs nothing, and is as old as the listing. `list` always asks anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from .addresses import FsOptions, Opener, normal
from .failures import patiently
from .ranges import ObjectFile, Status

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem


class ObjectFiles:
    """See the module. Goes to executors as its opener alone."""

    def __init__(self, opener: Opener | None = None) -> None:
        self.opener: Opener = FsOptions() if opener is None else opener
        self._listed: dict[str, Mapping[str, FileInfo]] = {}

    def __reduce__(self) -> tuple[type[ObjectFiles], tuple[Opener]]:
        return ObjectFiles, (self.opener,)

    def filesystem(self, address: str) -> tuple[FileSystem, str]:
        """PyArrow's, and the path in it."""
        return self.opener.open(normal(address))

    def open(self, address: str) -> ObjectFile:
        """Raises FileNotFoundError if there is no such object."""
        return ObjectFile(lambda: self.filesystem(address), address, self.status(address))

    def list(self, directory: str) -> list[str]:
        """Raises FileNotFoundError if there is nothing below it."""
        return sorted(self._list(directory))

    def exists(self, address: str) -> bool:
        return self._known(address) is not None

    def is_dir(self, address: str) -> bool:
        directory, name = _split(address)
        if (listed := self._listed.get(directory)) is not None:
            return name in listed and not listed[name].is_file
        return self._listed_dir(address)

    def is_file(self, address: str) -> bool:
        found = self._known(address)
        return found is not None and found.is_file

    def status(self, address: str) -> Status:
        """Raises FileNotFoundError."""
        found = self._known(address)
        if found is None or not found.is_file:
            raise FileNotFoundError(2, "No such file or directory", address)
        return Status.of(found)

    def are_still(self, seen: Iterable[tuple[str, int]]) -> bool:
        """Whether these addresses are of the same objects as when they had these identities, by listings anew."""
        by_directory: dict[str, list[tuple[str, int]]] = {}
        for address, identity in seen:
            directory, name = _split(address)
            by_directory.setdefault(directory, []).append((name, identity))
        for directory, each in by_directory.items():
            try:
                listed = self._list(directory)
            except FileNotFoundError:
                return False
            if not all(name in listed and Status.of(listed[name]).st_ino == identity for name, identity in each):
                return False
        return True

    def _known(self, address: str) -> FileInfo | None:
        directory, name = _split(address)
        if (listed := self._listed.get(directory)) is not None:
            return listed.get(name)
        return self._asked(address)

    def _asked(self, address: str) -> FileInfo | None:
        from pyarrow.fs import FileType

        def ask() -> FileInfo:
            filesystem, path = self.filesystem(address)
            return filesystem.get_file_info(path)

        found = patiently(ask, address)
        return None if found.type == FileType.NotFound else found

    def _listed_dir(self, address: str) -> bool:
        """By a listing: of a bucket that is not there, and of wrong credentials, that says more than a look at one name."""
        try:
            return bool(self._list(address)) or self._asked(address) is not None
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _list(self, directory: str) -> Mapping[str, FileInfo]:
        from pyarrow.fs import FileSelector

        def ask() -> list[FileInfo]:
            filesystem, path = self.filesystem(directory)
            found: list[FileInfo] = filesystem.get_file_info(FileSelector(path))
            return found

        found = {info.base_name: info for info in patiently(ask, directory)}
        self._listed[directory.rstrip("/")] = found
        return found


def _split(address: str) -> tuple[str, str]:
    directory, _, name = address.rstrip("/").rpartition("/")
    return directory, name
