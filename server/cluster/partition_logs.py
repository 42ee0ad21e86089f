"""The logs of partitions that are created and deleted with their topics."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.data_dirs.making import Fill, NewLogs
from ...storage.data_dirs.manager import LogManager
from ...storage.disk.paths import PARTITION_MAX, TopicPartition
from ...storage.logs.log import Log
from ...storage.topics.catalog_file import PartitionEntry
from ...storage.topics.config import LogConfig
from ..cleaning.cleaning import Cleaning
from ..cleaning.log_moves import LogMoves
from ..partitions.flusher import Flusher
from ..partitions.internal_topics import INTERNAL_TOPICS
from ..partitions.topics import Partition, Topic
from ..runtime.clock import Clock
from ..runtime.threads import Work, in_thread, side_by_side
from ..runtime.time_slices import TimeSlice
from .leadership import first_leadership

log = logging.getLogger("ottla.topics")


class NewPartitions(NamedTuple):
    """Partitions that are added to a topic, from number `first` on."""

    topic: Topic
    entries: Sequence[PartitionEntry]
    first: int
    config: LogConfig

    @property
    def logs(self) -> NewLogs:
        names = [TopicPartition(self.topic.name, self.first + at) for at in range(len(self.entries))]
        return NewLogs(names, self.topic.id, self.config)


class PartitionLogs:
    """Creation and deletion of one broker's logs.

    Args:
        home: Directory of the catalog, whose threads run changes of topics.
    """

    def __init__(
        self, logs: LogManager, moves: LogMoves, cleaning: Cleaning, flusher: Flusher, clock: Clock, home: str
    ) -> None:
        self._logs = logs
        self._moves = moves
        self._cleaning = cleaning
        self._flusher = flusher
        self._clock = clock
        self._home = home

    def promise(self, wanted: Sequence[NewPartitions], live: Collection[int]) -> list[list[Partition]]:
        """Return the partitions of each of `wanted`, with empty logs: see `LogManager.promise`. It blocks, and must run in a
        worker thread."""
        logs = promised(self._logs, [each.logs for each in wanted], self._clock.now_ms(), self._clock.elapsed_ms())
        left = iter(logs)
        return [_partitions(each, [*islice(left, len(each.entries))], live) for each in wanted]

    def fill(self, new: NewPartitions, live: Collection[int], fill: Fill) -> list[Partition]:
        """Return the partitions of `new`, with logs whose contents `fill` writes. It blocks, and must run in a worker
        thread."""
        logs = self._logs.create(
            new.logs.partitions,
            topic_id=new.topic.id,
            config=new.config,
            now_ms=self._clock.now_ms(),
            elapsed_ms=self._clock.elapsed_ms(),
            fill=fill,
        )
        return _partitions(new, logs, live)

    def partitions_of(self, first: Mapping[str, int]) -> list[TopicPartition]:
        """Return the partitions with logs of these topics, by name, each from its number on."""
        return [each for each in self._logs.logs if each.partition >= first.get(each.topic, PARTITION_MAX + 1)]

    async def delete(self, partitions: Sequence[TopicPartition], of: Iterable[Topic] = ()) -> None:
        """Rename the directories of partitions once no clean pass uses them.

        The catalog no longer has them, so a refusal of the disk or the system is only logged, and the next start puts the
        directories aside.

        Args:
            of: Topics that are deleted as a whole; their lists of partitions are empty on return.
        """
        await self._moves.give_up(partitions)
        for partition in partitions:
            await self._cleaning.pause(partition)
        while any(partition in self._moves.under_way for partition in partitions):  # requested during the pauses
            await self._moves.give_up(partitions)
        pending_deletion = self._logs.begin_delete(partitions)
        try:
            # A running sync writes files by their names, which other files may get next.
            await self._flusher.wait_for(pending_deletion.logs)
            await in_thread(Work.CATALOG, self._home, pending_deletion.rename_dirs)
        except Exception as error:  # noqa: BLE001 - no thread, for example; the cleaner must still release the names
            log.error("cannot rename the directories of deleted partitions: %s", error)
        finally:
            self._logs.end_delete(pending_deletion, self._clock.elapsed_ms())
        by_dir = defaultdict[str, list[TopicPartition]](list)
        for data_dir, partition in await TimeSlice().map(_place, pending_deletion.logs):
            by_dir[data_dir].append(partition)
        for data_dir, those in by_dir.items():
            await self._cleaning.forget(data_dir, those)
        gone: list[object] = [*pending_deletion.release_logs()]
        for topic in of:
            gone += topic.partitions
            topic.partitions.clear()
        await in_thread(Work.BACKGROUND, self._home, _release, gone)


def _place(log: Log) -> tuple[str, TopicPartition]:
    return data_dir_of(log), log.topic_partition


def promised(logs: LogManager, wanted: Sequence[NewLogs], now_ms: int, elapsed_ms: int) -> list[Log]:
    """Create logs by `LogManager.promise`. Logs of internal topics, to which the broker writes without waiting, are on disk on
    return, or as soon as the disk accepts them."""
    made = logs.promise(wanted, now_ms=now_ms, elapsed_ms=elapsed_ms)
    with suppress(KafkaError):
        side_by_side(Log.make, [log for log in made if log.topic_partition.topic in INTERNAL_TOPICS])
    return made


def _partitions(new: NewPartitions, logs: Sequence[Log], live: Collection[int]) -> list[Partition]:
    partitions = []
    leaderships = {each: first_leadership(each, live) for each in {entry.replicas for entry in new.entries}}
    for index, (entry, made) in enumerate(zip(new.entries, logs, strict=True), new.first):
        partition = Partition(new.topic, index, entry, made)
        partition.leader, partition.isr = leaderships[entry.replicas]
        partitions.append(partition)
    return partitions


def _release(things: list[object]) -> None:
    """Drop the objects one after the other: without its last reference a log closes its files, and thousands of logs take a
    tenth of a second."""
    while things:
        things.pop()
