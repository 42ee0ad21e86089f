"""Creating, growing and deleting topics: the plan (checked, nothing changed) and its execution.

The order makes every crash harmless: the catalog is written first, then the partitions' directories.
A topic of the catalog whose directory is missing is completed at the next start; a directory without
a topic in the catalog was being deleted.

Nobody sees a change before it is written, and everybody sees it in the turn in which it is known to be: until then a
topic that is being deleted takes markers, records, commits and members as ever. A marker that is left out, or a group
that assigns without the topic, could not be put right if the disk then refused, or the process died.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.disk.paths import CLUSTER_METADATA_TOPIC, TopicPartition
from ...storage.topics.catalog import PartitionEntry, TopicEntry
from ...storage.topics.config import LogConfig
from ..config.changes import check_topic_configs
from ..config.resources import ConfigEntry, describe_topic
from ..partitions.internal_topics import CREATED_ON_DEMAND
from ..partitions.topics import Partition, Topic
from ..runtime.disk import Arguments, Result, Work, in_thread, on_disk
from .leadership import first_leadership
from .placement import Replicas, check_assignments, spread

if TYPE_CHECKING:
    from ..broker.broker import Broker

log = logging.getLogger("ottla.topics")

MAX_NAME_CHARACTERS = 249
# Kafka's controller refuses more in one request (KAFKA-14735); creating directories takes time.
PARTITIONS_MAX = 10_000

_NAME = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """A topic that may be created: `replicas[p]` are the node ids of partition p, the leader first."""

    name: str
    replicas: tuple[Replicas, ...]
    configs: Mapping[str, str]


class TopicAdmin:
    """Changes of the set of topics. One change at a time; every method runs on the Trio thread."""

    def __init__(self, broker: Broker, rng: random.Random) -> None:
        self._broker = broker
        self._rng = rng
        self.lock = trio.Lock()
        """Held by whoever changes the catalog."""

    def check_name(self, name: str) -> None:
        """Raise KafkaError INVALID_TOPIC_EXCEPTION unless `name` is a legal topic name."""
        problem = None
        if not name:
            problem = "the empty string is not allowed"
        elif name in (".", ".."):
            problem = f"'{name}' is not allowed"
        elif len(name) > MAX_NAME_CHARACTERS:
            problem = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_CHARACTERS}"
        elif not _NAME.fullmatch(name):
            problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        if problem:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")

    def plan(
        self,
        name: str,
        *,
        num_partitions: int = -1,
        replication_factor: int = -1,
        assignments: Mapping[int, Replicas] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> TopicPlan:
        """Check everything that can be wrong with a new topic.

        Args:
            num_partitions, replication_factor: −1 takes the broker's default; both must be −1 with
                `assignments` (partition → node ids, the preferred leader first).

        Raises:
            KafkaError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS,
                INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_REQUEST, INVALID_CONFIG.
        """
        if name == CLUSTER_METADATA_TOPIC:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        self.check_name(name)
        self._check_free(name)
        check_topic_configs(self._broker.config, configs or {})
        replicas = (
            self._assigned(assignments, num_partitions, replication_factor)
            if assignments
            else self._spread(num_partitions, replication_factor)
        )
        return TopicPlan(name, replicas, dict(configs or {}))

    def plan_growth(self, topic: Topic, count: int, assignments: Sequence[Replicas] | None) -> tuple[Replicas, ...]:
        """The replicas of the partitions that bring `topic` to `count` partitions.

        Raises:
            KafkaError: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT.
        """
        present = len(topic.partitions)
        if count == present:
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
        if count < present:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {present} partition(s); {count} would not be an increase.",
            )
        new = count - present
        self._check_count(new)
        if assignments is None:
            return spread(self._broker.nodes, new, len(topic.partitions[0].replicas), present)
        if len(assignments) != new:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{new} additional partition(s) were asked for, but {len(assignments)} assignment(s) given.",
            )
        factor = len(topic.partitions[0].replicas)
        check_assignments(self._broker.nodes, dict(enumerate(assignments, present)), factor)
        return tuple(assignments)

    async def create(self, plan: TopicPlan) -> Topic:
        """Make the topic of `plan` exist: in the catalog, on disk, then for every node.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS (another request was faster), or
                KAFKA_STORAGE_ERROR; the topic does not exist then.
        """
        async with self.lock:
            self._check_free(plan.name)
            return await self._create(plan)

    async def _create(self, plan: TopicPlan) -> Topic:
        entry = TopicEntry(
            plan.name,
            self._rng.randbytes(16),
            self._entries(plan.replicas),
            dict(plan.configs),
        )
        topic = Topic(entry.name, entry.topic_id)
        catalog = self._broker.catalog
        with trio.CancelScope(shield=True), self._broker.collector.putting_off():  # half a topic is nobody's wish
            try:
                await self._on_disk(catalog.put_topics, [entry])
                # Not the plan's: the defaults may be others meanwhile.
                config = self._broker.topic_log_config(topic.name)
                topic.partitions = await self._on_disk(self._create_logs, topic, entry.partitions, 0, config)
            except Exception:
                await self._undo(topic, 0, None)
                raise
        self._broker.topics.add(topic)
        self._broker.collector.partitions_made(len(topic.partitions))
        if (groups := self._broker.loaded_groups) is not None:
            groups.topic_created(topic.name)
        return topic

    async def auto_create(self, name: str) -> Topic:
        """The topic `name`, created with the broker's defaults if it is not there."""
        present = self._broker.topics.get(name)
        try:
            return present or await self.create(self.plan(name))
        except KafkaError as error:
            made_meanwhile = self._broker.topics.get(name)
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and made_meanwhile is not None:
                return made_meanwhile
            raise

    async def create_internal(self, name: str) -> Topic:
        """The broker's own topic `name`, with the options meant for it; never more replicas than nodes.

        Raises:
            KafkaError: as `create`.
        """
        broker = self._broker
        if name not in CREATED_ON_DEMAND:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"what {name} is for is not served yet")
        partitions, factor, configs = broker.config.internal_topic(name)
        async with self.lock:
            present = broker.topics.get(name)
            if present is not None:
                return present
            factor = min(factor, len(broker.nodes))
            plan = self.plan(name, num_partitions=partitions, replication_factor=factor, configs=configs)
            return await self._create(plan)

    async def grow(self, topic: Topic, replicas: tuple[Replicas, ...]) -> None:
        """Add one partition per entry of `replicas`.

        Raises:
            KafkaError: INVALID_PARTITIONS (the topic changed since the plan), UNKNOWN_TOPIC_OR_PARTITION,
                KAFKA_STORAGE_ERROR; the topic is as it was then.
        """
        present = len(topic.partitions)
        async with self.lock:
            self._check_alive(topic)
            if len(topic.partitions) != present:
                raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic {topic.name} was changed meanwhile.")
            entries = self._entries(replicas)
            catalog = self._broker.catalog
            before = catalog.topics[topic.name]
            with trio.CancelScope(shield=True), self._broker.collector.putting_off():
                try:
                    await self._on_disk(catalog.add_partitions, topic.name, entries)
                    config = self._broker.topic_log_config(topic.name)
                    added = await self._on_disk(self._create_logs, topic, entries, present, config)
                except Exception:
                    await self._undo(topic, present, before)
                    raise
            topic.partitions.extend(added)
            self._broker.collector.partitions_made(len(added))
        if (groups := self._broker.loaded_groups) is not None:
            groups.topic_grew(topic.name)

    async def delete(self, topic: Topic) -> None:
        """Make `topic` unknown to all; its files follow after `file.delete.delay.ms`.

        Raises:
            KafkaError: TOPIC_DELETION_DISABLED, INVALID_TOPIC_EXCEPTION (internal), UNKNOWN_TOPIC_OR_PARTITION,
                KAFKA_STORAGE_ERROR; the topic is still there then, and was all the time.
        """
        broker = self._broker
        if not broker.config.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        if topic.is_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} belongs to the broker")
        async with self.lock:
            self._check_alive(topic)
            with trio.CancelScope(shield=True), broker.collector.putting_off():  # nor is half a deletion
                await self._on_disk(broker.catalog.remove_topics, [topic.name])
                broker.topics.remove(topic)
                partitions = [partition.topic_partition for partition in topic.partitions]
                for partition in partitions:
                    broker.waits.changed(partition)
                try:
                    if (groups := broker.loaded_groups) is not None:
                        groups.topic_deleted(topic.name, topic.id)
                finally:
                    await self._delete_logs(partitions, topic)

    async def _undo(self, topic: Topic, first: int, before: TopicEntry | None) -> None:
        """The disk refused a change half-way: the catalog says `before` again, and partitions from `first` on go.

        What the disk refuses of that is made good by the next write of the catalog, or the next start.
        """
        with suppress(KafkaError):
            await self._on_disk(self._broker.catalog.take_back, topic.name, before)
        logs = self._broker.logs.logs
        await self._delete_logs([each for each in logs if each.topic == topic.name and each.partition >= first])

    async def _delete_logs(self, partitions: Sequence[TopicPartition], of: Topic | None = None) -> None:
        """Rename the directories once no clean pass works in them.

        No catalog knows them any more, so what the disk or the system refuses is told to the operator only, and the next
        start puts it aside.

        Args:
            of: The topic, if it goes as a whole; it has no partitions any more on return.
        """
        broker = self._broker
        for partition in partitions:
            await broker.cleaning.pause(partition)
        departure = broker.logs.begin_delete(partitions)
        try:
            # A sync that is under way writes files by their names, which others may be given next.
            await broker.flusher.wait_for(departure.logs)
            await in_thread(Work.CATALOG, broker.catalog.data_dir, departure.carry_out)
        except Exception as error:  # noqa: BLE001 - no thread, say; the names are to be free for the cleaner all the same
            log.error("cannot put deleted partitions aside: %s", error)
        finally:
            broker.logs.end_delete(departure, broker.clock.elapsed_ms())
        for data_dir in {data_dir_of(each) for each in departure.logs}:
            those = [each.topic_partition for each in departure.logs if data_dir_of(each) == data_dir]
            await broker.cleaning.forget(data_dir, those)
        gone: list[object] = [*departure.let_go()]
        if of is not None:
            gone += of.partitions
            of.partitions.clear()
        await in_thread(Work.HOUSEKEEPING, broker.catalog.data_dir, _let_go, gone)

    async def _on_disk(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        # One change at a time, which begins with the catalog: there is nothing to gain from the threads of other disks.
        return await on_disk(Work.CATALOG, self._broker.catalog.data_dir, work, *arguments)

    def effective_configs(self, overrides: Mapping[str, str]) -> list[ConfigEntry]:
        """What DescribeConfigs would say of a topic with these overrides."""
        return describe_topic(self._broker.config, overrides)

    def _entries(self, replicas: Sequence[Replicas]) -> tuple[PartitionEntry, ...]:
        """New partitions, each led by its first live replica; if none lives any more, the first will lead when it does."""
        live = self._broker.live_node_ids()
        # Most of thousands are alike.
        entries = {each: PartitionEntry(each, first_leadership(each, live).isr[0]) for each in dict.fromkeys(replicas)}
        return tuple(map(entries.__getitem__, replicas))

    def _create_logs(
        self, topic: Topic, entries: Sequence[PartitionEntry], first: int, config: LogConfig
    ) -> list[Partition]:
        """Worker thread: make directories and logs for partitions `first`, `first + 1`, …"""
        broker = self._broker
        logs = broker.logs.create(
            [TopicPartition(topic.name, index) for index in range(first, first + len(entries))],
            topic_id=topic.id,
            config=config,
            now_ms=broker.clock.now_ms(),
            elapsed_ms=broker.clock.elapsed_ms(),
        )
        live = broker.live_node_ids()
        partitions = []
        for index, (entry, made) in enumerate(zip(entries, logs, strict=True), first):
            partition = Partition(topic, index, entry, made)
            partition.leader, partition.isr = first_leadership(entry.replicas, live)
            partitions.append(partition)
        return partitions

    def _check_free(self, name: str) -> None:
        if self._broker.topics.get(name) is not None:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        colliding = self._broker.topics.colliding(name)
        if colliding is not None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {colliding.name}"
            )

    def _check_alive(self, topic: Topic) -> None:
        if self._broker.topics.get(topic.name) is not topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} was deleted meanwhile")

    def _spread(self, num_partitions: int, replication_factor: int) -> tuple[Replicas, ...]:
        config = self._broker.config
        count = config.num_partitions if num_partitions == -1 else num_partitions
        factor = config.default_replication_factor if replication_factor == -1 else replication_factor
        if factor <= 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Replication factor must be larger than 0, or -1 to use the default value; it is {factor}.",
            )
        if count <= 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"Number of partitions was set to an invalid non-positive value: {count}."
            )
        self._check_count(count)
        nodes = self._broker.nodes
        return spread(nodes, count, factor, self._rng.randrange(len(nodes)))

    def _assigned(
        self, assignments: Mapping[int, Replicas], num_partitions: int, replication_factor: int
    ) -> tuple[Replicas, ...]:
        if replication_factor != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if num_partitions != -1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        self._check_count(len(assignments))
        if sorted(assignments) != list(range(len(assignments))):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
        check_assignments(self._broker.nodes, assignments, len(assignments[0]))
        return tuple(assignments[index] for index in range(len(assignments)))

    @staticmethod
    def _check_count(count: int) -> None:
        if count > PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{count} partitions in one request; at most {PARTITIONS_MAX} are allowed.",
            )


def _let_go(things: list[object]) -> None:
    """Drop one after the other: with its last name a log closes its files, and thousands of them take a tenth of a second."""
    while things:
        things.pop()
