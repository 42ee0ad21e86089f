"""`Files` on the operating system."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from .descriptors import KEPT_FOR_SHORT_WORK, is_scarce
from .files import Buffer, Ownership, SyncError, WouldWaitError, WriteAhead
from .os_lock import OsLock
from .own_files import PRIVATE_FILE, check_data_dir, check_entry, make_directory, open_file
from .paths import PRIVATE

READ_CHUNK_BYTES = 1 << 30
"""Largest number of bytes that one system call reads; Linux transfers at most 2 GiB - 4 KiB at once."""

LOOK_BYTES = 16 << 10
"""Distance of the probes that find out which pages of a file are in memory; eight times as large in large ranges.

The system keeps and drops pages by ranges: its read-ahead is at least 16 KiB, and mostly 128 KiB."""

READ_AHEAD_BYTES = 64 << 10
"""Smallest number of bytes to read from the disk when a few are missing, e.g. a batch header: the next one is near."""

_AHEAD_STEP_BYTES = 1 << 20
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)  # only on Linux
_one_byte = bytearray(1)

_NOT_OF_THIS_FILE_SYSTEM = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY, errno.EINVAL})


def sync_by(full_sync: int | None) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """Return the functions that sync a file, and a directory, by descriptor.

    Args:
        full_sync: Number of fcntl's F_FULLFSYNC, which only macOS has: its fsync leaves the bytes in the drive's cache. Some
            file systems (SMB, some external drives) do not support it; then fsync is used, as in Java.
    """
    if full_sync is None:
        # fdatasync leaves out the modification time, which would cost another write to the journal.
        return getattr(os, "fdatasync", os.fsync), os.fsync

    def sync(descriptor: int) -> None:
        try:
            fcntl.fcntl(descriptor, full_sync)
        except OSError as error:
            if error.errno not in _NOT_OF_THIS_FILE_SYSTEM:
                raise
            os.fsync(descriptor)

    return sync, sync


_sync_file, _sync_directory = sync_by(getattr(fcntl, "F_FULLFSYNC", None))


class OsFile:
    """An unbuffered `File` on a descriptor, which is closed when the object is dropped."""

    __slots__ = ("_ahead", "_descriptor", "_failed_sync", "_found_bytes", "_size", "_syncing", "_tells")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._tells = _NOWAIT != 0
        self._ahead: _OsWriteAhead | None = None
        self._failed_sync: SyncError | None = None
        # Of two syncs at the same time, the system reports an error of the disk only to one.
        self._syncing = threading.Lock()
        self._size = self._found_bytes = os.fstat(descriptor).st_size

    def append(self, data: Buffer) -> None:
        if self._ahead is not None:
            self.drop_ahead()
        size = self._size
        try:
            written = os.pwrite(self._descriptor, data, size)
            if written != len(data):
                # Only a nearly full disk writes a part; the next write gets the error.
                view = memoryview(data)
                while written < len(data):
                    written += os.pwrite(self._descriptor, view[written:], size + written)
        except OSError:
            self._take_back(size)
            raise
        self._size = size + written

    def write_ahead(self, data: memoryview, head_bytes: int) -> WriteAhead:
        self.drop_ahead()
        self._ahead = _OsWriteAhead(self, data, head_bytes, self._size)
        return self._ahead

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        begun = self._ahead
        if begun is not ahead or not begun.is_written:
            raise ValueError("this append was dropped, or is not written yet")
        size = self._size
        end = size + len(begun.data)
        self._ahead = None
        written = 0
        try:
            while written < len(head):
                written += os.pwrite(self._descriptor, head[written:], size + written)
        except BaseException:
            self._take_back(size)
            raise
        self._size = end  # in one step, as other threads may be reading to the end

    def drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.drop()
            self._take_back(self._size)

    def _take_back(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            # The next append would go to the right place, but a start would find bytes that were not appended.
            raise OSError(errno.EIO, f"cannot remove part of a failed write from the file: {error.strerror}") from error

    def read_at(self, position: int, size_bytes: int) -> bytes:
        size_bytes = min(size_bytes, self._size - position)
        if size_bytes <= 0:
            return b""
        data = os.pread(self._descriptor, min(size_bytes, READ_CHUNK_BYTES), position)
        if len(data) == size_bytes:
            return data
        parts = [data]
        while data and (got := sum(map(len, parts))) < size_bytes:
            data = os.pread(self._descriptor, min(size_bytes - got, READ_CHUNK_BYTES), position + got)
            parts.append(data)
        return b"".join(parts)

    def read_into(self, position: int, buffer: memoryview) -> int:
        got = 0
        wanted = min(len(buffer), self._size - position)
        while got < wanted:
            count = os.preadv(self._descriptor, [buffer[got : min(wanted, got + READ_CHUNK_BYTES)]], position + got)
            if count == 0:
                break
            got += count
        return got

    def read_now(self, position: int, size_bytes: int) -> Buffer:
        if not self._tells:
            return self.read_at(position, size_bytes)
        size_bytes = min(size_bytes, self._size - position)
        if size_bytes <= 0:
            return b""
        buffer = bytearray(size_bytes)
        # The same as `_read_cached`, inlined: every fetch of a few records calls this several times.
        try:
            if os.preadv(self._descriptor, [buffer], position, _NOWAIT) == size_bytes:
                return buffer
        except OSError as error:
            self._note_refused_look(error)
        if not self._tells:
            return self.read_at(position, size_bytes)
        raise WouldWaitError(partial(self.read_ahead, position, max(size_bytes, READ_AHEAD_BYTES)))

    def _read_cached(self, buffer: bytearray, position: int) -> int:
        """Read the bytes that are in memory, up to the first gap."""
        try:
            return os.preadv(self._descriptor, [buffer], position, _NOWAIT)
        except OSError as error:
            self._note_refused_look(error)
            return 0

    def _note_refused_look(self, error: OSError) -> None:
        if isinstance(error, BlockingIOError):
            return
        if error.errno not in _NOT_OF_THIS_FILE_SYSTEM:
            raise error
        self._tells = False

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        if self._tells:
            step_bytes = LOOK_BYTES if size_bytes <= 4 * LOOK_BYTES else 8 * LOOK_BYTES
            end = position + size_bytes
            seen_to = position
            for at in (*range(position, end, step_bytes), end - 1):
                if not self._read_cached(_one_byte, at):
                    break
                seen_to = at
            else:
                return size_bytes
            if self._tells:
                return seen_to - position
        # Bytes that this process wrote are probably in memory; bytes that were in the file before may not be.
        return size_bytes if position >= self._found_bytes else 0

    def read_ahead(self, position: int, size_bytes: int) -> None:
        buffer = memoryview(bytearray(min(size_bytes, _AHEAD_STEP_BYTES)))
        end = position + size_bytes
        while position < end and (count := self.read_into(position, buffer[: end - position])):
            position += count

    def truncate(self, size_bytes: int) -> None:
        self.drop_ahead()
        os.ftruncate(self._descriptor, size_bytes)
        self._size = size_bytes

    def preallocate(self, size_bytes: int) -> None:
        self.drop_ahead()
        if size_bytes > self._size:
            os.posix_fallocate(self._descriptor, self._size, size_bytes - self._size)

    def sync(self) -> None:
        descriptor = self.fileno()
        with self._syncing:
            if self._failed_sync is not None:
                raise SyncError(self._failed_sync.errno, f"an earlier sync failed: {self._failed_sync.strerror}")
            try:
                _sync_file(descriptor)
            except OSError as error:
                self._failed_sync = SyncError(error.errno, error.strerror)
                raise self._failed_sync from error

    def size(self) -> int:
        return self._size

    def mtime_ms(self) -> int:
        return os.fstat(self.fileno()).st_mtime_ns // 1_000_000

    def close(self) -> None:
        if self._ahead is not None:
            with suppress(OSError):
                self.drop_ahead()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def fileno(self) -> int:
        if self._descriptor < 0:
            raise OSError(errno.EBADF, "the file is closed")
        return self._descriptor

    def __del__(self) -> None:
        self.close()


class _OsWriteAhead:
    """A `WriteAhead` of an `OsFile`. The owner may drop it while another thread writes."""

    def __init__(self, file: OsFile, data: memoryview, head_bytes: int, position: int) -> None:
        self.data = data
        self._file = file
        self._position = position
        self._done_bytes = head_bytes
        self._working = threading.Lock()
        self._is_dropped = False

    @property
    def is_written(self) -> bool:
        return self._done_bytes == len(self.data) and not self._is_dropped

    @property
    def is_dropped(self) -> bool:
        return self._is_dropped

    def write(self) -> None:
        while self._done_bytes < len(self.data):
            with self._working:
                if self._is_dropped:
                    return
                piece = self.data[self._done_bytes : self._done_bytes + _AHEAD_STEP_BYTES]
                self._done_bytes += os.pwrite(self._file.fileno(), piece, self._position + self._done_bytes)

    def drop(self) -> None:
        with self._working:
            self._is_dropped = True


def open_descriptor(path: str, *, create: bool, truncate: bool) -> int:
    """Open a descriptor for `Files.open`. A new file of `paths.PRIVATE` is its owner's alone; an old one keeps its mode."""
    is_private = path.rpartition("/")[2] in PRIVATE
    return open_file(path, create=create, truncate=truncate, mode=PRIVATE_FILE if is_private else None)


