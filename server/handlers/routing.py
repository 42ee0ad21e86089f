"""Lookup of a request's partitions, and of their leaders."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...protocol.errors import ErrorCode
from ...storage.produce.record_checks import EarlyRefusalError
from ..partitions.topics import NO_LEADER, Partition
from ..services.context import Context


def _not_led(partition: Partition, node_id: int) -> EarlyRefusalError:
    """Return the error for a request that reached a node that does not lead the partition."""
    who = "no live node" if partition.leader == NO_LEADER else f"node {partition.leader}"
    return EarlyRefusalError(
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        f"node {node_id} does not lead {partition.topic_partition}; {who} does",
        (partition.leader, partition.leader_epoch),
    )


def led_partition(ctx: Context, topic: str | bytes, index: int) -> Partition:
    """Return the partition of `topic` (a name, or an id as bytes) with this `index`, if this node leads it.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, or NOT_LEADER_OR_FOLLOWER
            (as EarlyRefusalError, with the leader).
    """
    topics = ctx.services.topics
    partition = topics.partition(topic, index) if isinstance(topic, str) else topics.partition_by_id(topic, index)
    if partition.leader != ctx.node.node_id:
        raise _not_led(partition, ctx.node.node_id)
    return partition


def replica_of(ctx: Context, topic: str, index: int) -> Partition:
    """Return the partition `index` of `topic`, if this node has a replica of it.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER (as EarlyRefusalError, with the leader).
    """
    partition = ctx.services.topics.partition(topic, index)
    if ctx.node.node_id not in partition.replicas:
        raise _not_led(partition, ctx.node.node_id)
    return partition


def endpoints(ctx: Context, node_ids: Iterable[int]) -> list[tuple[int, str, int, str | None]]:
    """Return node id, host, port and rack for each of `node_ids`, on the client's listener."""
    found = []
    for node_id in sorted(set(node_ids)):
        node = ctx.services.cluster.node(node_id)
        if node is not None:
            found.append((node_id, *node.advertised(ctx.listener.name), node.rack))
    return found


def eligible_and_last_known(partition: Partition) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the eligible leaders of a partition without a leader, whose ISR is empty if eligible leaders are enabled
    (KIP-966), and its last leader."""
    last = partition.isr[:1] if partition.leader == NO_LEADER else (partition.leader,)
    return tuple(sorted({*partition.isr, *partition.elr})), last


def leader_and_offline(partition: Partition, live: Collection[int]) -> tuple[int, tuple[int, ...]]:
    """Return the leader and the offline replicas, as clients see them: offline are those on nodes that are not live. While the
    log is offline, the partition has no leader and all its replicas are offline."""
    if partition.log.failure is not None:
        return NO_LEADER, partition.replicas
    # For few items a generator would take twice as long.
    return partition.leader, tuple([node_id for node_id in partition.replicas if node_id not in live])
