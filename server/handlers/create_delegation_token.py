"""CreateDelegationToken, API key 38, versions 1-3.

Behaviour
- A token for the client itself, or for another owner if CREATE_TOKENS on that user is allowed. Not on PLAINTEXT channels, nor
  by a client that logged in with a token. Renewers are users.
- Its lifetime is the requested one, at most and by default `delegation.token.max.lifetime.ms`; it expires after
  `delegation.token.expiry.time.ms` unless it is renewed.
- More renewers or tokens than `cluster.token_changes` takes are refused (POLICY_VIOLATION), which differs from Apache Kafka.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..security.principal import USER, Principal
from ..services.context import Context
from .token_requests import changes_of, check_channel

NO_TIME = -1


async def handle(ctx: Context, request: Request) -> CreateDelegationTokenResponse:
    body: CreateDelegationTokenRequest = request.body
    requester = ctx.client.principal
    name = body.owner_principal_name
    owner = Principal(body.owner_principal_type or "", name) if name else requester
    time_ms = NO_TIME
    try:
        check_channel(ctx)
        if owner != requester and not ctx.may(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        renewers = await TimeSlice().map(_renewer, body.renewers)
        time_ms = 0  # As Apache Kafka returns it once its controllers refuse.
        changes = changes_of(ctx)
        now_ms = ctx.services.clock.now_ms()
        token = await changes.create(owner, requester, renewers, body.max_lifetime_ms, now_ms)
    except KafkaError as error:
        return _answer(owner, requester, error.code, time_ms, time_ms, time_ms, "", b"")
    hmac = changes.tokens.hmac_of(token.token_id)
    times_ms = token.issued_ms, token.expires_ms, token.max_ms
    return _answer(owner, requester, ErrorCode.NONE, *times_ms, token.token_id, hmac)


def _renewer(row: CreatableRenewers) -> Principal:
    if row.principal_type != USER:
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    return Principal(USER, row.principal_name)


def _answer(
    owner: Principal,
    requester: Principal,
    code: ErrorCode,
    issued_ms: int,
    expires_ms: int,
    max_ms: int,
    token_id: str,
    hmac: bytes,
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=issued_ms,
        expiry_timestamp_ms=expires_ms,
        max_timestamp_ms=max_ms,
        token_id=token_id,
        hmac=hmac,
    )
