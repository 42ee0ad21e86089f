"""All logs of the broker, in one data directory or several.

Owned by the broker. It opens what is there, makes and deletes partitions, keeps the checkpoints, and closes all so that
the next start needs no recovery. Which log is cleaned when is the CleanerManager's business, over the same `logs`.

    manager = LogManager(files, ["/data"], ...)     locks, reads identities; nothing is written yet
    manager.load(now_ms, elapsed_ms, ...)           loads every <topic>-<partition>
    manager.claim(home, cluster_id, write_catalog)         writes whose directories they are
    manager.create(...)  .promise(...)  .begin_delete(...)  .logs[...]
    manager.close(now_ms)                           flushes, checkpoints, marks as cleanly stopped, unlocks

Everything runs on the thread that owns the logs. Of what waits for the disk, `load` and `close` may be called in a worker
thread while nobody else does anything here, `create`, `promise`, the checkpoints, and what a `Departure` does beside anything.
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
from .closing import close_dir
from .data_dir import DataDir
from .departures import Departure, DueRemoval, collected
from .inspection import check_owners, unique
from .loading import ConfigFor, Loading
from .log_table import LogTable
from .making import Fill, Making, NewLogs
from .opener import LogOpener
from .relocation import Relocation


class LogManager:
    """See the module's text."""

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
        """Lock the data directories and look whose they are. Nothing is written but directories and lock files.

        Args:
            data_dirs: Their paths; missing ones are made. A slash at the end does not count.
            failed: Those of them that cannot be used, and why: they are offline, and so is what `add_offline` is told of.
            node_id: This broker's (the first, of several in one process).
            producer_expiration_ms: `producer.id.expiration.ms`.
            note: Is told, one line each, what was found broken and what was done about it.

        Raises:
            DataDirectoryError: One of them cannot be used, belongs to another node, or two belong to different
                clusters. None is locked then.
        """
        self.logs = LogTable()
        """The open logs. Live: it changes with `load`, `create` and `begin_delete`."""
        self.was_clean = False
        """Whether all directories were stopped cleanly before the last `load`."""
        self.interrupted_moves: dict[TopicPartition, str] = {}
        """Partitions that were on their way to another data directory at the last stop, and where; from `load` on."""
        self.cordoned: frozenset[str] = frozenset()
        """Data directories that get no new partitions (KIP-1066)."""
        self._files = files
        self._node_id = node_id
        self._rng = rng or random.Random()
        self._note = note
        self._opener = LogOpener(files, self._rng, note, producer_expiration_ms)
        self._unmade: dict[Log, None] = {}
        self._left: set[str] = set()
        """See `Making`."""
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
        """The data directories that are out of use until the next start, and why."""
        return {each.path: each.health.failure for each in self._dirs if each.health.failure is not None}

    def watch(self, on_failure: Callable[[], None]) -> None:
        """Have `on_failure` called when a data directory fails: in the thread that met it, perhaps more than once."""
        for each in self._dirs:
            each.health.on_failure = on_failure

    def is_offline(self, data_dir: str) -> bool:
        """Whether a disk error has taken this directory, and all logs in it, out of use until the next start."""
        return self._dir(data_dir).health.failure is not None

    def data_dir_of(self, topic_partition: TopicPartition) -> str:
        """The data directory of an open log. KeyError if there is none."""
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
            config_for: Gives the configuration of a partition; None where its directory is to be left alone.
            topic_id_of: Gives the id of a topic, where it is known that all its directories carry it; they are asked without.

        Raises:
            DataDirectoryError: A partition in two of them, or one that cannot be read.
        """
        loading = Loading(self._opener, self.logs, config_for, now_ms, elapsed_ms, topic_id_of)
        for each in self._working_dirs():
            try:
                loading.load(each)
            except (OSError, KafkaError) as error:
                refused = DataDirectoryError.of(each.path, error)
                if each.health.failure is not None:
                    refused.failed_path = each.path
                raise refused from error
        self.was_clean, self.interrupted_moves = loading.was_clean, loading.interrupted_moves()
        for directory in loading.removable:
            self.delete_later(directory, elapsed_ms)
        self._is_loaded = True

    def claim(self, home: str, cluster_id: str, write_catalog: Callable[[Mapping[str, str]], None]) -> None:
        """Write in each data directory that works whose it is, and where the catalog lies. See `claims.claim`."""
        claim(self._working_dirs(), self._dir(home), cluster_id, write_catalog, node_id=self._node_id, rng=self._rng)

    def take_offline(self, reason: str) -> None:
        """No log can be used any more until the next start. For any thread."""
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
        """New logs, each in the working data directory that has the fewest then, and is not cordoned. On disk on return.

        They are empty, or what `fill` writes; nobody finds them before all are whole. A folder that has the name of one is put aside first, in whichever data directory it is.

        Raises:
            FileExistsError: One of the partitions has a log.
            OSError: The disk refused; nothing is left, but for what it does not let be removed, which the next call removes.
            KafkaError: KAFKA_STORAGE_ERROR: no data directory works, or takes new partitions.
            Whatever `fill` raises; nothing is left likewise.
        """
        return self._new(now_ms, elapsed_ms).make(NewLogs(topic_partitions, topic_id, config), fill)

    def promise(self, wanted: Sequence[NewLogs], *, now_ms: int, elapsed_ms: int) -> list[Log]:
        """New empty logs, placed as by `create`. Each is on disk after its first append, or `Log.make`, for any thread.

        Raises:
            FileExistsError, OSError, KafkaError: as `create`; also too few descriptors for all that are promised.
        """
        return self._new(now_ms, elapsed_ms).promise(wanted)

    def unmade(self, data_dir: str) -> list[Log]:
        """Those that are promised in this directory, and not on disk yet."""
        for log in [log for log in tuple(self._unmade) if log.is_made]:
            self._unmade.pop(log, None)
        unmade = [log for log in tuple(self._unmade) if log.data_dir == data_dir]
        has_failed = bool(unmade) and unmade[0].failure is not None  # all of a directory have one health
        return [] if has_failed else unmade

    def _new(self, now_ms: int, elapsed_ms: int) -> Making:
        working, unmade, left = self._working_dirs(), self._unmade, self._left
        return Making(self._opener, working, self.cordoned, self.logs, now_ms, elapsed_ms, unmade, left)

    def add_offline(self, topic_partitions: Sequence[TopicPartition], *, topic_id: bytes, config: LogConfig) -> None:
        """Partitions that can only be in a data directory that has failed before the start: each has a log that is offline."""
        failed = next(each for each in self._dirs if each.health.failure is not None)
        made = []
        for each in topic_partitions:
            directory = paths.join(failed.path, paths.partition_dir_name(*each))
            made.append(offline_log(LogPlace(self._files, directory, each, topic_id, failed.health), config))
        self.logs.add(made)

    @property
    def has_failed_dirs(self) -> bool:
        """Whether there is a data directory that does not work."""
        return len(self._working_dirs()) < len(self._dirs)

    def begin_delete(self, topic_partitions: Iterable[TopicPartition]) -> Departure:
        """Begin to give up these partitions: nobody finds them any more. KeyError: there is no such log.

        Later calls of their logs answer UNKNOWN_TOPIC_OR_PARTITION. The cleaner must have let go of them. The caller runs `carry_out` in any thread, when no flush of these logs is under way, and then, whatever became of
        that, calls `end_delete`; until then nobody may `create` a partition of one of the names.
        """
        logs = [self.logs[each] for each in topic_partitions]
        self.logs.remove(log.topic_partition for log in logs)
        health = Health("it was deleted", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for log in logs:
            log.retire(health)
            self._unmade.pop(log, None)
        return Departure(logs, self._dirs, self._rng.randbytes(16).hex(), self._files, self.logs)

    def end_delete(self, departure: Departure, elapsed_ms: int) -> None:
        """Have what `departure` has put aside removed after `file.delete.delay.ms`."""
        self._pending_dir_deletions += [
            (elapsed_ms + log.config.file_delete_delay_ms, aside) for log, aside in departure.put_aside
        ]

    def is_in_two_dirs(self, topic_partition: TopicPartition) -> bool:
        """Whether the last move of a partition has not come to its end, so that only a start can tell which one counts."""
        log = self.logs.get(topic_partition)
        return log is not None and any(each.guests.get(topic_partition) is log for each in self._dirs)

    def relocation(self, topic_partition: TopicPartition, data_dir: str, now_ms: int) -> Relocation:
        """A move of a partition to another data directory, not begun yet. KeyError: there is no such log."""
        log = self.logs[topic_partition]
        source, target, unique_id = self._dir(log.data_dir), self._dir(data_dir), self._rng.randbytes(16).hex()
        return Relocation(self._files, log, source, target, self.logs, unique_id, now_ms)

    # Jobs

    def logs_in(self, data_dir: str) -> list[Log]:
        """The open logs of one data directory."""
        return [log for log in self.logs.values() if log.data_dir == data_dir]

    def due_deletions(self, data_dir: str, elapsed_ms: int) -> Iterator[DueRemoval]:
        """Removals of deleted segments and partitions in `data_dir` whose delay is over, which are the caller's then.

        One after the other: the caller may do anything else before the next. One that is neither made nor put off is left to
        the next start, which removes whatever is marked as deleted.
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
        # Every second, and nearly no log has any.
        for log in [log for log in self.logs.values() if log.deleted_files.waiting]:
            if log.data_dir == data_dir:
                for path in log.deleted_files.take_due(elapsed_ms):
                    yield DueRemoval(path, self._files.remove, log.deleted_files.put_off)

    def delete_later(self, directory: str, due_ms: int) -> None:
        """Have a directory removed at `due_ms` of elapsed time."""
        self._pending_dir_deletions.append((due_ms, directory))

    def set_producer_expiration(self, expiration_ms: int) -> None:
        """Change `producer.id.expiration.ms`; holds from the next `expire_producers` on."""
        self._opener.producer_expiration_ms = expiration_ms
        for log in self.logs.values():
            log.producers.expiration_ms = expiration_ms

    def expire_producers(self, now_ms: int, elapsed_ms: int) -> Iterator[int]:
        """Forget producers that have been idle for too long: in pieces, each of which says how many."""
        for log in self.logs.values():
            log.producers.expire_verifications(elapsed_ms)
            yield 0  # most logs have no producers
            yield from log.producers.expire_in_pieces(now_ms)

    def checkpoint_recovery_points(self, data_dir: str | None = None) -> None:
        """Write the recovery points, and the high watermarks beside them, of one directory or all. For any thread.

        Raises:
            OSError: A disk refused, the first that did; see `health` for what becomes of its directory. All other files
                are written.
        """
        asked = self._working_dirs(data_dir)
        self._checkpoint(
            *((each, each.checkpoint_recovery_points) for each in asked),
            *((each, each.checkpoint_high_watermarks) for each in asked),
        )

    def checkpoint_log_starts(self, data_dir: str | None = None) -> None:
        """Write the log start offsets, of one directory or all, as `checkpoint_recovery_points` does."""
        asked = self._working_dirs(data_dir)
        self._checkpoint(*((each, each.checkpoint_log_starts) for each in asked))

    def save_log_starts(self, data_dir: str) -> None:
        """`checkpoint_log_starts` for who must know that it was done.

        Raises:
            OSError: also if the directory has failed before; checkpoints pass over such a one.
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
            of_each: Closes the logs of a directory.
        """
        try:
            for data_dir in self._working_dirs() if self._is_loaded else ():
                close_dir(data_dir, self.logs, now_ms, of_each, self._note)
        finally:
            self.release()

    def release(self) -> None:
        """Give files and locks back and nothing more: for a start that failed. The next start recovers."""
        for log in self.logs.values():
            with suppress(OSError):
                log.release_files()
        for data_dir in self._dirs:
            with suppress(OSError):
                data_dir.release()
