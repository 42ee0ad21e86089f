"""ListPartitionReassignments, API key 46, version 0.

Behaviour
- There is nothing to list: a reassignment is complete when it is answered.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.messages.list_partition_reassignments import ListPartitionReassignmentsResponse
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)
