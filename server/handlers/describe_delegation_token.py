"""DescribeDelegationToken, API key 41, versions 1-3.

Behaviour
- Returns the tokens of which the client is owner or renewer, and others if DESCRIBE on the token or DESCRIBE_TOKENS on its
  owner is allowed. If owners are named, only tokens of which one of them is owner or renewer. Expired tokens are shown until
  they are deleted.
- Not on PLAINTEXT channels, nor by a client that logged in with a token.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import KafkaError
from ...protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..security.principal import Principal
from ..security.tokens import Token
from ..services.context import Context
from .token_requests import changes_of, check_channel


async def handle(ctx: Context, request: Request) -> DescribeDelegationTokenResponse:
    body: DescribeDelegationTokenRequest = request.body
    try:
        check_channel(ctx)
        tokens = changes_of(ctx).tokens
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    time_slice, found = TimeSlice(), []
    owners = None
    if body.owners is not None:
        owners = await time_slice.distinct(Principal(row.principal_type, row.principal_name) for row in body.owners)
    async for token in time_slice.each(tokens.all() if owners is None or owners else ()):
        is_asked_for = owners is None or token.owner in owners or not owners.keys().isdisjoint(token.renewers)
        if is_asked_for and _may_see(ctx, token):
            found.append(_described(token, tokens.hmac_of(token.token_id)))
    return DescribeDelegationTokenResponse(tokens=tuple(found))


def _may_see(ctx: Context, token: Token) -> bool:
    return (
        token.is_of(ctx.client.principal)
        or ctx.may(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or ctx.may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _described(token: Token, hmac: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.type,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=each.type, principal_name=each.name)
            for each in token.renewers
        ),
    )
