"""Files for jobs that only read, the operating system's and what has an address (`objects`): what they must not change they
cannot change.

A log of a terabyte has a thousand segments and more, all of which are open at a time, while a process has room for as many
descriptors. So files share some: what was not read lately gives its own back, and opens another one when it is read again.
"""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import ReferenceType, ref

from ...protocol.records import HEADER_BYTES
from ...storage.disk.files import Buffer, File, Files, Ownership
from ...storage.disk.os_files import OsFile, OsFiles
from ..errors import SourceChangedError
from ..objects.addresses import Opener, is_address, normal
from ..objects.object_files import ObjectFiles
from ..objects.ranges import ObjectFile, ObjectStatus

CLOSED = -1
DESCRIPTORS_MAX = 1024
"""More make no job faster."""
PART_OF_LIMIT = 4
"""The rest of what a process may open is for Spark, indexes, and what a job writes."""


def descriptors_at_most() -> int:
    """How many descriptors all files of this process share."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS_MAX if limit == resource.RLIM_INFINITY else min(DESCRIPTORS_MAX, limit // PART_OF_LIMIT)


class Descriptors:
    """Who has one, in about the order in which they were read."""

    def __init__(self, at_most: Callable[[], int]) -> None:
        """
        Args:
            at_most: More are open only where all of them are being read, or were just dropped.
        """
        self._at_most = at_most
        self._holders: deque[ReferenceType[LogFile]] = deque()

    def note(self, file: LogFile) -> None:
        """A file has one now. Those that were not read for longest give theirs back."""
        self._holders.append(ref(file))
        at_most = self._at_most()
        for _ in range(2 * len(self._holders)):  # twice round: first all may have been read since they were passed by
            if len(self._holders) <= at_most:
                break
            try:
                holder = self._holders.popleft()
            except IndexError:  # another thread's turn
                break
            other = holder()
            if other is file or (other is not None and not other.give_back()):
                self._holders.append(holder)


_SHARED = Descriptors(descriptors_at_most)


class LogFile(OsFile):
    """A file opened for reading. It shows the size that it had then, less when it was "truncated": the disk keeps all.

    Reading raises SourceChangedError where it has given its descriptor back, and the file that has its name is another one now.
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
            descriptor: For reading; closed by this from now on.
            path: Where it was opened.
        """
        super().__init__(descriptor)
        self._reading = threading.RLock()
        self._is_closed = False
        self._path = path
        self._descriptors = descriptors
        self._was_read = False
        self._first_bytes: bytes | None = None
        self.identity = os.fstat(descriptor).st_ino
        """Tells the file from one that took its name later."""
        descriptors.note(self)

    def give_back(self) -> bool:
        """Close the descriptor until somebody reads again; False if somebody does now, or has since this was asked last."""
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
        """An inode may have been given to another file since, so its first header is looked at, too."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise SourceChangedError(f"{self._path} went away while it was looked at: a server is at work") from error
        try:
            found = os.fstat(descriptor)
            is_same = found.st_ino == self.identity and found.st_size >= self._size
            if not is_same or not os.pread(descriptor, HEADER_BYTES, 0).startswith(self._first_bytes or b""):
                raise SourceChangedError(f"{self._path} was replaced while it was looked at: a server is at work")
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def truncate(self, size_bytes: int) -> None:
        self._size = min(self._size, size_bytes)

    def status(self) -> os.stat_result:
        """What the system says of the file, whatever its name is by now."""
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
    """The operating system's files, and objects where a path is an address; none of which can be changed through it.

    Goes to executors with what they are to read: they open stores themselves.
    """

    def __init__(self, opener: Opener | None = None) -> None:
        """
        Args:
            opener: Of stores; without options unless given.
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


def status_of(file: File) -> os.stat_result | ObjectStatus:
    """What the system says of an open file, whatever its name is by now; of an object what it was when it was opened."""
    return file.status() if isinstance(file, (LogFile, ObjectFile)) else os.fstat(file.fileno())


def objects_of(files: Files) -> ObjectFiles:
    """Who has what has an address."""
    return files.objects if isinstance(files, ReadingFiles) else ObjectFiles()


def told_apart_by(file: File, position: int) -> bytes:
    """What stands at a place, where that may be needed to tell a file from a later one of its inode. An object's time tells."""
    return b"" if isinstance(file, ObjectFile) else file.read_at(position, HEADER_BYTES)


def check_unchanged(file: File) -> None:
    """Once all of a file is read: SourceChangedError if it was an object, and another one has taken its name meanwhile.

    An open file of the operating system stays what it is.
    """
    if isinstance(file, ObjectFile):
        file.check()


def resolved(data_dir: str) -> str:
    """A path or an address as it stands for all others of the same: what lies beside a link may be on another disk."""
    return normal(data_dir) if is_address(data_dir) else os.path.realpath(data_dir)
