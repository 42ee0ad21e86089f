"""DescribeAcls, API key 29, versions 1-3.

Behaviour
- Returns the entries that the filter matches, by resource pattern. Without an authorizer SECURITY_DISABLED.
- As in Apache Kafka a filter with a kind UNKNOWN (code 0) closes the connection, and one with a code that does not exist
  matches nothing.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, PatternType, ResourceType
from ..services.context import Context
from .acl_requests import NO_AUTHORIZER, as_filter, check_known
from .permissions import request_refusal


async def handle(ctx: Context, request: Request) -> DescribeAclsResponse:
    body: DescribeAclsRequest = request.body
    time_slice = TimeSlice()
    await check_known(request, [body], time_slice)
    if not ctx.may(AclOperation.DESCRIBE, ResourceType.CLUSTER):
        error = request_refusal(request, AclOperation.DESCRIBE)
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    changes = ctx.services.acl_changes
    if changes is None:
        return DescribeAclsResponse(
            error_code=ErrorCode.SECURITY_DISABLED, error_message=f"{NO_AUTHORIZER} on the broker"
        )
    found: dict[tuple[ResourceType, str, PatternType], list[AclDescription]] = {}
    async for acl in time_slice.each(await changes.matching(as_filter(body), time_slice)):
        found.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(
            AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
        )
    resources = []
    async for (resource_type, name, pattern), acls in time_slice.each(found.items()):
        resources.append(
            DescribeAclsResource(
                resource_type=resource_type, resource_name=name, pattern_type=pattern, acls=tuple(acls)
            )
        )
    return DescribeAclsResponse(resources=tuple(resources))
