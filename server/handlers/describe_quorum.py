"""DescribeQuorum, API key 55, versions 0-2 (KIP-595, KIP-836, KIP-853).

Behaviour
- Answers like an Apache Kafka cluster of the same shape: the controllers with listeners are voters, and the first of them
  leads. Without any, the node that Metadata names as controller is the only voter. The other live nodes are observers.
- All replicas are complete: the end of the metadata log is the number of changes since the start, the leader epoch is 1.
- Observers have their directory id, voters only from kraft.version 1 on.
- Only `__cluster_metadata-0`, alone, is known; anything else is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    PartitionQuorum,
    ReplicaState,
    TopicData,
    TopicQuorum,
)
from ...protocol.schema import ZERO_UUID
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context

METADATA_TOPIC = "__cluster_metadata"
LEADER_EPOCH = 1


async def handle(ctx: Context, request: Request) -> DescribeQuorumResponse:
    body: DescribeQuorumRequest = request.body
    if not ctx.may(AclOperation.DESCRIBE, ResourceType.CLUSTER):
        return DescribeQuorumResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="Cluster authorization failed."
        )
    if not _is_metadata_log(body.topics):
        time_slice = TimeSlice()
        unknown = []
        async for topic in time_slice.each(body.topics):
            rows = tuple(await time_slice.map(_unknown, topic.partitions))
            unknown.append(TopicQuorum(topic_name=topic.topic_name, partitions=rows))
        return DescribeQuorumResponse(topics=tuple(unknown))
    nodes = tuple(
        Node(
            node_id=node_id,
            listeners=tuple(
                Listener(name=each.name, host=each.advertised_host, port=each.advertised_port) for each in listeners
            ),
        )
        for node_id, listeners in ctx.services.cluster.controllers().items()
    )
    quorum = TopicQuorum(topic_name=METADATA_TOPIC, partitions=(_quorum(ctx),))
    return DescribeQuorumResponse(topics=(quorum,), nodes=nodes)


def _is_metadata_log(topics: tuple[TopicData, ...]) -> bool:
    return (
        len(topics) == 1
        and topics[0].topic_name == METADATA_TOPIC
        and [each.partition_index for each in topics[0].partitions[:2]] == [0]
    )


def _unknown(partition: PartitionData) -> PartitionQuorum:
    return PartitionQuorum(
        partition_index=partition.partition_index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This server does not host this topic-partition.",
    )


def _quorum(ctx: Context) -> PartitionQuorum:
    cluster, now_ms = ctx.services.cluster, ctx.services.clock.now_ms()
    end, leader = cluster.changes, cluster.quorum_leader()
    voters = list(cluster.controllers()) or [leader]
    directory_id = cluster.directory_id()
    of_voters = directory_id if ctx.services.config.feature_level("kraft.version") else ZERO_UUID

    def state(node_id: int) -> ReplicaState:
        return ReplicaState(
            replica_id=node_id,
            replica_directory_id=of_voters if node_id in voters else directory_id,
            log_end_offset=end,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )

    return PartitionQuorum(
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        high_watermark=end,
        current_voters=tuple(map(state, voters)),
        observers=tuple(state(node_id) for node_id in cluster.live_node_ids() if node_id not in voters),
    )
