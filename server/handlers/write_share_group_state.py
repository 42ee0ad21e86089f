"""WriteShareGroupState, API key 85, versions 0-1: between brokers.

Behaviour
- Implemented by `handlers.share_groups`, as the five APIs of share coordinators are.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from ..coordination.jobs import Steps
from ..security.acls.kinds import ResourceType
from ..services.context import Context
from ..sharing.share_records import SharePartitionKey
from ..sharing.share_states import WRITTEN_MAX, WrittenState
from ..sharing.state_batches import ShareStateBatch, merging
from ..sharing.state_coordinator import ShareStateCoordinator
from .permissions import refusal
from .share_groups import StateApi


def _read(row: PartitionData) -> Steps[WrittenState]:
    told = len(row.state_batches)
    # A larger number of batches is refused.
    batches = [
        ShareStateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in row.state_batches[:WRITTEN_MAX]
    ]
    merged = yield from merging(batches, row.start_offset)
    return WrittenState(
        row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count, tuple(merged), told
    )


def _act(coordinator: ShareStateCoordinator, key: SharePartitionKey, row: WrittenState, now_ms: int) -> PartitionResult:
    coordinator.write(key, row, now_ms)
    return PartitionResult(partition=key.partition)


_API = StateApi(
    "write share group state",
    WriteShareGroupStateResponse,
    WriteStateResult,
    PartitionResult,
    _act,
    _read,
)


async def handle(ctx: Context, request: Request) -> WriteShareGroupStateResponse:
    return await _API.handle(ctx, request)


async def refused(ctx: Context, request: Request, _: KafkaError) -> WriteShareGroupStateResponse:
    return await _API.refuse_each(ctx, request, refusal(ResourceType.CLUSTER))
