"""The logs of partitions that come and go with their topics."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.data_dirs.making import Fill
from ...storage.data_dirs.manager import LogManager
from ...storage.disk.paths import TopicPartition
from ...storage.topics.catalog_file import PartitionEntry
from ...storage.topics.config import LogConfig
from ..cleaning.cleaning import Cleaning
from ..cleaning.log_moves import LogMoves
from ..partitions.flusher import Flusher
from ..partitions.topics import Partition, Topic
from ..runtime.clock import Clock
from ..runtime.disk import Work, in_thread, side_by_side
from .leadership import first_leadership

log = logging.getLogger("ottla.topics")


class PartitionLogs:
    """Those of one broker.

    Args:
        home: The directory of the catalog, whose threads carry changes of topics out.
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

    def create(
        self,
        topic: Topic,
        entries: Sequence[PartitionEntry],
        first: int,
        config: LogConfig,
        live: Collection[int],
        fill: Fill | None = None,
    ) -> list[Partition]:
        """Make directories and logs for partitions `first`, `first + 1`, … Blocks; for a worker thread.

        Args:
            fill: Writes what is in them; without it they are empty.
        """
        logs = self._logs.create(
            [TopicPartition(topic.name, index) for index in range(first, first + len(entries))],
            topic_id=topic.id,
            config=config,
            now_ms=self._clock.now_ms(),
            elapsed_ms=self._clock.elapsed_ms(),
            fill=fill,
            of_each=side_by_side,
        )
        partitions = []
        for index, (entry, made) in enumerate(zip(entries, logs, strict=True), first):
            partition = Partition(topic, index, entry, made)
            partition.leader, partition.isr = first_leadership(entry.replicas, live)
            partitions.append(partition)
        return partitions

    def of(self, topic: str, first: int) -> list[TopicPartition]:
        """The partitions of this name, from `first` on, that have logs."""
        return [each for each in self._logs.logs if each.topic == topic and each.partition >= first]

    async def delete(self, partitions: Sequence[TopicPartition], of: Topic | None = None) -> None:
        """Rename the directories once no clean pass works in them.

        No catalog knows them any more, so what the disk or the system refuses is told to the operator only, and the next
        start puts it aside.

        Args:
            of: The topic, if it goes as a whole; it has no partitions any more on return.
        """
        await self._moves.give_up(partitions)
        for partition in partitions:
            await self._cleaning.pause(partition)
        while any(partition in self._moves.under_way for partition in partitions):  # asked for meanwhile
            await self._moves.give_up(partitions)
        departure = self._logs.begin_delete(partitions)
        try:
            # A sync that is under way writes files by their names, which others may be given next.
            await self._flusher.wait_for(departure.logs)
            await in_thread(Work.CATALOG, self._home, departure.carry_out)
        except Exception as error:  # noqa: BLE001 - no thread, say; the names are to be free for the cleaner all the same
            log.error("cannot put deleted partitions aside: %s", error)
        finally:
            self._logs.end_delete(departure, self._clock.elapsed_ms())
        for data_dir in {data_dir_of(each) for each in departure.logs}:
            those = [each.topic_partition for each in departure.logs if data_dir_of(each) == data_dir]
            await self._cleaning.forget(data_dir, those)
        gone: list[object] = [*departure.let_go()]
        if of is not None:
            gone += of.partitions
            of.partitions.clear()
        await in_thread(Work.HOUSEKEEPING, self._home, _let_go, gone)


def _let_go(things: list[object]) -> None:
    """Drop one after the other: with its last name a log closes its files, and thousands of them take a tenth of a second."""
    while things:
        things.pop()
