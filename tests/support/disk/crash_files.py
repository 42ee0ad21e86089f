"""A disk in memory that can lose power between any two operations, and shows every state that may result.

The fault model. Bytes are safe once `File.sync` has returned, names once `sync_dir` of their directory has. Everything later
is undecided. Of a file's writes and cuts since its last sync, the first few are on the disk, in the
order in which they were made. The last of these writes may be there in part (cut at some byte), or as zeros of its
length (the size reached the disk, the bytes did not). Directory operations are create, rename, remove, make and
remove a directory. Of those since the last `sync_dir`, under the *ordered* model (a journalling file system) the first few are
there, in one order over all directories. Under the *unordered* model (all that POSIX promises) any subset is. A rename is one
step, also between directories, and the sync of either directory makes it durable. A file that is renamed before its
creation was synced may appear under the new name alone. Nothing else breaks: bytes once synced stay, a file without a
name is deleted, and reading never returns wrong bytes.

A refused sync loses the data that it was called for: later syncs of that file report success and do nothing, as on Linux,
which marks pages as clean that it could not write.

Not modelled: reordering inside one file, other lost syncs.

How it is used:

    for files in power_losses(lambda files: scenario(files), ordered=False):
        recover(files); check(files)
"""

from __future__ import annotations

import errno
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from ottla.storage.disk.files import Buffer, Ownership, SyncError, WriteAhead
from support.disk.crash_nodes import DIGEST_MASK, Directory, Inode, Node, Step, digest_of, is_of_part, take, tree
from support.disk.crash_subsets import CHANGES_MAX, COMBINED_CHANGES_MAX, Searched, Survivors, Versions, sets_of

Owed = TypeVar("Owed", bound=Hashable)


class PowerLoss(BaseException):
    """Loss of power. Not an Exception, because no error handler of a program can run after it."""


class CrashWriteAhead:
    """A `WriteAhead`, written in one operation."""

    def __init__(self, file: CrashFile, data: memoryview, head_bytes: int) -> None:
        self.data, self.is_written, self.is_dropped = data, False, False
        self._file, self._head_bytes = file, head_bytes

    def write(self) -> None:
        if not self.is_dropped:
            self._file._change("append", self._file.size() + self._head_bytes, bytes(self.data[self._head_bytes :]))
            self.is_written = True


class CrashFile:
    """A `File` on a CrashFiles. Like an OsFile it remembers its append position."""

    def __init__(self, files: CrashFiles, path: str, inode: Inode) -> None:
        self._files = files
        self._path = path
        self._inode = inode
        self._size = len(inode.data)
        self._is_closed = False
        self._ahead: CrashWriteAhead | None = None
        self._syncing = threading.Lock()
        self._failed_sync: OSError | None = None

    def write_ahead(self, data: memoryview, head_bytes: int) -> CrashWriteAhead:
        self.drop_ahead()
        self._ahead = CrashWriteAhead(self, data, head_bytes)
        return self._ahead

    def append_ahead(self, ahead: WriteAhead, head: Buffer) -> None:
        assert self._ahead is ahead and ahead.is_written
        size_bytes = len(self._ahead.data)
        self._ahead = None
        self._change("append", self._size, bytes(head))
        self._size += size_bytes

    def drop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.is_dropped, self._ahead.is_written, self._ahead = True, False, None
            self._change("truncate", self._size, None)

    def append(self, data: Buffer) -> None:
        self.drop_ahead()
        mtime_ms = self._inode.mtime_ms
        self._change("append", self._size, bytes(data))
        if not len(data):
            self._inode.mtime_ms = mtime_ms  # POSIX: a write of no bytes has no other results
        self._size += len(data)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self._check_open()
        self._files.look(self._path)
        return bytes(self._inode.data[position : min(position + size_bytes, self._size)])

    def read_into(self, position: int, buffer: memoryview) -> int:
        data = self.read_at(position, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read_now(self, position: int, size_bytes: int) -> bytes:
        return self.read_at(position, size_bytes)

    def cached_bytes(self, position: int, size_bytes: int) -> int:
        return size_bytes

    def read_ahead(self, position: int, size_bytes: int) -> None: ...

    def truncate(self, size_bytes: int) -> None:
        self.drop_ahead()
        self._change("truncate", size_bytes, None)
        self._size = size_bytes

    def preallocate(self, size_bytes: int) -> None:
        if size_bytes > self._size:
            self._change("preallocate", size_bytes, None)

    def sync(self) -> None:
        self._check_open()
        with self._syncing:
            if self._failed_sync is not None:
                raise SyncError(self._failed_sync.errno, f"an earlier sync failed: {self._failed_sync}")
            try:
                self._files.step("sync", self._path)
            except OSError as error:
                self._inode.is_lost = True
                self._failed_sync = error
                raise SyncError(error.errno, str(error)) from error
            if not self._files.is_skipped("sync"):
                self._files.contents_changed(self._inode)
                self._inode.sync()

    def size(self) -> int:
        return self._size

    def mtime_ms(self) -> int:
        self._check_open()
        return self._inode.mtime_ms

    def close(self) -> None:
        if not self._is_closed:
            self.drop_ahead()
        self._is_closed = True

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "a file in memory has no descriptor")

    def _change(self, operation: str, at: int, written: bytes | None) -> None:
        self._check_open()
        self._files.step(operation, self._path, len(written or b""))
        self._files.contents_changed(self._inode)
        self._inode.change(at, written)
        self._inode.mtime_ms = self._files.now_ms

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed")


