"""Files and directories of a disk that can lose power: the state on disk, the state in memory, and the changes between."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b

from ottla.storage.disk.files import Ownership

DIGEST_MASK = (1 << 128) - 1


@dataclass(eq=False)
class Inode:
    """A file's bytes: those on the disk, those in memory, and the changes between them."""

    data: bytearray = field(default_factory=bytearray)
    mtime_ms: int = 0
    ownership: Ownership = field(default_factory=lambda: Ownership(0, 0, 0o644))
    durable: bytes = b""
    changes: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes (position, bytes) and cuts or extensions with zeros (new size, None) since the last sync."""
    is_lost: bool = False
    """Whether a sync was refused: no later change of the file becomes durable."""

    def change(self, at: int, written: bytes | None) -> None:
        self.changes.append((at, written))
        apply(self.data, at, written)

    def sync(self) -> None:
        if not self.is_lost:
            self.durable = bytes(self.data)
            self.changes.clear()

    def copy(self, data: bytes | None) -> Inode:
        """Return a file with this content, all of it durable; None: with the durable content of this one."""
        held = self.durable if data is None else data
        return Inode(bytearray(held), self.mtime_ms, self.ownership, held)

    def versions(self, *, every_cut: bool) -> list[bytes]:
        """Return the contents that the disk may hold, each once: the last synced one first, that of memory last."""
        found = {self.durable: None}
        data = bytearray(self.durable)
        for at, written in self.changes:
            before = bytes(data)
            if written:
                size = len(written)
                for cut in range(1, size) if every_cut else sorted({1, size // 2, size - 1} - {0, size}):
                    torn = bytearray(before)
                    apply(torn, at, written[:cut])
                    found[bytes(torn)] = None
                zeros = bytearray(before)
                apply(zeros, at, bytes(size))
                found[bytes(zeros)] = None
            apply(data, at, written)
            found[bytes(data)] = None
        newest = bytes(self.data)
        found.pop(newest)
        return [*found, newest]


def apply(data: bytearray, at: int, written: bytes | None) -> None:
    if len(data) < at:
        data += bytes(at - len(data))
    if written is None:
        del data[at:]
    else:
        data[at : at + len(written)] = written


@dataclass(eq=False)
class Directory:
    names: dict[str, Inode | Directory] = field(default_factory=dict)
    durable: dict[str, Inode | Directory] = field(default_factory=dict)


Node = Inode | Directory
Step = tuple[Directory, str | None, str | None, Node, Directory | None]
"""One directory operation: the node loses the first name (if any) and gets the second (if any), in the second directory if
there is one."""


def take(step: Step, names_of: Callable[[Directory], dict[str, Node]]) -> None:
    """Apply `step` to the names of its directories, in memory or on the disk."""
    directory, old, new, node, target = step
    if target is None:
        _rename(names_of(directory), old, new, node)
    else:
        _rename(names_of(directory), old, None, node)
        _rename(names_of(target), None, new, node)


def _rename(names: dict[str, Node], old: str | None, new: str | None, node: Node) -> None:
    # The old name may belong to something else by now, if an earlier step did not survive.
    if old is not None and names.get(old) is node:
        del names[old]
    if new is not None:
        names[new] = node


def tree(root: Directory, names: dict[Directory, dict[str, Node]], above: str = "") -> Iterator[tuple[str, Node]]:
    """Yield (path, node) of everything below `root`, a directory before its contents.

    `names` replaces the durable names of the directories that it has.
    """
    for name, node in names.get(root, root.durable).items():
        path = f"{above}/{name}"
        yield path, node
        if isinstance(node, Directory):
            yield from tree(node, names, path)


def digest_of(entries: Iterable[tuple[str, bytes | None]]) -> int:
    # Digests of single files are worth caching: most disks differ in one or two.
    return sum(mark(path, content) for path, content in entries) & DIGEST_MASK


@lru_cache(maxsize=1 << 16)
def mark(path: str, content: bytes | None) -> int:
    told = path.encode() + (b"/" if content is None else b"\0" + content)
    return int.from_bytes(blake2b(told, digest_size=16).digest())


def is_of_part(digest: int, part: int, parts: int) -> bool:
    """Return whether a disk belongs to one part of all disks; independent of the digest's remainders by small powers of two."""
    return (digest >> 64) % parts == part
