"""ReadShareGroupStateSummary, API key 87, versions 0-1: between brokers.

Behaviour
- Implemented by `handlers.share_groups`, as the five APIs of share coordinators are.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.read_share_group_state import PartitionData
from ...protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from ..security.acls.kinds import ResourceType
from ..services.context import Context
from ..sharing.share_records import SharePartitionKey
from ..sharing.state_coordinator import ShareStateCoordinator
from .permissions import refusal
from .share_groups import StateApi


def _act(coordinator: ShareStateCoordinator, key: SharePartitionKey, _: PartitionData, __: int) -> PartitionResult:
    found = coordinator.summary(key)
    if found is None:
        return PartitionResult(partition=key.partition, start_offset=-1, delivery_complete_count=-1)
    return PartitionResult(
        partition=key.partition,
        state_epoch=found.state_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        delivery_complete_count=found.delivery_complete_count,
    )


_API = StateApi(
    "read share group state summary",
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
    PartitionResult,
    _act,
)


async def handle(ctx: Context, request: Request) -> ReadShareGroupStateSummaryResponse:
    return await _API.handle(ctx, request)


async def refused(ctx: Context, request: Request, _: KafkaError) -> ReadShareGroupStateSummaryResponse:
    return await _API.refuse_each(ctx, request, refusal(ResourceType.CLUSTER))
