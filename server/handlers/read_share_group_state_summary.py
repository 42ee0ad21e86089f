"""ReadShareGroupStateSummary, API key 87, versions 0-1: between brokers.

Behaviour
- As `handlers.share_groups` has it for the five APIs of share coordinators.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from ..security.acls.kinds import ResourceType
from ..services.context import Context
from .permissions import refusal
from .share_groups import StateApi

_API = StateApi(
    "read share group state summary", ReadShareGroupStateSummaryResponse, ReadStateSummaryResult, PartitionResult
)


async def handle(ctx: Context, request: Request) -> ReadShareGroupStateSummaryResponse:
    return await _API.not_coordinator(ctx, request)


async def refused(ctx: Context, request: Request, _: KafkaError) -> ReadShareGroupStateSummaryResponse:
    return await _API.told_of_each(ctx, request, refusal(ResourceType.CLUSTER))
