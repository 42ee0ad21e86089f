"""ListGroups, API key 16, versions 0-5.

Behaviour
- Lists the groups that this node coordinates; clients ask every node.
- A client that may not describe the cluster sees the groups that it may describe.
- Filters by state (version 4 on) and type (version 5 on), case-insensitive; an unknown name matches nothing.
"""

from __future__ import annotations

from operator import attrgetter

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import permitted


async def handle(ctx: Context, request: Request) -> ListGroupsResponse:
    body: ListGroupsRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        found = await run_cooperatively(
            groups.coordinator.list_groups(groups.partitions_led_by(ctx.node), body.states_filter, body.types_filter)
        )
    except KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    await groups.settle_all(ctx.node)
    if not ctx.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, is_attempt=False):
        found = await permitted(
            ctx, AclOperation.DESCRIBE, ResourceType.GROUP, found, attrgetter("group_id"), TimeSlice()
        )
    return ListGroupsResponse(groups=tuple(found))
