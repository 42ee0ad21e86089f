"""CreateAcls, API key 30, versions 1-3.

Behaviour
- All valid entries are added in one write; each of the others has its own error. An existing entry is not an error. Without an
  authorizer SECURITY_DISABLED.
- As in Apache Kafka a kind UNKNOWN (code 0) closes the connection, and a code that does not exist is INVALID_REQUEST. With ANY
  or MATCH in any entry all are refused, UNKNOWN_SERVER_ERROR.
- A host may be a network in CIDR notation from metadata.version 32 on, before UNSUPPORTED_VERSION.
- More than 10 000 new ones in one request are refused whole (POLICY_VIOLATION), and so are more than the catalog may hold
  (`cluster.acl_changes`), which differs from Apache Kafka.
"""

from __future__ import annotations

from functools import partial

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from ..config.features import METADATA_VERSION
from ..runtime.time_slices import TimeSlice
from ..security.acls.acl import Acl, check_cluster_name
from ..security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ..security.acls.networks import check_host, is_network
from ..services.context import Context
from .acl_requests import changes_for, kind

ANY = 1
"""Code of ANY in each enumeration of kinds."""
_NETWORKS_SINCE = 32
"""The first metadata.version in which a host may be a network."""
_NO_NETWORKS = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."


async def handle(ctx: Context, request: Request) -> CreateAclsResponse:
    body: CreateAclsRequest = request.body
    time_slice = TimeSlice()
    try:
        changes = await changes_for(ctx, request, body.creations, time_slice)
    except KafkaError as error:
        return _refuse_all(body, error.code, error.message)
    try:
        has_networks = ctx.services.config.feature_level(METADATA_VERSION) >= _NETWORKS_SINCE
        found = await time_slice.map(partial(_read, has_networks=has_networks), body.creations)
    except KafkaError as error:
        return _refuse_all(body, error.code, None)
    acls = []
    async for each in time_slice.each(found):
        if isinstance(each, Acl):
            acls.append(each)
    code, message = ErrorCode.NONE, ""
    try:
        await changes.create(acls)
    except KafkaError as error:
        code, message = error.code, error.message
    done = AclCreationResult(error_code=code, error_message=message)
    rows = await time_slice.map(lambda each: done if isinstance(each, Acl) else each, found)
    return CreateAclsResponse(results=tuple(rows))


def _read(wanted: AclCreation, *, has_networks: bool) -> Acl | AclCreationResult:
    acl = Acl(
        kind(ResourceType, wanted.resource_type),
        wanted.resource_name,
        kind(PatternType, wanted.resource_pattern_type),
        wanted.principal,
        wanted.host,
        kind(AclOperation, wanted.operation),
        kind(Permission, wanted.permission_type),
    )
    if ANY in (acl.resource_type, acl.pattern, acl.operation, acl.permission) or acl.pattern is PatternType.MATCH:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        if acl.resource_type is ResourceType.CLUSTER:
            check_cluster_name(acl.name)
        acl.check()
        if is_network(acl.host) and not has_networks:
            return AclCreationResult(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_NO_NETWORKS)
        check_host(acl.host)
    except ValueError as error:
        return AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message=str(error))
    return acl


def _refuse_all(body: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=(AclCreationResult(error_code=code, error_message=message),) * len(body.creations)
    )
