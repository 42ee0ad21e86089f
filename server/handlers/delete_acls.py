"""DeleteAcls, API key 31, versions 1-3.

Behaviour
- All matching entries are deleted in one write; each filter is answered with its matches. Without an authorizer
  SECURITY_DISABLED.
- As in Apache Kafka a kind UNKNOWN (code 0) closes the connection, and a filter with a code that does not exist is
  INVALID_REQUEST.
- More than 10 000 entries at once, or more than 100 000 rows if filters match the same entries, are refused (POLICY_VIOLATION),
  and nothing is deleted.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ...protocol.wire import as_array
from ..runtime.time_slices import TimeSlice
from ..security.acls.acl import Acl
from ..services.context import Context
from .acl_requests import as_filter, changes_for


async def handle(ctx: Context, request: Request) -> DeleteAclsResponse:
    body: DeleteAclsRequest = request.body
    time_slice = TimeSlice()
    try:
        changes = await changes_for(ctx, request, body.filters, time_slice)
        filters = await time_slice.map(as_filter, body.filters)
        found = await changes.delete(filters)
    except KafkaError as error:
        return _refuse_all(body, error.code, error.message)
    results = []
    async for wanted, acls in time_slice.each(zip(filters, found, strict=True)):
        if unknown := wanted.unknown:
            message = f"Unknown {unknown}."
            results.append(DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message=message))
            continue
        matching = tuple(await time_slice.map(_matching, acls))
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    await time_slice.empty(filters, found)
    return DeleteAclsResponse(filter_results=as_array(results))


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _refuse_all(body: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=(DeleteAclsFilterResult(error_code=code, error_message=message),) * len(body.filters)
    )
