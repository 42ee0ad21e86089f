"""Changes of replicas and leaders that clients request (KIP-455, KIP-460).

All replicas are one log, so a change is complete when it is written. Only a replication throttle delays that: until then the
change is ongoing (`reassignments`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ..partitions.topics import NAME_CHARS_SHOWN, NO_LEADER, Partition, Reassigning
from ..runtime.time_slices import TimeSlice
from .cluster import Cluster
from .leadership import Leadership, first_leadership
from .placement import Placement, complete_reassignment, publish_placements, write_placements
from .replication_throttle import NewReplica
from .topic_plans import Replicas, check_assignments

NOT_NEEDED = "Leader election not needed for topic partition."
"""Message in Apache Kafka's words, which its clients show."""

Plan = Callable[[Cluster, Partition], Placement]
"""Function that returns the new placement of a partition. Raises KafkaError if the change is not possible."""


def plan_reassignment(replicas: Replicas, *, may_change_factor: bool = True) -> Plan:
    """Return a plan that moves a partition to `replicas`, the preferred leader first. The leader stays if it is one of them.

    New replicas without throttle catch up at once. With others the reassignment is ongoing; until its end the partition also
    has the old replicas.

    The plan raises:
        KafkaError: INVALID_REPLICA_ASSIGNMENT; INVALID_REPLICATION_FACTOR (KIP-860).
    """

    def plan(cluster: Cluster, partition: Partition) -> Placement:
        check_assignments(cluster.nodes, {partition.index: replicas}, len(replicas), must_live=False)
        before = partition.reassigning or _NOTHING
        present = [node_id for node_id in partition.replicas if node_id not in before.removing]
        if not may_change_factor and len(replicas) != len(present):
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor would change from {len(present)} to {len(replicas)}",
            )
        adding = tuple(sorted({*replicas} - ({*partition.replicas} - {*before.adding})))
        removing = tuple(sorted({*partition.replicas} - {*replicas}))
        copied_bytes = {}
        for node_id in adding:
            is_new = node_id not in before.adding
            if (is_new or node_id in before.lagging) and not _is_quick(cluster, partition, node_id):
                copied_bytes[node_id] = before.copied_bytes.get(node_id, 0.0)
        merged = replicas + tuple(node_id for node_id in partition.replicas if node_id in removing)
        able = {*partition.isr, *adding} - copied_bytes.keys()
        isr = tuple(node_id for node_id in merged if node_id in able)
        leadership = Leadership(partition.leader, isr)
        return complete_reassignment(Placement(merged, leadership, Reassigning(adding, removing, copied_bytes)))

    return plan


def _is_quick(cluster: Cluster, partition: Partition, node_id: int) -> bool:
    """Whether a new replica catches up at once."""
    rate = cluster.throttle.rate(NewReplica(partition, node_id))
    return rate == math.inf or (rate > 0 and partition.log.size_bytes == 0)


_NOTHING = Reassigning((), (), {})


def cancelled(cluster: Cluster, partition: Partition) -> Placement:
    """Return the placement after a cancelled reassignment: the partition has its old replicas, in their present order.

    Raises:
        KafkaError: NO_REASSIGNMENT_IN_PROGRESS; INVALID_REPLICA_ASSIGNMENT: none of the old replicas is in the ISR.
    """
    moving = partition.reassigning
    if moving is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, f"{partition.topic_partition} is not being reassigned.")
    replicas, isr = (
        tuple(node_id for node_id in nodes if node_id not in moving.adding)
        for nodes in (partition.replicas, partition.isr)
    )
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {partition.topic_partition} because it would require an unclean"
            " leader election.",
        )
    leader = partition.leader
    if leader in moving.adding:
        leader = next((node_id for node_id in replicas if node_id in isr), NO_LEADER)
    return Placement(replicas, Leadership(leader, isr), None)


def preferred(cluster: Cluster, partition: Partition) -> Placement:
    """Return the placement in which the first replica leads. Raises KafkaError ELECTION_NOT_NEEDED,
    PREFERRED_LEADER_NOT_AVAILABLE."""
    wanted = partition.replicas[0]
    _check_online(partition, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    if partition.leader == wanted:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    if wanted not in cluster.live_node_ids() or wanted not in partition.isr:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"node {wanted}, the preferred leader of {partition.topic_partition}, is down",
        )
    return Placement(partition.replicas, Leadership(wanted, partition.isr), partition.reassigning)


def unclean(cluster: Cluster, partition: Partition) -> Placement:
    """Return the placement in which any live replica leads. Raises KafkaError ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE."""
    _check_online(partition, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    if partition.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, NOT_NEEDED)
    elected = first_leadership(partition.able_replicas, cluster.live_node_ids())
    if elected.leader == NO_LEADER:
        raise KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no live replica of {partition.topic_partition}")
    return Placement(partition.replicas, elected, partition.reassigning)


def _check_online(partition: Partition, code: ErrorCode) -> None:
    if (failure := partition.log.failure) is not None:
        raise KafkaError(code, f"the log of {partition.topic_partition}, shared by all replicas, is offline: {failure}")


CHANGES_MAX = 10_000
"""Maximum number of changes in one request, as in Apache Kafka's controller."""


class Missing(NamedTuple):
    """Messages for a topic, or a partition of it, that does not exist; with places for `topic` and `index`."""

    topic: str
    partition: str


NONE_TO_ELECT = Missing("No such topic as {topic}", "No such partition as {topic}-{index}")
NONE_TO_ASSIGN = Missing("Unable to find a topic named {topic}.", "Unable to find partition {topic}:{index}.")
"""Messages in Apache Kafka's words."""


async def change(
    cluster: Cluster, wanted: Mapping[TopicPartition, Plan], time_slice: TimeSlice, missing: Missing = NONE_TO_ELECT
) -> dict[TopicPartition, KafkaError]:
    """Run plans: in the catalog first, then for every node. Return the refused ones with their errors.

    The codes are those of the plans, UNKNOWN_TOPIC_OR_PARTITION, KAFKA_STORAGE_ERROR and POLICY_VIOLATION (too many changes).
    With the last two nothing has changed.
    """
    refused: dict[TopicPartition, KafkaError] = {}
    placed: dict[Partition, Placement] = {}
    async with cluster.change_lock:
        async for topic_partition, plan in time_slice.each(wanted.items()):
            try:
                partition = _find_partition(cluster, topic_partition, missing)
                placed[partition] = plan(cluster, partition)
            except KafkaError as error:
                # The traceback names this frame, whose table names the error: each error would be a cycle, and keep its objects
                # until a garbage collection, which blocks all tasks.
                refused[topic_partition] = error.with_traceback(None)
        if len(placed) > CHANGES_MAX:
            too_many = KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"too many changes in one request ({len(placed)}, limit {CHANGES_MAX}).",
            )
            await time_slice.empty(refused)
            await time_slice.empty(placed)
            return dict.fromkeys(wanted, too_many)
        try:
            await write_placements(cluster, placed)
        except KafkaError as error:
            return refused | dict.fromkeys(
                (partition.topic_partition for partition in placed), error.with_traceback(None)
            )
        await publish_placements(cluster, placed)
    return refused


def _find_partition(cluster: Cluster, topic_partition: TopicPartition, missing: Missing) -> Partition:
    name, index = topic_partition
    topic = cluster.topics.get(name)
    if topic is not None and 0 <= index < len(topic.partitions):
        return topic.partitions[index]
    words = missing.topic if topic is None else missing.partition
    told = words.format(topic=name[:NAME_CHARS_SHOWN], index=index)
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, told)
