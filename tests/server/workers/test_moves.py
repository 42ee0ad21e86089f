"""Logs that go from one process to another come to one, whoever dies or refuses meanwhile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import trio
from trio.testing import MockClock

from ottla.server.cluster.leadership import Leadership
from ottla.server.cluster.placement import Placement
from ottla.server.partitions.topics import Partition, Topic, Topics
from ottla.server.runtime.nursery import Tasks
from ottla.server.services.context import Services
from ottla.server.workers.handing import PartitionHanding
from ottla.server.workers.link import Link, LinkLostError
from ottla.server.workers.moves import Moves
from ottla.server.workers.owners import Owners
from ottla.storage.data_dirs.handing import Given
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.topics.catalog_file import PartitionEntry
from ottla.storage.topics.config import LogConfig
from support.disk.crash_files import CrashFiles

from .test_owners import OLD_ID, made, owners

CONFIG = LogConfig()
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class FakeProcess:
    """Gives and takes as told: `has` are the logs that it has open."""

    def __init__(self, node_id: int, files: CrashFiles) -> None:
        self.node_id = node_id
        self.files = files
        self.data_dir = "/d" if node_id == 0 else f"/d-node-{node_id}"
        self.has: dict[TopicPartition, Given | None] = {}
        self.is_there = True
        self.refuses: set[TopicPartition] = set()
        self.dies_in: str | None = None

    async def call(self, name: str, *args: Any) -> Any:
        if not self.is_there:
            raise LinkLostError("the process of the node has gone")
        answer = await getattr(self, name)(*args)
        if self.dies_in == name:
            self.die()
            raise LinkLostError("the process of the node has gone")
        return answer

    def tell(self, name: str, *args: object) -> None:
        assert name == "forget"

    def die(self) -> None:
        self.is_there, self.has = False, {}

    async def give(self, wanted: Sequence[TopicPartition], to: int) -> list[Given]:
        await trio.lowlevel.checkpoint()
        if self.refuses & set(wanted):
            raise OSError("the disk refused")
        for each in wanted:
            del self.has[each]
        return [Given(each, self.data_dir, True, 5, 0) for each in wanted]

    async def take(self, given: Sequence[Given]) -> dict[TopicPartition, str]:
        await trio.lowlevel.checkpoint()
        for each in given:
            if each.where not in self.refuses:
                name = f"{each.where.topic}-{each.where.partition}"
                if each.data_dir != self.data_dir:
                    self.files.rename(f"{each.data_dir}/{name}", f"{self.data_dir}/{name}")
                self.has[each.where] = each
        return {each.where: "the disk refused" for each in given if each.where in self.refuses}

    def forget(self, given: Iterable[TopicPartition]) -> None:
        """As `PartitionHanding.forget`."""


class Cluster:
    """Three processes; node 1 leads both partitions of topic t."""

    def __init__(self, tasks: Tasks) -> None:
        self.files = made()
        self.processes = [FakeProcess(node_id, self.files) for node_id in range(3)]
        self.owners: Owners = owners(self.files, own=0)
        self.topics = Topics()
        topic = Topic("t", OLD_ID)
        self.partitions: list[Partition] = []
        for where in T0, T1:
            self.files.make_dir(f"/d-node-1/t-{where.partition}")
            stand_in = self.owners.standing_for(where, OLD_ID, CONFIG, 1)
            self.partitions.append(Partition(topic, where.partition, PartitionEntry((0, 1, 2), 1), stand_in))
            self.processes[1].has[where] = None
        topic.partitions.extend(self.partitions)
        self.topics.add(topic)
        self.told: list[TopicPartition] = []
        catalog = SimpleNamespace(data_dir="/d")
        services = SimpleNamespace(topics=self.topics, cluster=SimpleNamespace(catalog=catalog))
        self.moves = Moves(
            self.owners,
            cast("Services", services),
            cast("PartitionHanding", self.processes[0]),
            lambda node_id: cast("Link", self.processes[node_id]),
            lambda moved: self.told.extend(each.topic_partition for each in moved),
            tasks,
        )

    async def lead(self, node_id: int) -> None:
        """As `write_placements` and `publish_placements` do."""
        placement = Placement((0, 1, 2), Leadership(node_id, (0, 1, 2)), None)
        await self.moves.moving(dict.fromkeys(self.partitions, placement))
        for partition in self.partitions:
            partition.leader = node_id

    def open_at(self, where: TopicPartition) -> list[int]:
        return [each.node_id for each in self.processes if where in each.has]


def moved(use: Callable[[Cluster], Awaitable[None]]) -> None:
    async def run() -> None:
        tasks = Tasks()
        async with trio.open_nursery() as tasks.nursery:
            await use(Cluster(tasks))
            tasks.nursery.cancel_scope.cancel()

    trio.run(run, clock=MockClock(rate=1_000))


async def until_come(cluster: Cluster) -> None:
    with trio.fail_after(600):
        while cluster.moves.on_their_way:
            await trio.sleep(1)


def test_they_go_to_the_process_that_is_to_lead() -> None:
    async def use(cluster: Cluster) -> None:
        for node_id in 2, 0, 1:
            await cluster.lead(node_id)
            assert (cluster.open_at(T0), cluster.open_at(T1)) == ([node_id], [node_id])
            assert not cluster.moves.on_their_way

    moved(use)


def test_one_that_cannot_be_taken_keeps_no_other_and_comes_when_it_can() -> None:
    async def use(cluster: Cluster) -> None:
        cluster.processes[2].refuses = {T0}
        await cluster.lead(2)
        assert (cluster.open_at(T0), cluster.open_at(T1)) == ([], [2])
        assert [*cluster.moves.on_their_way] == [T0]
        cluster.processes[2].refuses = set()
        cluster.told.clear()
        await until_come(cluster)
        assert (cluster.open_at(T0), cluster.told) == ([2], [T0])

    moved(use)


def test_one_that_cannot_be_given_stays_where_it_is_and_comes_when_it_can() -> None:
    async def use(cluster: Cluster) -> None:
        cluster.processes[1].refuses = {T0}
        await cluster.lead(2)
        assert (cluster.open_at(T0), [*cluster.moves.on_their_way]) == ([1], [T0, T1])
        cluster.processes[1].refuses = set()
        await until_come(cluster)
        assert (cluster.open_at(T0), cluster.open_at(T1)) == ([2], [2])

    moved(use)


def test_of_a_process_that_has_died_they_are_taken_as_they_lie_and_recovered() -> None:
    async def use(cluster: Cluster) -> None:
        cluster.processes[1].die()
        await cluster.lead(2)
        assert cluster.processes[2].has == {each: Given(each, "/d-node-1", False, 0, 0) for each in (T0, T1)}

    moved(use)


def test_a_process_that_dies_while_it_gives_loses_nothing() -> None:
    async def use(cluster: Cluster) -> None:
        cluster.processes[1].dies_in = "give"
        await cluster.lead(2)
        assert cluster.processes[2].has == {each: Given(each, "/d-node-1", False, 0, 0) for each in (T0, T1)}

    moved(use)


def test_a_process_that_dies_when_it_has_taken_them_gets_them_when_it_is_there_again() -> None:
    async def use(cluster: Cluster) -> None:
        cluster.processes[2].dies_in = "take"
        await cluster.lead(2)
        assert {*cluster.moves.on_their_way} == {T0, T1}
        cluster.processes[2].dies_in, cluster.processes[2].is_there = None, True
        cluster.moves.try_again()
        await until_come(cluster)
        assert cluster.processes[2].has == {each: Given(each, "/d-node-2", False, 0, 0) for each in (T0, T1)}

    moved(use)


def test_what_is_to_be_led_by_another_meanwhile_goes_there() -> None:
    async def use(cluster: Cluster) -> None:
        cluster.processes[2].dies_in = "take"
        await cluster.lead(2)
        await cluster.lead(0)
        await until_come(cluster)
        assert cluster.processes[0].has == {each: Given(each, "/d-node-2", False, 0, 0) for each in (T0, T1)}
        assert sorted(cluster.files.list("/d")) == ["t-0", "t-1"]

    moved(use)


def test_what_is_deleted_on_its_way_is_looked_for_no_more() -> None:
    async def use(cluster: Cluster) -> None:
        cluster.processes[2].die()
        await cluster.lead(2)
        topic = cluster.topics.get("t")
        assert topic is not None
        cluster.topics.remove(topic)
        await until_come(cluster)
        assert all(not each.has for each in cluster.processes)

    moved(use)
