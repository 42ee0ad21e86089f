"""Creation, growth and deletion of topics, after `topic_plans` has checked them.

The order makes every crash harmless: the catalog is written first, and some time later the partitions' directories. A topic
whose directory is missing is completed at the next start. A directory whose topic is not in the catalog was being deleted.

One write of the catalog contains all topics of a request, and those of other requests that wait. Otherwise each of thousands of
topics would need two syncs.

A change is visible only after it is written, and then for all nodes in the same step. Until then a topic under deletion accepts
markers, records, commits and members as before. If the disk then refused the deletion, or the process died, a missing marker or
an assignment without the topic could not be corrected.
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
from ..runtime.gc_policy import GcPolicy
from ..runtime.nursery import Tasks
from ..runtime.time_slices import TimeSlice
from .cluster import Cluster
from .leadership import first_leadership
from .partition_logs import NewPartitions, PartitionLogs
from .topic_plans import Planner, Replicas, TopicPlan

LOGS_AT_ONCE = 2_000
"""Number of logs of deleted topics that are removed from the tables in one step, which takes a few milliseconds."""

GATHERED_MAX = 100
"""Maximum number of partitions in one write for requests of several clients."""


class _Creation:
    """Topics that one request creates, and the result."""

    def __init__(self, plans: Sequence[TopicPlan], hidden_s: float = 0) -> None:
        self.plans = plans
        self.partitions = sum(len(plan.replicas) for plan in plans)
        self.hidden_s = hidden_s
        self.entries: list[TopicEntry | KafkaError] = []
        """Result of each plan: the catalog's entry, or the error."""
        self.made: Mapping[str, Topic] = {}
        self.failure: Exception | None = None

    @property
    def new_topics(self) -> list[TopicEntry]:
        return [each for each in self.entries if isinstance(each, TopicEntry)]

    def outcome(self) -> list[Topic | KafkaError]:
        """Return the topic or the error of each plan, after the creation. Raises an error that concerns all plans."""
        if self.failure is not None:
            raise self.failure
        return [each if isinstance(each, KafkaError) else self.made[each.name] for each in self.entries]


