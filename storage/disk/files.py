"""File access: the only interface between the storage floor and the operating system.

Everything in this floor takes a `Files`. `os_files.OsFiles` is the real one; the tests' `CrashFiles` keeps a disk in memory
and simulates power losses. No other module of the floor opens, renames, lists or locks anything.

Bytes are durable only after `File.sync`, names only after `Files.sync_dir`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

Buffer = bytes | bytearray | memoryview
OfEach: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Calls a function with each of some independent items, as `map` does.

A caller in a higher floor may run several calls at a time, in threads of its own, as they mostly wait for the disk. If one
raises, all have ended when the caller gets the error.
"""


class WouldWaitError(Exception):
    """The requested data is not in memory, and the calling thread must not wait for the disk. Nothing was changed.

    Have another thread call `load_cold`, which raises the disk's errors, and then repeat the call.
    """

    def __init__(self, bring: Callable[[], None]) -> None:
        super().__init__("not in the page cache")
        self.bring = bring


class SyncError(OSError):
    """A sync failed. The data that it should make durable may be lost, even if a later sync succeeds.

    Linux marks pages as clean that it could not write, and reports the error once.
    """


class DamagedFileError(Exception):
    """A file does not contain what was written to it. The message has the reason; the caller rebuilds or refuses the file."""


class DirectoryLockedError(Exception):
    """Another broker, in this process or another one, holds the lock file."""


class Ownership(NamedTuple):
    """Owner and permissions of a file."""

    user_id: int
    group_id: int
    mode: int
    """Permission bits."""


class WriteAhead(Protocol):
    """An append that was begun; see `File.write_ahead`."""

    @property
    def is_written(self) -> bool:
        """Whether all bytes are in the file, and were not dropped."""

    @property
    def is_dropped(self) -> bool:
        """Whether the append was given up."""

    def write(self) -> None:
        """Write the remaining bytes; ends early if the append is dropped. In any thread.

        Raises:
            OSError: The disk refused. No reader sees what was written.
        """


class File(Protocol):
    """An open file that grows at its end. Reading is safe in any thread, also while another one appends."""

    def append(self, data: Buffer) -> None:
        """Write `data` at the end, whole or not at all.

        Raises:
            OSError: The disk refused. The file has the size and the bytes it had before the call.
        """

    def write_ahead(self, data: memoryview, head_bytes: int) -> WriteAhead:
        """Begin a long append of `data`: all bytes but the first `head_bytes` are written after the end of the file.

        No reader sees them until `append_ahead`, and zeros are in the place of the head. Any other change of the file drops
        them, as does `drop_ahead`.
        """

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        """Finish the append that `ahead` has begun and written. Errors as for `append`.

        Args:
            head: The first bytes of the data, which were left out.
        """

    def drop_ahead(self) -> None:
        """Give up an append that was begun, if any. Waits at most for the write of one megabyte."""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Read `size_bytes` at `position`; returns fewer only at the end of the file."""

    def read_into(self, position: int, buffer: memoryview) -> int:
        """Fill `buffer` with the bytes at `position`; returns their number, which is smaller only at the end of the file."""

    def read_now(self, position: int, size_bytes: int) -> Buffer:
        """Read like `read_at`, if the bytes are in memory, or if the system cannot say whether they are.

        Raises:
            WouldWaitError: The bytes must be read from the disk.
        """

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        """Return how many of these bytes, from `position` on, can be sent without waiting for the disk.

        Only some pages are probed, so the real number may be smaller; and pages may leave memory at any time.
        """

    def read_ahead(self, position: int, size_bytes: int) -> None:
        """Read these bytes into the system's page cache. Waits for the disk; for another thread than the owner's."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`; its own size releases the space that `preallocate` reserved."""

    def preallocate(self, size_bytes: int) -> None:
        """Reserve disk space up to `size_bytes` in all. `size()` stays: only appended bytes count."""

    def sync(self) -> None:
        """Make every byte appended so far survive a power loss. May run in another thread than `append`.

        Raises:
            SyncError: It is unknown what is on the disk. Each later sync of this object raises the same.
        """

    def size(self) -> int:
        """Return the size in bytes: the bytes found when the file was opened and those appended since."""

    def mtime_ms(self) -> int:
        """Return the time of the last modification in Unix milliseconds, also after a rename."""

    def close(self) -> None:
        """Close the descriptor. Later use raises OSError; closing again is allowed."""

    def fileno(self) -> int:
        """Return the descriptor, for `sendfile` and `preadv`. Valid while this object exists and is not closed."""


