"""FindCoordinator, API key 10, versions 0-6.

Behaviour
- A group's coordinator is the leader of its partition of `__consumer_offsets`, a transactional id's that of its
  partition of `__transaction_state`; the topic is created on first need.
- One key up to version 3, several from version 4 on, each with its own error.
- Key type 2 (share groups) is INVALID_REQUEST.

Differs from Apache Kafka
- The first request waits for the topic instead of answering COORDINATOR_NOT_AVAILABLE until it is there.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ..connection import Context
from ..coordination.partitions import partition_of
from ..internal_topics import OFFSETS_TOPIC

# Key type -> internal topic whose partition leaders coordinate keys of that type.
COORDINATOR_TOPICS = {0: OFFSETS_TOPIC, 1: "__transaction_state"}

_NO_NODE = (-1, "", -1)
_FIRST_BATCHED_VERSION = 4


async def handle(ctx: Context, request: Request) -> FindCoordinatorResponse:
    body: FindCoordinatorRequest = request.body
    if request.version >= _FIRST_BATCHED_VERSION:
        coordinators = [await _find(ctx, body.key_type, key) for key in body.coordinator_keys]
        return FindCoordinatorResponse(coordinators=tuple(coordinators))
    found = await _find(ctx, body.key_type, body.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        # Kafka names even the absence of an error here, though not in later versions.
        error_message=found.error_message or "NONE",
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(ctx: Context, key_type: int, key: str) -> Coordinator:
    error, message = ErrorCode.NONE, ""
    node_id, host, port = _NO_NODE
    try:
        node_id, host, port = await _coordinator(ctx, key_type, key)
    except KafkaError as failure:
        error, message = failure.code, failure.message
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=message)


async def _coordinator(ctx: Context, key_type: int, key: str) -> tuple[int, str, int]:
    name = COORDINATOR_TOPICS.get(key_type)
    if name is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no coordinator for key type {key_type}")
    if name == OFFSETS_TOPIC:
        await ctx.broker.groups.ensure_topic()
    topic = await ctx.broker.ensure_internal_topic(name)
    leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
    node = ctx.broker.node(leader)
    if node is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"node {leader} is not there")
    return (leader, *node.advertised(ctx.listener.name))
