"""DescribeUserScramCredentials, API key 50, version 0.

Behaviour
- A request without names gets all users. An unknown user is RESOURCE_NOT_FOUND, one that is named twice has one row, with
  DUPLICATE_RESOURCE.
- Neither salts nor keys are returned.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ...protocol.scram import CODES
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context


async def handle(ctx: Context, request: Request) -> DescribeUserScramCredentialsResponse:
    body: DescribeUserScramCredentialsRequest = request.body
    if not ctx.may(AclOperation.DESCRIBE, ResourceType.CLUSTER):
        refused = await TimeSlice().map(
            lambda each: DescribeUserScramCredentialsResult(
                user=each.name, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None
            ),
            body.users or (),
        )
        return DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None, results=tuple(refused)
        )
    users = ctx.services.scram_changes.users
    named: dict[str, bool] = {}
    time_slice = TimeSlice()
    async for each in time_slice.each(body.users or ()):
        named[each.name] = each.name in named
    if not body.users:
        named = dict.fromkeys(users.names(), False)

    def described(user: str) -> DescribeUserScramCredentialsResult:
        if named[user]:
            return _refused(
                user,
                ErrorCode.DUPLICATE_RESOURCE,
                "Cannot describe SCRAM credentials for the same user twice in a single request",
            )
        credentials = users.credentials_of(user)
        if not credentials:
            return _refused(
                user, ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist"
            )
        return DescribeUserScramCredentialsResult(
            user=user,
            error_message=None,
            credential_infos=tuple(
                CredentialInfo(mechanism=code, iterations=credentials[mechanism].iterations)
                for code, mechanism in CODES.items()
                if mechanism in credentials
            ),
        )

    results = await time_slice.map(described, named)
    await time_slice.empty(named)
    return DescribeUserScramCredentialsResponse(error_message=None, results=tuple(results))


def _refused(user: str, code: ErrorCode, what: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=f"{what}: {user}")
