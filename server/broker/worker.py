"""The broker of a node in a process of its own: its listeners, and the logs that it leads.

The catalog and the coordinators are the first process's (`workers.pool`), which tells what changes. What it cannot know itself its
clients are answered from there (`workers.forwarding`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import trio

from ...storage.data_dirs.handing import Given
from ...storage.data_dirs.manager import LogManager
from ...storage.disk import paths
from ...storage.disk.files import Files
from ...storage.disk.paths import TopicPartition
from ...storage.topics.catalog import Catalog
from ...storage.topics.catalog_file import CatalogError, CatalogState, PartitionEntry, TopicEntry
from ...storage.topics.config import LogConfig
from ..cluster.nodes import Node
from ..cluster.opening import OpenStore, Start, log_config, routable
from ..cluster.producer_ids import ProducerIds
from ..config.live_config import resolve
from ..coordination.ground import Ground
from ..faults.table import Faults
from ..network.listener import Listener
from ..partitions.topics import Partition, Topic, Topics
from ..quotas.table import SECTION, read_entries
from ..runtime.clock import Clock
from ..runtime.disk import Work, in_thread, side_by_side
from ..runtime.nursery import Tasks
from ..runtime.turns import Turn
from ..services.coordinators import Coordinators
from ..workers.handing import PartitionHanding
from ..workers.link import Link
from ..workers.owners import Owners, dir_of, remove_deleted
from ..workers.placed import Beginning, Marker, Placed
from ..workers.verification import AskedTransactions
from .broker import Broker

log = logging.getLogger("ottla.workers")


class SeenCatalog(Catalog):
    """The first process's, as it was when this one was last told to look."""

    def see(self, state: CatalogState) -> None:
        """Have it say this from now on."""
        self._state = state

    def _change(self, change: object) -> CatalogState:
        raise RuntimeError(f"the catalog is the first process's: {change}")


class AskedCoordinators(Coordinators):
    """The first process has them."""

    def __init__(self, link: Link, ground: Ground, producer_ids: ProducerIds, tasks: Tasks) -> None:
        super().__init__(ground, producer_ids, tasks)
        self._asked = AskedTransactions(link, ground)

    async def load_existing(self) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()

    @property
    def transactions(self) -> Any:
        """All that Produce asks for of one."""
        return self._asked


