"""Deletion of a log's oldest segments: what retention does to their files.

Prepared on the thread that owns the log, and carried out in any thread that may wait for the disk, like a `Flush`. The log
start offset is already above these segments, but they stay in the log's list until they are renamed. A power loss may bring
them back until then, and the checkpoint of log start offsets must show that they are below the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ..disk import paths
from ..disk.files import Files
from ..produce import producer_snapshots
from ..segment.leader_epochs import LeaderEpochs
from ..segment.segment import LogSegment


class Deletion:
    """One step of a deletion. Made by `Log.begin_deletion`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        leader_epochs: LeaderEpochs,
        segments: Sequence[LogSegment],
        snapshots_below: int,
        *,
        one_by_one: bool,
        has_more: bool,
    ) -> None:
        """
        Args:
            segments: The segments to delete, in the order of deletion.
            snapshots_below: Producer snapshots below this offset are deleted also: nothing will be replayed from there.
            one_by_one: Each segment must be gone from the disk before the next is renamed.
            has_more: The next deletion may find more segments.
        """
        self.has_more = has_more
        self.renamed: list[LogSegment] = []
        """Segments that have been renamed. Of each of the others at least the log file still has its name."""
        self._files = files
        self._directory = directory
        self._leader_epochs = leader_epochs
        self._segments = segments
        self._snapshots_below = snapshots_below
        self._one_by_one = one_by_one

    def rename_files(self) -> None:
        """Rename the segments' files and remove old snapshots. Safe during appends, reads and flushes of the log.

        Where it matters, each segment is gone from the disk before the next is renamed, so that a power loss brings back only
        the last ones. A key's older value must not outlive the newer one, nor aborted records their index entry.
        It needs no disk space, because on a full disk it is what frees some.

        Raises:
            OSError: The disk refused; `renamed` has what was done, and the next deletion continues there.
        """
        self._leader_epochs.write_if_room()
        for segment in self._segments:
            segment.load_indexes()
        log_first = self._one_by_one or any(segment.txn_index.entry_count for segment in self._segments)
        for segment in self._segments:
            segment.rename_deleted(log_first=log_first)
            self.renamed.append(segment)
        if self.has_more:
            self._files.sync_dir(self._directory)  # these segments are gone before those of the next step
        for offset in producer_snapshots.offsets(self._files, self._directory):
            if offset < self._snapshots_below:
                self._files.remove(paths.snapshot_path(self._directory, offset))


class DeletedFiles:
    """Files of one log that were renamed to `.deleted`, until `file.delete.delay.ms` is over.

    Readers that had opened them have that long to finish. A start removes the rest. Times are elapsed times. The caller removes the
    files, in any thread.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.waiting: list[tuple[int, Iterable[str]]] = []
        """Pairs (due at, paths; each can be iterated once). Jobs over thousands of logs check this first, without a call."""

    def add(self, bases: Sequence[int], snapshot_bases: Sequence[int], due_ms: int) -> None:
        """Have the files of segments with these base offsets, and producer snapshots at others, removed at `due_ms`."""
        if bases:
            self.waiting.append((due_ms, self._paths(bases, snapshot_bases)))

    def put_off(self, due_ms: int, path: str) -> None:
        """Try a file again at `due_ms` that could not be removed."""
        self.waiting.append((due_ms, [path]))

    def take_due(self, elapsed_ms: int) -> Iterator[str]:
        """Return the paths of the files that are due; the caller removes them."""
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
