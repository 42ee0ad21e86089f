"""What the requests about access control entries have in common."""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.connection import Request
from ...protocol.errors import ProtocolError
from ...protocol.messages.create_acls import AclCreation
from ...protocol.messages.delete_acls import DeleteAclsFilter
from ...protocol.messages.describe_acls import DescribeAclsRequest
from ..runtime.turns import Turn
from ..security.acls.filters import AclFilter
from ..security.acls.kinds import Operation, PatternType, Permission, ResourceType

NO_AUTHORIZER = "No Authorizer is configured"


async def check_known(
    request: Request, rows: Iterable[AclCreation | DeleteAclsFilter | DescribeAclsRequest], turn: Turn
) -> None:
    """Raise ProtocolError, which ends the connection, if a kind is none that there is, or UNKNOWN."""
    for row in rows:
        if turn.is_over():
            await turn.next()
        if isinstance(row, AclCreation):
            kinds = (row.resource_type, row.resource_pattern_type, row.operation, row.permission_type)
        else:
            kinds = (row.resource_type_filter, row.pattern_type_filter, row.operation, row.permission_type)
        for code, of in zip(kinds, (ResourceType, PatternType, Operation, Permission), strict=True):
            if not 0 < code < len(of):
                raise ProtocolError(
                    f"{request.api.name}: {of.__name__} {code} is not known (client {request.client_id!r})"
                )


def as_filter(row: DeleteAclsFilter | DescribeAclsRequest) -> AclFilter:
    """What a request asks for; its kinds have been checked."""
    return AclFilter(
        ResourceType(row.resource_type_filter),
        row.resource_name_filter,
        PatternType(row.pattern_type_filter),
        row.principal_filter,
        row.host_filter,
        Operation(row.operation),
        Permission(row.permission_type),
    )