class OsFiles:
    """`Files` on the operating system."""

    file_type = OsFile

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        return self.file_type(open_descriptor(path, create=create, truncate=truncate))

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    # Not the functions of os.path: those return False for every error, and existing files would be replaced or taken for empty.

    def exists(self, path: str) -> bool:
        return _mode(os.stat, path) is not None

    def is_dir(self, path: str) -> bool:
        mode = _mode(os.stat, path)
        return mode is not None and stat.S_ISDIR(mode)

    def is_file(self, path: str) -> bool:
        mode = _mode(os.lstat, path)
        return mode is not None and stat.S_ISREG(mode)

    def make_dir(self, path: str, *, mode: int | None = None) -> None:
        make_directory(path, mode)

    def remove_dir(self, path: str) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync_dir(self, path: str) -> None:
        with _directory(path) as descriptor:
            try:
                _sync_directory(descriptor)
            except OSError as error:
                raise SyncError(error.errno, error.strerror, path) from error

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def identity(self, path: str) -> int:
        return os.lstat(path).st_ino

    def mtime_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000), follow_symlinks=False)

    def ownership(self, path: str) -> Ownership:
        found = os.stat(path)
        return Ownership(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))

    def set_ownership(self, path: str, ownership: Ownership) -> None:
        descriptor = open_file(path, os.O_RDONLY)
        try:
            os.fchmod(descriptor, ownership.mode)
            os.fchown(descriptor, ownership.user_id, ownership.group_id)
            os.fsync(descriptor)
        except PermissionError as error:
            raise PermissionError(error.errno, error.strerror, path) from None
        finally:
            os.close(descriptor)

    def check_data_dir(self, path: str) -> None:
        check_data_dir(path)

    def check_entry(self, path: str) -> None:
        check_entry(path)

    def lock(self, path: str) -> OsLock:
        return OsLock(path)

    def disk_total_and_free(self, path: str) -> tuple[int, int]:
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def check_descriptors(self, count: int = 1) -> None:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        os.close(descriptor)
        if is_scarce(descriptor + count - 1, KEPT_FOR_SHORT_WORK):
            raise OSError(
                errno.EMFILE,
                "Too many open files: the last file descriptors are reserved for operations that release others",
            )


class ReadOnlyFiles(OsFiles):
    """Files opened only for reading, which may be links and belong to any user."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        if create or truncate:
            raise OSError(errno.EROFS, "opened read-only", path)
        return self.file_type(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


def _mode(ask: Callable[[str], os.stat_result], path: str) -> int | None:
    try:
        return ask(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def _directory(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class UnsyncedFile(OsFile):
    """An `OsFile` that is not synced."""

    __slots__ = ()

    def sync(self) -> None:
        self.fileno()  # a closed file is refused as ever


class UnsyncedFiles(OsFiles):
    """`Files` for a directory that goes with the process: nothing is made to survive a power loss.

    All else is as with `OsFiles`. What another process, or the next run of a broker in this one, finds is the same: the
    system has it.
    """

    file_type = UnsyncedFile

    def sync_dir(self, path: str) -> None:
        pass
