"""Read-only files for jobs: the operating system's, and objects with an address (`objects`).

A log of a terabyte has more than a thousand segments, all of which are open at a time, while a process has fewer
descriptors. So files share some: a file that was not read lately closes its descriptor, and opens a new one for the next read.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from weakref import ReferenceType, ref

from ...protocol.records import HEADER_BYTES
from ...storage.disk.files import Buffer, File, Files, Ownership
from ...storage.disk.os_files import OsFile, OsFiles
from ..errors import SourceChangedError
from ..objects.addresses import Opener, is_address, normalize
from ..objects.object_files import ObjectFiles
from ..objects.ranges import ObjectFile, ObjectStatus

CLOSED = -1
RECENT_NS = 1_000_000_000
"""Age at which a time can no longer be that of another change; file systems' clocks advance every few milliseconds."""
DESCRIPTORS_MAX = 1024
"""Limit of shared descriptors. More make no job faster."""
PART_OF_LIMIT = 4
"""Fraction of the process's limit. The rest is for Spark, indexes, and the files that a job writes."""


def descriptors_at_most() -> int:
    """Return the number of descriptors that all files of this process share."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS_MAX if limit == resource.RLIM_INFINITY else min(DESCRIPTORS_MAX, limit // PART_OF_LIMIT)


class Descriptors:
    """Files with an open descriptor, in about the order in which they were read."""

    def __init__(self, at_most: Callable[[], int]) -> None:
        """
        Args:
            at_most: Limit. More are open only if all files are being read, or were just closed.
        """
        self._at_most = at_most
        self._holders: deque[ReferenceType[LogFile]] = deque()

    def note(self, file: LogFile) -> None:
        """Add a file that has opened a descriptor. Files that were not read for longest close theirs."""
        self._holders.append(ref(file))
        at_most = self._at_most()
        for _ in range(2 * len(self._holders)):  # two rounds: in the first all may have been read since the last look
            if len(self._holders) <= at_most:
                break
            try:
                holder = self._holders.popleft()
            except IndexError:  # another thread was faster
                break
            other = holder()
            if other is file or (other is not None and not other.give_back()):
                self._holders.append(holder)


_SHARED = Descriptors(descriptors_at_most)


class LogFile(OsFile):
    """A file opened for reading. Its size is fixed when it is opened; "truncating" it reduces only that.

    After it has given up its descriptor, reading raises SourceChangedError if another file now has its name.
    """

    __slots__ = (
        "__weakref__",
        "_descriptors",
        "_first_bytes",
        "_is_closed",
        "_path",
        "_reading",
        "_was_read",
        "identity",
    )

    def __init__(self, descriptor: int, path: str, descriptors: Descriptors = _SHARED) -> None:
        """
        Args:
            descriptor: Opened for reading. The file closes it.
            path: Path of the file.
        """
        super().__init__(descriptor)
        self._reading = threading.RLock()
        self._is_closed = False
        self._path = path
        self._descriptors = descriptors
        self._was_read = False
        self._first_bytes: bytes | None = None
        self.identity = os.fstat(descriptor).st_ino
        """Inode, which differs for a file that takes the same name later."""
        descriptors.note(self)

    def give_back(self) -> bool:
        """Close the descriptor until the next read; False if the file is being read, or was read since the last call."""
        if self._was_read and not self._is_closed:
            self._was_read = False
            return False
        if not self._reading.acquire(blocking=False):
            return False
        try:
            if self._descriptor != CLOSED:
                if self._first_bytes is None:
                    self._first_bytes = os.pread(self._descriptor, HEADER_BYTES, 0)
                descriptor, self._descriptor = self._descriptor, CLOSED
                os.close(descriptor)
            return True
        finally:
            self._reading.release()

    @contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._reading:
            self._was_read = True
            if self._descriptor == CLOSED and not self._is_closed:
                self._open_again()
                self._descriptors.note(self)
            yield

    def _open_again(self) -> None:
        """Open the file again. The first header is also compared, as its inode may have been reused."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise SourceChangedError(f"{self._path} was deleted while it was read: a server is at work") from error
        try:
            found = os.fstat(descriptor)
            is_same = found.st_ino == self.identity and found.st_size >= self._size
            if not is_same or not os.pread(descriptor, HEADER_BYTES, 0).startswith(self._first_bytes or b""):
                raise SourceChangedError(f"{self._path} was replaced while it was read: a server is at work")
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def truncate(self, size_bytes: int) -> None:
        self._size = min(self._size, size_bytes)

    def status(self) -> os.stat_result:
        """Return the system's status of the file, whatever its current name."""
        with self._in_use():
            return os.fstat(super().fileno())

    def read_at(self, position: int, size_bytes: int) -> bytes:
        with self._in_use():
            return super().read_at(position, size_bytes)

    def read_into(self, position: int, buffer: memoryview) -> int:
        with self._in_use():
            return super().read_into(position, buffer)

    def read_now(self, position: int, size_bytes: int) -> Buffer:
        with self._in_use():
            return super().read_now(position, size_bytes)

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        with self._in_use():
            return super().cached_bytes(position, size_bytes)

    def mtime_ms(self) -> int:
        return self.status().st_mtime_ns // 1_000_000

    def close(self) -> None:
        self._is_closed = True
        with self._reading:
            super().close()


