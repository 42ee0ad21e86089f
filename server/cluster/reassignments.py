"""Ongoing reassignments: each new replica has caught up when its throttle has let the bytes of the log through.

In the catalog's section `reassignments`, by partition:

    "orders-0": {"topic_id": "…22 characters…", "adding": [3], "removing": [1], "copied_bytes": {"3": 1048576}}

where `copied_bytes` names the replicas that have not caught up yet. A restart continues from the last written state.

Ten thousand may be ongoing, and when one completes, the rates of all others change. So a change is only noted; the task of
`run` applies it, in several time slices.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import trio

from ...protocol.errors import KafkaError
from ...storage.disk.checkpoints import uuid_text
from ...storage.disk.paths import TopicPartition
from ...storage.topics.entries import Facts
from ..partitions.topics import Partition, Reassigning, Topic, Watcher
from ..runtime.clock import Clock
from ..runtime.time_slices import TimeSlice, run_cooperatively
from .cluster import Cluster
from .leadership import Leadership
from .placement import SECTION, Placement, complete_reassignment, facts_of, publish_placements, write_placements
from .replication_throttle import NewReplica

log = logging.getLogger("ottla.reassignments")

WRITTEN_AFTER_MS = 60_000
"""Interval of writing the progress: a kill may lose that much."""
LOOKED_AT_IN_A_MS = 10
"""Number of replicas per millisecond of delay: each check passes over all of them, so the more there are, the later a completed
one is noticed."""
RETRY_MS = 1_000


class Reassignments(Watcher):
    """The ongoing reassignments of one broker."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._at_ms = clock.elapsed_ms()
        """Time for which `copied_bytes` are computed."""
        self._rates: dict[NewReplica, float] = {}
        """Rates from `_at_ms` on; until `_changed_ms` if that is set."""
        self._changed_ms: int | None = None
        """Time of the last change that `_rates` does not contain yet; None without one. For the time before it, replicas that
        it added get no bytes."""
        self._written_ms = self._at_ms
        self._changed = trio.Event()
        cluster.reconsider = self._reconsider
        cluster.copied_bytes = self._copied_bytes

    def open(self) -> list[str]:
        """Continue the reassignments that were ongoing at the last stop. Return a line for each entry that is ignored."""
        problems = []
        for key, facts in self._cluster.catalog.entries(SECTION).items():
            try:
                partition, reassigning = self._describe_one(key, facts)
            except (ValueError, OverflowError, TypeError, KeyError, AttributeError, KafkaError) as error:
                problems.append(f"stored reassignment of {key} ignored: {error}")
                continue
            partition.reassigning = reassigning
            partition.isr = partition.able_replicas
            self._cluster.under_way[partition.topic_partition] = partition
        self._reconsider()
        return problems

    def _describe_one(self, key: str, facts: Facts) -> tuple[Partition, Reassigning]:
        name, _, index = key.rpartition("-")
        partition = self._cluster.topics.partition(name, int(index))
        topic = self._cluster.topics.get(name)
        if topic is None or facts["topic_id"] != uuid_text(topic.id):
            raise ValueError("its topic was deleted")
        adding, removing = (_node_ids(facts[which]) for which in ("adding", "removing"))
        copied_bytes = {int(node_id): float(count) for node_id, count in facts["copied_bytes"].items()}
        if not all(0 <= count < math.inf for count in copied_bytes.values()):
            raise ValueError(f"copied_bytes must be byte counts, found {[*copied_bytes.values()]}")
        if missing := {*adding, *removing} - {*partition.replicas}:
            raise ValueError(f"node {min(missing)} is not in the replicas {list(partition.replicas)}")
        if not copied_bytes.keys() <= set(adding) or partition.leader in copied_bytes:
            raise ValueError(f"copied_bytes must name new replicas other than the leader, found {sorted(copied_bytes)}")
        return partition, Reassigning(adding, removing, copied_bytes)

    def topic_deleted(self, topic: Topic) -> None:
        for partition in topic.partitions:
            self._cluster.under_way.pop(partition.topic_partition, None)
        if topic.partitions:
            self._cluster.reconsider()

    async def run(self) -> None:
        """Complete reassignments when their time has come, until cancelled."""
        while True:
            changed = self._changed
            with self._clock.at_work():
                due_ms = await self._complete_due()
            if due_ms is None:
                await changed.wait()
                continue
            await self._clock.sleep_until_or(due_ms, changed)

    def _reconsider(self) -> None:
        """Note a change: the old rates hold until now, and new ones from now on."""
        self._changed_ms = self._clock.elapsed_ms()
        self._changed.set()
        self._changed = trio.Event()

    async def _complete_due(self) -> int | None:
        """Complete what is due. Return the elapsed time of the next check; None to wait for a change."""
        cluster = self._cluster
        if not (cluster.under_way or cluster.catalog.entries(SECTION)):
            self._changed_ms, self._rates = None, {}
            return None
        async with cluster.change_lock:
            time_slice = TimeSlice()
            await self._update_copied(time_slice)
            placed: dict[Partition, Placement] = {}
            async for partition in time_slice.each(list(cluster.under_way.values())):
                if (placement := self._arrived(partition)) is not None:
                    placed[partition] = placement
            elapsed_ms = self._clock.elapsed_ms()
            try:
                await write_placements(cluster, placed)
                await publish_placements(cluster, placed)
                time_slice.begin()
                await self._write_down(elapsed_ms, time_slice)
            except KafkaError as error:
                log.error("reassignments: %s", error)
                return elapsed_ms + RETRY_MS
            return await self._due_ms(time_slice)

    def _lagging(self) -> list[NewReplica]:
        return [
            NewReplica(partition, node_id)
            for partition in self._cluster.under_way.values()
            if partition.reassigning is not None
            for node_id in partition.reassigning.lagging
        ]

    async def _update_copied(self, time_slice: TimeSlice) -> None:
        """Update `copied_bytes` and the rates to the present time."""
        elapsed_ms = self._clock.elapsed_ms()
        changed_ms, self._changed_ms = self._changed_ms, None
        if changed_ms is not None:
            await self._advance(changed_ms, time_slice)
            self._rates = await run_cooperatively(self._cluster.throttle.rates_in_pieces(self._lagging()), time_slice)
        await self._advance(elapsed_ms, time_slice)

    async def _advance(self, up_to_ms: int, time_slice: TimeSlice) -> None:
        passed_s = (up_to_ms - self._at_ms) / 1000
        if passed_s:
            async for replica in time_slice.each(self._lagging()):
                rate, moving = self._rates.get(replica, 0.0), replica.partition.reassigning
                if rate < math.inf and moving is not None and replica.node_id in moving.copied_bytes:
                    moving.copied_bytes[replica.node_id] += rate * passed_s
        self._at_ms = up_to_ms

    def _copied_bytes(self, partition: Partition, node_id: int) -> int | None:
        moving = partition.reassigning
        if moving is None or node_id not in moving.lagging:
            return None
        passed_s = (self._clock.elapsed_ms() - self._at_ms) / 1000
        rate = self._rates.get(NewReplica(partition, node_id), 0.0)
        return int(moving.copied_bytes[node_id] + (rate * passed_s if rate < math.inf else 0.0))

    def _arrived(self, partition: Partition) -> Placement | None:
        """Return a partition's placement if one of its new replicas has caught up; None if nothing changes."""
        moving = partition.reassigning
        assert moving is not None
        left = {}
        for node_id, copied_bytes in moving.copied_bytes.items():
            rate = self._rates.get(NewReplica(partition, node_id), 0.0)
            if not rate or (rate < math.inf and copied_bytes < partition.log.size_bytes):
                left[node_id] = copied_bytes
        # If no replica must catch up, the partition may have waited for one of the new ones to be in the ISR again.
        if len(left) == len(moving.copied_bytes) > 0:
            return None
        able = {*partition.isr, *(node_id for node_id in moving.lagging if node_id not in left)}
        isr = tuple(node_id for node_id in partition.replicas if node_id in able)
        present = Placement(
            partition.replicas, Leadership(partition.leader, isr), Reassigning(moving.adding, moving.removing, left)
        )
        placement = complete_reassignment(present)
        return None if placement is present and len(left) == len(moving.copied_bytes) else placement

    async def _write_down(self, elapsed_ms: int, time_slice: TimeSlice) -> None:
        """Write the progress at intervals, and remove the entries of deleted topics."""
        cluster = self._cluster
        gone: dict[str, Facts | None] = {}
        async for key in time_slice.each(list(cluster.catalog.entries(SECTION))):
            if _key(key) not in cluster.under_way:
                gone[key] = None
        if not gone and elapsed_ms - self._written_ms < WRITTEN_AFTER_MS:
            return
        present = {}
        async for where, partition in time_slice.each(list(cluster.under_way.items())):
            if partition.reassigning is not None:
                present[str(where)] = facts_of(cluster, partition, partition.reassigning)
        await cluster.write(cluster.catalog.put_entries, SECTION, {**gone, **present})
        self._written_ms = elapsed_ms

    async def _due_ms(self, time_slice: TimeSlice) -> int | None:
        """Return the elapsed time at which the next replica catches up at the present rates, or the progress must be written;
        None if no replica is catching up."""
        if self._changed_ms is not None:
            return self._at_ms
        least_ms = max(1.0, len(self._rates) / LOOKED_AT_IN_A_MS)
        wait_ms: float = math.inf
        async for replica, rate in time_slice.each(self._rates.items()):
            moving = replica.partition.reassigning
            if rate and moving is not None and replica.node_id in moving.copied_bytes:
                left_bytes = replica.partition.log.size_bytes - moving.copied_bytes[replica.node_id]
                wait_ms = min(wait_ms, max(least_ms, math.ceil(left_bytes / rate * 1000)))
        return self._at_ms + int(min(wait_ms, WRITTEN_AFTER_MS)) if wait_ms < math.inf else None


def _key(text: str) -> TopicPartition | None:
    name, _, index = text.rpartition("-")
    return TopicPartition(name, int(index)) if index.isascii() and index.isdigit() and len(index) <= 10 else None


def _node_ids(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise ValueError(f"must be a list of node IDs, found {value!r}")
    return tuple(value)
