"""The reassignments that are under way: each new replica is in step when its throttle has let the log's bytes through.

In the catalog's section `reassignments`, by partition:

    "orders-0": {"topic_id": "…22 characters…", "adding": [3], "removing": [1], "copied_bytes": {"3": 1048576}}

where `copied_bytes` names those that are not in step yet. A restart goes on from what was written last.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from typing import Any

import trio

from ...protocol.errors import KafkaError
from ...storage.disk.checkpoints import uuid_text
from ...storage.disk.paths import TopicPartition
from ...storage.topics.catalog_file import Facts
from ..partitions.reassigning import Reassigning
from ..partitions.topics import Partition, Topic
from ..partitions.watcher import Watcher
from ..runtime.clock import Clock
from ..runtime.turns import Turn
from .cluster import Cluster
from .leadership import Leadership
from .placement import SECTION, Placement, facts_of, publish_placements, settled, write_placements
from .replication_throttle import NewReplica

log = logging.getLogger("ottla.reassignments")

WRITTEN_AFTER_MS = 60_000
"""How much of the way a kill may cost."""
RETRY_MS = 1_000


class Reassignments(Watcher):
    """Those of one broker."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._at_ms = clock.elapsed_ms()
        """Up to when `copied_bytes` are told."""
        self._rates: dict[NewReplica, float] = {}
        """From then on."""
        self._written_ms = self._at_ms
        self._changed = trio.Event()
        cluster.reconsider = self._reconsider

    def open(self) -> list[str]:
        """Take over what was under way at the last stop; returns a line on each entry that does not count."""
        problems = []
        for key, facts in self._cluster.catalog.entries(SECTION).items():
            try:
                partition, reassigning = self._taken(key, facts)
            except (ValueError, OverflowError, TypeError, KeyError, AttributeError, KafkaError) as error:
                problems.append(f"stored reassignment of {key} ignored: {error}")
                continue
            partition.reassigning = reassigning
            partition.isr = partition.able_replicas
            self._cluster.under_way[partition.topic_partition] = partition
        self._reconsider()
        return problems

    def _taken(self, key: str, facts: Facts) -> tuple[Partition, Reassigning]:
        name, _, index = key.rpartition("-")
        partition = self._cluster.topics.partition(name, int(index))
        topic = self._cluster.topics.get(name)
        if topic is None or facts["topic_id"] != uuid_text(topic.id):
            raise ValueError("it is of a topic that was deleted")
        adding, removing = (_node_ids(facts[which]) for which in ("adding", "removing"))
        copied_bytes = {int(node_id): float(count) for node_id, count in facts["copied_bytes"].items()}
        if not all(0 <= count < math.inf for count in copied_bytes.values()):
            raise ValueError(f"copied_bytes must be numbers of bytes, found {[*copied_bytes.values()]}")
        if missing := {*adding, *removing} - {*partition.replicas}:
            raise ValueError(f"node {min(missing)} is not among the replicas {list(partition.replicas)}")
        if not copied_bytes.keys() <= set(adding) or partition.leader in copied_bytes:
            raise ValueError(f"copied_bytes must name new replicas that do not lead, found {sorted(copied_bytes)}")
        return partition, Reassigning(adding, removing, copied_bytes)

    def topic_deleted(self, topic: Topic) -> None:
        for partition in topic.partitions:
            self._cluster.under_way.pop(partition.topic_partition, None)
        if topic.partitions:
            self._cluster.reconsider()

    async def run(self) -> None:
        """Have those arrive whose time has come, until cancelled."""
        while True:
            changed = self._changed
            with self._clock.at_work():
                due_ms = await self._look()
            if due_ms is None:
                await changed.wait()
                continue
            await self._clock.sleep_until_or(due_ms, changed)

    def _reconsider(self) -> None:
        """Up to now things went as they were, from now on they go as they are."""
        self._advance()
        self._rates = self._cluster.throttle.rates(self._lagging())
        self._changed.set()
        self._changed = trio.Event()

    async def _look(self) -> int | None:
        """Do what is due; returns when to look again in elapsed time, None for when something changes."""
        cluster = self._cluster
        if not (cluster.under_way or cluster.catalog.entries(SECTION)):
            return None
        async with cluster.change_lock:
            self._advance()
            turn = Turn()
            placed: dict[Partition, Placement] = {}
            for partition in list(cluster.under_way.values()):
                if turn.is_over():
                    await turn.next()
                if (placement := self._arrived(partition)) is not None:
                    placed[partition] = placement
            elapsed_ms = self._clock.elapsed_ms()
            try:
                await write_placements(cluster, placed)
                await publish_placements(cluster, placed)
                await self._write_down(elapsed_ms)
            except KafkaError as error:
                log.error("reassignments: %s", error)
                return elapsed_ms + RETRY_MS
            return self._due_ms()

    def _lagging(self) -> Iterator[NewReplica]:
        for partition in self._cluster.under_way.values():
            assert partition.reassigning is not None
            for node_id in partition.reassigning.lagging:
                yield NewReplica(partition, node_id)

    def _advance(self) -> None:
        elapsed_ms = self._clock.elapsed_ms()
        passed_s, self._at_ms = (elapsed_ms - self._at_ms) / 1000, elapsed_ms
        for replica in self._lagging():
            rate = self._rates.get(replica, 0.0)
            if rate < math.inf:
                assert replica.partition.reassigning is not None
                replica.partition.reassigning.copied_bytes[replica.node_id] += rate * passed_s

    def _arrived(self, partition: Partition) -> Placement | None:
        """What becomes of a partition, if one of its new replicas has caught up."""
        moving = partition.reassigning
        assert moving is not None
        rates = self._cluster.throttle.rates([NewReplica(partition, node_id) for node_id in moving.lagging])
        left = {
            replica.node_id: moving.copied_bytes[replica.node_id]
            for replica, rate in rates.items()
            if not rate or (rate < math.inf and moving.copied_bytes[replica.node_id] < partition.log.size_bytes)
        }
        # Without anybody to wait for it may have been waiting for one of the new ones to be in the ISR again.
        if len(left) == len(moving.copied_bytes) > 0:
            return None
        able = {*partition.isr, *(node_id for node_id in moving.lagging if node_id not in left)}
        isr = tuple(node_id for node_id in partition.replicas if node_id in able)
        present = Placement(
            partition.replicas, Leadership(partition.leader, isr), Reassigning(moving.adding, moving.removing, left)
        )
        placement = settled(present)
        return None if placement is present and len(left) == len(moving.copied_bytes) else placement

    async def _write_down(self, elapsed_ms: int) -> None:
        """Now and then, how far they are; and that those of deleted topics are not under way any more."""
        cluster = self._cluster
        gone: dict[str, Facts | None] = {
            key: None for key in cluster.catalog.entries(SECTION) if _key(key) not in cluster.under_way
        }
        if not gone and elapsed_ms - self._written_ms < WRITTEN_AFTER_MS:
            return
        present = {
            str(where): facts_of(cluster, partition, partition.reassigning)
            for where, partition in cluster.under_way.items()
            if partition.reassigning is not None
        }
        await cluster.write(cluster.catalog.put_entries, SECTION, {**gone, **present})
        self._written_ms = elapsed_ms

    def _due_ms(self) -> int | None:
        """When the next one arrives as things are, or something is to be written down."""
        wait_ms: float = math.inf
        for replica, rate in self._rates.items():
            if rate:
                moving = replica.partition.reassigning
                assert moving is not None
                left_bytes = replica.partition.log.size_bytes - moving.copied_bytes[replica.node_id]
                wait_ms = min(wait_ms, max(1.0, math.ceil(left_bytes / rate * 1000)))
        return self._at_ms + int(min(wait_ms, WRITTEN_AFTER_MS)) if wait_ms < math.inf else None


def _key(text: str) -> TopicPartition | None:
    name, _, index = text.rpartition("-")
    return TopicPartition(name, int(index)) if index.isascii() and index.isdigit() and len(index) <= 10 else None


def _node_ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise ValueError(f"must be a list of node ids, found {value!r}")
    return tuple(value)
