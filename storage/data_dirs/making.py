"""Creation of partitions: the choice of a data directory for each. Either all of them are made, or nothing is left.

`promise` is for any number of empty partitions: they are open at once, and on disk after `Log.make` or an append. If the
process dies before, the catalog has them, and the next start promises them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, TypeAlias

from ...protocol.errors import ErrorCode, KafkaError
from ..disk import paths
from ..disk.checkpoints import write_partition_metadata
from ..disk.paths import TopicPartition
from ..logs.log import Log
from ..logs.log_parts import LogPlace, ShutdownState
from ..topics.config import LogConfig
from .data_dir import DataDir
from .log_table import LogTable
from .opener import LogOpener
from .partition_dirs import put_aside

Fill: TypeAlias = Callable[[LogPlace, LogConfig], int]
"""Writes the segments of a new partition into its directory, before its log is opened; returns the log start offset."""


class NewLogs(NamedTuple):
    """New partitions of one topic."""

    partitions: Sequence[TopicPartition]
    topic_id: bytes
    config: LogConfig


@dataclass(frozen=True, slots=True)
class Making:
    """Makes new partitions in the working data directories."""

    opener: LogOpener
    working: Sequence[DataDir]
    cordoned: Collection[str]
    logs: LogTable
    """All logs of the broker; new ones are added on return."""
    now_ms: int
    elapsed_ms: int
    unmade: dict[Log, None]
    """Logs that were promised; some of them may be on disk since."""
    left: set[str]
    """Directories that a failed call could not remove, e.g. without a free descriptor. The next call removes them."""

    def promise(self, wanted: Sequence[NewLogs]) -> list[Log]:
        """Open new logs that are not on disk yet. Errors as for `LogManager.promise`."""
        partitions = [each for new in wanted for each in new.partitions]
        self.opener.files.check_descriptors(sum(not log.is_made for log in tuple(self.unmade)) + len(partitions))
        places = iter(self._places(partitions))
        promised = [
            self.opener.promise(data_dir, each, new.config, self.now_ms, self.elapsed_ms, topic_id=new.topic_id)
            for new in wanted
            for data_dir, each in islice(places, len(new.partitions))
        ]
        self.unmade.update(dict.fromkeys(promised))
        self.logs.add(promised)
        return promised

    def make(self, new: NewLogs, fill: Fill | None) -> list[Log]:
        """Create new logs on disk. Errors as for `LogManager.create`."""
        topic_partitions, logs = new.partitions, self.logs
        places = self._places(topic_partitions)
        made = list[Log]()
        try:
            for place in places:
                made.append(self._make(place, new, fill))
            for data_dir in dict(places):
                self.opener.files.sync_dir(data_dir.path)
        except BaseException:
            self._discard(made, places)
            raise
        logs.add(made)
        if any(log.log_start_offset > log.segments.first.base_offset for log in made):
            try:
                for data_dir in dict(places):
                    data_dir.checkpoint_log_starts(logs)
            except BaseException:
                logs.remove(topic_partitions)
                self._discard(made, places)
                raise
        return made

    def _places(self, topic_partitions: Sequence[TopicPartition]) -> list[tuple[DataDir, TopicPartition]]:
        """Choose the data directory of each partition, and make sure that its name is free."""
        logs = self.logs
        if taken := [each for each in topic_partitions if each in logs]:
            raise FileExistsError(f"partition {taken[0]} already has a log")
        if not self.working:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no data directory is available")
        open_ones = [each for each in self.working if each.path not in self.cordoned]
        if not open_ones:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "all available data directories are cordoned")
        if self.left:
            self.left.difference_update(
                log.directory for log in logs.values()
            )  # A move may have put a log into one of them since.
            for directory in tuple(self.left):
                self._remove(directory)
        counts = Counter[str]()
        if len(open_ones) > 1:
            counts.update(log.data_dir for log in logs.values())
        places = list[tuple[DataDir, TopicPartition]]()
        for each in topic_partitions:
            data_dir = min(open_ones, key=lambda one: counts[one.path])
            counts[data_dir.path] += 1
            self._free_name(each)
            data_dir.forget(each, logs)
            places.append((data_dir, each))
        return places

    def _discard(self, made: Iterable[Log], places: Iterable[tuple[DataDir, TopicPartition]]) -> None:
        """Remove what was made, whichever step failed. All files are closed first: removing a directory needs descriptors."""
        for log in made:
            with suppress(OSError):
                log.release_files()
        for data_dir, topic_partition in places:
            self._remove(_directory(data_dir, topic_partition))

    def _remove(self, directory: str) -> None:
        try:
            self.opener.files.remove_dir(directory)
            self.left.discard(directory)
        except OSError:
            self.left.add(directory)

    def _free_name(self, topic_partition: TopicPartition) -> None:
        files = self.opener.files
        for each in self.working:
            present = paths.join(each.path, paths.partition_dir_name(*topic_partition))
            if present in self.left:
                files.remove_dir(present)
                self.left.discard(present)
            if files.exists(present):
                aside = put_aside(files, topic_partition, present, self.opener.rng)
                self.opener.note(f"{present} blocks a new partition; renamed to {aside}")

    def _make(self, place: tuple[DataDir, TopicPartition], new: NewLogs, fill: Fill | None) -> Log:
        files, (data_dir, topic_partition) = self.opener.files, place
        directory = _directory(data_dir, topic_partition)
        files.make_dir(directory)
        write_partition_metadata(files, directory, new.topic_id)
        stop = ShutdownState(is_clean=True)
        if fill is not None:
            filled = LogPlace(files, directory, topic_partition, new.topic_id, data_dir.health)
            # Read as after a crash, so that indexes and producer states are rebuilt from the batches.
            stop = ShutdownState(log_start_offset=fill(filled, new.config))
        log = self.opener.open(
            data_dir, topic_partition, new.config, self.now_ms, self.elapsed_ms, stop, topic_id=new.topic_id
        )
        if fill is not None:
            log.flush(self.elapsed_ms)
        return log


def _directory(data_dir: DataDir, topic_partition: TopicPartition) -> str:
    return paths.join(data_dir.path, paths.partition_dir_name(*topic_partition))
