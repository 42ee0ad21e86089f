"""FindCoordinator, API key 10, versions 0-6.

Behaviour
- A group's coordinator is the leader of its partition of `__consumer_offsets`, a transactional id's that of its
  partition of `__transaction_state`; the topic is created on first need.
- One key up to version 3, several from version 4 on, each with its own error.
- The coordinator of a share partition (key type 2, `GROUP:TOPIC-ID:PARTITION`) is the leader of its partition of
  `__share_group_state`. This key type is for brokers, from version 6 on, and is served even without share groups, as in Apache
  Kafka.

Differs from Apache Kafka
- The first request waits for the topic instead of answering COORDINATOR_NOT_AVAILABLE until it exists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ..groups.service import GroupService
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import CLUSTER_NAME, AclOperation, ResourceType
from ..services.context import Context
from ..services.coordinators import Coordinators
from ..transactions.service import TransactionService
from .permissions import Check, check, check_without_words

if TYPE_CHECKING:
    from ..sharing.state_service import ShareStateService

SHARE = 2
# Key type -> the broker's coordinator of keys of that type.
COORDINATORS: dict[int, Callable[[Coordinators], GroupService | ShareStateService | TransactionService]] = {
    0: lambda coordinators: coordinators.groups,
    1: lambda coordinators: coordinators.transactions,
    SHARE: lambda coordinators: coordinators.share_states,
}

RESOURCES = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""Resource types of the keys; the client must be allowed to describe the resource."""

_NO_NODE = (-1, "", -1)
_FIRST_BATCHED_VERSION = 4
_FIRST_SHARE_VERSION = 6
# A key may be as long as a string can be, and must leave room for the rest of the message.
_KEY_CHARS_IN_MESSAGE = 1024


async def handle(ctx: Context, request: Request) -> FindCoordinatorResponse:
    body: FindCoordinatorRequest = request.body
    if request.version >= _FIRST_BATCHED_VERSION:
        time_slice, coordinators = TimeSlice(), []
        async for key in time_slice.each(body.coordinator_keys):
            coordinators.append(await _find(ctx, request.version, body.key_type, key, check_without_words))
        return FindCoordinatorResponse(coordinators=tuple(coordinators))
    found = await _find(ctx, request.version, body.key_type, body.key, check)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        # Kafka fills in even the absence of an error here, though not in later versions.
        error_message=found.error_message or "NONE",
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(ctx: Context, version: int, key_type: int, key: str, asks: Check) -> Coordinator:
    error, message = ErrorCode.NONE, ""
    node_id, host, port = _NO_NODE
    try:
        if key_type == SHARE and version < _FIRST_SHARE_VERSION:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"key type {key_type} is not supported by version {version}")
        node_id, host, port = await _coordinator(ctx, key_type, key, asks)
    except KafkaError as failure:
        error, message = failure.code, failure.message
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_code=error, error_message=message)


async def _coordinator(ctx: Context, key_type: int, key: str, asks: Check) -> tuple[int, str, int]:
    if key_type not in COORDINATORS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"unknown key type {key_type}")
    name = key
    if key_type == SHARE:
        from ..sharing.share_records import SharePartitionKey  # Only brokers need it.

        check(ctx, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        name = SharePartitionKey.from_text(key).text
    else:
        asks(ctx, AclOperation.DESCRIBE, RESOURCES[key_type], key)
    service = COORDINATORS[key_type](ctx.services.coordinators)
    await service.ensure_topic()
    leader = service.leader_of(service.coordinator.partition_for(name))
    node = ctx.services.cluster.node(leader)
    if node is None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"no coordinator for {key[:_KEY_CHARS_IN_MESSAGE]}")
    return (leader, *node.advertised(ctx.listener.name))
