"""Disks that a loss of power leaves of unsynced steps and bytes, computed without walking a whole disk for each.

steps     b . d . .     one set of those that survived
/         the names of a directory depend on the steps that touch it, its contents on those within: each
├ d       such part is computed once for all sets that agree on it
└ e       the digest of a disk is the sum of the digests of its files
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import combinations, product
from math import prod

from support.disk.crash_nodes import Directory, Inode, Node, Step, mark, take, tree

CHANGES_MAX = 14
"""The largest number of unsynced directory operations for which the unordered model tries all subsets."""

COMBINED_CHANGES_MAX = 6
COMBINATIONS_MAX = 64
"""Limits for combining contents: with more unsynced directory operations than the first, or more combinations of unsynced
contents than the second, contents vary one file at a time.
"""

Varying = tuple[tuple[str, Inode], ...]
"""Files whose contents may differ, with their paths."""


@lru_cache(maxsize=64)
def sets_of(count: int, ordered: bool, changes_max: int, lost_at_most: int | None) -> Sequence[int]:
    """Return which of `count` steps may be on the disk together: sets, as the bits of their numbers.

    See CrashFiles for the limits.
    """
    if ordered:
        return [(1 << size) - 1 for size in range(count + 1)]
    bits = [1 << number for number in range(count)]
    if count <= changes_max:
        return [sum(some) for size in range(count + 1) for some in combinations(bits, size)]
    if lost_at_most is None:
        raise ValueError(f"{count} unsynced directory operations have too many subsets: sync more, or do less")
    return [
        (1 << up_to) - 1 - sum(missing)
        for up_to in range(count + 1)
        for size in range(min(up_to, lost_at_most) + 1)
        for missing in combinations(bits[:up_to], size)
    ]


class Survivors:
    """The disks that sets of steps leave.

    Args:
        steps: The unsynced directory operations, oldest first.
        varying: Files to be reported in addition to those with unsynced bytes.
    """

    def __init__(self, root: Directory, steps: Sequence[Step], varying: AbstractSet[Inode]) -> None:
        self._root, self._steps, self._varying = root, steps, varying
        self._own: dict[Directory, int] = {}
        below: dict[Directory, set[Directory]] = {}
        for number, (directory, _, new, node, target) in enumerate(steps):
            for each in {directory, target or directory}:
                self._own[each] = self._own.get(each, 0) | 1 << number
            if new is not None and isinstance(node, Directory):
                below.setdefault(target or directory, set()).add(node)
        self._below = below
        self._within: dict[Directory, int] = {}
        self._names: dict[tuple[Directory, int], dict[str, Node]] = {}
        self._found: dict[tuple[Directory, str, int], tuple[int, Varying]] = {}

    def find(self, kept: int, directory: Directory | None = None, path: str = "") -> tuple[int, Varying]:
        """Return the digest of all files below a directory (default: the root) that cannot vary, and the other files."""
        directory = directory or self._root
        key = directory, path, kept & self._steps_within(directory)
        if key not in self._found:
            digest, varying = 0, list[tuple[str, Inode]]()
            for name, node in self._names_in(directory, kept).items():
                below = f"{path}/{name}"
                if isinstance(node, Directory):
                    digest_below, varying_below = self.find(kept, node, below)
                    digest += mark(below, None) + digest_below
                    varying += varying_below
                elif node.changes or node in self._varying:
                    varying.append((below, node))
                else:
                    digest += mark(below, node.durable)
            self._found[key] = digest, tuple(varying)
        return self._found[key]

    def tree(self, kept: int) -> Iterator[tuple[str, Node]]:
        """Yield (path, node) of everything that exists."""
        return tree(self._root, {each: self._names_in(each, kept) for each in self._own})

    def _names_in(self, directory: Directory, kept: int) -> dict[str, Node]:
        key = directory, kept & self._own.get(directory, 0)
        if key not in self._names:
            names = {directory: dict(directory.durable)}
            for number, step in enumerate(self._steps):
                if key[1] >> number & 1:
                    take(step, lambda each: names.setdefault(each, {}))
            self._names[key] = names[directory]
        return self._names[key]

    def _steps_within(self, directory: Directory) -> int:
        """Return the steps that may change something below a directory."""
        if directory not in self._within:
            seen, todo, found = {directory}, [directory], 0
            while todo:
                each = todo.pop()
                found |= self._own.get(each, 0)
                there = {node for node in each.durable.values() if isinstance(node, Directory)}
                there = (there | self._below.get(each, set())) - seen
                seen |= there
                todo.extend(there)
            self._within[directory] = found
        return self._within[directory]


Contents = dict[Inode, bytes]
Chosen = tuple[Contents, Contents]
"""Contents of files; the second has only those that differ from the first."""


class Versions:
    """Contents that files with unsynced bytes may have together."""

    def __init__(self, *, every_cut: bool, combined: bool) -> None:
        self._every_cut, self._combined = every_cut, combined
        self._versions: dict[Inode, list[bytes]] = {}
        self._found: dict[Varying, list[tuple[int, Chosen]]] = {}

    def of(self, files: Varying) -> list[tuple[int, Chosen]]:
        """Return all contents of these files, each with its part of the disk's digest."""
        if files not in self._found:
            each_once: dict[int, Chosen] = {}
            for look, chosen in self._chosen(files):
                each_once.setdefault(look, chosen)
            self._found[files] = list(each_once.items())
        return self._found[files]

    def _chosen(self, files: Varying) -> Iterator[tuple[int, Chosen]]:
        versions: dict[Inode, list[bytes]] = {}
        paths: dict[Inode, list[str]] = {}
        for path, inode in files:
            if inode not in self._versions:
                self._versions[inode] = inode.versions(every_cut=self._every_cut)
            versions[inode] = self._versions[inode]
            paths.setdefault(inode, []).append(path)
        marks = {
            inode: [sum(mark(path, choice) for path in paths[inode]) for choice in choices]
            for inode, choices in versions.items()
        }
        if self._combined and prod(map(len, versions.values())) <= COMBINATIONS_MAX:
            for looks, combined in zip(product(*marks.values()), product(*versions.values()), strict=True):
                yield sum(looks), (dict(zip(versions, combined, strict=True)), {})
            return
        ends = []
        for end in (0, -1):
            contents = {inode: choices[end] for inode, choices in versions.items()}
            ends.append((end, contents, sum(each[end] for each in marks.values())))
            yield ends[-1][2], (contents, {})
        for inode, choices in versions.items():
            for look, choice in zip(marks[inode], choices, strict=True):
                for end, contents, whole in ends:
                    yield whole - marks[inode][end] + look, (contents, {inode: choice})


