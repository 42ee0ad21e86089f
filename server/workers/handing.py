"""Partitions change processes when they change leaders; see `storage.data_dirs.handing`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.errors import KafkaError
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
        """Let go of these partitions for the process of node `to`; from the call on nothing is appended to them.

        Raises:
            OSError, KafkaError: The disk refused; they are served on.
        """
        services, cleaning = self._services, self._services.cleaning
        partitions = [services.topics.partition(*each) for each in wanted]
        # It began when they were on their way already: they lie as the process before it has left them.
        left = [partition.topic_partition for partition in partitions if partition.is_elsewhere]
        partitions = [partition for partition in partitions if not partition.is_elsewhere]
        leaders = [partition.leader for partition in partitions]
        paused: list[TopicPartition] = []
        try:
            for partition in partitions:
                partition.leader = NO_LEADER
                services.waits.changed(partition.topic_partition)
            services.topics.changed()
            for partition in partitions:
                await cleaning.pause(partition.topic_partition)
                paused.append(partition.topic_partition)
            logs = [partition.log for partition in partitions]
            await services.appends.flusher.flush_each(logs)
            clean = await in_thread(Work.CATALOG, self._data_dir, cleaning.manager.checkpoints_of, logs)
            given = await in_thread(Work.CATALOG, self._data_dir, self._owners.left_by, self._owners.own, left)
            await self._rest(partitions)
        except BaseException:
            for each in paused:
                cleaning.resume(each)
            for partition, leader in zip(partitions, leaders, strict=True):
                partition.leader = leader
            services.topics.changed()
            raise
        return given + await self._closed(partitions, clean, to)

    async def _rest(self, partitions: Sequence[Partition]) -> None:
        """Return when nobody works on their logs, which take nothing more: nobody leads them."""
        appends, turn = self._services.appends, Turn()
        for log in (partition.log for partition in partitions):
            while (place := appends.large.get(log)) is not None:
                await place.wait()
            await appends.flusher.wait_for([log])
            if turn.is_over():
                await turn.next()

    async def _closed(
        self, partitions: Sequence[Partition], clean: Mapping[TopicPartition, int], to: int
    ) -> list[Given]:
        services = self._services
        logs = [partition.log for partition in partitions]
        wanted = [log.topic_partition for log in logs]
        for partition, log in zip(partitions, logs, strict=True):
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
        await services.cleaning.forget(self._data_dir, wanted)
        return given

    async def take(self, given: Sequence[Given]) -> dict[TopicPartition, str]:
        """Have these partitions from now on; who leads them is told later.

        Returns:
            Those that could not be taken, and why; the others are served.

        Raises:
            OSError: The disk refused; none was taken.
        """
        services = self._services
        elapsed_ms = services.clock.elapsed_ms()
        refused: dict[TopicPartition, str] = {}
        coming: list[tuple[Given, Partition]] = []
        for each in given:
            try:
                partition = services.topics.partition(*each.where)
            except KafkaError as error:
                refused[each.where] = str(error)
                continue
            if partition.is_elsewhere:
                coming.append((each, partition))

        def opened(one: tuple[Given, Partition]) -> Log | Exception:
            each, partition = one
            log, now_ms = partition.log, services.clock.now_ms()
            try:
                return self._handing.take(each, log.config, log.topic_id, now_ms, elapsed_ms)
            except (OSError, KafkaError) as error:
                return error

        await in_thread(Work.CATALOG, self._data_dir, self._handing.expect, [each for each, _ in coming])
        cleaned: list[tuple[Log, int]] = []
        for at in range(0, len(coming), AT_ONCE):
            some = coming[at : at + AT_ONCE]
            outcomes = await in_thread(Work.CATALOG, self._data_dir, side_by_side, opened, some)
            self._handing.enter(log for log in outcomes if isinstance(log, Log))
            for (each, partition), log in zip(some, outcomes, strict=True):
                if isinstance(log, Exception):
                    refused[each.where] = str(log)
                    continue
                partition.log = log
                log.config = services.config.topic(log.topic_partition.topic)
                if each.clean_up_to is not None:
                    cleaned.append((log, each.clean_up_to))
        if cleaned:
            await in_thread(Work.CATALOG, self._data_dir, self._note_cleaned, cleaned)
        return refused

    def _note_cleaned(self, cleaned: Sequence[tuple[Log, int]]) -> None:
        for log, clean_up_to in cleaned:
            self._services.cleaning.manager.cleaned_elsewhere(log, clean_up_to)

    def forget(self, given: Iterable[TopicPartition]) -> None:
        """The other process has them for good."""
        self._handing.forget(given)
