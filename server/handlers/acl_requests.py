"""What the requests about access control entries have in common."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError, ProtocolError
from ...protocol.messages.create_acls import AclCreation
from ...protocol.messages.delete_acls import DeleteAclsFilter
from ...protocol.messages.describe_acls import DescribeAclsRequest
from ..cluster.acl_changes import AclChanges
from ..runtime.time_slices import TimeSlice
from ..security.acls.filters import AclFilter
from ..security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ..services.context import Context
from .permissions import request_refusal

Kind = TypeVar("Kind", bound=IntEnum)

NO_AUTHORIZER = "No Authorizer is configured"


async def check_known(
    request: Request, rows: Iterable[AclCreation | DeleteAclsFilter | DescribeAclsRequest], time_slice: TimeSlice
) -> None:
    """Raise ProtocolError, which ends the connection, if a kind is UNKNOWN, as Apache Kafka does with it."""
    async for row in time_slice.each(rows):
        if isinstance(row, AclCreation):
            kinds = (row.resource_type, row.resource_pattern_type, row.operation, row.permission_type)
        else:
            kinds = (row.resource_type_filter, row.pattern_type_filter, row.operation, row.permission_type)
        if 0 in kinds:
            raise ProtocolError(
                f"{request.api.name}: invalid value UNKNOWN in the filter (client {request.client_id!r})"
            )


async def changes_for(
    ctx: Context, request: Request, rows: Iterable[AclCreation | DeleteAclsFilter], time_slice: TimeSlice
) -> AclChanges:
    """Who changes entries for a client that may have them changed.

    Raises:
        ProtocolError: As `check_known`.
        KafkaError: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED (there is no authorizer).
    """
    await check_known(request, rows, time_slice)
    if not ctx.may(AclOperation.ALTER, ResourceType.CLUSTER):
        raise request_refusal(request, AclOperation.ALTER)
    if ctx.services.acl_changes is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED, f"{NO_AUTHORIZER}.")
    return ctx.services.acl_changes


def kind(of: type[Kind], code: int) -> Kind:
    """The kind with this code, UNKNOWN where there is none."""
    return of(code if 0 < code < len(of) else 0)


def as_filter(row: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """What a request asks for; a kind that there is not, means nothing."""
    return AclFilter(
        kind(ResourceType, row.resource_type_filter),
        row.resource_name_filter,
        kind(PatternType, row.pattern_type_filter),
        row.principal_filter,
        row.host_filter,
        kind(AclOperation, row.operation),
        kind(Permission, row.permission_type),
    )
