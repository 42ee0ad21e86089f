"""AlterUserScramCredentials, API key 51, version 0.

Behaviour
- A user may be named once in a request, for deletion or for one credential, else DUPLICATE_RESOURCE. Valid ones are written
  together, the others have their errors, in Apache Kafka's order of checks: UNACCEPTABLE_CREDENTIAL (no name, fewer than 4 096
  or more than 16 384 iterations), UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND.
- Names and salts have bounds, which differs from Apache Kafka.
- The client sends the salted password; the stored credential is computed here.
"""

from __future__ import annotations

from itertools import chain

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.scram import CODES, ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential, credential_of
from ...protocol.wire import as_array
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import AclOperation, ResourceType
from ..security.sasl.scram_users import ScramUsers
from ..services.context import Context
from .permissions import request_refusal

_Error = tuple[ErrorCode, str]
_Wish = ScramCredentialDeletion | ScramCredentialUpsertion

NAME_CHARS_MAX, SALT_BYTES_MAX = 1_024, 256
"""Limits of a stored credential."""

_TWICE: _Error = (ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_NAMELESS: _Error = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_UNKNOWN: _Error = (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW: _Error = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY: _Error = (ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_TOO_LONG: _Error = (
    ErrorCode.UNACCEPTABLE_CREDENTIAL,
    f"User name or salt too long (limits {NAME_CHARS_MAX} characters and {SALT_BYTES_MAX} bytes)",
)
_MISSING: _Error = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


async def handle(ctx: Context, request: Request) -> AlterUserScramCredentialsResponse:
    body: AlterUserScramCredentialsRequest = request.body
    time_slice = TimeSlice()
    if not ctx.may(AclOperation.ALTER, ResourceType.CLUSTER):
        error = request_refusal(request, AclOperation.ALTER)
        refused = error.code, error.message
        named = await time_slice.distinct(each.name for of in (body.deletions, body.upsertions) for each in of)
        rows = await time_slice.map(lambda name: _result((name, refused)), named)
        await time_slice.empty(named)
        return AlterUserScramCredentialsResponse(results=as_array(rows))
    users = ctx.services.scram_changes.users
    results: dict[str, _Error | None] = {}
    deletions: dict[str, str] = {}
    upsertions: dict[str, dict[str, ScramCredential]] = {}
    wishes: tuple[_Wish, ...] = (*body.deletions, *body.upsertions)
    async for wanted in time_slice.each(wishes):
        name, mechanism = wanted.name, CODES.get(wanted.mechanism)
        if name in results:
            # A user that was refused once stays refused, for the first reason.
            if results[name] is None:
                results[name] = _TWICE
                deletions.pop(name, None)
                upsertions.pop(name, None)
            continue
        results[name] = _error_of(wanted) or (_MISSING if _is_missing(wanted, mechanism, users) else None)
        if results[name] is not None or mechanism is None:
            continue
        if isinstance(wanted, ScramCredentialUpsertion):
            salted, salt = bytes(wanted.salted_password), bytes(wanted.salt)
            upsertions[name] = {mechanism: credential_of(mechanism, salted, salt, wanted.iterations)}
        else:
            deletions[name] = mechanism
    try:
        for name, _ in await ctx.services.scram_changes.alter(deletions.items(), upsertions):
            results[name] = _MISSING
    except KafkaError as error:
        told = error.code, error.message or ""
        async for name in time_slice.each(chain(deletions, upsertions)):
            results[name] = told
    rows = await time_slice.map(_result, results.items())
    await time_slice.empty(results, deletions, upsertions)
    return AlterUserScramCredentialsResponse(results=as_array(rows))


def _error_of(wanted: _Wish) -> _Error | None:
    if not wanted.name:
        return _NAMELESS
    if wanted.mechanism not in CODES:
        return _UNKNOWN
    if isinstance(wanted, ScramCredentialUpsertion):
        if len(wanted.name) > NAME_CHARS_MAX or len(wanted.salt) > SALT_BYTES_MAX:
            return _TOO_LONG
        if wanted.iterations < ITERATIONS_MIN:
            return _TOO_FEW
        if wanted.iterations > ITERATIONS_MAX:
            return _TOO_MANY
    return None


def _is_missing(wanted: _Wish, mechanism: str | None, users: ScramUsers) -> bool:
    return isinstance(wanted, ScramCredentialDeletion) and mechanism not in users.credentials_of(wanted.name)


def _result(of: tuple[str, _Error | None]) -> AlterUserScramCredentialsResult:
    user, error = of
    code, message = (ErrorCode.NONE, None) if error is None else error
    return AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
