"""File access: the one door between the storage floor and the operating system.

Everything in this floor takes a `Files`. `OsFiles` is the real one; the tests' `CrashFiles` keeps a disk in memory
and loses power. No other module of the floor opens, renames, lists or locks anything.

Two things are durable only when asked for: bytes after `File.sync`, names after `Files.sync_dir`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple, Protocol

from .descriptors import KEPT_FOR_SHORT_WORK, is_scarce

Buffer = bytes | bytearray | memoryview

READ_CHUNK_BYTES = 1 << 30
"""The most that one system call is asked to read; Linux transfers at most 2 GiB - 4 KiB at once."""

LOOK_BYTES = 16 << 10
"""How far apart the looks are by which a file tells what of it is in memory; in large ranges eight times as far.

The system keeps and drops pages by ranges: what it reads ahead at once is 16 KiB at least, and mostly 128 KiB."""

READ_AHEAD_BYTES = 64 << 10
"""Of who would wait for a few bytes, such as the header of a batch, is read so much: the next one is near."""

_AHEAD_STEP_BYTES = 1 << 20
_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)  # Linux alone has it
_one_byte = bytearray(1)

_NOT_OF_THIS_FILE_SYSTEM = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOTTY, errno.EINVAL})


def sync_by(full_sync: int | None) -> tuple[Callable[[int], None], Callable[[int], None]]:
    """How to make a file, and a directory, survive a power loss, by descriptor.

    Args:
        full_sync: The number of fcntl's F_FULLFSYNC, which macOS alone has: its fsync leaves the bytes in the drive. Where
            a file system does not know it (SMB, some external drives), fsync is all there is. Java does the same.
    """
    if full_sync is None:
        # fdatasync leaves out the modification time, which costs a journal write more.
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


class WouldWaitError(Exception):
    """What was asked for is not in memory, and the caller's thread is not to wait for the disk. Nothing was changed.

    Have another thread call `bring`, which raises what the disk does, and ask again.
    """

    def __init__(self, bring: Callable[[], None]) -> None:
        super().__init__("not in memory")
        self.bring = bring


class SyncError(OSError):
    """A sync failed. What it was to make durable may be lost for good, even if a later sync of it says that all is well.

    Linux marks pages clean that it could not write, and tells of it once.
    """


class DirectoryLockedError(Exception):
    """Another broker, of this process or another one, holds the lock file."""


class Ownership(NamedTuple):
    """Who may open a file."""

    user_id: int
    group_id: int
    mode: int
    """Permission bits."""


class WriteAhead(Protocol):
    """An append that was begun; see `File.write_ahead`."""

    @property
    def is_written(self) -> bool:
        """Whether all bytes are where they belong, and nothing has dropped them."""

    @property
    def is_dropped(self) -> bool:
        """Whether it was given up."""

    def write(self) -> None:
        """Write them, or as many as are missing when it is dropped. For any thread.

        Raises:
            OSError: The disk refused. Nobody can see what was written.
        """


class File(Protocol):
    """An open file that grows at its end. Reading is safe from any thread, also while another one appends."""

    def append(self, data: Buffer) -> None:
        """Write `data` at the end, whole or not at all.

        Raises:
            OSError: The disk refused. The file has the size and the bytes it had before the call.
        """

    def write_ahead(self, data: memoryview, head_bytes: int) -> WriteAhead:
        """Begin an append of `data` that takes long: its bytes but the first `head_bytes` are to be written behind the end.

        Nobody can tell them from nothing until `append_ahead`: zeros stand where the head belongs. Any other change of the
        file drops them, and so does `drop_ahead`.
        """

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        """End the append that `ahead` has begun, and has written. Errors as `append`.

        Args:
            head: The first bytes of the data, as many as were left out.
        """

    def drop_ahead(self) -> None:
        """Give up an append that was begun, if there is one. Waits for a megabyte that is being written at most."""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """The bytes at `position`: `size_bytes` of them, fewer only where the file ends."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` with the bytes at `position`; returns how many there are, fewer than fit only where the file ends."""

    def read_now(self, position: int, size_bytes: int) -> Buffer:
        """As `read_at`, if the system has the bytes in memory. Where it does not tell, as `read_at`.

        Raises:
            WouldWaitError: They must come from the disk.
        """

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        """How many bytes from `position` on, of these, can be sent without waiting for the disk.

        It is a look at some of them, so there may be less; and pages may leave memory at any time.
        """

    def read_ahead(self, position: int, size_bytes: int) -> None:
        """Have these bytes in memory, for the next moments. Waits for the disk; for another thread than the owner's."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`; given its own size, gives back what `preallocate` reserved."""

    def preallocate(self, size_bytes: int) -> None:
        """Reserve disk space up to `size_bytes` in all. `size()` stays: only appended bytes count."""

    def sync(self) -> None:
        """Make every byte appended so far survive a power loss. May run in another thread than `append`.

        Raises:
            SyncError: Nobody knows what is on the disk, nor ever will: each later sync of this object raises it, too.
        """

    def size(self) -> int:
        """Bytes in the file: those found when it was opened and those appended since."""

    def mtime_ms(self) -> int:
        """Last modification, Unix milliseconds, whatever the file's name is by now."""

    def close(self) -> None:
        """Give the descriptor back. Later use is an OSError; closing again is fine."""

    def fileno(self) -> int:
        """The descriptor, for `sendfile` and `preadv`. Valid while this object lives and is not closed."""


