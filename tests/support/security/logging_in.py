"""Clients that log in, request by request, to a broker whose one listener requires it."""

from __future__ import annotations

from typing import Any

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.server.client.connection import Client
from support.broker.conversation import address
from support.broker.raw_client import RawClient

ALICES = "alice-secret"
PLAIN_LINE = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{ALICES}" user_bob="bobs";'
SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN_LINE,
    "connection.failed.authentication.delay.ms": "1",
}


def secured(data_dir: Any = None, /, **overrides: str) -> ottla.Broker:
    """Return a broker with such a listener; `_` in names stands for the point."""
    return ottla.Broker(
        data_dir, overrides=SECURED | {name.replace("_", "."): value for name, value in overrides.items()}
    )


def connected(broker: ottla.Broker) -> RawClient:
    return RawClient(*address(broker))


def shake_hands(client: Client, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
    answer: SaslHandshakeResponse = client.ask(SaslHandshakeRequest(mechanism=mechanism), version)
    return answer


def authenticate(client: Client, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    answer: SaslAuthenticateResponse = client.ask(SaslAuthenticateRequest(auth_bytes=token), version)
    return answer


def plain(name: str = "alice", password: str = ALICES, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{name}\0{password}".encode()


def log_in(client: Client, token: bytes | None = None) -> SaslAuthenticateResponse:
    """Log in with PLAIN; return the answer, whether success or error."""
    assert shake_hands(client).error_code == ErrorCode.NONE
    return authenticate(client, plain() if token is None else token)
