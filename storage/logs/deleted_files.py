"""Files of a log that were renamed to `.deleted`, until `file.delete.delay.ms` is over.

Whoever was reading them when they left the log has that long to come to an end. A start removes what is left of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ..disk import paths


class DeletedFiles:
    """Those of one log; times are elapsed ones. Removing them is the caller's, in any thread."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.waiting: list[tuple[int, Iterable[str]]] = []
        """(due at, paths, to be taken once). Whoever has thousands of logs looks at this first, which is no call."""

    def add(self, bases: Sequence[int], snapshot_bases: Sequence[int], due_ms: int) -> None:
        """The files of segments with these base offsets, and producer snapshots at others, are to go at `due_ms`."""
        if bases:
            self.waiting.append((due_ms, self._paths(bases, snapshot_bases)))

    def put_off(self, due_ms: int, path: str) -> None:
        """Have one be due at `due_ms` that could not be removed."""
        self.waiting.append((due_ms, [path]))

    def take_due(self, elapsed_ms: int) -> Iterator[str]:
        """The paths of those whose time has come, which are the caller's then."""
        due = [deleted for due_ms, deleted in self.waiting if due_ms <= elapsed_ms]
        if due:
            self.waiting = [entry for entry in self.waiting if entry[0] > elapsed_ms]
        return chain.from_iterable(due)

    def _paths(self, bases: Sequence[int], snapshot_bases: Sequence[int]) -> Iterator[str]:
        # Of a pass over thousands of small segments each path is made when its time comes.
        for base_offset in bases:
            for kind in paths.SEGMENT_KINDS:
                yield paths.segment_path(self._directory, base_offset, kind, paths.DELETED)
        for base_offset in snapshot_bases:
            yield paths.snapshot_path(self._directory, base_offset, paths.DELETED)
