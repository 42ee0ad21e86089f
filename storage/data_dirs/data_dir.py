"""One entry of `log.dirs`: its lock, its identity, its checkpoints and the mark of a clean stop.

The LogManager has one for each. File names stand in `paths`, formats in `checkpoints`; here is what they mean for a
start and a stop.
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
"""Permission bits of a data directory, and of a snapshot of one, that is made here. One that is there keeps its own."""


class DataDir:
    """A data directory, locked from construction to `release`."""

    def __init__(self, files: Files, path: str, failure: str | None = None) -> None:
        """Takes the lock and reads whose directory it is. Makes the directory and the lock file, nothing else.

        Args:
            failure: Why it cannot be used, if that is so: then nothing is done, and it is offline.

        Raises:
            DataDirectoryError: Held by another broker, not to be had, in the midst of an exchange, or its `meta.properties` is
                broken.
        """
        self.path = path
        self.health = Health()
        """Shared by the logs in it."""
        self.guests: dict[TopicPartition, Log] = {}
        """Partitions on their way here or from here: this directory, too, has to tell where they start (`relocation`)."""
        self.not_served: dict[TopicPartition, int] = {}
        """Log start offsets of partitions here that are not served until the next start, which is to know them."""
        self._files = files
        self._written: dict[str, dict[TopicPartition, int]] = {}
        self._may_name: dict[str, AbstractSet[TopicPartition]] = {}
        """Whom each checkpoint file may name: as read at the start or written last, and by writes that failed since."""
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
            raise DataDirectoryError.of(path, error) from error
        try:
            if any(files.exists(paths.join(path, name)) for name in (paths.NEXT_CONTENT, paths.NEXT_CONTENT_IN)):
                raise DataDirectoryError(
                    f"data directory {path}: a reset or restore was interrupted; start the broker once with all of its"
                    " data directories to complete it"
                )
            self.identity = read_meta_properties(files, path)
        except OSError as error:
            self._lock.release()
            raise DataDirectoryError.of(path, error) from error
        except DataDirectoryError:
            self._lock.release()
            raise

    def claim(self, identity: MetaProperties) -> None:
        """Write whose directory this is, unless it says so."""
        if self.identity != identity:
            write_meta_properties(self._files, self.path, identity)
            self.identity = identity

    def take_clean_stop(self) -> CleanStop:
        """Whether the last stop was clean; from now on, until `mark_clean`, the next start has to recover."""
        return clean_stop.take(self._files, self.path)

    def mark_clean(self, logs: Mapping[TopicPartition, Log]) -> None:
        """The last write of a stop: everything in here is whole and on disk.

        Args:
            logs: All logs of the broker; those in this directory are closed.
        """
        mine = [log for log in logs.values() if log.data_dir == self.path and log.is_made and not log.is_left_alone]
        clean_stop.write(self._files, self.path, mine)

    def release(self) -> None:
        """Let another broker have the directory."""
        if self._lock is not None:
            self._lock.release()

    def read_offsets(self, name: str, note: Callable[[str], None]) -> dict[TopicPartition, int]:
        """What the checkpoint file `name` says. A broken one says nothing, as in Apache Kafka: more is scanned then."""
        try:
            found = self._checkpoint(name).read()
        except CorruptCheckpointError as error:
            note(f"{error}; ignoring the checkpoint")
            return {}
        self._may_name[name] = found.keys()
        return found

    def forget(self, topic_partition: TopicPartition, logs: Mapping[TopicPartition, Log]) -> None:
        """See to it that no checkpoint vouches for an earlier log of this name, before one is made anew.

        A directory that was put aside, or a deletion whose checkpoint the disk refused, leaves such entries. Below an old log
        start a new log would be taken for deleted, whole.

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
        """Write below which offsets the next start need not look, were it to come after a crash.

        Args:
            logs: All logs of the broker, as they are at any time; those in this directory count.
        """
        self._write(paths.RECOVERY_POINT_CHECKPOINT, logs, lambda log: log.recovery_checkpoint)

    def checkpoint_log_starts(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write the log start offsets that no segment's name tells. `logs` as above.

        An entry goes once it is on disk that the segments below are gone: a power loss would bring them back, and what
        DeleteRecords has taken with them. Apache Kafka drops it at once.
        """
        self._write(
            paths.LOG_START_CHECKPOINT,
            logs,
            lambda log: start if (start := log.log_start_offset) > log.segments.first.base_offset else None,
            before_drop=self._sync_names_of,
        )

    def _sync_names_of(self, log: Log) -> None:
        with suppress(FileNotFoundError):  # the owner is deleting the partition, whose entry may go in any case
            self._files.sync_dir(log.directory)

    def checkpoint_high_watermarks(self, logs: Mapping[TopicPartition, Log]) -> None:
        """Write how far consumers may read; only Apache Kafka asks, should it open the directory. `logs` as above."""
        self._write(paths.REPLICATION_CHECKPOINT, logs, lambda log: log.high_watermark)

    def _write(
        self,
        name: str,
        logs: Mapping[TopicPartition, Log],
        offset_of: Callable[[Log], int | None],
        *,
        before_drop: Callable[[Log], None] = lambda _: None,
    ) -> None:
        # A worker thread may write a checkpoint while the owner deletes a partition and writes it, too. Whoever comes
        # second must know of the deletion: a new partition of the name would inherit the old one's offset.
        with self._writing:
            offsets = {
                log.topic_partition: offset
                for log in logs.values()
                if log.data_dir == self.path and not log.is_left_alone and (offset := offset_of(log)) is not None
            }
            if name == paths.LOG_START_CHECKPOINT:
                offsets = self.not_served | offsets
                for topic_partition, guest in tuple(self.guests.items()):
                    # One whose move has not come to its end may be deleted, and its name be another log's.
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
    """Hold the locks of these directories, which are there, while no `DataDir` does.

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
    """Make a directory and its missing parents; a power loss does not take them, and all that is in them, away."""
    if not files.exists(path):
        above = paths.parent(path)
        if above != path:
            _make_dir_durably(files, above)
        files.make_dir(path, mode=OWNERS_ALONE)
        files.sync_dir(above)
