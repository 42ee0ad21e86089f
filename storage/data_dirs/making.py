"""New partitions: where each goes, and that all of them are made whole, or nothing is left of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from ...protocol.errors import ErrorCode, KafkaError
from ..disk import paths
from ..disk.checkpoints import write_partition_metadata
from ..disk.files import OfEach
from ..disk.paths import TopicPartition
from ..logs.log import Log
from ..logs.log_parts import LastStop, LogPlace
from ..topics.config import LogConfig
from .data_dir import DataDir
from .log_table import LogTable
from .opener import LogOpener
from .partition_dirs import put_aside

Fill: TypeAlias = Callable[[LogPlace, LogConfig], int]
"""Writes the segments of a new partition into its directory, before its log is opened; returns where the log is to start."""


@dataclass(frozen=True, slots=True)
class Making:
    """Some partitions of one topic."""

    opener: LogOpener
    topic_id: bytes
    config: LogConfig
    now_ms: int
    elapsed_ms: int
    fill: Fill | None
    of_each: OfEach
    left: set[str]
    """Directories that a making which failed could not remove: without a descriptor none can be listed. The next one removes them."""

    def make(
        self,
        topic_partitions: Sequence[TopicPartition],
        working: Sequence[DataDir],
        cordoned: Collection[str],
        logs: LogTable,
    ) -> list[Log]:
        """As `LogManager.create`, which has the errors. They are entered in `logs` on return."""
        if taken := [each for each in topic_partitions if each in logs]:
            raise FileExistsError(f"partition {taken[0]} has a log")
        if not working:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no data directory works")
        open_ones = [each for each in working if each.path not in cordoned]
        if not open_ones:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every data directory that works is cordoned")
        if self.left:
            self.left.difference_update(
                log.directory for log in logs.values()
            )  # A move may have brought a log there since.
            for directory in tuple(self.left):
                self._remove(directory)
        counts = Counter(log.data_dir for log in logs.values())
        places = list[tuple[DataDir, TopicPartition]]()
        made = list[Log]()
        try:
            for each in topic_partitions:
                data_dir = min(open_ones, key=lambda one: counts[one.path])
                counts[data_dir.path] += 1
                self._free_name(each, working)
                data_dir.forget(each, logs)
                places.append((data_dir, each))
            # Those who write a partition's records may draw from one source of chance.
            of_each = self.of_each if self.fill is None else map
            list(of_each(lambda place: made.append(self._make(*place)), places))
            for data_dir in dict(places):
                self.opener.files.sync_dir(data_dir.path)
        except BaseException:
            self._discard(made, places)
            raise
        in_order = {log.topic_partition: log for log in made}
        made = [in_order[each] for each in topic_partitions]
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

    def _discard(self, made: Iterable[Log], places: Iterable[tuple[DataDir, TopicPartition]]) -> None:
        """Remove what was made, whichever step failed. All files are closed first: to remove a directory takes descriptors."""
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

    def _free_name(self, topic_partition: TopicPartition, working: Iterable[DataDir]) -> None:
        files = self.opener.files
        for each in working:
            present = paths.join(each.path, paths.partition_dir_name(*topic_partition))
            if present in self.left:
                files.remove_dir(present)
                self.left.discard(present)
            if files.exists(present):
                aside = put_aside(files, topic_partition, present, self.opener.rng)
                self.opener.note(f"{present} is in the way of a new partition; it is kept as {aside}")

    def _make(self, data_dir: DataDir, topic_partition: TopicPartition) -> Log:
        files = self.opener.files
        directory = _directory(data_dir, topic_partition)
        files.make_dir(directory)
        write_partition_metadata(files, directory, self.topic_id)
        stop = LastStop(is_clean=True)
        if self.fill is not None:
            place = LogPlace(files, directory, topic_partition, self.topic_id, data_dir.health)
            # Read as after a crash, so that indexes and producers are those of the batches, whoever wrote them.
            stop = LastStop(log_start_offset=self.fill(place, self.config))
        log = self.opener.open(
            data_dir, topic_partition, self.config, self.now_ms, self.elapsed_ms, stop, topic_id=self.topic_id
        )
        if self.fill is not None:
            log.flush(self.elapsed_ms)
        return log


def _directory(data_dir: DataDir, topic_partition: TopicPartition) -> str:
    return paths.join(data_dir.path, paths.partition_dir_name(*topic_partition))
