"""What one flush of a log syncs.

Gathered on the thread that owns the log, carried out wherever waiting for the disk does no harm: the server runs
`Flush.sync` in a worker thread while appends and reads go on, and reports back with `Log.end_flush`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from ..disk.files import Files
from ..disk.health import Health
from ..segment.leader_epochs import LeaderEpochs
from ..segment.segment import LogSegment


class Flush(NamedTuple):
    """Made by `Log.begin_flush`."""

    up_to: int
    """Everything below this offset survives a power loss once `sync` has returned."""
    sealed: list[LogSegment]
    """Synced with their indexes: recovery will not look at them again. `sync` empties this."""
    active: LogSegment | None
    """Only its records are synced: its indexes are rebuilt after a crash."""
    leader_epochs: LeaderEpochs
    """Recovery will not learn them from what it does not look at."""
    files: Files
    health: Health
    """Of the directory that is synced: the log may be in another one when that ends."""
    new_names_in: str | None
    """The log's directory, if it has files whose names may not be on disk yet."""
    new_directory_in: str | None = None
    """The data directory, if the name of the log's directory may not be on disk yet."""

    def sync(self) -> None:
        """Wait for the disk. Safe beside appends, reads and the cleaner.

        It lets the sealed segments go. Of one whose file was deleted meanwhile this may be the last holder, and the system
        takes as long to close that file as it is large: better here than on the thread that owns the log.

        Raises:
            OSError: The disk refused; what is durable is unknown. The caller takes the log offline (`Log.fail`).
        """
        with suppress(FileNotFoundError):  # the partition was deleted meanwhile
            self.leader_epochs.write()
        try:
            for segment in self.sealed:
                with suppress(FileNotFoundError):  # swapped or deleted meanwhile; what took its place was synced before
                    segment.flush()
        finally:
            self.sealed.clear()
        if self.active is not None:
            self.active.log_file.sync()
        if self.new_names_in is not None:
            with suppress(FileNotFoundError):  # the partition was deleted meanwhile
                self.files.sync_dir(self.new_names_in)
        if self.new_directory_in is not None:
            self.files.sync_dir(self.new_directory_in)
