"""Creating, growing and deleting topics, as `topic_plans` has found that it may be done.

The order makes every crash harmless: the catalog is written first, then the partitions' directories.
A topic of the catalog whose directory is missing is completed at the next start; a directory without
a topic in the catalog was being deleted.

Nobody sees a change before it is written, and everybody sees it in the turn in which it is known to be: until then a
topic that is being deleted takes markers, records, commits and members as ever. A marker that is left out, or a group
that assigns without the topic, could not be put right if the disk then refused, or the process died.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.data_dirs.making import Fill
from ...storage.topics.catalog_file import PartitionEntry, TopicEntry
from ..config.live_config import LiveConfig
from ..partitions.topics import Partition, Topic
from ..runtime.collector import Collector
from .cluster import Cluster
from .leadership import first_leadership
from .partition_logs import PartitionLogs
from .replicas import Replicas
from .topic_plans import Planner, TopicPlan


class TopicAdmin:
    """Changes of the set of topics. One change at a time; every method runs on the Trio thread."""

    def __init__(
        self,
        cluster: Cluster,
        live_config: LiveConfig,
        partition_logs: PartitionLogs,
        collector: Collector,
        rng: random.Random,
    ) -> None:
        self._cluster = cluster
        self._live_config = live_config
        self._logs = partition_logs
        self._collector = collector
        self._rng = rng
        self.planner = Planner(cluster.nodes, cluster.topics, live_config, rng)

    async def create(self, plan: TopicPlan, *, fill: Fill | None = None) -> Topic:
        """Make the topic of `plan` exist: in the catalog, on disk, then for every node.

        Args:
            fill: Writes what is in its logs, in a worker thread; without it they are empty.

        Raises:
            KafkaError: TOPIC_ALREADY_EXISTS (another request was faster), or
                KAFKA_STORAGE_ERROR; the topic does not exist then.
        """
        async with self._cluster.change_lock:
            self.planner.check_free(plan.name)
            return await self._create(plan, fill)

    def new_id(self) -> bytes:
        """The id of another topic."""
        return self._rng.randbytes(16)

    async def _create(self, plan: TopicPlan, fill: Fill | None = None) -> Topic:
        entry = TopicEntry(
            plan.name,
            self.new_id(),
            self._entries(plan.replicas),
            dict(plan.configs),
        )
        topic = Topic(entry.name, entry.topic_id)
        catalog = self._cluster.catalog
        with trio.CancelScope(shield=True), self._collector.putting_off():  # half a topic is nobody's wish
            try:
                await self._cluster.write(catalog.put_topics, [entry])
                topic.partitions = await self._make_logs(topic, entry.partitions, 0, fill)
            except Exception:
                await self._undo(topic, 0, None)
                raise
        self._cluster.topics.add(topic)
        self._collector.partitions_made(len(topic.partitions))
        for watcher in self._cluster.watchers:
            watcher.topic_created(topic)
        return topic

    async def auto_create(self, name: str) -> Topic | None:
        """The topic `name`, made with the broker's defaults; None if it is there already, or made by another request meanwhile."""
        if self._cluster.topics.get(name) is not None:
            return None
        try:
            return await self.create(self.planner.plan(name))
        except KafkaError as error:
            if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and self._cluster.topics.get(name) is not None:
                return None
            raise

    async def create_internal(self, name: str) -> Topic:
        """The broker's own topic `name`, with the options meant for it; never more replicas than nodes.

        Raises:
            KafkaError: as `create`.
        """
        partitions, factor, configs = self._live_config.current.internal_topic(name)
        async with self._cluster.change_lock:
            present = self._cluster.topics.get(name)
            if present is not None:
                return present
            factor = min(factor, len(self._cluster.nodes))
            plan = self.planner.plan(name, num_partitions=partitions, replication_factor=factor, configs=configs)
            return await self._create(plan)

    async def grow(self, topic: Topic, replicas: tuple[Replicas, ...]) -> None:
        """Add one partition per entry of `replicas`.

        Raises:
            KafkaError: INVALID_PARTITIONS (the topic changed since the plan), UNKNOWN_TOPIC_OR_PARTITION,
                KAFKA_STORAGE_ERROR; the topic is as it was then.
        """
        present = len(topic.partitions)
        async with self._cluster.change_lock:
            self._check_alive(topic)
            if len(topic.partitions) != present:
                raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic {topic.name} was changed meanwhile.")
            entries = self._entries(replicas)
            catalog = self._cluster.catalog
            before = catalog.topics[topic.name]
            with trio.CancelScope(shield=True), self._collector.putting_off():
                try:
                    await self._cluster.write(catalog.add_partitions, topic.name, entries)
                    added = await self._make_logs(topic, entries, present)
                except Exception:
                    await self._undo(topic, present, before)
                    raise
            topic.partitions.extend(added)
            self._cluster.topics.changed()
            self._collector.partitions_made(len(added))
        for watcher in self._cluster.watchers:
            watcher.topic_grew(topic)

    async def delete(self, topic: Topic) -> None:
        """Make `topic` unknown to all; its files follow after `file.delete.delay.ms`.

        Raises:
            KafkaError: TOPIC_DELETION_DISABLED, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR; the topic is still there then, and was all the time.
        """
        if not self._live_config.current.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        await self.take_back(topic)

    async def take_back(self, topic: Topic) -> None:
        """`delete`, for who has made the topic: whatever `delete.topic.enable` says of clients."""
        cluster = self._cluster
        async with self._cluster.change_lock:
            self._check_alive(topic)
            with trio.CancelScope(shield=True), self._collector.putting_off():  # nor is half a deletion
                await cluster.write(cluster.catalog.remove_topics, [topic.name])
                cluster.topics.remove(topic)
                try:
                    for watcher in cluster.watchers:
                        watcher.topic_deleted(topic)
                finally:
                    self._collector.partitions_gone(len(topic.partitions))
                    await self._logs.delete([partition.topic_partition for partition in topic.partitions], topic)

    async def _undo(self, topic: Topic, first: int, before: TopicEntry | None) -> None:
        """The disk refused a change half-way: the catalog says `before` again, and partitions from `first` on go.

        What the disk refuses of that is made good by the next write of the catalog, or the next start.
        """
        with suppress(KafkaError):
            await self._cluster.write(self._cluster.catalog.take_back, topic.name, before)
        await self._logs.delete(self._logs.of(topic.name, first))

    def _entries(self, replicas: Sequence[Replicas]) -> tuple[PartitionEntry, ...]:
        """New partitions, each led by its first live replica; if none lives any more, the first will lead when it does."""
        live = self._cluster.live_node_ids()
        # Most of thousands are alike.
        entries = {each: PartitionEntry(each, first_leadership(each, live).isr[0]) for each in dict.fromkeys(replicas)}
        return tuple(map(entries.__getitem__, replicas))

    def _check_alive(self, topic: Topic) -> None:
        if self._cluster.topics.get(topic.name) is not topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} was deleted meanwhile")

    async def ensure_internal(self, name: str) -> Topic:
        """The broker's own topic `name`, created with the options meant for it if it is not there. KafkaError as `create`."""
        return self._cluster.topics.get(name) or await self.create_internal(name)

    async def _make_logs(
        self, topic: Topic, entries: Sequence[PartitionEntry], first: int, fill: Fill | None = None
    ) -> list[Partition]:
        # Not the plan's options: the defaults may be others meanwhile.
        config = self._live_config.topic(topic.name)
        return await self._cluster.write(
            self._logs.create, topic, entries, first, config, self._cluster.live_node_ids(), fill
        )
