"""Partitions that were deleted, on their way out: their directories are renamed at once, and removed later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..disk import paths
from ..disk.files import Files
from ..logs.log import Log
from .data_dir import DataDir
from .log_table import LogTable


@dataclass(frozen=True, slots=True)
class DueRemoval:
    """A file or directory of something deleted, whose time has come."""

    path: str
    _remove: Callable[[str], None]
    _put_off: Callable[[int, str], None]

    def __call__(self) -> None:
        """Remove it, in any thread. OSError if the disk refuses; a part of it may be gone then."""
        self._remove(self.path)

    def put_off(self, due_ms: int) -> None:
        """Make it due again at `due_ms` of elapsed time; in the owner's thread."""
        self._put_off(due_ms, self.path)


class Departure:
    """Directories of deleted partitions on their way out. Made by `LogManager.begin_delete`."""

    def __init__(
        self, logs: Sequence[Log], data_dirs: Iterable[DataDir], unique_id: str, files: Files, staying: LogTable
    ) -> None:
        """
        Args:
            data_dirs: All of the broker.
            unique_id: For the names of the directories.
            staying: All open logs of the broker; `logs` are not among them.
        """
        self.logs = logs
        self.put_aside: list[tuple[Log, str]] = []
        """Those that are out of the way, with the paths that they have now."""
        self._data_dirs = {each.path: each for each in data_dirs}
        self._unique_id = unique_id
        self._files = files
        self._staying = staying

    def let_go(self) -> list[Log]:
        """The logs, which are the caller's to drop: the last step. Each closes its files with its last name."""
        logs, self.logs = list(self.logs), ()
        self.put_aside.clear()
        return logs

    def carry_out(self) -> None:
        """Rename the directories, and take the partitions out of the checkpoints; on disk on return.

        Raises:
            OSError: The disk refused something, the first of it; all else is done.
        """
        refused: list[OSError] = []
        for log in self.logs:
            aside = paths.join(log.data_dir, paths.deleted_dir_name(*log.topic_partition, self._unique_id))
            with collected(refused):
                if log.has_directory():
                    self._files.rename(log.directory, aside)
                    self.put_aside.append((log, aside))
        for data_dir in [self._data_dirs[path] for path in dict.fromkeys(log.data_dir for log in self.logs)]:
            with collected(refused):
                self._files.sync_dir(data_dir.path)
            with collected(refused):
                data_dir.checkpoint_recovery_points(self._staying)
            with collected(refused):
                data_dir.checkpoint_log_starts(self._staying)
        if refused:
            raise refused[0]


@contextmanager
def collected(refused: list[OSError]) -> Iterator[None]:
    """For one of several things that are to be done whatever becomes of the others."""
    try:
        yield
    except OSError as error:
        refused.append(error)
