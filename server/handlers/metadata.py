"""Metadata, API key 3, versions 0-13.

Behaviour
- Topics by name, by id (from version 12, where a name beside it counts for nothing), or all (null; in version 0 an empty
  list). One that is asked for twice is answered once.
- A missing topic that may be created (`auto.create.topics.enable` and the request allows it) is created, and the
  answer is UNKNOWN_TOPIC_OR_PARTITION as Apache Kafka's: the client asks again and finds it.
- A partition that no live node leads is LEADER_NOT_AVAILABLE, with its replicas, its last ISR and its epoch. Version 0
  names live replicas only, and REPLICA_NOT_AVAILABLE where that are not all.
- Addresses are those of the listener that the request came in by.
- The controller is the lowest live node id: clients send admin requests there, every node takes them.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...protocol.wire import ZERO_UUID
from ..authorization import NOT_ASKED, cluster_operations, topic_operations
from ..connection import Context
from ..internal_topics import INTERNAL_TOPICS
from ..routing import endpoints, offline_replicas
from ..topics import NO_LEADER, Partition, Topic

FIRST_VERSION_WITH_IDS = 10
# These have a field for topic ids, but only version 12 made them work; a request with one is refused whole.
NO_IDS_YET = (10, 11)


async def handle(ctx: Context, request: Request) -> MetadataResponse:
    body: MetadataRequest = request.body
    broker = ctx.broker
    topic_operations_mask = topic_operations() if body.include_topic_authorized_operations else NOT_ASKED
    everything = body.topics is None or (request.version == 0 and not body.topics)
    if everything:
        live = broker.live_node_ids()
        topics = [_topic(topic, live, request.version, topic_operations_mask) for topic in broker.topics]
    elif request.version in NO_IDS_YET and any(
        row.name is None or row.topic_id != ZERO_UUID for row in body.topics or ()
    ):
        topics = [
            _missing(row.name or "", row.topic_id, ErrorCode.INVALID_REQUEST, NOT_ASKED) for row in body.topics or ()
        ]
    else:
        topics = [
            await _wanted(ctx, wanted, request.version, body.allow_auto_topic_creation, topic_operations_mask)
            for wanted in {_key(row, request.version): row for row in body.topics or ()}.values()
        ]
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=tuple(
            MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in endpoints(ctx, broker.live_node_ids())
        ),
        cluster_id=broker.cluster_id,
        controller_id=broker.controller_id(),
        topics=tuple(topics),
        cluster_authorized_operations=cluster_operations() if body.include_cluster_authorized_operations else NOT_ASKED,
        error_code=ErrorCode.NONE,
    )


def _key(row: MetadataRequestTopic, version: int) -> str | bytes:
    """The name or the id that counts."""
    if row.name is None or (version >= FIRST_VERSION_WITH_IDS and row.topic_id != ZERO_UUID):
        return row.topic_id
    return row.name


async def _wanted(
    ctx: Context, wanted: MetadataRequestTopic, version: int, may_create: bool, operations: int
) -> MetadataResponseTopic:
    """One topic, by name or id; a missing name is created if that is allowed."""
    broker = ctx.broker
    key = _key(wanted, version)
    if isinstance(key, bytes):
        topic = broker.topics.by_id(key)
        return (
            _topic(topic, broker.live_node_ids(), version, operations)
            if topic
            else _missing(None, key, ErrorCode.UNKNOWN_TOPIC_ID, operations)
        )
    topic = broker.topics.get(key)
    if topic is None:
        code = await _create(ctx, key, may_create or version < 4)
        return _missing(key, ZERO_UUID, code, operations)
    return _topic(topic, broker.live_node_ids(), version, operations)


async def _create(ctx: Context, name: str, may_create: bool) -> ErrorCode:
    """Create a missing topic if that is allowed; what to answer in either case."""
    broker = ctx.broker
    try:
        broker.admin.check_name(name)
        if may_create and broker.config.auto_create_topics_enable:
            create = broker.ensure_internal_topic if name in INTERNAL_TOPICS else broker.admin.auto_create
            await create(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _missing(name: str | None, topic_id: bytes, code: ErrorCode, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _topic(topic: Topic, live: list[int], version: int, operations: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple(_partition(partition, live, version) for partition in topic.partitions),
        topic_authorized_operations=operations,
    )


def _partition(partition: Partition, live: list[int], version: int) -> MetadataResponsePartition:
    offline = offline_replicas(partition, live)
    replicas, isr = partition.replicas, partition.isr
    error = ErrorCode.NONE
    if version == 0 and offline:  # it has no field for them
        error = ErrorCode.REPLICA_NOT_AVAILABLE
        replicas, isr = (tuple(each for each in nodes if each not in offline) for nodes in (replicas, isr))
    if partition.leader == NO_LEADER:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline,
    )
