"""Changing who holds and who leads partitions: in the catalog first, then for every node.

Under `Cluster.change_lock`, in two steps, so that what changes with them (a node that stops) changes between the two:

    await write_placements(cluster, placed)
    await publish_placements(cluster, placed)

A leader epoch goes up where the leader changes or a replica goes, as in Apache Kafka.
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
"""Of the catalog: what is under way, by partition."""


class Placement(NamedTuple):
    """Who holds a partition, who leads it, and which other replicas it is on its way to."""

    replicas: Replicas
    leadership: Leadership
    reassigning: Reassigning | None


Placed = Mapping[Partition, Placement]
"""What shall become of partitions."""


def settled(placement: Placement) -> Placement:
    """What becomes of a placement whose new replicas are all in step; any other stays as it is.

    Those that are removed go, the leader among them hands over. As Apache Kafka's controller has it, one replica of the
    new ones must be in the ISR.
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
    """Write what a restart has to know: replicas, leaders, epochs and reassignments, not the ISR, since a restart starts all nodes.

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
        # The replicas of a start with more nodes stay stored, and where nobody leads any more, the last leader.
        replicas = stored.replicas if new.replicas == partition.replicas else new.replicas
        leader = stored.leader if new.leadership.leader == NO_LEADER else new.leadership.leader
        changed[name][index] = PartitionEntry(replicas, leader, epoch)
    if changed or under_way:
        entries = await time_slice.map(
            lambda each: replace(topics[each[0]], partitions=tuple(each[1])), changed.items()
        )
        await cluster.write(cluster.catalog.put_topics, entries, SECTION, under_way)


def facts_of(cluster: Cluster, partition: Partition, reassigning: Reassigning) -> Facts:
    """What the catalog says of one that is under way; see `reassignments`."""
    return {
        "topic_id": uuid_text(cluster.catalog.topics[partition.topic_partition.topic].topic_id),
        "adding": list(reassigning.adding),
        "removing": list(reassigning.removing),
        "copied_bytes": {str(node_id): int(count) for node_id, count in reassigning.copied_bytes.items()},
    }


async def publish_placements(cluster: Cluster, placed: Placed) -> None:
    """Let everybody know, and have those look again who wait at a partition that is led anew.

    Known it is in one turn, from the call on: a node that stops must not be led to by any partition then. It takes a
    microsecond a partition. Who is cancelled meanwhile has told everybody all the same: half of it would leave a node that
    leads and does not listen, or fetches that wait at the old leader.
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
    # Those of coordinators first, in the same turn: they are few, and their tables count for the old leader alone.
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
