"""Flush of a log: the files that it syncs.

Prepared on the thread that owns the log, and carried out in any thread that may wait for the disk. The server runs
`Flush.sync` in a worker thread while appends and reads continue, and then calls `Log.end_flush`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from ..disk.files import Files
from ..disk.health import Health
from ..segment.leader_epochs import LeaderEpochs
from ..segment.segment import LogSegment


class Flush(NamedTuple):
    """The files of one flush. Made by `Log.begin_flush`."""

    up_to: int
    """Everything below this offset survives a power loss once `sync` has returned."""
    sealed: list[LogSegment]
    """Segments to sync with their indexes: recovery will not scan them again. `sync` empties this list."""
    active: LogSegment | None
    """The active segment. Only its records are synced: its indexes are rebuilt after a crash."""
    leader_epochs: LeaderEpochs
    """Written with every flush, as recovery learns no epochs from segments that it does not scan."""
    files: Files
    health: Health
    """Health of the directory that is synced: the log may have moved to another one when the sync ends."""
    new_names_in: str | None
    """The log's directory, if it has files whose names may not be on disk yet."""
    new_directory_in: str | None = None
    """The data directory, if the name of the log's directory may not be on disk yet."""

    def sync(self) -> None:
        """Sync the files, waiting for the disk. Safe during appends, reads and clean passes.

        Releases the sealed segments. If the file of one was deleted during the flush, this may be the last reference, and
        closing a large file takes long: better in this thread than in the one that owns the log.

        Raises:
            OSError: The disk refused; what is durable is unknown. The caller takes the log offline (`Log.fail`).
        """
        with suppress(FileNotFoundError):  # the partition has been deleted
            self.leader_epochs.write()
        for segment in self.sealed:
            with suppress(FileNotFoundError):  # swapped or deleted since; its replacement was synced before
                segment.flush()
        self.sealed.clear()  # not after an error: a second call must not pass over what was never synced
        if self.active is not None:
            self.active.log_file.sync()
        if self.new_names_in is not None:
            with suppress(FileNotFoundError):  # the partition has been deleted
                self.files.sync_dir(self.new_names_in)
        if self.new_directory_in is not None:
            self.files.sync_dir(self.new_directory_in)