class Lock(Protocol):
    """A held lock file."""

    def release(self) -> None:
        """Let others have it. Releasing again is fine."""


class Files(Protocol):
    """A file system. Paths are strings; every refusal is an OSError."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        """Open for reading and appending.

        Args:
            create: Make an empty file where there is none; without it a missing file is FileNotFoundError.
            truncate: Drop the bytes of a file that is there.
        """

    def rename(self, old: str, new: str) -> None:
        """Give `old` the name `new` in one step; what had that name is replaced."""

    def remove(self, path: str) -> None:
        """Take the name away. A missing file is fine. Open files of that name stay readable."""

    def link(self, old: str, new: str) -> None:
        """Give the file `old` a second name; FileExistsError if `new` is taken."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, files and directories, sorted."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def is_dir(self, path: str) -> bool:
        """Whether it is a directory; False if it is missing."""

    def is_file(self, path: str) -> bool:
        """Whether it is a regular file itself; False for a symbolic link to one, or if it is missing."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its missing parents. One that is there is fine."""

    def remove_dir(self, path: str) -> None:
        """Remove a directory and all in it. A missing one is fine."""

    def sync_dir(self, path: str) -> None:
        """Make the names in this directory survive a power loss: creations, renames and removals so far.

        Raises:
            SyncError: Nobody knows which of them are on the disk.
        """

    def size(self, path: str) -> int:
        """Bytes in the file of that name."""

    def identity(self, path: str) -> int:
        """Tells the file of that name from one that takes the name while the first is open."""

    def mtime_ms(self, path: str) -> int:
        """Last modification, Unix milliseconds."""

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Pretend that the last modification was at `mtime_ms`."""

    def ownership(self, path: str) -> Ownership:
        """Who may open the file or directory of that name."""

    def set_ownership(self, path: str, ownership: Ownership) -> None:
        """Give a file to others; survives a power loss on return. PermissionError where this process may not."""

    def lock(self, path: str) -> Lock:
        """Take the lock file `path`, making it where needed, without waiting.

        Raises:
            DirectoryLockedError: Somebody else holds it: a broker of ours or an Apache Kafka, here or in another
                process.
        """

    def disk_total_and_free(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that holds `path`: in all, and still free for us."""

    def check_descriptors(self) -> None:
        """For who is about to open a file for good. OSError EMFILE if the last descriptors are left: see `descriptors`."""


class FileSlice:
    """Bytes of a file that nobody has read yet: what a fetch returns and the server sends.

    Keeps the file alive, so that a segment may be deleted while its bytes are on their way to a slow reader.
    """

    __slots__ = ("file", "position", "size_bytes")

    def __init__(self, file: File, position: int, size_bytes: int) -> None:
        self.file = file
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def __repr__(self) -> str:
        return f"FileSlice(position={self.position}, size_bytes={self.size_bytes})"

    def read(self) -> bytes:
        """All its bytes.

        Raises:
            OSError: The file was cut since; a response must not go out short.
        """
        data = self.file.read_at(self.position, self.size_bytes)
        if len(data) != self.size_bytes:
            raise OSError(errno.EIO, f"{self.size_bytes} bytes wanted at {self.position}, the file has {len(data)}")
        return data


class OsFile:
    """A `File` by its descriptor, unbuffered. Closes it when dropped."""

    __slots__ = ("_ahead", "_descriptor", "_failed_sync", "_found_bytes", "_size", "_syncing", "_tells")

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._tells = _NOWAIT != 0
        self._ahead: _OsWriteAhead | None = None
        self._failed_sync: SyncError | None = None
        # Of two syncs at a time the system tells one alone that the disk refused.
        self._syncing = threading.Lock()
        self._size = self._found_bytes = os.fstat(descriptor).st_size

    def append(self, data: Buffer) -> None:
        if self._ahead is not None:
            self.drop_ahead()
        size = self._size
        try:
            written = os.pwrite(self._descriptor, data, size)
            if written != len(data):
                # Only a nearly full disk takes a part; writing on tells us the reason.
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
        self._size = end  # in one step: other threads may be reading to the end

    def drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.drop()
            self._take_back(self._size)

    def _take_back(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            # The next append would go to the right place, but a start would find more than there is.
            raise OSError(errno.EIO, f"a part of a refused write stays in the file: {error.strerror}") from error

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
        # As in `_read_cached`: every fetch of a few records comes here some times.
        try:
            if os.preadv(self._descriptor, [buffer], position, _NOWAIT) == size_bytes:
                return buffer
        except OSError as error:
            self._note_refused_look(error)
        if not self._tells:
            return self.read_at(position, size_bytes)
        raise WouldWaitError(partial(self.read_ahead, position, max(size_bytes, READ_AHEAD_BYTES)))

    def _read_cached(self, buffer: bytearray, position: int) -> int:
        """Read as much as is in memory without a gap."""
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
        # What this process wrote is likely to be there; what it found may come from anywhere.
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
    """A `WriteAhead` of an `OsFile`, whose owner may drop it while another thread writes."""

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


# POSIX locks belong to the process: it may take one twice, and loses it when it closes *any* descriptor of that file.
# So this process keeps its own list, and asks it before it touches the file.
_held_lock_paths: set[str] = set()
_held_lock_guard = threading.Lock()


class OsLock:
    """A held lock file of the kind the JVM takes too (`fcntl`, whole file)."""

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        with _held_lock_guard:
            if self._path in _held_lock_paths:
                raise DirectoryLockedError(f"{path} is held by another broker of this process")
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                holder = _holder(self._descriptor)
                os.close(self._descriptor)
                if error.errno in (errno.EACCES, errno.EAGAIN):  # POSIX allows either for "taken"
                    raise DirectoryLockedError(f"{path} is held by another process{holder}") from None
                raise
            _held_lock_paths.add(self._path)

    def release(self) -> None:
        with _held_lock_guard:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
                _held_lock_paths.discard(self._path)


_COMMAND_BYTES_MAX = 160
_LINUX_FLOCK = struct.Struct("@hhqqi4x")
"""`struct flock`: type, whence, start, length, process id; other systems order it otherwise."""


def _holder(descriptor: int) -> str:
    """What the system tells of the process that holds a lock file, as ` (PID 123: its command line)`."""
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        return ""
    try:
        asked = _LINUX_FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        pid = _LINUX_FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))[4]
        if pid <= 0:  # given back meanwhile, or held from another container or machine
            return ""
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_COMMAND_BYTES_MAX).replace(b"\0", b" ").decode(errors="replace")
    except (OSError, struct.error):
        return ""
    return f" (PID {pid}: {' '.join(words.split())})"


class OsFiles:
    """`Files` on the operating system."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> OsFile:
        flags = os.O_RDWR | (os.O_CREAT if create else 0) | (os.O_TRUNC if truncate else 0)
        return OsFile(os.open(path, flags, 0o644))

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)

    def link(self, old: str, new: str) -> None:
        os.link(old, new)

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    # Not os.path's: those say "no" to whatever the system says, and what is there would be made anew, or taken for empty.

    def exists(self, path: str) -> bool:
        return _mode(os.stat, path) is not None

    def is_dir(self, path: str) -> bool:
        mode = _mode(os.stat, path)
        return mode is not None and stat.S_ISDIR(mode)

    def is_file(self, path: str) -> bool:
        mode = _mode(os.lstat, path)
        return mode is not None and stat.S_ISREG(mode)

    def make_dir(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

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
        return os.stat(path).st_ino

    def mtime_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        os.utime(path, ns=(mtime_ms * 1_000_000, mtime_ms * 1_000_000))

    def ownership(self, path: str) -> Ownership:
        found = os.stat(path)
        return Ownership(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))

    def set_ownership(self, path: str, ownership: Ownership) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fchmod(descriptor, ownership.mode)
            os.fchown(descriptor, ownership.user_id, ownership.group_id)
            os.fsync(descriptor)
        except PermissionError as error:
            raise PermissionError(error.errno, error.strerror, path) from None
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> OsLock:
        return OsLock(path)

    def disk_total_and_free(self, path: str) -> tuple[int, int]:
        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def check_descriptors(self) -> None:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        os.close(descriptor)
        if is_scarce(descriptor, KEPT_FOR_SHORT_WORK):
            raise OSError(errno.EMFILE, "Too many open files: the last ones are kept for what gives others back")


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
