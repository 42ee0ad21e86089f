"""Deletion of partitions: their directories are renamed at once, and removed later."""

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
    """A deleted file or directory whose delay has expired."""

    path: str
    _remove: Callable[[str], None]
    _put_off: Callable[[int, str], None]

    def __call__(self) -> None:
        """Remove the file or directory, in any thread. OSError: the disk refused; a part may have been removed."""
        self._remove(self.path)

    def put_off(self, due_ms: int) -> None:
        """Make the removal due again at `due_ms` of elapsed time; in the owner's thread."""
        self._put_off(due_ms, self.path)


class PendingDeletion:
    """Deletion of some partitions' directories. Made by `LogManager.begin_delete`."""

    def __init__(
        self, logs: Sequence[Log], data_dirs: Iterable[DataDir], unique_id: str, files: Files, staying: LogTable
    ) -> None:
        """
        Args:
            data_dirs: All data directories of the broker.
            unique_id: Part of the new names of the directories.
            staying: All open logs of the broker; `logs` are not among them.
        """
        self.logs = logs
        self.put_aside: list[tuple[Log, str]] = []
        """Logs whose directories have been renamed, with the new paths."""
        self._data_dirs = {each.path: each for each in data_dirs}
        self._unique_id = unique_id
        self._files = files
        self._staying = staying

    def release_logs(self) -> list[Log]:
        """Release the logs to the caller, as the last step. The files of a log close when the caller drops it."""
        logs, self.logs = list(self.logs), ()
        self.put_aside.clear()
        return logs

    def rename_dirs(self) -> None:
        """Rename the directories, and remove the partitions from the checkpoints; on disk on return.

        Raises:
            OSError: The first error of the disk; everything else is done.
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
    """Collect an OSError of one of several steps that must all be tried."""
    try:
        yield
    except OSError as error:
        refused.append(error)
