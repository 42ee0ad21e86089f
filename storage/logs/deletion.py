"""The oldest segments of a log on their way out: what retention does to the files.

Gathered on the thread that owns the log, carried out wherever waiting for the disk does no harm, as a `Flush` is. The log
starts behind these segments already, but until they are renamed they stay in its list: as long as they may come back with a
power loss, the checkpoint of log starts has to tell that they are below.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..disk import paths
from ..disk.files import Files
from ..produce import producer_snapshots
from ..segment.leader_epochs import LeaderEpochs
from ..segment.segment import LogSegment


class Deletion:
    """Made by `Log.begin_deletion`."""

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
            segments: In the order in which they go.
            snapshots_below: Producer snapshots below this offset go, too: nothing will be replayed from there.
            one_by_one: Each is to be gone from the disk before the next.
            has_more: Others may go, too, with the next deletion.
        """
        self.has_more = has_more
        self.renamed: list[LogSegment] = []
        """Those that are out of the way: of the others at least the log file still has its name."""
        self._files = files
        self._directory = directory
        self._leader_epochs = leader_epochs
        self._segments = segments
        self._snapshots_below = snapshots_below
        self._one_by_one = one_by_one

    def carry_out(self) -> None:
        """Rename the segments' files and remove old snapshots. Safe beside appends, reads and flushes of the log.

        Where it matters each is gone from the disk before the next, so that a power loss brings back only the last ones: a
        key's older value must not outlive the newer one, nor aborted records the index that tells of them. On a full disk,
        where this is what makes room, it needs none.

        Raises:
            OSError: The disk refused; `renamed` tells how far it came, and the next deletion goes on there.
        """
        self._leader_epochs.write_if_room()
        for segment in self._segments:
            segment.load_indexes()
        log_first = self._one_by_one or any(segment.txn_index.entry_count for segment in self._segments)
        for segment in self._segments:
            segment.rename_deleted(log_first=log_first)
            self.renamed.append(segment)
        if self.has_more:
            self._files.sync_dir(self._directory)  # these are gone before those of the next step
        for offset in producer_snapshots.offsets(self._files, self._directory):
            if offset < self._snapshots_below:
                self._files.remove(paths.snapshot_path(self._directory, offset))
