"""Manager of all logs of the broker, in one data directory or several.

Owned by the broker. It opens the existing logs, creates and deletes partitions, writes the checkpoints, and closes all so that
the next start needs no recovery. The CleanerManager, which uses the same `logs`, decides what is cleaned when.

    manager = LogManager(files, ["/data"], ...)     locks, reads identities; nothing is written yet
    manager.load(now_ms, elapsed_ms, ...)           loads every <topic>-<partition>
    manager.claim(home, cluster_id, write_catalog)         writes the identities of the directories
    manager.create(...)  .promise(...)  .begin_delete(...)  .logs[...]
    manager.close(now_ms)                           flushes, checkpoints, marks as cleanly stopped, unlocks

Everything runs on the thread that owns the logs, except some calls that wait for the disk. `load` and `close` may run in a
worker thread while no other thread uses the manager. `create`, `promise`, the checkpoints and the work of a `PendingDeletion` may run
in a worker thread at any time.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from ...protocol.errors import ErrorCode, KafkaError
from ..disk import paths
from ..disk.files import Files, OfEach
from ..disk.health import DataDirectoryError, Health
from ..disk.paths import TopicPartition
from ..logs.log import Log
from ..logs.log_parts import LogPlace
from ..logs.recovery import offline_log
from ..produce.producers import PRODUCER_ID_EXPIRATION_MS_DEFAULT
from ..topics.config import LogConfig
from .claims import claim
from .data_dir import DataDir
from .inspection import check_owners, unique
from .loading import ConfigFor, Loading
from .log_table import LogTable, close_dir
from .making import Fill, Making, NewLogs
from .opener import LogOpener
from .pending_deletions import DueRemoval, PendingDeletion, collected
from .relocation import Relocation


class LogManager:
    """Manages all logs of the broker."""

    def __init__(
        self,
        files: Files,
        data_dirs: Sequence[str],
        *,
        failed: Mapping[str, str] = MappingProxyType({}),
        node_id: int = 0,
        producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS_DEFAULT,
        rng: random.Random | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Lock the data directories and read their identities. Writes nothing but directories and lock files.

        Args:
            data_dirs: Paths of the data directories; missing ones are made. A slash at the end does not count.
            failed: Directories that cannot be used, with the reasons: they are offline, and so are the logs of `add_offline`.
            node_id: This broker's node ID (the first of several in one process).
            producer_expiration_ms: `producer.id.expiration.ms`.
            note: Called with one line for each thing that was found broken and what was done about it.

        Raises:
            DataDirectoryError: A directory cannot be used, belongs to another node, or two belong to different
                clusters. None is locked then.
        """
        self.logs = LogTable()
        """The open logs. Live: it changes with `load`, `create` and `begin_delete`."""
        self.was_clean = False
        """Whether all directories were stopped cleanly before the last `load`."""
        self.interrupted_moves: dict[TopicPartition, str] = {}
        """Partitions whose move to another data directory was interrupted by the last stop, and the target; set by `load`."""
        self.cordoned: frozenset[str] = frozenset()
        """Data directories that get no new partitions (KIP-1066)."""
        self._files = files
        self._node_id = node_id
        self._rng = rng or random.Random()
        self._note = note
        self._opener = LogOpener(files, self._rng, note, producer_expiration_ms)
        self._unmade: dict[Log, None] = {}
        self._left: set[str] = set()
        """Directories that could not be removed; see `Making`."""
        self._is_loaded = False
        self._pending_dir_deletions: list[tuple[int, str]] = []
        self._dirs: list[DataDir] = []
        try:
            for path in unique(data_dirs):
                self._dirs.append(DataDir(files, path, failed.get(path)))
            check_owners([(each.path, each.identity) for each in self._dirs], node_id)
        except BaseException:
            self.release()
            raise

    @property
    def data_dirs(self) -> list[str]:
        """The paths of the data directories."""
        return [each.path for each in self._dirs]

    @property
    def failures(self) -> dict[str, str]:
        """Data directories that are offline until the next start, with the reasons."""
        return {each.path: each.health.failure for each in self._dirs if each.health.failure is not None}

    def watch(self, on_failure: Callable[[], None]) -> None:
        """Call `on_failure` when a data directory fails: in the thread that got the error, perhaps more than once."""
        for each in self._dirs:
            each.health.on_failure = on_failure

    def is_offline(self, data_dir: str) -> bool:
        """Whether a disk error has taken this directory, and all its logs, offline until the next start."""
        return self._dir(data_dir).health.failure is not None

    def data_dir_of(self, topic_partition: TopicPartition) -> str:
        """Return the data directory of an open log. KeyError if the log is not open."""
        return paths.parent(self.logs[topic_partition].directory)

    def _dir(self, path: str) -> DataDir:
        return next(each for each in self._dirs if each.path == path)

    # Start

    def load(
        self,
        now_ms: int,
        elapsed_ms: int,
        *,
        config_for: ConfigFor,
        topic_id_of: Callable[[str], bytes] | None = None,
    ) -> None:
        """Open every log of the data directories, recovering those that were not closed.

        Args:
            config_for: Returns the configuration of a partition; None if its directory must be left alone.
            topic_id_of: Returns the ID of a topic, if all its directories are known to have it. Without it each one is read.

        Raises:
            DataDirectoryError: A partition is in two directories, or cannot be read.
        """
        loading = Loading(self._opener, self.logs, config_for, now_ms, elapsed_ms, topic_id_of)
        for each in self._working_dirs():
            try:
                loading.load(each)
            except (OSError, KafkaError) as error:
                refused = DataDirectoryError.from_error(each.path, error)
                if each.health.failure is not None:
                    refused.failed_path = each.path
                raise refused from error
        self.was_clean, self.interrupted_moves = loading.was_clean, loading.interrupted_moves()
        for directory in loading.removable:
            self.delete_later(directory, elapsed_ms)
        self._is_loaded = True

    def claim(self, home: str, cluster_id: str, write_catalog: Callable[[Mapping[str, str]], None]) -> None:
        """Write into each working data directory its identity and which directory has the catalog. See `claims.claim`."""
        claim(self._working_dirs(), self._dir(home), cluster_id, write_catalog, node_id=self._node_id, rng=self._rng)

    def take_offline(self, reason: str) -> None:
        """Take all logs offline until the next start. In any thread."""
        for each in self._working_dirs():
            each.health.fail(reason)

    # Partitions that come and go

    def create(
        self,
        topic_partitions: Sequence[TopicPartition],
        *,
        topic_id: bytes,
        config: LogConfig,
        now_ms: int,
        elapsed_ms: int,
        fill: Fill | None = None,
    ) -> list[Log]:
        """Create logs, each in the data directory with the fewest logs that works and is not cordoned. On disk on return.

        The logs are empty, or have what `fill` writes. They become visible when all are complete. A folder that has the name of
        one, in any data directory, is put aside first.

        Raises:
            FileExistsError: One of the partitions has a log.
            OSError: The disk refused. Nothing is left, except what could not be removed; the next call removes that.
            KafkaError: KAFKA_STORAGE_ERROR: no data directory works, or takes new partitions.
            Whatever `fill` raises; nothing is left then either.
        """
        return self._new(now_ms, elapsed_ms).make(NewLogs(topic_partitions, topic_id, config), fill)

    def promise(self, wanted: Sequence[NewLogs], *, now_ms: int, elapsed_ms: int) -> list[Log]:
        """Open new empty logs, placed as by `create`. Each is on disk after its first append, or `Log.make`. In any thread.

        Raises:
            FileExistsError, OSError, KafkaError: As for `create`; also too few descriptors for all promised logs.
        """
        return self._new(now_ms, elapsed_ms).promise(wanted)

    def unmade(self, data_dir: str) -> list[Log]:
        """List the logs that are promised in this directory, and not on disk yet."""
        for log in [log for log in tuple(self._unmade) if log.is_made]:
            self._unmade.pop(log, None)
        unmade = [log for log in tuple(self._unmade) if log.data_dir == data_dir]
        has_failed = bool(unmade) and unmade[0].failure is not None  # all logs of a directory share one health
        return [] if has_failed else unmade

    def _new(self, now_ms: int, elapsed_ms: int) -> Making:
        working, unmade, left = self._working_dirs(), self._unmade, self._left
        return Making(self._opener, working, self.cordoned, self.logs, now_ms, elapsed_ms, unmade, left)

    def add_offline(self, topic_partitions: Sequence[TopicPartition], *, topic_id: bytes, config: LogConfig) -> None:
        """Add offline logs for partitions that must be in a data directory that failed before the start."""
        failed = next(each for each in self._dirs if each.health.failure is not None)
        made = []
        for each in topic_partitions:
            directory = paths.join(failed.path, paths.partition_dir_name(*each))
            made.append(offline_log(LogPlace(self._files, directory, each, topic_id, failed.health), config))
        self.logs.add(made)

    @property
    def has_failed_dirs(self) -> bool:
        """Whether a data directory is offline."""
        return len(self._working_dirs()) < len(self._dirs)

    def begin_delete(self, topic_partitions: Iterable[TopicPartition]) -> PendingDeletion:
        """Begin the deletion of partitions: remove them from `logs`. KeyError: a log was not found.

        Later calls of their logs raise UNKNOWN_TOPIC_OR_PARTITION. The cleaner must have released them. The caller runs
        `rename_dirs` in any thread, while no flush of these logs is under way. Then it calls `end_delete`, even after an error.
        Until then no partition with one of the names may be created.
        """
        logs = [self.logs[each] for each in topic_partitions]
        self.logs.remove(log.topic_partition for log in logs)
        health = Health("it was deleted", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for log in logs:
            log.retire(health)
            self._unmade.pop(log, None)
        return PendingDeletion(logs, self._dirs, self._rng.randbytes(16).hex(), self._files, self.logs)

    def end_delete(self, pending_deletion: PendingDeletion, elapsed_ms: int) -> None:
        """Schedule the removal of what `pending_deletion` has put aside, after `file.delete.delay.ms`."""
        self._pending_dir_deletions += [
            (elapsed_ms + log.config.file_delete_delay_ms, aside) for log, aside in pending_deletion.put_aside
        ]

    def is_in_two_dirs(self, topic_partition: TopicPartition) -> bool:
        """Whether a partition's last move is unfinished, so that only a start can decide which directory counts."""
        log = self.logs.get(topic_partition)
        return log is not None and any(each.guests.get(topic_partition) is log for each in self._dirs)

    def relocation(self, topic_partition: TopicPartition, data_dir: str, now_ms: int) -> Relocation:
        """Make a move of a partition to another data directory; it is not begun yet. KeyError: the log was not found."""
        log = self.logs[topic_partition]
        source, target, unique_id = self._dir(log.data_dir), self._dir(data_dir), self._rng.randbytes(16).hex()
        return Relocation(self._files, log, source, target, self.logs, unique_id, now_ms)

    # Jobs

    def logs_in(self, data_dir: str) -> list[Log]:
        """List the open logs of one data directory."""
        return [log for log in self.logs.values() if log.data_dir == data_dir]

    def due_deletions(self, data_dir: str, elapsed_ms: int) -> Iterator[DueRemoval]:
        """Yield removals of deleted segments and partitions in `data_dir` whose delay has expired; the caller runs them.

        The caller may do anything else between two. A removal that is neither run nor put off is left to the next start, which
        removes everything that is marked as deleted.
        """
        due: list[str] = []
        waiting: list[tuple[int, str]] = []
        for entry in self._pending_dir_deletions:
            due_ms, path = entry
            if due_ms <= elapsed_ms and paths.parent(path) == data_dir:
                due.append(path)
            else:
                waiting.append(entry)
        self._pending_dir_deletions = waiting
        for path in due:
            yield DueRemoval(path, self._files.remove_dir, lambda due_ms, path: self.delete_later(path, due_ms))
        # This runs every second, and nearly no log has deleted files.
        for log in [log for log in self.logs.values() if log.deleted_files.waiting]:
            if log.data_dir == data_dir:
                for path in log.deleted_files.take_due(elapsed_ms):
                    yield DueRemoval(path, self._files.remove, log.deleted_files.put_off)

    def delete_later(self, directory: str, due_ms: int) -> None:
        """Schedule the removal of a directory at `due_ms` of elapsed time."""
        self._pending_dir_deletions.append((due_ms, directory))

    def set_producer_expiration(self, expiration_ms: int) -> None:
        """Change `producer.id.expiration.ms`; takes effect with the next `expire_producers`."""
        self._opener.producer_expiration_ms = expiration_ms
        for log in self.logs.values():
            log.producers.expiration_ms = expiration_ms

    def expire_producers(self, now_ms: int, elapsed_ms: int) -> Iterator[int]:
        """Forget producers that have been idle for too long, in steps; yields the number of each step."""
        for log in self.logs.values():
            log.producers.expire_verifications(elapsed_ms)
            yield 0  # most logs have no producers
            yield from log.producers.expire_in_pieces(now_ms)

    def checkpoint_recovery_points(self, data_dir: str | None = None) -> None:
        """Write the recovery points and the high watermarks of one directory or all. In any thread.

        Raises:
            OSError: The first error of a disk, which may take the directory offline (see `health`). All other files are
                written.
        """
        asked = self._working_dirs(data_dir)
        self._checkpoint(
            *((each, each.checkpoint_recovery_points) for each in asked),
            *((each, each.checkpoint_high_watermarks) for each in asked),
        )

    def checkpoint_log_starts(self, data_dir: str | None = None) -> None:
        """Write the log start offsets of one directory or all. Errors as for `checkpoint_recovery_points`."""
        asked = self._working_dirs(data_dir)
        self._checkpoint(*((each, each.checkpoint_log_starts) for each in asked))

    def save_log_starts(self, data_dir: str) -> None:
        """Write the log start offsets, and raise if that was not done.

        Raises:
            OSError: Also if the directory failed before; the other checkpoint methods skip such a directory.
        """
        for each in self._dirs:
            if each.path == data_dir and each.health.failure is not None:
                raise OSError(errno.EIO, f"{data_dir} cannot be used: {each.health.failure}")
        self.checkpoint_log_starts(data_dir)
        for each in self._dirs:
            if each.guests and each.path != data_dir:
                self.checkpoint_log_starts(each.path)

    def _checkpoint(self, *writes: tuple[DataDir, Callable[[LogTable], None]]) -> None:
        refused: list[OSError] = []
        for data_dir, write in writes:
            with collected(refused):
                try:
                    write(self.logs)
                except OSError as error:
                    data_dir.health.note(error)
                    raise
        if refused:
            raise refused[0]

    def _working_dirs(self, data_dir: str | None = None) -> list[DataDir]:
        return [each for each in self._dirs if each.health.failure is None and data_dir in (None, each.path)]

    # Stop

    def close(self, now_ms: int, of_each: OfEach = map) -> None:
        """Flush and close all logs, write the checkpoints, mark the directories as cleanly stopped, unlock them.

        A directory with a disk error, with a log that cannot be closed, or whose logs were never all loaded, is not marked:
        the next start recovers it.

        Args:
            of_each: Applies the close to the logs of a directory, perhaps in several threads.
        """
        try:
            for data_dir in self._working_dirs() if self._is_loaded else ():
                close_dir(data_dir, self.logs, now_ms, of_each, self._note)
        finally:
            self.release()

    def release(self) -> None:
        """Close the files and release the locks, and nothing more: for a start that failed. The next start recovers."""
        for log in self.logs.values():
            with suppress(OSError):
                log.release_files()
        for data_dir in self._dirs:
            with suppress(OSError):
                data_dir.release()