class ReadingFiles(OsFiles):
    """The operating system's files, and objects for paths that are addresses. None of them can be changed.

    It is sent to executors with the files to read. They open stores themselves.
    """

    def __init__(self, opener: Opener | None = None) -> None:
        """
        Args:
            opener: Opener of stores; by default one without options.
        """
        self.objects = ObjectFiles(opener)

    def __reduce__(self) -> tuple[type[ReadingFiles], tuple[Opener]]:
        return type(self), (self.objects.opener,)

    def open(  # type: ignore[override]
        self, path: str, *, create: bool = False, truncate: bool = False
    ) -> LogFile | ObjectFile:
        if create or truncate:
            self._refuse(path)
        return self.objects.open(path) if is_address(path) else LogFile(os.open(path, os.O_RDONLY), path)

    def list(self, directory: str) -> list[str]:
        return self.objects.list(directory) if is_address(directory) else super().list(directory)

    def exists(self, path: str) -> bool:
        return self.objects.exists(path) if is_address(path) else super().exists(path)

    def is_dir(self, path: str) -> bool:
        return self.objects.is_dir(path) if is_address(path) else super().is_dir(path)

    def is_file(self, path: str) -> bool:
        return self.objects.is_file(path) if is_address(path) else super().is_file(path)

    def size(self, path: str) -> int:
        return self.objects.status(path).st_size if is_address(path) else super().size(path)

    def identity(self, path: str) -> int:
        return self.objects.status(path).st_ino if is_address(path) else super().identity(path)

    def mtime_ms(self, path: str) -> int:
        if is_address(path):
            return self.objects.status(path).st_ctime_ns // 1_000_000
        return super().mtime_ms(path)

    def changed_ns(self, directory: str) -> int | None:
        """Return when a directory got or lost a name; None for an address, and if another change may have the same time."""
        if is_address(directory):
            return None
        changed_ns = os.stat(directory).st_mtime_ns
        return changed_ns if time.time_ns() - changed_ns > RECENT_NS else None

    def statuses(self, directory: str, names: Iterable[str]) -> Sequence[FileStatus]:
        """Return the statuses of files. Raises FileNotFoundError if one does not exist."""
        if is_address(directory):
            return [self.objects.status(f"{directory}/{name}") for name in names]
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            return [os.stat(name, dir_fd=descriptor) for name in names]
        finally:
            os.close(descriptor)

    def rename(self, old: str, new: str) -> None:
        self._refuse(old)

    def remove(self, path: str) -> None:
        self._refuse(path)

    def link(self, old: str, new: str) -> None:
        self._refuse(new)

    def make_dir(self, path: str, *, mode: int | None = None) -> None:
        self._refuse(path)

    def remove_dir(self, path: str) -> None:
        self._refuse(path)

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self._refuse(path)

    def set_ownership(self, path: str, ownership: Ownership) -> None:
        self._refuse(path)

    def _refuse(self, path: str) -> None:
        raise OSError(errno.EROFS, "opened for reading only", path)


FileStatus = os.stat_result | ObjectStatus


def status_of(file: File) -> FileStatus:
    """Return the system's status of an open file, whatever its current name; of an object the one when it was opened."""
    return file.status() if isinstance(file, (LogFile, ObjectFile)) else os.fstat(file.fileno())


def objects_of(files: Files) -> ObjectFiles:
    """Return the part that opens addresses."""
    return files.objects if isinstance(files, ReadingFiles) else ObjectFiles()


def check_unchanged(file: File) -> None:
    """Check an object that was read completely. Raises SourceChangedError if another one has taken its name since.

    An open file of the operating system cannot change that way.
    """
    if isinstance(file, ObjectFile):
        file.check()


def resolved(data_dir: str) -> str:
    """Return the canonical form of a path or an address, as a directory next to a link may be on another disk."""
    return normalize(data_dir) if is_address(data_dir) else os.path.realpath(data_dir)
