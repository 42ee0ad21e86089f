"""InitializeShareGroupState, API key 83, version 0: between brokers.

Behaviour
- Implemented by `handlers.share_groups`, as the five APIs of share coordinators are.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
)
from ...protocol.messages.write_share_group_state import PartitionResult
from ..security.acls.kinds import ResourceType
from ..services.context import Context
from ..sharing.share_records import SharePartitionKey
from ..sharing.state_coordinator import ShareStateCoordinator
from .permissions import refusal
from .share_groups import StateApi


def _act(
    coordinator: ShareStateCoordinator, key: SharePartitionKey, row: PartitionData, now_ms: int
) -> PartitionResult:
    coordinator.initialize(key, row.state_epoch, row.start_offset, now_ms)
    return PartitionResult(partition=key.partition)


_API = StateApi(
    "initialize share group state",
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
    _act,
)


async def handle(ctx: Context, request: Request) -> InitializeShareGroupStateResponse:
    return await _API.handle(ctx, request)


async def refused(ctx: Context, request: Request, _: KafkaError) -> InitializeShareGroupStateResponse:
    return await _API.refuse_each(ctx, request, refusal(ResourceType.CLUSTER))
