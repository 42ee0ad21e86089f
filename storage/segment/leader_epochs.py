"""Leader epochs under which the parts of a partition were written: `leader-epoch-checkpoint`.

    0                   version
    2                   number of lines that follow
    0 0                 epoch, first offset written under it
    4 1250

Consumers use it to detect that a log was truncated and rewritten since they read it (OffsetForLeaderEpoch). Epochs and start
offsets both strictly increase from line to line.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from ..disk.checkpoints import CorruptCheckpointError, number, read_entries, write_entries
from ..disk.files import Files
from ..disk.health import is_disk_failure

EPOCH_MAX = 2**31 - 1
UNDEFINED = (-1, -1)
"""(epoch, end offset) if the epoch is not known."""


class EpochEntry(NamedTuple):
    """An epoch under which records from `start_offset` up to the next entry were written."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of one log. A change is in memory at once, and in the file after the next `write`.

    Each batch has its epoch, so recovery finds again what the file lacks if it reads the batch. Therefore `write` comes before
    an operation after which recovery skips batches (a flush, a stop), or which removes some (retention, a clean pass). Apache
    Kafka writes each new epoch at once. There the file, and here the result of recovery, may have epochs that are no longer in
    the log, but lacks none.

    Changed by the thread that owns the log.
    """

    def __init__(self, files: Files, path: str) -> None:
        """Read the file if it exists.

        Raises:
            CorruptCheckpointError: The file is malformed, or its entries do not increase.
        """
        self.path = path
        self._files = files
        self._entries: list[EpochEntry] = []
        for line, fields in read_entries(files, path, 2):
            entry = EpochEntry(*(number(path, line, field) for field in fields))
            if not (0 <= entry.epoch <= EPOCH_MAX and entry.start_offset >= 0):
                raise CorruptCheckpointError(path, line, f"out of range: {entry.epoch} {entry.start_offset}")
            self._entries = _with(
                self._entries, entry
            )  # as in Kafka, lines may be out of order, and the later one wins
        self._written: list[EpochEntry] | None = self._entries
        """Entries on disk; None if unknown."""
        self._writing = threading.Lock()

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> int:
        """The newest known epoch; -1 if none is known."""
        return self._entries[-1].epoch if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that records from `start_offset` on are written under `epoch`.

        Entries that contradict it (their epoch or start offset is as high) are dropped. If `epoch` is already the latest and
        does not start later, nothing changes.
        """
        entries = self._entries
        if entries:
            latest_epoch, latest_start = entries[-1]
            if epoch == latest_epoch and start_offset >= latest_start:
                return
        self._entries = _with(entries, EpochEntry(epoch, start_offset))

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at or above `end_offset`, the new log end offset."""
        count = bisect_left(self._entries, end_offset, key=_start_offset)
        if count < len(self._entries):
            self._entries = self._entries[:count]

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end at or below `start_offset`, the new log start offset.

        The start of the epoch that contains `start_offset` becomes `start_offset`.
        """
        slot = bisect_right(self._entries, start_offset, key=_start_offset) - 1
        if slot < 0 or (slot == 0 and self._entries[0].start_offset == start_offset):
            return
        self._entries = [EpochEntry(self._entries[slot].epoch, start_offset), *self._entries[slot + 1 :]]

    def take_over(self, other: LeaderEpochs) -> None:
        """Take the entries of another object; the next `write` updates the file."""
        self._entries = other._entries

    def clear(self) -> None:
        """Remove all entries."""
        self._entries = []

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch under which the record at `offset` was written; None below the first entry. Any thread."""
        entries = self._entries
        slot = bisect_right(entries, offset, key=_start_offset) - 1
        return entries[slot].epoch if slot >= 0 else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Find the end of the records of `epoch`, for OffsetForLeaderEpoch.

        Returns:
            (largest known epoch at or below `epoch`, its end offset, exclusive). For an epoch older than all known ones:
            that epoch and the start of the first known one. UNDEFINED for an epoch newer than all known ones.

        Source: KIP-101, KIP-279.
        """
        if epoch < 0 or epoch > self.latest_epoch:
            return UNDEFINED
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._entries, epoch, key=_epoch)
        floor_epoch = self._entries[higher - 1].epoch if higher else epoch
        return floor_epoch, self._entries[higher].start_offset

    def write(self) -> None:
        """Bring the file up to date, with two disk syncs; it is on disk on return. Does nothing if it is current. Any thread.

        Raises:
            OSError: The disk refused; memory is unchanged, and the next call tries again.
        """
        with self._writing:
            entries = self._entries  # never changed in place
            if entries != self._written:
                self._written = None
                write_entries(self._files, self.path, (f"{epoch} {start}" for epoch, start in entries))
                self._written = entries

    def write_if_room(self) -> None:
        """Write the file if the disk has room, for deletions on a full disk. OSError only if the disk has failed."""
        try:
            self.write()
        except OSError as error:
            if is_disk_failure(error):
                raise


def _with(entries: list[EpochEntry], entry: EpochEntry) -> list[EpochEntry]:
    """Return the entries with a newer one, without those that contradict it."""
    if entries and entry.epoch == entries[-1].epoch and entry.start_offset >= entries[-1].start_offset:
        return entries
    kept = list(entries)
    while kept and (kept[-1].epoch >= entry.epoch or kept[-1].start_offset >= entry.start_offset):
        kept.pop()
    return [*kept, entry]


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch
