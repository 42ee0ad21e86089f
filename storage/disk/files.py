"""File access: the one door between the storage floor and the operating system.

Everything in this floor takes a `Files`. `os_files.OsFiles` is the real one; the tests' `CrashFiles` keeps a disk in memory
and loses power. No other module of the floor opens, renames, lists or locks anything.

Two things are durable only when asked for: bytes after `File.sync`, names after `Files.sync_dir`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

Buffer = bytes | bytearray | memoryview
OfEach: TypeAlias = Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]
"""Calls a function with each of some things that have nothing to do with one another, as `map` does. Who calls from above
may do several at a time in threads of its own, as most of it is waiting for the disk; all have ended when one's error is seen."""


class WouldWaitError(Exception):
    """What was asked for is not in memory, and the caller's thread is not to wait for the disk. Nothing was changed.

    Have another thread call `bring`, which raises what the disk does, and ask again.
    """

    def __init__(self, bring: Callable[[], None]) -> None:
        super().__init__("not in the page cache")
        self.bring = bring


class SyncError(OSError):
    """A sync failed. What it was to make durable may be lost for good, even if a later sync of it says that all is well.

    Linux marks pages clean that it could not write, and tells of it once.
    """


class DamagedFileError(Exception):
    """A file does not hold what was written to it. The message says what is wrong; the caller decides whether to rebuild or refuse it."""


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

    def make_dir(self, path: str, *, mode: int | None = None) -> None:
        """Make a directory and its missing parents. One that is there is fine.

        Args:
            mode: Permission bits of all that are made; None: as the directory above, but for others' right to write.
        """

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

    def check_data_dir(self, path: str) -> None:
        """Refuse a data directory that another user of the machine may have put there, or may write to; see `own_files`.

        Raises:
            OSError: One line that says what to do. A missing directory is fine.
        """

    def check_entry(self, path: str) -> None:
        """The same for a file or directory in a data directory, which may be no link either."""

    def lock(self, path: str) -> Lock:
        """Take the lock file `path`, making it where needed, without waiting.

        Raises:
            DirectoryLockedError: Somebody else holds it: a broker of ours or an Apache Kafka, here or in another
                process.
        """

    def disk_total_and_free(self, path: str) -> tuple[int, int]:
        """Bytes of the volume that holds `path`: in all, and still free for us."""

    def check_descriptors(self, count: int = 1) -> None:
        """For who is about to open so many files for good. OSError EMFILE if that takes the last descriptors: see `descriptors`."""


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
            raise OSError(errno.EIO, f"read {len(data)} of {self.size_bytes} bytes at position {self.position}")
        return data