class Lock(Protocol):
    """A held lock file."""

    def release(self) -> None:
        """Release the lock. Releasing again is allowed."""


class Files(Protocol):
    """A file system. Paths are strings; every error is an OSError."""

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        """Open a file for reading and appending.

        Args:
            create: Make an empty file if it is missing; without it a missing file raises FileNotFoundError.
            truncate: Drop the bytes of an existing file.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename `old` to `new` in one step, replacing an existing file."""

    def remove(self, path: str) -> None:
        """Remove a file. A missing one is allowed. Open files of that name stay readable."""

    def link(self, old: str, new: str) -> None:
        """Give the file `old` a second name; FileExistsError if `new` is taken."""

    def list(self, directory: str) -> list[str]:
        """List the names in a directory, files and directories, sorted."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def is_dir(self, path: str) -> bool:
        """Whether the path is a directory; False if it is missing."""

    def is_file(self, path: str) -> bool:
        """Whether the path is a regular file; False for a symbolic link to one, or if it is missing."""

    def make_dir(self, path: str, *, mode: int | None = None) -> None:
        """Make a directory and its missing parents. An existing one is allowed.

        Args:
            mode: Permission bits of all new directories; None: those of the directory above, without the write bit of others.
        """

    def remove_dir(self, path: str) -> None:
        """Remove a directory and its content. A missing one is allowed."""

    def sync_dir(self, path: str) -> None:
        """Make the names in this directory survive a power loss: creations, renames and removals so far.

        Raises:
            SyncError: It is unknown which of them are on the disk.
        """

    def size(self, path: str) -> int:
        """Return the size in bytes of a file."""

    def identity(self, path: str) -> int:
        """Return a number that differs from that of a later file of this name, while the first is open."""

    def mtime_ms(self, path: str) -> int:
        """Return the time of the last modification of a file in Unix milliseconds."""

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        """Set the time of the last modification of a file."""

    def ownership(self, path: str) -> Ownership:
        """Return owner and permissions of a file or directory."""

    def set_ownership(self, path: str, ownership: Ownership) -> None:
        """Set owner and permissions of a file; durable on return. PermissionError: this process may not."""

    def check_data_dir(self, path: str) -> None:
        """Refuse a data directory that another user of the machine may have put there, or may write to; see `own_files`.

        Raises:
            OSError: One line that says what to do. A missing directory is allowed.
        """

    def check_entry(self, path: str) -> None:
        """Refuse an untrusted file or directory in a data directory, like `check_data_dir`; also a symbolic link."""

    def lock(self, path: str) -> Lock:
        """Take the lock file `path`, making it if missing, without waiting.

        Raises:
            DirectoryLockedError: Another broker (Ottla or Apache Kafka), in this or another process, holds the lock.
        """

    def disk_total_and_free(self, path: str) -> tuple[int, int]:
        """Return the size of the volume of `path` in bytes, and the space on it that is free for this process."""

    def check_descriptors(self, count: int = 1) -> None:
        """Check that `count` files may be opened for long. OSError EMFILE: they would take the last ones; see `descriptors`."""


class FileSlice:
    """A range of bytes in a file, not read yet: a fetch returns it, and the server sends it.

    Keeps the file open, so that a segment may be deleted while its bytes are being sent to a slow reader.
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
        """Read all bytes of the slice.

        Raises:
            OSError: The file was truncated since; a response must not be shorter than announced.
        """
        data = self.file.read_at(self.position, self.size_bytes)
        if len(data) != self.size_bytes:
            raise OSError(errno.EIO, f"read {len(data)} of {self.size_bytes} bytes at position {self.position}")
        return data
