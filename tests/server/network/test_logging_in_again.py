"""A client that logs in again may use a delegation token instead of its password, or the reverse. The user and the mechanism
must stay the same (KIP-368).
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.scram import salted
from ottla.server.client.sasl import Credentials
from ottla.server.client.sasl import log_in as log_in_by
from ottla.server.client.values import UnreachableError
from support.broker.raw_client import RawClient
from support.security.logging_in import connected, log_in, secured

SCRAM, SALT, ITERATIONS = "SCRAM-SHA-256", b"salt", 4096
MINUTE_MS = 60_000


def password(name: str) -> Credentials:
    return Credentials(SCRAM, name, "secret")


def upsertion(name: str) -> ScramCredentialUpsertion:
    hashed = salted(SCRAM, "secret", SALT, ITERATIONS)
    return ScramCredentialUpsertion(name=name, mechanism=1, iterations=ITERATIONS, salt=SALT, salted_password=hashed)


def new_token(client: RawClient) -> Any:
    return client.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)


def test_a_user_may_reauthenticate_by_token_or_password() -> None:
    options = {
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "delegation.token.secret.key": "key",
        "connections.max.reauth.ms": str(MINUTE_MS),
    }
    with secured(**options) as broker, connected(broker) as admin, connected(broker) as client:
        log_in(admin)
        users = tuple(map(upsertion, ("alice", "bob")))
        assert not any(row.error_code for row in admin.ask(AlterUserScramCredentialsRequest(upsertions=users)).results)
        made = new_token(admin)
        token = Credentials(SCRAM, made.token_id, b64encode(made.hmac).decode(), is_token=True)
        again = []
        for it in (password("alice"), token, password("alice"), token):
            assert log_in_by(client, it) == MINUTE_MS
            again.append(ErrorCode(new_token(client).error_code))
            broker.clock.advance(milliseconds=2_000)
        # A client with a token creates no others (KIP-48), as long as that login lasts.
        refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert again == [ErrorCode.NONE, refused, ErrorCode.NONE, refused]
        with pytest.raises(
            UnreachableError, match=r"Cannot change principals during re-authentication from User.alice: User.bob"
        ):
            log_in_by(client, password("bob"))
        assert client.is_closed_by_peer()