class Searched:
    """The cases that the last search with the same digests covered, so that they are not searched again."""

    def __init__(self) -> None:
        self.changed: set[Inode] = set()
        """Files whose contents, in memory or on the disk, have changed since."""
        self._seen: AbstractSet[int] | None = None
        self._steps: Sequence[Step] = ()

    def news(
        self, seen: AbstractSet[int], steps: Sequence[Step], ordered: bool, changes_max: int
    ) -> Callable[[int, Varying], bool]:
        """Begin a search; return a function that says which sets of steps with which files are new."""
        known, changed = self._steps, self.changed
        count = len(known)
        all_of_them = (
            ordered
            or count <= changes_max
            or (len(steps) >= count and all(map(lambda one, other: one is other, steps, known)))
        )
        is_known = (
            self._seen is seen
            and all_of_them
            and (count <= COMBINED_CHANGES_MAX) >= (len(steps) <= COMBINED_CHANGES_MAX)
        )
        self._seen, self._steps, self.changed = seen, list(steps), set()
        if not is_known:
            return lambda kept, files: True
        known_ids = {id(step) for step in known}
        new = sum(1 << number for number, step in enumerate(steps) if id(step) not in known_ids)
        return lambda kept, files: bool(kept & new) or any(inode in changed for _, inode in files)
