"""Which partition a request means, and whether the node it reached leads it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...protocol.errors import ErrorCode, KafkaError
from ..partitions.topics import NO_LEADER, Partition
from ..services.context import Context


class NotLeaderError(KafkaError):
    """The request reached a node that does not lead the partition; `partition` tells who does."""

    def __init__(self, partition: Partition, node_id: int) -> None:
        who = "no live node" if partition.leader == NO_LEADER else f"node {partition.leader}"
        super().__init__(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {node_id} does not lead {partition.topic_partition}; {who} does"
        )
        self.partition = partition


def led_partition(ctx: Context, topic: str | bytes, index: int) -> Partition:
    """The partition that `topic` (a name, or an id as bytes) and `index` mean, if this node leads it.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, or NOT_LEADER_OR_FOLLOWER
            (as NotLeaderError).
    """
    topics = ctx.services.topics
    partition = topics.partition(topic, index) if isinstance(topic, str) else topics.partition_by_id(topic, index)
    if partition.leader != ctx.node.node_id:
        raise NotLeaderError(partition, ctx.node.node_id)
    return partition


def replica_of(ctx: Context, topic: str, index: int) -> Partition:
    """The partition `index` of `topic`, if this node holds it, as its leader or not.

    Raises:
        KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or NOT_LEADER_OR_FOLLOWER (as NotLeaderError).
    """
    partition = ctx.services.topics.partition(topic, index)
    if ctx.node.node_id not in partition.replicas:
        raise NotLeaderError(partition, ctx.node.node_id)
    return partition


def endpoints(ctx: Context, node_ids: Iterable[int]) -> list[tuple[int, str, int, str | None]]:
    """Node id, host, port and rack for each of `node_ids`, on the listener the client came by."""
    found = []
    for node_id in sorted(set(node_ids)):
        node = ctx.services.cluster.node(node_id)
        if node is not None:
            found.append((node_id, *node.advertised(ctx.listener.name), node.rack))
    return found


def eligible_and_last_known(partition: Partition) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Who may lead a partition that nobody leads, whose ISR is empty where replicas may be eligible (KIP-966), and who led it last."""
    last = partition.isr[:1] if partition.leader == NO_LEADER else (partition.leader,)
    return tuple(sorted({*partition.isr, *partition.elr})), last


def leader_and_offline(partition: Partition, live: Collection[int]) -> tuple[int, tuple[int, ...]]:
    """Who leads it and which of its replicas are offline, as clients are told: those on nodes that are not among the live ones;
    nobody and all of them while its log is offline."""
    if partition.log.failure is not None:
        return NO_LEADER, partition.replicas
    # Of few: a generator would take twice as long.
    return partition.leader, tuple([node_id for node_id in partition.replicas if node_id not in live])
