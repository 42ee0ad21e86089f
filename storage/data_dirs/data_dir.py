"""One entry of `log.dirs`: its lock, its identity, its checkpoints and the mark of a clean stop.

The LogManager has one for each. `paths` has the file names, `checkpoints` the formats; this module uses them at a start and
a stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager, suppress

from ..disk import paths
from ..disk.checkpoints import (
    CorruptCheckpointError,
    MetaProperties,
    OffsetCheckpoint,
    read_meta_properties,
    write_meta_properties,
)
from ..disk.files import DirectoryLockedError, Files, Lock
from ..disk.health import DataDirectoryError, Health
from ..disk.paths import TopicPartition
from ..logs.log import Log
from . import clean_stop
from .clean_stop import CleanStop

OWNERS_ALONE = 0o700
"""Permission bits of a new data directory, and of a new snapshot. An existing one keeps its own."""


class DataDir:
    """A data directory, locked from construction to `release`."""

    def __init__(self, files: Files, path: str, failure: str | None = None) -> None:
        """Take the lock and read the identity. Makes the directory and the lock file, nothing else.

        Args:
            failure: Why the directory cannot be used, if so: it is offline then, and nothing else is done.

        Raises:
            DataDirectoryError: Another broker has the lock, the directory cannot be used, an exchange is unfinished, or
                `meta.properties` is invalid.
        """
        self.path = path
        self.health = Health()
        """Health of the directory, shared by its logs."""
        self.guests: dict[TopicPartition, Log] = {}
        """Partitions moving to or from here: this directory's checkpoint also has their log start offsets (`relocation`)."""
        self.not_served: dict[TopicPartition, int] = {}
        """Log start offsets of partitions here that this run does not serve; kept in the checkpoint for the next start."""
        self._files = files
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._may_name: dict[str, AbstractSet[TopicPartition]] = {}
        """Partitions that each checkpoint file may name: as read at the start or last written, or in a write that failed."""
        self._writing = threading.Lock()
        self._lock: Lock | None = None
        self.identity: MetaProperties | None = None
        if failure is not None:
            self.health.failure = failure
            return
        try:
            _make_dir_durably(files, path)
            files.check_data_dir(path)
            self._lock = files.lock(paths.join(path, paths.LOCK_FILE))
        except (OSError, DirectoryLockedError) as error:
            raise DataDirectoryError.from_error(path, error) from error
        try:
            if any(files.exists(paths.join(path, name)) for name in (paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN)):
                raise DataDirectoryError(
                    f"data directory {path}: a reset or restore was interrupted; start the broker once with all of its"
                    " data directories to complete it"
                )
            self.identity = read_meta_properties(files, path)
        except OSError as error:
            self._lock.release()
            raise DataDirectoryError.from_error(path, error) from error
        except DataDirectoryError:
            self._lock.release()
            raise

    def claim(self, identity: MetaProperties) -> None:
        """Write the identity, unless the directory has it already."""
        if self.identity != identity:
            write_meta_properties(self._files, self.path, identity)
            self.identity = identity

    def take_clean_stop(self) -> CleanStop:
        """Take the mark of a clean stop: whether the last stop was clean. Without `mark_clean` the next start recovers."""
        return clean_stop.take(self._files, self.path)

    def mark_clean(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Mark the stop as clean, its last write: everything in the directory is complete and on disk.

        Args:
            logs: All logs of the broker; those in this directory are closed.
        """
        mine = [log for log in logs.values() if log.data_dir == self.path and log.is_made and not log.is_left_alone]
        clean_stop.write(self._files, self.path, mine)

    def release(self) -> None:
        """Release the lock, so that another broker can use the directory."""
        if self._lock is not None:
            self._lock.release()

    def read_offsets(self, name: str, note: Callable[[str], None]) -> dict[TopicPartition, int]:
        """Read the checkpoint file `name`. An invalid one counts as empty, as in Apache Kafka: more is scanned then."""
        try:
            found = self._checkpoint(name).read()
        except CorruptCheckpointError as error:
            note(f"{error}; ignoring the checkpoint")
            return {}
        self._may_name[name] = found.keys()
        return found

    def forget(self, topic_partition: TopicPartition, logs: Mapping[TopicPartition, Log]) -> None:
        """Remove the checkpoint entries of an earlier log of this name, before a new one is made.

        Such entries remain when a directory was put aside, or when the disk refused the checkpoint after a deletion. A start
        would treat all records of a new log below an old log start offset as deleted.

        Args:
            logs: All logs of the broker, without this one.

        Raises:
            OSError: The disk refused.
        """
        self.not_served.pop(topic_partition, None)
        for name, write in (
            (paths.RECOVERY_POINT_CHECKPOINT, self.checkpoint_recovery_points),
            (paths.LOG_START_CHECKPOINT, self.checkpoint_log_starts),
        ):
            if topic_partition in self._may_name.get(name, ()):
                write(logs)

    def checkpoint_recovery_points(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write the offsets below which a start after a crash need not scan.

        Args:
            logs: All open logs of the broker; only those in this directory count.
        """
        self._write(paths.RECOVERY_POINT_CHECKPOINT, logs, lambda log: log.recovery_checkpoint)

    def checkpoint_log_starts(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write the log start offsets that are not the base offset of the first segment. `logs` as above.

        An entry is removed once the deletion of the segments below it is on disk. Otherwise a power loss would bring back
        these segments, with records that DeleteRecords removed. Apache Kafka removes the entry at once.
        """
        self._write(
            paths.LOG_START_CHECKPOINT,
            logs,
            lambda log: start if (start := log.log_start_offset) > log.segments.first.base_offset else None,
            before_drop=self._sync_names_of,
        )

    def _sync_names_of(self, log: Log) -> None:
        with suppress(FileNotFoundError):  # the owner is deleting the partition: its entry may be removed anyway
            self._files.sync_dir(log.directory)

    def checkpoint_high_watermarks(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write the high watermarks, which only Apache Kafka reads if it opens the directory. `logs` as above."""
        self._write(paths.REPLICATION_CHECKPOINT, logs, lambda log: log.high_watermark)

    def _write(
        self,
        name: str,
        logs: Mapping[TopicPartition, Log],
        offset_of: Callable[[Log], int | None],
        *,
        before_drop: Callable[[Log], None] = lambda _: None,
    ) -> None:
        # A worker thread may write a checkpoint while the owner deletes a partition and writes the same file. The later of
        # them must see the deletion, or a new partition of the name would get the old one's offset.
        with self._writing:
            offsets = {
                log.topic_partition: offset
                for log in logs.values()
                if log.data_dir == self.path and not log.is_left_alone and (offset := offset_of(log)) is not None
            }
            if name == paths.LOG_START_CHECKPOINT:
                offsets = self.not_served | offsets
                for topic_partition, guest in tuple(self.guests.items()):
                    # A partition may have been deleted during its move, and another log may have its name.
                    if logs.get(topic_partition) is guest and (offset := offset_of(guest)) is not None:
                        offsets[topic_partition] = offset
            if self._written.get(name) != offsets:
                self._written.pop(name, None)
                for topic_partition in self._may_name.get(name, frozenset()) - offsets.keys():
                    log = logs.get(topic_partition)
                    if log is not None and log.data_dir == self.path:
                        before_drop(log)
                try:
                    self._checkpoint(name).write(offsets)
                except BaseException:
                    self._may_name[name] = self._may_name.get(name, frozenset()) | offsets.keys()
                    raise
                self._may_name[name] = offsets.keys()
                self._written[name] = offsets

    def _checkpoint(self, name: str) -> OffsetCheckpoint:
        return OffsetCheckpoint(self._files, paths.join(self.path, name))


@contextmanager
def holding(files: Files, data_dirs: Iterable[str]) -> Iterator[None]:
    """Hold the locks of these existing directories, while no `DataDir` has them.

    Raises:
        DataDirectoryError: Another broker has one, or the disk refused.
    """
    with ExitStack() as held:
        for path in data_dirs:
            try:
                lock = files.lock(paths.join(path, paths.LOCK_FILE))
            except (OSError, DirectoryLockedError) as error:
                raise DataDirectoryError(f"data directory {path}: {error}") from error
            held.callback(lock.release)
        yield


def _make_dir_durably(files: Files, path: str) -> None:
    """Make a directory and its missing parents, so that their names survive a power loss."""
    if not files.exists(path):
        above = paths.parent(path)
        if above != path:
            _make_dir_durably(files, above)
        files.make_dir(path, mode=OWNERS_ALONE)
        files.sync_dir(above)