class TopicAdmin:
    """Changes of the set of topics, one at a time. Every method runs on the Trio thread."""

    def __init__(
        self,
        cluster: Cluster,
        live_config: LiveConfig,
        partition_logs: PartitionLogs,
        collector: GcPolicy,
        tasks: Tasks,
        rng: random.Random,
    ) -> None:
        self._cluster = cluster
        self._live_config = live_config
        self._logs = partition_logs
        self._collector = collector
        self._tasks = tasks
        self._rng = rng
        self._waiting: dict[_Creation, None] = {}
        """Creations that have not started."""
        self.coming: set[str] = set()
        """Names of topics of creations that have not ended."""
        self.planner = Planner(cluster.nodes, cluster.topics, live_config, rng)

    async def create(self, plan: TopicPlan, *, fill: Fill | None = None) -> Topic:
        """Run `create_all` for one topic, and raise its error.

        Args:
            fill: Function that writes the contents of the logs, in a worker thread; without it they are empty.
        """
        if fill is None:
            (made,) = await self.create_all([plan])
        else:
            creation = _Creation([plan])
            async with self._cluster.change_lock:
                await self._create_gathered([creation], fill)
            (made,) = creation.outcome()
        if isinstance(made, KafkaError):
            raise made
        return made

    async def create_by_default(self, name: str, configs: Mapping[str, str]) -> Topic:
        """Create a topic with these options, and the broker's numbers of partitions and replicas. Raises KafkaError as
        `Planner.plan` and `create`."""
        return await self.create(self.planner.plan(name, configs=configs))

    async def create_all(self, plans: Sequence[TopicPlan]) -> list[Topic | KafkaError]:
        """Create the topics of `plans`: in the catalog, on disk, then for every node.

        They are one write of the catalog, together with the topics of other requests that wait.

        Returns:
            Each topic, or its error: TOPIC_ALREADY_EXISTS (another request has created it before), or INVALID_TOPIC_EXCEPTION
                (its name collides with such a topic's).

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR. Then none of them exists.
        """
        if not plans:
            return []
        creation = self._begin(_Creation(plans))
        await self._run(creation)
        return creation.outcome()

    async def create_soon(self, plans: Sequence[TopicPlan], *, hidden_s: float) -> None:
        """Begin what `create_all` does, for a caller that needs no result.

        Waits for it only if more than GATHERED_MAX partitions wait: clients must not ask faster than the disk writes.

        Args:
            hidden_s: Time in seconds for which Metadata does not show the topics.
        """
        if not plans:
            return
        creation = self._begin(_Creation(plans, hidden_s))
        if sum(each.partitions for each in self._waiting) > GATHERED_MAX:
            await self._run(creation)
        else:
            self._tasks.start_soon(self._run, creation)

    def _begin(self, creation: _Creation) -> _Creation:
        self._waiting[creation] = None
        self.coming.update(plan.name for plan in creation.plans)
        return creation

    async def _run(self, creation: _Creation) -> None:
        """Create the topics of a waiting creation, and of others that wait, unless another task has done it."""
        try:
            async with self._cluster.change_lock:
                if creation in self._waiting:
                    await self._create_gathered(self._gather(creation))
        finally:
            self._waiting.pop(creation, None)
            self.coming.difference_update(plan.name for plan in creation.plans)

    def new_id(self) -> bytes:
        """Return the id for a new topic."""
        return self._rng.randbytes(16)

    def _gather(self, first: _Creation) -> list[_Creation]:
        """Take this creation and others that wait, up to GATHERED_MAX partitions together. They succeed or fail together, so a
        large one is alone. A creation with a name of another one waits for the next write."""
        taken, names, left = list[_Creation](), set[str](), GATHERED_MAX
        for creation in (first, *(each for each in self._waiting if each is not first)):
            wanted = {flat(plan.name) for plan in creation.plans}
            left -= creation.partitions
            if taken and left < 0:
                break
            if names.isdisjoint(wanted):
                names |= wanted
                taken.append(creation)
        for creation in taken:
            del self._waiting[creation]
        return taken

    async def _create_gathered(self, creations: Sequence[_Creation], fill: Fill | None = None) -> None:
        """Create the topics of `creations`; each has its result on return. The caller must hold `change_lock`."""
        time_slice, partitions = TimeSlice(), 0
        with trio.CancelScope(shield=True), self._collector.putting_off():  # half a topic is of no use
            try:
                coming: dict[str, str] = {}
                for creation in creations:
                    creation.entries = await time_slice.map(partial(self._entry, coming), creation.plans)
                made = await self._make([each for creation in creations for each in creation.new_topics], fill)
            except Exception as error:  # noqa: BLE001 - every creation gets it
                for creation in creations:
                    creation.failure = error.with_traceback(None)
                return
            for creation in creations:
                async for entry in time_slice.each(creation.new_topics):
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
            KafkaError: KAFKA_STORAGE_ERROR. Then neither catalog nor disk has any of them.
        """
        if not entries:
            return {}
        try:
            made = await self._cluster.write(self._write_topics, entries, self._cluster.live_node_ids(), fill)
        except Exception:
            await self._undo({each.name: None for each in entries}, {each.name: 0 for each in entries})
            raise
        return {topic.name: topic for topic in made}

    def _write_topics(self, entries: Sequence[TopicEntry], live: Collection[int], fill: Fill | None) -> list[Topic]:
        """Do the part of `_make` that waits for the disk."""
        self._cluster.catalog.put_topics(entries)
        new = [self._new_partitions(Topic(each.name, each.topic_id), each.partitions) for each in entries]
        made = self._logs.promise(new, live) if fill is None else [self._logs.fill(each, live, fill) for each in new]
        for each, partitions in zip(new, made, strict=True):
            each.topic.partitions = partitions
        return [each.topic for each in new]

    def _new_partitions(self, topic: Topic, entries: Sequence[PartitionEntry], first: int = 0) -> NewPartitions:
        # Not the plan's options: the defaults may have changed since.
        return NewPartitions(topic, entries, first, self._live_config.topic(topic.name))

    def _show(self, topic: Topic, hidden_s: float) -> None:
        self._cluster.topics.add(topic)
        if hidden_s:
            self._cluster.topics.hide(topic, trio.current_time() + hidden_s)
        for watcher in self._cluster.watchers:
            watcher.topic_created(topic)

    async def create_internal(self, name: str) -> Topic:
        """Create the internal topic `name` with its own options, and with at most as many replicas as nodes. Return it.

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
            await self._create_gathered([creation])
        (made,) = creation.outcome()
        if isinstance(made, KafkaError):
            raise made
        return made

    async def grow(self, topic: Topic, replicas: tuple[Replicas, ...]) -> None:
        """Add one partition per entry of `replicas`.

        Raises:
            KafkaError: INVALID_PARTITIONS (the topic changed since the plan), UNKNOWN_TOPIC_OR_PARTITION,
                KAFKA_STORAGE_ERROR. Then the topic is unchanged.
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
                    new, live = self._new_partitions(topic, entries, present), self._cluster.live_node_ids()
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
        """Run `delete_all` for one topic, and raise its error."""
        (refused,) = await self.delete_all([topic])
        if refused is not None:
            raise refused

    async def delete_all(self, topics: Sequence[Topic]) -> list[KafkaError | None]:
        """Delete `topics`, in one write of the catalog; their files are deleted after `file.delete.delay.ms`.

        Returns:
            None for each topic that was deleted; UNKNOWN_TOPIC_OR_PARTITION for one that was deleted before.

        Raises:
            KafkaError: TOPIC_DELETION_DISABLED, KAFKA_STORAGE_ERROR. Then the topics still exist, and did so all the time.
        """
        if not self._live_config.current.delete_topic_enable:
            raise KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        return await self._delete_all(topics)

    async def take_back(self, topic: Topic) -> None:
        """Delete a topic, for the code that created it, whatever `delete.topic.enable` is."""
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
        """Undo a change that the disk refused half-way: set the catalog's entries back to `before`, and delete partitions from
        `first` on, by topic.

        If the disk refuses that, the next write of the catalog or the next start corrects it.
        """
        with suppress(KafkaError):
            await self._cluster.write(self._cluster.catalog.take_back, before)
        await self._logs.delete(self._logs.partitions_of(first))

    def _entries(self, replicas: Sequence[Replicas]) -> tuple[PartitionEntry, ...]:
        """Return entries for new partitions, each led by its first live replica. If none is alive any more, the first one will
        lead when it is."""
        live = self._cluster.live_node_ids()
        # Most of thousands of partitions have the same replicas.
        entries = {each: PartitionEntry(each, first_leadership(each, live).isr[0]) for each in dict.fromkeys(replicas)}
        return tuple(map(entries.__getitem__, replicas))

    def _check_alive(self, topic: Topic) -> None:
        if self._cluster.topics.get(topic.name) is not topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic.name} was deleted during the request")

    async def ensure_internal(self, name: str) -> Topic:
        """Return the internal topic `name`, created with its own options if it does not exist. Raises KafkaError as
        `create`."""
        return self._cluster.topics.get(name) or await self.create_internal(name)


def _portions(topics: Sequence[Topic]) -> Iterator[list[Topic]]:
    """Divide the topics into portions of about `LOGS_AT_ONCE` partitions."""
    some, partitions = list[Topic](), 0
    for topic in topics:
        some.append(topic)
        partitions += len(topic.partitions)
        if partitions >= LOGS_AT_ONCE:
            yield some
            some, partitions = [], 0
    if some:
        yield some
