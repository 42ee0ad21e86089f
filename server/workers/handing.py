"""Partitions change processes when they change leaders; see `storage.data_dirs.handing`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...storage.data_dirs.handing import Given
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ..partitions.topics import NO_LEADER, Partition
from ..runtime.disk import Work, in_thread, side_by_side
from ..runtime.turns import Turn
from ..services.context import Services
from .owners import Owners

AT_ONCE = 256
"""Logs that one worker thread closes or opens before others have their turn."""


class PartitionHanding:
    """In one process. On Trio's thread."""

    def __init__(self, services: Services, owners: Owners) -> None:
        self._services = services
        self._owners = owners
        self._handing = services.logs.handing()
        self._data_dir = services.logs.data_dirs[0]

    async def give(self, wanted: Sequence[TopicPartition], to: int) -> list[Given]:
        """Let go of these partitions for the process of node `to`; from the call on nothing is appended to them."""
        services, cleaning, appends = self._services, self._services.cleaning, self._services.appends
        partitions = [services.topics.partition(*each) for each in wanted]
        for partition in partitions:
            partition.leader = NO_LEADER
            services.waits.changed(partition.topic_partition)
        services.topics.changed()
        for each in wanted:
            await cleaning.pause(each)
        logs = [partition.log for partition in partitions]
        await appends.flusher.flush_each(logs)
        clean = await in_thread(Work.CATALOG, self._data_dir, cleaning.manager.checkpoints_of, logs)
        turn = Turn()
        for partition, log in zip(partitions, logs, strict=True):
            while (place := appends.large.get(log)) is not None:
                await place.wait()
            await appends.flusher.wait_for([log])
            if turn.is_over():
                await turn.next()
            partition.log = self._owners.standing_for(log.topic_partition, log.topic_id, log.config, to)
        self._handing.let_go(logs)
        for each in wanted:
            # Who waits for records looks again, and is told to go elsewhere.
            services.waits.changed(each)
        given: list[Given] = []
        now_ms = services.clock.now_ms()

        def close(log: Log) -> Given:
            return self._handing.give(log, now_ms, clean.get(log.topic_partition))

        for at in range(0, len(logs), AT_ONCE):
            some = logs[at : at + AT_ONCE]
            given += await in_thread(Work.CATALOG, self._data_dir, side_by_side, close, some)
        await cleaning.forget(self._data_dir, wanted)
        return given

    async def take(self, given: Sequence[Given]) -> None:
        """Have these partitions from now on; who leads them is told later.

        Raises:
            OSError, KafkaError: The disk refused, or one cannot be read; it is offline until the next start.
        """
        services = self._services
        elapsed_ms = services.clock.elapsed_ms()
        coming = [(each, services.topics.partition(*each.where)) for each in given]
        coming = [(each, partition) for each, partition in coming if partition.is_elsewhere]

        def opened(one: tuple[Given, Partition]) -> Log:
            each, partition = one
            log, now_ms = partition.log, services.clock.now_ms()
            return self._handing.take(each, log.config, log.topic_id, now_ms, elapsed_ms)

        await in_thread(Work.CATALOG, self._data_dir, self._handing.expect, given)
        for at in range(0, len(coming), AT_ONCE):
            some = coming[at : at + AT_ONCE]
            logs = await in_thread(Work.CATALOG, self._data_dir, side_by_side, opened, some)
            self._handing.enter(logs)
            for (_, partition), log in zip(some, logs, strict=True):
                partition.log = log
                log.config = services.config.topic(log.topic_partition.topic)
        cleaned = [(partition.log, each.clean_up_to) for each, partition in coming if each.clean_up_to is not None]
        if cleaned:
            await in_thread(Work.CATALOG, self._data_dir, self._note_cleaned, cleaned)

    def _note_cleaned(self, cleaned: Sequence[tuple[Log, int]]) -> None:
        for log, clean_up_to in cleaned:
            self._services.cleaning.manager.cleaned_elsewhere(log, clean_up_to)

    def forget(self, given: Iterable[TopicPartition]) -> None:
        """The other process has them for good."""
        self._handing.forget(given)
