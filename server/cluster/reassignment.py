"""Other replicas or another leader for partitions, because a client wants them (KIP-455, KIP-460).

All replicas are one log, so a change is complete when it is written, and none is ever under way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ..partitions.topics import NO_LEADER, Partition
from ..runtime.turns import Turn
from .cluster import Cluster
from .leadership import Leadership, first_leadership
from .placement import Placement, publish_placements, write_placements
from .replicas import Replicas, check_assignments

Plan = Callable[[Cluster, Partition], Placement]
"""What shall become of a partition. Raises KafkaError where that cannot be."""


def onto(replicas: Replicas, *, may_change_factor: bool = True) -> Plan:
    """Move a partition to `replicas`, the preferred leader first. The leader stays if it is one of them and lives.

    The plan raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT, also where none of `replicas` is alive: Apache Kafka would wait for one;
            INVALID_REPLICATION_FACTOR (KIP-860).
    """

    def plan(cluster: Cluster, partition: Partition) -> Placement:
        check_assignments(cluster.nodes, {partition.index: replicas}, len(replicas))
        if not may_change_factor and len(replicas) != len(partition.replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {len(partition.replicas)} to {len(replicas)}",
            )
        leader, isr = first_leadership(replicas, cluster.live_node_ids())
        return Placement(replicas, Leadership(partition.leader if partition.leader in isr else leader, isr))

    return plan


def cancelled(cluster: Cluster, partition: Partition) -> Placement:
    """Take a reassignment back: there is none. KafkaError NO_REASSIGNMENT_IN_PROGRESS."""
    raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{partition.topic_partition} is not being reassigned.")


def preferred(cluster: Cluster, partition: Partition) -> Placement:
    """The first replica leads. KafkaError ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE."""
    wanted = partition.replicas[0]
    if partition.leader == wanted:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"node {wanted} leads {partition.topic_partition} already")
    if wanted not in cluster.live_node_ids() or wanted not in partition.isr:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"node {wanted}, the first of {partition.topic_partition}, is down",
        )
    return Placement(partition.replicas, Leadership(wanted, partition.isr))


def unclean(cluster: Cluster, partition: Partition) -> Placement:
    """Any live replica leads. KafkaError ELECTION_NOT_NEEDED, ELIGIBLE_LEADERS_NOT_AVAILABLE."""
    if partition.leader != NO_LEADER:
        raise KafkaError(
            ErrorCode.ELECTION_NOT_NEEDED, f"node {partition.leader} leads {partition.topic_partition} already"
        )
    elected = first_leadership(partition.replicas, cluster.live_node_ids())
    if elected.leader == NO_LEADER:
        raise KafkaError(
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {partition.topic_partition} is alive"
        )
    return Placement(partition.replicas, elected)


CHANGES_MAX = 10_000
"""Apache Kafka's controller writes no more records for one request."""


async def change(
    cluster: Cluster, wanted: Mapping[TopicPartition, Plan], turn: Turn
) -> dict[TopicPartition, KafkaError]:
    """Carry out plans: in the catalog first, then for every node. Returns those that were refused, and why.

    The codes are those of the plans, UNKNOWN_TOPIC_OR_PARTITION, and KAFKA_STORAGE_ERROR and POLICY_VIOLATION (there are
    too many), with which nothing has changed.
    """
    refused: dict[TopicPartition, KafkaError] = {}
    placed: dict[Partition, Placement] = {}
    async with cluster.change_lock:
        for topic_partition, plan in wanted.items():
            if turn.is_over():
                await turn.next()
            try:
                partition = cluster.topics.partition(*topic_partition)
                placed[partition] = plan(cluster, partition)
            except KafkaError as error:
                # The traceback names this frame, whose table names the error: a cycle for each, and all that they name stays
                # until the collector comes, which then has everybody wait for it.
                refused[topic_partition] = error.with_traceback(None)
        if len(placed) > CHANGES_MAX:
            too_many = KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{len(placed)} changes in one request; at most {CHANGES_MAX} are allowed.",
            )
            await turn.empty(refused)
            await turn.empty(placed)
            return dict.fromkeys(wanted, too_many)
        try:
            await write_placements(cluster, placed)
        except KafkaError as error:
            return refused | dict.fromkeys(
                (partition.topic_partition for partition in placed), error.with_traceback(None)
            )
        await publish_placements(cluster, placed)
    return refused
