"""Changes of the replicas and leaders of partitions: in the catalog first, then for every node.

Both steps need `Cluster.change_lock`. A change that depends on both (a node that stops) is made between them:

    await write_placements(cluster, placed)
    await publish_placements(cluster, placed)

A leader epoch grows when the leader changes or a replica is removed, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import trio

from ...storage.disk.checkpoints import uuid_text
from ...storage.topics.catalog_file import PartitionEntry
from ...storage.topics.entries import Facts
from ..partitions.topics import NO_LEADER, Partition, Reassigning
from ..runtime.time_slices import TimeSlice
from .cluster import Cluster
from .leadership import Leadership, eligible
from .topic_plans import Replicas

SECTION = "reassignments"
"""Section of the catalog with the ongoing reassignments, by partition."""


class Placement(NamedTuple):
    """Replicas and leader of a partition, and its ongoing reassignment."""

    replicas: Replicas
    leadership: Leadership
    reassigning: Reassigning | None


Placed = Mapping[Partition, Placement]
"""New placements of partitions."""


def complete_reassignment(placement: Placement) -> Placement:
    """Return a placement without its reassignment if all new replicas have caught up; otherwise return it unchanged.

    The replicas under removal are dropped; if the leader is one of them, another replica leads. As in Apache Kafka's
    controller, at least one of the remaining replicas must be in the ISR.
    """
    moving = placement.reassigning
    if moving is None or moving.lagging:
        return placement
    replicas = tuple(node_id for node_id in placement.replicas if node_id not in moving.removing)
    isr = tuple(node_id for node_id in replicas if node_id in placement.leadership.isr)
    if not isr:
        return placement
    leader = placement.leadership.leader
    if leader in moving.removing:
        leader = isr[0]
    return Placement(replicas, Leadership(leader, isr), None)


async def write_placements(cluster: Cluster, placed: Placed) -> None:
    """Write the state that a restart needs: replicas, leaders, epochs and reassignments. The ISR is left out, since a restart
    starts all nodes.

    Raises:
        KafkaError: KAFKA_STORAGE_ERROR; nothing has changed.
    """
    topics = cluster.catalog.topics
    time_slice = TimeSlice()
    changed: dict[str, list[PartitionEntry]] = {}
    under_way: dict[str, Facts | None] = {}
    async for partition, new in time_slice.each(placed.items()):
        if new.reassigning is not partition.reassigning:
            facts = None if new.reassigning is None else facts_of(cluster, partition, new.reassigning)
            under_way[str(partition.topic_partition)] = facts
        epoch = _epoch(partition, new)
        if epoch == partition.leader_epoch and new.replicas == partition.replicas:
            continue
        name, index = partition.topic_partition
        if name not in changed:
            changed[name] = list(topics[name].partitions)
        stored = changed[name][index]
        # If a start has fewer nodes, the stored replicas stay; if no node leads any more, the last leader stays.
        replicas = stored.replicas if new.replicas == partition.replicas else new.replicas
        leader = stored.leader if new.leadership.leader == NO_LEADER else new.leadership.leader
        changed[name][index] = PartitionEntry(replicas, leader, epoch)
    if changed or under_way:
        entries = await time_slice.map(
            lambda each: replace(topics[each[0]], partitions=tuple(each[1])), changed.items()
        )
        await cluster.write(cluster.catalog.put_topics, entries, SECTION, under_way)


def facts_of(cluster: Cluster, partition: Partition, reassigning: Reassigning) -> Facts:
    """Return the catalog's entry for an ongoing reassignment; see `reassignments`."""
    return {
        "topic_id": uuid_text(cluster.catalog.topics[partition.topic_partition.topic].topic_id),
        "adding": list(reassigning.adding),
        "removing": list(reassigning.removing),
        "copied_bytes": {str(node_id): int(count) for node_id, count in reassigning.copied_bytes.items()},
    }


async def publish_placements(cluster: Cluster, placed: Placed) -> None:
    """Apply placements for every node, and wake requests that wait at partitions with another leader.

    The tables change in one step, at the start of the call: from then on no partition may name a stopping node as its leader.
    It takes a microsecond a partition. A cancellation does not stop the notifications: otherwise a node might lead without
    listening, or fetches might wait at the old leader.
    """
    moved, has_eligible_replicas = [], cluster.has_eligible_replicas()
    for partition, new in placed.items():
        if new.leadership.leader != partition.leader:
            moved.append(partition)
        present = Leadership(partition.leader, partition.isr)
        min_isr = partition.log.config.min_insync_replicas if has_eligible_replicas else 0
        partition.elr = eligible(new.replicas, present, partition.elr, new.leadership, min_isr)
        partition.leader_epoch = _epoch(partition, new)
        partition.replicas = new.replicas
        partition.leader, partition.isr = new.leadership
        partition.reassigning = new.reassigning
        if new.reassigning is not None:
            cluster.under_way[partition.topic_partition] = partition
        else:
            cluster.under_way.pop(partition.topic_partition, None)
    if placed:
        cluster.topics.changed()
        cluster.reconsider()
    # Partitions of coordinators are first, in the same step: they are few, and their tables are valid for the old leader only.
    moved.sort(key=lambda partition: not partition.is_internal)
    time_slice = TimeSlice()
    with trio.CancelScope(shield=True):
        for partition in moved:
            if not partition.is_internal and time_slice.is_over():
                await time_slice.next()
            for watcher in cluster.watchers:
                watcher.leader_moved(partition)


def _epoch(partition: Partition, new: Placement) -> int:
    is_bumped = partition.leader != new.leadership.leader or (
        partition.replicas != new.replicas and not set(partition.replicas) <= set(new.replicas)
    )
    return partition.leader_epoch + is_bumped
