"""Single nodes, stopped and started again while the others serve; and leaders that move: another node leads a partition, or coordinates
a group, a transactional id or a share partition, from one moment to the next.

What clients see of a move is what they see of any election: NOT_LEADER_OR_FOLLOWER or NOT_COORDINATOR from the old one, a new leader
epoch, and the new one in Metadata and FindCoordinator. All replicas are one log, so nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.checkpoints import uuid_text
from ...storage.disk.paths import TopicPartition
from ..broker.broker import Broker
from ..cluster.cluster import Cluster
from ..cluster.leadership import Leadership
from ..cluster.placement import Placement
from ..cluster.reassignment import Plan, change
from ..coordination.service import CoordinatorService
from ..partitions.topics import Partition, Topic
from ..runtime.errors import ControlError, Kind
from ..runtime.time_slices import TimeSlice
from .broker_state import NodeState, node_states
from .operation import Name, NodeId, PartitionId, TopicName, operation
from .partitions import topic_named


@dataclass(frozen=True, slots=True)
class Nodes:
    """All nodes, in id order."""

    nodes: tuple[NodeState, ...]


@operation("GET", "/v1/nodes")
async def list_nodes(broker: Broker) -> Nodes:
    """List the nodes of the process, and whether they are running."""
    return Nodes(node_states(broker))


@operation("POST", "/v1/nodes/{node_id}/stop", statuses=(404, 500))
async def stop_node(broker: Broker, node_id: NodeId) -> NodeState:
    """Stop one node: it hands over its leaderships and closes its connections and listeners.

    A stopped node stays stopped.

    Raises:
        ControlError: NOT_FOUND: node not found; FAILED: the catalog cannot be written, the node continues to serve.
    """
    try:
        await broker.stop_node(node_id)
    except KafkaError as error:
        raise ControlError(Kind.FAILED, f"node {node_id} cannot stop: {error.message}") from error
    return _state(broker, node_id)


@operation("POST", "/v1/nodes/{node_id}/start", statuses=(404, 500))
async def start_node(broker: Broker, node_id: NodeId) -> NodeState:
    """Start a stopped node again, on the same ports.

    A running node is not changed.

    Raises:
        ControlError: NOT_FOUND: node not found; UNAVAILABLE: the broker is stopping; FAILED: its port is in use, or the
            catalog cannot be written; the node stays stopped.
    """
    try:
        await broker.start_node(node_id)
    except (KafkaError, OSError) as error:
        raise ControlError(Kind.FAILED, f"node {node_id} cannot start: {error}") from error
    return _state(broker, node_id)


def _state(broker: Broker, node_id: int) -> NodeState:
    return next(state for state in node_states(broker) if state.node_id == node_id)


@dataclass(frozen=True, slots=True)
class LeaderMoved:
    """The leader of a partition after a move."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    was: int
    """The previous leader, or -1 if there was none; equal to `leader` if nothing changed."""
    replicas: tuple[int, ...]


@operation("POST", "/v1/topics/{topic}/partitions/{partition}/leader", statuses=(404, 409, 500))
async def move_leader(broker: Broker, topic: TopicName, partition: PartitionId, node: NodeId) -> LeaderMoved:
    """Move the leader of a partition to another node.

    A node without a replica of the partition replaces the old leader among the replicas.

    Args:
        node: Id of the new leader.

    Raises:
        ControlError: NOT_FOUND: partition or node not found; CONFLICT: the node is stopped; FAILED: the catalog cannot be
            written. Nothing has changed.
    """
    found = _topic_with(broker, topic, partition)
    ids = [each.node_id for each in broker.nodes]
    if node not in ids:
        raise ControlError(Kind.NOT_FOUND, f"node {node} not found; nodes: {', '.join(map(str, ids))}")
    of_it = found.partitions[partition]
    was = of_it.leader
    if was != node:
        where = TopicPartition(topic, partition)
        refused = await change(broker.services.cluster, {where: _led_by(node)}, TimeSlice())
        if (error := refused.get(where)) is not None:
            raise _as_control_error(error)
    return LeaderMoved(topic, partition, of_it.leader, of_it.leader_epoch, was, of_it.replicas)


@operation("POST", "/v1/coordinators", statuses=(404, 409, 500))
async def move_coordinator(
    broker: Broker,
    node: NodeId,
    *,
    group: Name | None = None,
    transactional_id: Name | None = None,
    topic: TopicName | None = None,
    partition: PartitionId | None = None,
) -> LeaderMoved:
    """Move the coordinator of a group, a transactional id, or a share partition to another node.

    A share partition is a group, a topic and a partition. Everything in the same partition of the internal topic moves as well.

    Args:
        node: Id of the new coordinator.
        topic: Topic of a share partition of the group.

    Raises:
        ControlError: INVALID: the arguments do not select exactly one of these; and as `move_leader`.
    """
    if (group is None) == (transactional_id is None):
        raise ControlError(Kind.INVALID, "expected either a group or a transactional_id")
    key = group if group is not None else transactional_id
    assert key is not None
    coordinators = broker.services.coordinators
    service: CoordinatorService[Any, Any] = coordinators.groups if group is not None else coordinators.transactions
    if topic is not None or partition is not None:
        if group is None or topic is None or partition is None:
            raise ControlError(Kind.INVALID, "a share partition requires a group, a topic and a partition")
        key = f"{group}:{uuid_text(_topic_with(broker, topic, partition).id)}:{partition}"
        service = coordinators.share_states
    try:
        if not service.coordinator.shards:
            await service.ensure_topic()
    except KafkaError as error:
        raise _as_control_error(error) from error
    return await move_leader(broker, service.coordinator.topic, service.coordinator.partition_for(key), node)


def _topic_with(broker: Broker, name: str, partition: int) -> Topic:
    """The topic, which has such a partition; else ControlError NOT_FOUND."""
    found = topic_named(broker.services.topics, name)
    if not 0 <= partition < len(found.partitions):
        raise ControlError(
            Kind.NOT_FOUND, f"partition {partition} of {name} not found; partitions: 0 to {len(found.partitions) - 1}"
        )
    return found


def _led_by(node: int) -> Plan:
    def plan(cluster: Cluster, partition: Partition) -> Placement:
        if node not in cluster.live_node_ids():
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"node {node} is stopped; start it first")
        replicas, isr, moving = partition.replicas, partition.isr, partition.reassigning
        if moving is not None and (node not in replicas or node in moving.lagging):
            raise KafkaError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"{partition.topic_partition} is being reassigned, and node {node} is not in sync yet; wait for the reassignment"
                " to complete, or cancel it",
            )
        if node not in replicas:
            gone = partition.leader if partition.leader in replicas else replicas[0]
            replicas = tuple(node if each == gone else each for each in replicas)
            isr = tuple(each for each in isr if each != gone)
        return Placement(replicas, Leadership(node, isr if node in isr else (*isr, node)), moving)

    return plan


def _as_control_error(error: KafkaError) -> ControlError:
    kinds = {
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: Kind.CONFLICT,
        ErrorCode.REASSIGNMENT_IN_PROGRESS: Kind.CONFLICT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Kind.NOT_FOUND,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Kind.UNAVAILABLE,
    }
    return ControlError(kinds.get(error.code, Kind.FAILED), error.message)
