"""ReadShareGroupState, API key 84, version 0: between brokers.

Behaviour
- Implemented by `handlers.share_groups`, as the five APIs of share coordinators are.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
)
from ...protocol.messages.write_share_group_state import StateBatch
from ..security.acls.kinds import ResourceType
from ..services.context import Context
from ..sharing.share_records import SharePartitionKey
from ..sharing.state_coordinator import ShareStateCoordinator
from .permissions import refusal
from .share_groups import StateApi


def _act(
    coordinator: ShareStateCoordinator, key: SharePartitionKey, row: PartitionData, now_ms: int
) -> PartitionResult:
    found = coordinator.read(key, row.leader_epoch, now_ms)
    return PartitionResult(
        partition=key.partition,
        state_epoch=found.state_epoch,
        start_offset=found.start_offset,
        state_batches=tuple(
            StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
            for first, last, state, count in found.batches
        ),
    )


_API = StateApi("read share group state", ReadShareGroupStateResponse, ReadStateResult, PartitionResult, _act)


async def handle(ctx: Context, request: Request) -> ReadShareGroupStateResponse:
    return await _API.handle(ctx, request)


async def refused(ctx: Context, request: Request, _: KafkaError) -> ReadShareGroupStateResponse:
    return await _API.refuse_each(ctx, request, refusal(ResourceType.CLUSTER))
