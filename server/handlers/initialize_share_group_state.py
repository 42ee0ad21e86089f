"""InitializeShareGroupState, API key 83, version 0: between brokers.

Behaviour
- As `handlers.share_groups` has it for the five APIs of share coordinators.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from ..security.acls.kinds import ResourceType
from ..services.context import Context
from .permissions import refusal
from .share_groups import StateApi

_API = StateApi(
    "initialize share group state", InitializeShareGroupStateResponse, InitializeStateResult, PartitionResult
)


async def handle(ctx: Context, request: Request) -> InitializeShareGroupStateResponse:
    return await _API.not_coordinator(ctx, request)


async def refused(ctx: Context, request: Request, _: KafkaError) -> InitializeShareGroupStateResponse:
    return await _API.told_of_each(ctx, request, refusal(ResourceType.CLUSTER))
