"""Creating, growing and deleting topics, as `topic_plans` has found that it may be done.

The order makes every crash harmless: the catalog is written first, then the partitions' directories, some time later.
A topic of the catalog whose directory is missing is completed at the next start; a directory without
a topic in the catalog was being deleted.

A write of the catalog is for all that one request wants, and for what others want who wait for it: of thousands of topics each
would cost the disk two syncs otherwise.

Nobody sees a change before it is written, and everybody sees it in the turn in which it is known to be: until then a
topic that is being deleted takes markers, records, commits and members as ever. A marker that is left out, or a group
that assigns without the topic, could not be put right if the disk then refused, or the process died.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.data_dirs.making import Fill
from ...storage.topics.catalog_file import PartitionEntry, TopicEntry
from ..config.live_config import LiveConfig
from ..partitions.topics import Topic, flat
from ..runtime.collector import Collector
from ..runtime.time_slices import TimeSlice
from .cluster import Cluster
from .leadership import first_leadership
from .partition_logs import NewPartitions, PartitionLogs
from .topic_plans import Planner, Replicas, TopicPlan

LOGS_AT_ONCE = 2_000
"""Logs of deleted topics that are removed from the tables at once, which takes a few milliseconds."""

GATHERED_MAX = 100
"""Partitions that requests of several clients get in one write."""


class _Creation:
    """The topics that one request creates, and the result."""

    def __init__(self, plans: Sequence[TopicPlan], hidden_s: float = 0) -> None:
        self.plans = plans
        self.hidden_s = hidden_s
        self.entries: list[TopicEntry | KafkaError] = []
        """Of each plan: what the catalog is to say, or why nothing."""
        self.made: Mapping[str, Topic] = {}
        self.failure: Exception | None = None

    @property
    def new(self) -> list[TopicEntry]:
        return [each for each in self.entries if isinstance(each, TopicEntry)]

    def outcome(self) -> list[Topic | KafkaError]:
        """Of each plan, once it was carried out: the topic, or why there is none. Raises why there is none at all."""
        if self.failure is not None:
            raise self.failure
        return [each if isinstance(each, KafkaError) else self.made[each.name] for each in self.entries]


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
        self._waiting: dict[_Creation, None] = {}
        """Creations that have not begun."""
        self.planner = Planner(cluster.nodes, cluster.topics, live_config, rng)

    async def create(self, plan: TopicPlan, *, fill: Fill | None = None) -> Topic:
        """`create_all` of one topic, whose error is raised.

        Args:
            fill: Writes what is in its logs, in a worker thread; without it they are empty.
        """
        if fill is None:
            (made,) = await self.create_all([plan])
        else:
            creation = _Creation([plan])
            async with self._cluster.change_lock:
                await self._carry_out([creation], fill)
            (made,) = creation.outcome()
        if isinstance(made, KafkaError):
            raise made
        return made

    async def create_all(self, plans: Sequence[TopicPlan], *, hidden_s: float = 0) -> list[Topic | KafkaError]:
        """Make the topics of `plans` exist: in the catalog, on disk, then for every node.

        They are one write of the catalog, with what others want who wait for their turn.

        Args:
            hidden_s: For so long Metadata does not know them.

        Returns:
            Each topic, or why there is none: TOPIC_ALREADY_EXISTS (another request was faster), or INVALID_TOPIC_EXCEPTION (its
            name collides with one of those).

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; none of them exists then.
        """
        if not plans:
            return []
        creation = _Creation(plans, hidden_s)
        self._waiting[creation] = None
        try:
            async with self._cluster.change_lock:
                if creation in self._waiting:
                    await self._carry_out(self._taken(creation))
        finally:
            self._waiting.pop(creation, None)
        return creation.outcome()

    def new_id(self) -> bytes:
        """The id of another topic."""
        return self._rng.randbytes(16)

    def _taken(self, first: _Creation) -> list[_Creation]:
        """This creation and others that wait, together GATHERED_MAX partitions, as they succeed or fail together: a large one is alone.
        One that has a name of another waits for the next write."""
        taken, names, left = list[_Creation](), set[str](), GATHERED_MAX
        for creation in (first, *(each for each in self._waiting if each is not first)):
            wanted = {flat(plan.name) for plan in creation.plans}
            left -= sum(len(plan.replicas) for plan in creation.plans)
            if taken and left < 0:
                break
            if names.isdisjoint(wanted):
                names |= wanted
                taken.append(creation)
        for creation in taken:
            del self._waiting[creation]
        return taken

    async def _carry_out(self, creations: Sequence[_Creation], fill: Fill | None = None) -> None:
        """Make the topics of `creations`; each has its outcome on return. For the holder of `change_lock`."""
        time_slice, partitions = TimeSlice(), 0
        with trio.CancelScope(shield=True), self._collector.putting_off():  # half a topic is of no use
            try:
                coming: dict[str, str] = {}
                for creation in creations:
                    creation.entries = await time_slice.map(partial(self._entry, coming), creation.plans)
                made = await self._make([each for creation in creations for each in creation.new], fill)
            except Exception as error:  # noqa: BLE001 - told to all of them
                for creation in creations:
                    creation.failure = error.with_traceback(None)
                return
            for creation in creations:
                async for entry in time_slice.each(creation.new):
                    self._show(made[entry.name], creation.hidden_s)
                    partitions += len(entry.partitions)
                creation.made = made
        self._collector.partitions_made(partitions)

    def _entry(self, coming: dict[str, str], plan: TopicPlan) -> TopicEntry | KafkaError:
        try:
            self.planner.check_free(plan.name, coming)
        except KafkaError as error:
            return error
        coming[flat(plan.name)] = plan.name
        return TopicEntry(plan.name, self.new_id(), self._entries(plan.replicas), dict(plan.configs))

    async def _make(self, entries: Sequence[TopicEntry], fill: Fill | None) -> dict[str, Topic]:
        """Write `entries` to the catalog and give them logs. No client sees the topics yet.

        Returns:
            The topics by name.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: neither catalog nor disk has anything of them.
        """
        if not entries:
            return {}
        try:
            made = await self._cluster.write(self._written, entries, self._cluster.live_node_ids(), fill)
        except Exception:
            await self._undo({each.name: None for each in entries}, {each.name: 0 for each in entries})
            raise
        return {topic.name: topic for topic in made}

    def _written(self, entries: Sequence[TopicEntry], live: Collection[int], fill: Fill | None) -> list[Topic]:
        """`_make`, as far as it waits for the disk."""
        self._cluster.catalog.put_topics(entries)
        new = [self._new(Topic(each.name, each.topic_id), each.partitions) for each in entries]
        made = self._logs.promise(new, live) if fill is None else [self._logs.fill(each, live, fill) for each in new]
        for each, partitions in zip(new, made, strict=True):
            each.topic.partitions = partitions
        return [each.topic for each in new]

    def _new(self, topic: Topic, entries: Sequence[PartitionEntry], first: int = 0) -> NewPartitions:
        # Not the plan's options: the defaults may be others meanwhile.
        return NewPartitions(topic, entries, first, self._live_config.topic(topic.name))

    def _show(self, topic: Topic, hidden_s: float) -> None:
        self._cluster.topics.add(topic)
        if hidden_s:
            self._cluster.topics.hide(topic, trio.current_time() + hidden_s)
        for watcher in self._cluster.watchers:
            watcher.topic_created(topic)

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
            creation = _Creation([plan])
            await self._carry_out([creation])
        (made,) = creation.outcome()
        if isinstance(made, KafkaError):
            raise made
        return made

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
                raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic {topic.name} was changed during the request.")
            entries = self._entries(replicas)
            catalog = self._cluster.catalog
            before = catalog.topics[topic.name]
            with trio.CancelScope(shield=True), self._collector.putting_off():
                try:
                    await self._cluster.write(catalog.add_partitions, topic.name, entries)
                    new, live = self._new(topic, entries, present), self._cluster.live_node_ids()
                    (added,) = await self._cluster.write(self._logs.promise, [new], live)
                except Exception:
                    await self._undo({topic.name: before}, {topic.name: present})
                    raise
            topic.partitions.extend(added)
            self._cluster.topics.changed()
            self._collector.partitions_made(len(added))
        for watcher in self._cluster.watchers:
            watcher.topic_grew(topic)

    async def delete(self, topic: Topic) -> None:
        """`delete_all` of one topic, whose error is raised."""
        (refused,) = await self.delete_all([topic])
        if refused is not None:
            raise refused

    async def delete_all(self, topics: Sequence[Topic]) -> list[KafkaError | None]:
        """Make `topics` unknown to all, in one write of the catalog; their files follow after `file.delete.delay.ms`.

        Returns:
            None for each that is gone; UNKNOWN_TOPIC_OR_PARTITION: it was before.

        Raises:
            KafkaError: TOPIC_DELETION_DISABLED, KAFKA_STORAGE_ERROR; the topics are still there then, and were all the time.
        """
        if not self._live_config.current.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        return await self._delete_all(topics)

    async def take_back(self, topic: Topic) -> None:
        """`delete`, for who has made the topic: whatever `delete.topic.enable` says of clients."""
        (refused,) = await self._delete_all([topic])
        if refused is not None:
            raise refused

    async def _delete_all(self, topics: Sequence[Topic]) -> list[KafkaError | None]:
        cluster, time_slice = self._cluster, TimeSlice()
        async with cluster.change_lock:
            refused = await time_slice.map(self._refusal, topics)
            going = [topic for topic, refusal in zip(topics, refused, strict=True) if refusal is None]
            with trio.CancelScope(shield=True), self._collector.putting_off():  # nor is half a deletion
                if not going:
                    return refused
                await cluster.write(cluster.catalog.remove_topics, [topic.name for topic in going])
                try:
                    async for topic in time_slice.each(going):
                        cluster.topics.remove(topic)
                        for watcher in cluster.watchers:
                            watcher.topic_deleted(topic)
                finally:
                    self._collector.partitions_gone(sum(len(topic.partitions) for topic in going))
                    for some in _portions(going):
                        partitions = [partition.topic_partition for topic in some for partition in topic.partitions]
                        await self._logs.delete(partitions, some)
        return refused

    def _refusal(self, topic: Topic) -> KafkaError | None:
        try:
            self._check_alive(topic)
        except KafkaError as error:
            return error
        return None

    async def _undo(self, before: Mapping[str, TopicEntry | None], first: Mapping[str, int]) -> None:
        """The disk refused a change half-way: the catalog says `before` again, and partitions from `first` on go, by topic.

        What the disk refuses of that is made good by the next write of the catalog, or the next start.
        """
        with suppress(KafkaError):
            await self._cluster.write(self._cluster.catalog.take_back, before)
        await self._logs.delete(self._logs.of(first))

    def _entries(self, replicas: Sequence[Replicas]) -> tuple[PartitionEntry, ...]:
        """New partitions, each led by its first live replica; if none lives any more, the first will lead when it does."""
        live = self._cluster.live_node_ids()
        # Most of thousands are alike.
        entries = {each: PartitionEntry(each, first_leadership(each, live).isr[0]) for each in dict.fromkeys(replicas)}
        return tuple(map(entries.__getitem__, replicas))

    def _check_alive(self, topic: Topic) -> None:
        if self._cluster.topics.get(topic.name) is not topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} was deleted during the request")

    async def ensure_internal(self, name: str) -> Topic:
        """The broker's own topic `name`, created with the options meant for it if it is not there. KafkaError as `create`."""
        return self._cluster.topics.get(name) or await self.create_internal(name)


def _portions(topics: Sequence[Topic]) -> Iterator[list[Topic]]:
    """All of these, in portions of about `LOGS_AT_ONCE` partitions."""
    some, partitions = list[Topic](), 0
    for topic in topics:
        some.append(topic)
        partitions += len(topic.partitions)
        if partitions >= LOGS_AT_ONCE:
            yield some
            some, partitions = [], 0
    if some:
        yield some