class WorkerBroker(Broker):
    """Of one node."""

    owners: Owners

    def __init__(
        self,
        beginning: Beginning,
        link: Link,
        *,
        clock: Clock,
        files: Files,
        rng: random.Random,
    ) -> None:
        self.node_id = beginning.node_id
        self._link = link
        self._placed = {each.where: each for each in beginning.placed}
        """Of the partitions that are not known here yet."""
        self._has_opened = False
        self._syncing = trio.Lock()
        self._start: Start
        self._logs: LogManager
        super().__init__(beginning.static, beginning.nodes, clock=clock, files=files, rng=rng, faults=Faults())

    def accept_on(self, node: Node, listeners: Iterable[Listener]) -> None:
        """Not before the first process has the node among the living: until then it closes what is forwarded."""

    def _make_coordinators(self, ground: Ground, producer_ids: ProducerIds) -> Coordinators:
        return AskedCoordinators(self._link, ground, producer_ids, self.tasks)

    def _make_pool(self) -> None:
        return

    def _open_store(self, start: Start) -> OpenStore:
        static, files, topics = start.static, start.files, Topics()
        self.owners = Owners(static, self.node_id, files)
        home, own = dir_of(static, static.node_ids[0]), dir_of(static, self.node_id)
        state = _read(files, home)
        first = static.node_ids[0]
        config, _ = resolve(static, state.broker_configs, first)
        self._start = start
        self._logs = logs = LogManager(
            files, [own], node_id=first, rng=start.rng, note=lambda line: log.warning("%s", line)
        )
        try:
            logs.set_producer_expiration(config.producer_id_expiration_ms)
            configs = {entry.name: log_config(config, entry) for entry in state.topics.values()}
            remove_deleted(files, own, state.topics, start.rng)
            logs.load(
                start.clock.now_ms(),
                start.clock.elapsed_ms(),
                config_for=lambda each: configs.get(each.topic) if self._has(each, state.topics) else None,
            )
            for entry in state.topics.values():
                topic = Topic(entry.name, entry.topic_id)
                self._fill(topic, entry, configs[entry.name])
                topics.add(topic)
        except BaseException:
            logs.release()
            raise
        return OpenStore(logs, SeenCatalog(files, paths.join(home, paths.CATALOG_FILE), state), topics)

    def _has(self, where: TopicPartition, topics: Mapping[str, TopicEntry]) -> bool:
        placed, entry = self._placed.get(where), topics.get(where.topic)
        if placed is None or entry is None or placed.topic_id != entry.topic_id:
            return False
        return self.owners.owner(where.topic, placed.leader) == self.node_id

    def _fill(self, topic: Topic, entry: TopicEntry, config: LogConfig) -> None:
        """Add the partitions that the topic has not got. Blocks; for a worker thread."""
        static, logs, first = self._start.static, self._logs, len(topic.partitions)
        fresh = []
        for index, stored in enumerate(entry.partitions[first:], first):
            named = TopicPartition(entry.name, index)
            placed = self._placed.pop(named, None)
            if placed is not None and placed.topic_id != entry.topic_id:
                placed = None
            routed = (
                routable(stored, index, [*static.node_ids])
                if placed is None
                else PartitionEntry(placed.replicas, placed.leader, placed.leader_epoch)
            )
            fresh.append((index, named, routed, placed, self.owners.stand_in(entry, config, index, routed.leader)))
        missing = [named for _, named, _, _, stand_in in fresh if stand_in is None and named not in logs.logs]
        # An empty log in the place of one that is another process's would be lost records.
        elsewhere = {named: where for named in missing if (where := self.owners.other_dir_of(named, entry.topic_id))}
        for named, where in elsewhere.items():
            log.error("node %d leads %s, which is in %s: it is offline", self.node_id, named, where)
        logs.create(
            [named for named in missing if named not in elsewhere],
            topic_id=entry.topic_id,
            config=config,
            now_ms=self.clock.now_ms(),
            elapsed_ms=self.clock.elapsed_ms(),
            of_each=side_by_side,
        )
        for index, named, routed, placed, stand_in in fresh:
            if named in elsewhere:
                stand_in = self.owners.standing_for(named, entry.topic_id, config, static.node_ids[0])
            made = logs.logs[named] if stand_in is None else stand_in
            epoch = max(routed.leader_epoch, made.leader_epochs.latest_epoch)
            partition = Partition(topic, index, routed._replace(leader_epoch=epoch), made)
            if placed is not None:
                placed.put(partition)
            topic.partitions.append(partition)

    # What the first process tells

    async def sync(self) -> None:
        """Take over the catalog as it is now."""
        async with self._syncing:
            services, turn = self.services, Turn()
            catalog = services.cluster.catalog
            assert isinstance(catalog, SeenCatalog)
            before = catalog.state
            state = await in_thread(Work.CATALOG, catalog.data_dir, _read, self.files, catalog.data_dir)
            catalog.see(state)
            are_others = before.broker_configs != state.broker_configs
            if are_others:
                self.config.read_anew()
                services.cleaning.reconfigure()
            if before.features != state.features:
                self.config.finalize(state.features)
            if before.sections.get(SECTION) != state.sections.get(SECTION):
                self.quotas.hold(read_entries(catalog.entries(SECTION))[0])
            for topic in list(services.topics):
                if turn.is_over():
                    await turn.next()
                entry = state.topics.get(topic.name)
                if entry is None or entry.topic_id != topic.id:
                    await self._deleted(topic)
            for entry in list(state.topics.values()):
                if turn.is_over():
                    await turn.next()
                if are_others or before.topics.get(entry.name) != entry:
                    await self._take_over(entry, turn)

    async def _take_over(self, entry: TopicEntry, turn: Turn) -> None:
        services, config = self.services, self.config.topic(entry.name)
        topic = services.topics.get(entry.name)
        if topic is None:
            topic = Topic(entry.name, entry.topic_id)
            await in_thread(Work.CATALOG, services.logs.data_dirs[0], self._fill, topic, entry, config)
            services.topics.add(topic)
            for watcher in services.cluster.watchers:
                watcher.topic_created(topic)
        elif len(topic.partitions) < len(entry.partitions):
            await in_thread(Work.CATALOG, services.logs.data_dirs[0], self._fill, topic, entry, config)
        turn.begin()
        for partition in topic.partitions:
            if turn.is_over():
                await turn.next()
            if partition.log.config != config:
                services.cleaning.log_reconfigured(partition.log, config)

    async def _deleted(self, topic: Topic) -> None:
        services = self.services
        services.topics.remove(topic)
        for watcher in services.cluster.watchers:
            watcher.topic_deleted(topic)
        await services.topic_admin.logs.delete([each.topic_partition for each in topic.partitions], topic)

    def place(self, placed: Iterable[Placed], live: Collection[int]) -> None:
        """Know who leads partitions from now on, and which nodes live."""
        services = self.services
        for node in self.nodes:
            # Its own ends with the process.
            node.is_alive = node.node_id in live or (node.node_id == self.node_id and self._has_opened)
            if node.node_id == self.node_id and node.is_alive and not self._has_opened:
                self._has_opened = True
                super().accept_on(node, node.listeners)
        for each in placed:
            topic = services.topics.get(each.where.topic)
            if topic is None or topic.id != each.topic_id:
                continue
            if each.where.partition < len(topic.partitions):
                each.put(topic.partitions[each.where.partition])
                services.waits.changed(each.where)

    @cached_property
    def _handing(self) -> PartitionHanding:
        return PartitionHanding(self.services, self.owners)

    async def give(self, wanted: Sequence[TopicPartition], to: int) -> list[Given]:
        """As `PartitionHanding.give`."""
        return await self._handing.give(wanted, to)

    async def take(self, given: Sequence[Given]) -> Mapping[TopicPartition, str]:
        """As `PartitionHanding.take`."""
        return await self._handing.take(given)

    def forget(self, given: Sequence[TopicPartition]) -> None:
        """As `PartitionHanding.forget`."""
        self._handing.forget(given)

    def mark(self, marker: Marker) -> Any:
        """Write a marker: at once, so that nothing that was granted before is appended behind it.

        Returns:
            None, or what is to be awaited until it is on disk. KafkaError as `Markers.write_own`.
        """
        self.services.coordinators.markers.write_own(marker.where, **marker.facts)
        marked = self.services.topics.partition(*marker.where).log
        return self._flushed(marked) if marked.needs_flush else None

    async def _flushed(self, marked: Any) -> None:
        for error in (await self.services.appends.flusher.flush_each([marked])).values():
            raise error


def _read(files: Files, home: str) -> CatalogState:
    catalog = Catalog.load(files, home)
    if catalog is None:
        raise CatalogError(f"{home} has no {paths.CATALOG_FILE}")
    return catalog.state
