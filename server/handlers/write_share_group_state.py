"""WriteShareGroupState, API key 85, versions 0-1: between brokers.

Behaviour
- As `handlers.share_groups` has it for the five APIs of share coordinators.
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
from ..security.acls.kinds import ResourceType
from ..services.context import Context
from ..sharing.share_records import SharePartitionKey
from ..sharing.share_states import Written
from ..sharing.state_batches import StateBatch
from ..sharing.state_coordinator import ShareStateCoordinator
from .permissions import refusal
from .share_groups import StateApi


def _act(
    coordinator: ShareStateCoordinator, key: SharePartitionKey, row: PartitionData, now_ms: int
) -> PartitionResult:
    batches = tuple(
        StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in row.state_batches
    )
    written = Written(
        row.state_epoch,
        row.leader_epoch,
        row.start_offset,
        row.delivery_complete_count,
        batches,
    )
    coordinator.write(key, written, now_ms)
    return PartitionResult(partition=key.partition)


_API = StateApi("write share group state", WriteShareGroupStateResponse, WriteStateResult, PartitionResult, _act)


async def handle(ctx: Context, request: Request) -> WriteShareGroupStateResponse:
    return await _API.handle(ctx, request)


async def refused(ctx: Context, request: Request, _: KafkaError) -> WriteShareGroupStateResponse:
    return await _API.told_of_each(ctx, request, refusal(ResourceType.CLUSTER))
