"""DeleteShareGroupState, API key 86, version 0: between brokers.

Behaviour
- Implemented by `handlers.share_groups`, as the five APIs of share coordinators are.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
)
from ...protocol.messages.write_share_group_state import PartitionResult
from ..security.acls.kinds import ResourceType
from ..services.context import Context
from ..sharing.share_records import SharePartitionKey
from ..sharing.state_coordinator import ShareStateCoordinator
from .permissions import refusal
from .share_groups import StateApi


def _act(coordinator: ShareStateCoordinator, key: SharePartitionKey, _: PartitionData, now_ms: int) -> PartitionResult:
    coordinator.delete(key, now_ms)
    return PartitionResult(partition=key.partition)


_API = StateApi(
    "delete share group state",
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
    _act,
)


async def handle(ctx: Context, request: Request) -> DeleteShareGroupStateResponse:
    return await _API.handle(ctx, request)


async def refused(ctx: Context, request: Request, _: KafkaError) -> DeleteShareGroupStateResponse:
    return await _API.refuse_each(ctx, request, refusal(ResourceType.CLUSTER))