class CrashLock:
    def __init__(self, held: set[str], path: str) -> None:
        self._held = held
        self._path = path
        held.add(path)

    def release(self) -> None:
        self._held.discard(self._path)


class CrashFiles:
    """`Files` in memory. Every change counts as one operation, in `operations`.

    Attributes:
        fail_at: The power is lost before the operation of this number: it and every later one raise PowerLoss.
        before_step: Called before each operation; may look at the disk, with `after_crash`, but not change it.
        refuse: Called before each operation with its name, its path and the bytes it adds; may raise OSError.
        refuse_reading: Called with the path before any operation that changes nothing: reading, listing, looking up.
        changes_max, lost_at_most: With more than `changes_max` unsynced directory operations, use the sets in which at most
            `lost_at_most` of the operations up to some operation are missing. None: raise ValueError.
        skipped: Called before each `sync` and `sync_dir`, with its name; True makes it do nothing. Holds after a restart.
        now_ms: The clock of modification times.
        free_bytes: Free space; an append beyond it fails with ENOSPC.
    """

    def __init__(self, *, fail_at: int | None = None) -> None:
        self.fail_at = fail_at
        self.before_step: Callable[[], None] | None = None
        self.refuse: Callable[[str, str, int], None] | None = None
        self.refuse_reading: Callable[[str], None] | None = None
        self.changes_max = CHANGES_MAX
        self.lost_at_most: int | None = None
        self.skipped: Callable[[str], bool] | None = None
        self.operations: list[tuple[str, str]] = []
        self.now_ms = 0
        self.free_bytes = 1 << 40
        self._root = Directory()
        self._steps: list[Step] = []  # those that may not be on the disk, oldest first
        self._held: set[str] = set()
        self._is_powerless = False
        self._searched = Searched()

    def step(self, operation: str, path: str, added_bytes: int = 0) -> None:
        """Count an operation that is about to happen; raise if it must not."""
        if self._is_powerless or len(self.operations) == self.fail_at:
            self._is_powerless = True
            raise PowerLoss
        if self.before_step is not None:
            self.before_step()
        if added_bytes > self.free_bytes:
            raise OSError(errno.ENOSPC, f"{path}: no space left for {added_bytes} bytes")
        if self.refuse is not None:
            self.refuse(operation, path, added_bytes)
        self.operations.append((operation, path))
        self.free_bytes -= added_bytes

    def look(self, path: str) -> None:
        """Raise if the read or lookup that follows must fail."""
        if self.refuse_reading is not None:
            self.refuse_reading(path)

    def contents_changed(self, inode: Inode) -> None:
        """Note that an inode's contents, in memory or on the disk, are about to change; called by its files."""
        self._searched.changed.add(inode)

    def is_skipped(self, operation: str) -> bool:
        """Return whether a sync must do nothing."""
        return self.skipped is not None and self.skipped(operation)

    # Files

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> CrashFile:
        directory, name = self._parent(path)
        node = directory.names.get(name)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            self.step("create", path)
            node = Inode(mtime_ms=self.now_ms)
            self._do((directory, None, name, node, None))
        elif not (truncate and node.data):
            self.look(path)
        else:
            self.step("truncate", path)
            self.contents_changed(node)
            node.change(0, None)
        if truncate:
            node.mtime_ms = self.now_ms
        return CrashFile(self, path, node)

    def rename(self, old: str, new: str) -> None:
        directory, old_name = self._parent(old)
        target, new_name = self._parent(new)
        if old_name not in directory.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        node, replaced = directory.names[old_name], target.names.get(new_name)
        if isinstance(replaced, Directory) and replaced.names:
            raise OSError(errno.ENOTEMPTY, "directory not empty", new)
        if node is not replaced:  # two names of one file: POSIX leaves both
            self.step("rename", old)
            self._do((directory, old_name, new_name, node, None if target is directory else target))

    def remove(self, path: str) -> None:
        if self._find(path) is not None:
            node = self._inode(path)
            directory, name = self._parent(path)
            self.step("remove", path)
            self._do((directory, name, None, node, None))

    def link(self, old: str, new: str) -> None:
        node = self._inode(old)
        directory, name = self._parent(new)
        if name in directory.names:
            raise FileExistsError(errno.EEXIST, "file exists", new)
        self.step("link", new)
        self._do((directory, None, name, node, None))

    def list(self, directory: str) -> list[str]:
        self.look(directory)
        return sorted(self._directory(directory).names)

    def exists(self, path: str) -> bool:
        self.look(path)
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        self.look(path)
        return isinstance(self._find(path), Directory)

    def is_file(self, path: str) -> bool:
        self.look(path)
        return isinstance(self._find(path), Inode)

    def check_data_dir(self, path: str) -> None: ...

    def check_entry(self, path: str) -> None: ...

    def make_dir(self, path: str, *, mode: int | None = None) -> None:
        at = self._root
        for name in _names(path):
            node = at.names.get(name)
            if node is None:
                self.step("make_dir", path)
                node = Directory()
                self._do((at, None, name, node, None))
            elif isinstance(node, Inode):
                raise FileExistsError(errno.EEXIST, "file exists", path)
            at = node

    def remove_dir(self, path: str) -> None:
        node = self._find(path)
        if node is None:
            return
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        for name in self.list(path):
            if isinstance(node.names[name], Directory):
                self.remove_dir(f"{path}/{name}")
            else:
                self.remove(f"{path}/{name}")
        directory, name = self._parent(path)
        self.step("remove_dir", path)
        self._do((directory, name, None, node, None))

    def sync_dir(self, path: str) -> None:
        directory = self._directory(path)
        try:
            self.step("sync_dir", path)
        except OSError as error:
            raise SyncError(error.errno, str(error)) from error
        if self.is_skipped("sync_dir"):
            return
        for step in self._steps:
            if directory in (step[0], step[4]):
                take(step, lambda each: each.durable)
        self._steps = [step for step in self._steps if directory not in (step[0], step[4])]

    def size(self, path: str) -> int:
        self.look(path)
        return len(self._inode(path).data)

    def identity(self, path: str) -> int:
        return id(self._inode(path))

    def mtime_ms(self, path: str) -> int:
        self.look(path)
        return self._inode(path).mtime_ms

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        self.step("set_mtime", path)
        self._inode(path).mtime_ms = mtime_ms

    def ownership(self, path: str) -> Ownership:
        node = self._node(path)
        return node.ownership if isinstance(node, Inode) else Ownership(0, 0, 0o755)

    def set_ownership(self, path: str, ownership: Ownership) -> None:
        self.step("set_ownership", path)
        self._inode(path).ownership = ownership

    def lock(self, path: str) -> CrashLock:
        if path in self._held:
            raise BlockingIOError(f"{path} is held by another broker of this process")
        self.open(path, create=True)
        return CrashLock(self._held, path)

    def disk_total_and_free(self, path: str) -> tuple[int, int]:
        self._node(path)
        return 1 << 40, self.free_bytes

    def check_descriptors(self, count: int = 1) -> None: ...

    def new_process(self) -> None:
        """Forget which files lost a sync: a new process assumes that it can sync what it reads."""
        for directory in self._directories():
            for node in directory.names.values():
                if isinstance(node, Inode):
                    node.is_lost = False

    # Power loss

    def sync_all(self) -> None:
        """Make everything durable and forget the operations so far: the initial disk of a scenario."""
        for directory in self._directories():
            directory.durable = dict(directory.names)
            for node in directory.names.values():
                if isinstance(node, Inode):
                    node.sync()
        self._steps.clear()
        self.operations.clear()

    def after_crash(
        self,
        *,
        ordered: bool,
        every_cut: bool = False,
        seen: set[int] | None = None,
        one_in: int = 1,
        part: tuple[int, int] = (0, 1),
    ) -> Iterator[CrashFiles]:
        """Yield every disk that a restart may find, each as files of its own; at this moment or after a PowerLoss.

        Args:
            ordered: The directory model; see the module's text.
            every_cut: Unsynced writes are cut at each byte, not only near their ends and in the middle.
            seen: Digests of known disks, which are not yielded again; those of yielded disks are added. Disks that the last
                search with the same set must have found are not even computed.
            one_in: Yield one in this number of disks, chosen by their digests.
            part: (number, count): yield only this part of the disks, of `count` parts.

        For one state of the directories the files' contents take all combinations. With too many (see COMBINATIONS_MAX) they
        vary one file at a time, while the others are as last synced or as in memory. A disk that equals an earlier one is
        left out.
        """
        changed = self._searched.changed
        is_news = self._searched.news(seen, self._steps, ordered, self.changes_max) if seen is not None else None
        if seen is None:
            seen = set()
        survivors = Survivors(self._root, list(self._steps), changed)
        versions = Versions(every_cut=every_cut, combined=len(self._steps) <= COMBINED_CHANGES_MAX)
        for kept in sets_of(len(self._steps), ordered, self.changes_max, self.lost_at_most):
            fixed, files = survivors.find(kept)
            if is_news is not None and not is_news(kept, files):
                continue
            for varied, (contents, others) in versions.of(files):
                look = (fixed + varied) & DIGEST_MASK
                if look not in seen:
                    seen.add(look)
                    if look % one_in == 0 and is_of_part(look, *part):
                        yield self._restarted(dict(survivors.tree(kept)), {**contents, **others})

    def digest(self) -> int:
        """Return a digest of all names and contents, as a program sees this disk now."""
        return digest_of(
            (path, bytes(node.data) if isinstance(node, Inode) else None)
            for path, node in tree(self._root, {each: each.names for each in self._directories()})
        )

    def moment(self) -> Hashable:
        """Return a key that distinguishes this disk from others, including everything that a power loss may leave of it."""
        return (
            digest_of((path, node.durable if isinstance(node, Inode) else None) for path, node in tree(self._root, {})),
            tuple((old, new) for _, old, new, _, _ in self._steps),
            self.digest(),
        )

    def copy(self, *, fail_at: int | None = None) -> CrashFiles:
        """Return a copy of the disk, all of it durable, as files of its own."""
        found = dict(tree(self._root, {directory: directory.names for directory in self._directories()}))
        contents = {node: bytes(node.data) for node in found.values() if isinstance(node, Inode)}
        files = self._restarted(found, contents)
        files.fail_at = fail_at
        return files

    def snapshot(self) -> dict[str, bytes]:
        """Return every file by its path, as a program sees it now."""
        found = tree(self._root, {directory: directory.names for directory in self._directories()})
        return {path: bytes(node.data) for path, node in found if isinstance(node, Inode)}

    def _restarted(self, found: dict[str, Node], contents: dict[Inode, bytes]) -> CrashFiles:
        files = CrashFiles()
        files.now_ms = self.now_ms
        files.skipped = self.skipped
        files.changes_max, files.lost_at_most = self.changes_max, self.lost_at_most
        files.free_bytes = self.free_bytes
        copies: dict[Node, Node] = {}
        at = {"": files._root}
        for path in sorted(found):  # a directory comes before what is in it
            node = found[path]
            copy = copies.get(node)
            if copy is None:
                copy = copies[node] = Directory() if isinstance(node, Directory) else node.copy(contents.get(node))
            if isinstance(copy, Directory):
                at[path] = copy
            above, _, name = path.rpartition("/")
            directory = at[above]
            directory.names[name] = directory.durable[name] = copy
        return files

    # Inside

    def _do(self, step: Step) -> None:
        self._steps.append(step)
        take(step, lambda each: each.names)

    def _find(self, path: str) -> Node | None:
        return self._below_root(_names(path))

    def _below_root(self, names: Sequence[str]) -> Node | None:
        node: Node | None = self._root
        for name in names:
            if not isinstance(node, Directory):
                return None
            node = node.names.get(name)
        return node

    def _node(self, path: str) -> Node:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        return node

    def _inode(self, path: str) -> Inode:
        node = self._node(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._node(path)
        if isinstance(node, Inode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        *above, name = _names(path)
        directory = self._below_root(above)
        return directory if isinstance(directory, Directory) else self._directory("/".join(above)), name

    def _directories(self) -> Sequence[Directory]:
        found, todo = [], [self._root]
        while todo:
            directory = todo.pop()
            found.append(directory)
            todo.extend(node for node in directory.names.values() if isinstance(node, Directory))
        return found


def power_losses(
    scenario: Callable[[CrashFiles], object],
    start: CrashFiles | None = None,
    *,
    ordered: bool,
    every_cut: bool = False,
    one_in: int = 1,
) -> Iterator[CrashFiles]:
    """Run `scenario` repeatedly, losing power before its first operation, its second, and so on, then after its last.

    Args:
        start: The disk that each run finds; an empty one if None.
        one_in: After each loss, use one in this number of disks, chosen by their digests.

    Yields every disk that each of these losses may leave (see `CrashFiles.after_crash`).
    """
    fail_at = 0
    while True:
        files = (start or CrashFiles()).copy(fail_at=fail_at)
        try:
            scenario(files)
        except PowerLoss:
            yield from files.after_crash(ordered=ordered, every_cut=every_cut, one_in=one_in)
            fail_at += 1
        else:
            yield from files.after_crash(ordered=ordered, every_cut=every_cut, one_in=one_in)
            return


def disks_left(
    scenario: Callable[[CrashFiles], object],
    start: CrashFiles | None = None,
    *,
    ordered: bool,
    owed: Callable[[], Owed],
    one_in: int = 1,
) -> Iterator[tuple[CrashFiles, Owed]]:
    """Yield each disk of `power_losses` once with what it owes, from a single run of `scenario`.

    Args:
        owed: Called before each operation; returns what a disk of this moment owes. Equal disks that owe different things count
            as different.
    """
    files = (start or CrashFiles()).copy()
    found: list[tuple[CrashFiles, Owed]] = []
    seen: dict[Owed, set[int]] = defaultdict(set)

    def look() -> None:
        owes = owed()
        found.extend((disk, owes) for disk in files.after_crash(ordered=ordered, seen=seen[owes], one_in=one_in))

    files.before_step = look
    scenario(files)
    files.before_step = None
    look()
    yield from found


def _names(path: str) -> list[str]:
    # No result is cached by path: tests count calls, and those of a known path would be fewer.
    names = path.strip("/").split("/")
    return [name for name in names if name not in ("", ".")] if "" in names or "." in names else names
