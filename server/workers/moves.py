"""Logs on their way from one process to another, as the first one sees to it: whoever dies meanwhile, each comes to a process again.

A log is given (closed) by one process and taken (renamed, opened) by the other. What could not be given or taken is on its way until
it can: nobody leads it for a process that begins, so nobody opens or makes it meanwhile, and it is tried again, after pauses that grow
and whenever a process has begun. Of a process that has died the log is taken as it lies, and recovered.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import trio

from ...storage.data_dirs.handing import Given
from ...storage.disk.paths import TopicPartition
from ..cluster.placement import Placed as Placements
from ..partitions.topics import Partition
from ..runtime.disk import Work, in_thread
from ..runtime.nursery import Tasks
from ..runtime.turns import Turn
from ..services.context import Services
from .handing import PartitionHanding
from .link import Link, LinkLostError
from .owners import Owners

log = logging.getLogger("ottla.workers")

PAUSES_S = (1, 2, 4, 8, 16, 30)
"""Before what is on its way is tried again; the last one for all that follow."""


@dataclass(slots=True)
class OnItsWay:
    """One log."""

    topic_id: bytes
    source: int
    """The node whose process has it, or had it."""
    to: int
    given: Given | None = None
    """None: it has not been given yet."""
    takers: set[int] = field(default_factory=set)
    """Nodes whose processes have died when they were to take it: its directory may be theirs."""


class Moves:
    """Those of one life. One at a time.

    Args:
        link_of: To the process of a node, which may be one that only begins: it answers when it serves. LinkLostError: there is none.
        moved: Has everybody told who leads these partitions.
    """

    def __init__(
        self,
        owners: Owners,
        services: Services,
        handing: PartitionHanding,
        link_of: Callable[[int], Link],
        moved: Callable[[Iterable[Partition]], object],
        tasks: Tasks,
    ) -> None:
        self._owners = owners
        self._services = services
        self._handing = handing
        self._link_of = link_of
        self._moved = moved
        self._tasks = tasks
        self._first = owners.own
        self._ways: dict[TopicPartition, OnItsWay] = {}
        self._one_at_a_time = trio.Lock()
        self._is_trying = False
        self._again = trio.Event()

    @property
    def on_their_way(self) -> Collection[TopicPartition]:
        return self._ways.keys()

    def try_again(self) -> None:
        """A process has begun."""
        self._again.set()

    async def moving(self, placed: Placements) -> None:
        """It is written who is to lead partitions: their logs go to the processes of those nodes, before anybody knows. What does not
        come there now is on its way on return."""
        async with self._one_at_a_time:
            with trio.CancelScope(shield=True):  # nobody knows half of a hand-over
                turn, wanted = Turn(), []
                for partition, placement in placed.items():
                    if turn.is_over():
                        await turn.next()
                    where = partition.topic_partition
                    before = self._owners.owner(where.topic, partition.leader)
                    after = self._owners.owner(where.topic, placement.leadership.leader)
                    if (way := self._ways.get(where)) is not None:
                        way.to = after
                    elif before != after:
                        topic = self._services.topics.get(where.topic)
                        self._ways[where] = OnItsWay(topic.id if topic else b"", before, after)
                        wanted.append(where)
                await self._go(wanted)
        self._see_to_the_rest()

    def _see_to_the_rest(self) -> None:
        if self._ways and not self._is_trying:
            self._is_trying = True
            self._tasks.start_soon(self._try_until_done)

    async def _try_until_done(self) -> None:
        tries = 0
        try:
            while self._ways:
                with trio.move_on_after(PAUSES_S[min(tries, len(PAUSES_S) - 1)]):
                    await self._again.wait()
                self._again = trio.Event()
                tries += 1
                async with self._one_at_a_time:
                    await self._go(list(self._ways))
        finally:
            self._is_trying = False

    async def _go(self, wanted: Iterable[TopicPartition]) -> None:
        together: defaultdict[tuple[int, int], list[TopicPartition]] = defaultdict(list)
        turn = Turn()
        for where in wanted:
            if turn.is_over():
                await turn.next()
            way, topic = self._ways[where], self._services.topics.get(where.topic)
            if topic is None or topic.id != way.topic_id:
                del self._ways[
                    where
                ]  # It was deleted; the next start of a process that finds its directory removes that.
            else:
                together[way.source, way.to].append(where)
        for (source, to), some in together.items():
            await self._give(source, to, [each for each in some if self._ways[each].given is None])
            await self._take(source, to, [each for each in some if self._ways[each].given is not None])

    async def _give(self, source: int, to: int, wanted: Sequence[TopicPartition]) -> None:
        if not wanted:
            return
        given: list[Given] = []
        try:
            if source == self._first:
                given = await self._handing.give(wanted, to)
            else:
                given = await self._link_of(source).call("give", wanted, to)
        except LinkLostError as error:
            log.warning("node %d: %s; what it had is taken as it lies", source, error)
            given = await self._left_by(source, wanted)
        except Exception as error:  # noqa: BLE001 - it is tried again
            log.error("node %d cannot give %d logs to node %d now: %s", source, len(wanted), to, error)
        for each in given:
            self._ways[each.where].given = each

    async def _left_by(self, source: int, wanted: Sequence[TopicPartition]) -> list[Given]:
        try:
            home = self._services.cluster.catalog.data_dir
            return await in_thread(Work.CATALOG, home, self._owners.left_by, source, wanted)
        except OSError as error:
            log.error("what node %d has left cannot be looked at now: %s", source, error)
            return []

    async def _take(self, source: int, to: int, wanted: Sequence[TopicPartition]) -> None:
        if not wanted:
            return
        home, refused = self._services.cluster.catalog.data_dir, dict[TopicPartition, str]()
        try:
            given = await in_thread(Work.CATALOG, home, self._found, wanted)
            if to == self._first:
                refused = await self._handing.take(given)
            else:
                refused = await self._link_of(to).call("take", given)
        except Exception as error:  # noqa: BLE001 - it is tried again
            refused = dict.fromkeys(wanted, str(error))
            for each in wanted if isinstance(error, LinkLostError) else ():
                self._ways[each].takers.add(to)
        if refused:
            where, why = next(iter(refused.items()))
            log.error("node %d cannot take %d logs now, as %s: %s", to, len(refused), where, why)
        come = [each for each in wanted if each not in refused]
        partitions, turn = [], Turn()
        for each in come:
            if turn.is_over():
                await turn.next()
            way, topic = self._ways.pop(each), self._services.topics.get(each.topic)
            if topic is None or topic.id != way.topic_id:
                continue  # deleted meanwhile; who has it is told, too
            partition = topic.partitions[each.partition]
            if to != self._first and partition.is_elsewhere:
                past = partition.log
                partition.log = self._owners.standing_for(each, past.topic_id, past.config, to)
            partitions.append(partition)
        if source == self._first:
            self._handing.forget(come)
        else:
            with suppress(LinkLostError):  # its next process finds no directory
                self._link_of(source).tell("forget", come)
        if partitions:
            self._moved(partitions)

    def _found(self, wanted: Sequence[TopicPartition]) -> list[Given]:
        """What was given, with the directory in which it lies, and whether what is said of it still holds."""
        found = []
        for each in wanted:
            way = self._ways[each]
            assert way.given is not None
            if way.takers:
                way.given = self._owners.where_it_lies(way.given, way.takers)
            found.append(way.given)
        return found
