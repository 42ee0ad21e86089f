"""What the requests about access control entries have in common."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from ...protocol.connection import Request
from ...protocol.errors import ProtocolError
from ...protocol.messages.create_acls import AclCreation
from ...protocol.messages.delete_acls import DeleteAclsFilter
from ...protocol.messages.describe_acls import DescribeAclsRequest
from ..runtime.turns import Turn
from ..security.acls.filters import AclFilter
from ..security.acls.kinds import Operation, PatternType, Permission, ResourceType

Kind = TypeVar("Kind", bound=IntEnum)

NO_AUTHORIZER = "No Authorizer is configured"


async def check_known(
    request: Request, rows: Iterable[AclCreation | DeleteAclsFilter | DescribeAclsRequest], turn: Turn
) -> None:
    """Raise ProtocolError, which ends the connection, if a kind is UNKNOWN, as Apache Kafka does with it."""
    for row in rows:
        if turn.is_over():
            await turn.next()
        if isinstance(row, AclCreation):
            kinds = (row.resource_type, row.resource_pattern_type, row.operation, row.permission_type)
        else:
            kinds = (row.resource_type_filter, row.pattern_type_filter, row.operation, row.permission_type)
        if 0 in kinds:
            raise ProtocolError(f"{request.api.name}: a kind of UNKNOWN (client {request.client_id!r})")


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
        kind(Operation, row.operation),
        kind(Permission, row.permission_type),
    )
