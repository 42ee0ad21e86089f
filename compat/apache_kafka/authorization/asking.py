"""A client that logs in with a password, and the rights of the users it asks as.

Login and rights are written by hand, in the versions without tagged fields, so nothing here leans on Ottla's codec.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ottla.server.client.connection import Client
from support.authorization.rights import USERS, Grant

from ...support.clients.raw import RawConnection

SASL_HANDSHAKE, SASL_AUTHENTICATE, CREATE_ACLS = 17, 36, 30
LITERAL, ALLOW = 3, 3
PASSWORD = "a-password"


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text.encode())) + text.encode()


class LoggedIn(Client):
    """A connection of one user, by SASL PLAIN."""

    def __init__(self, host: str, port: int, user: str) -> None:
        super().__init__(host, port, timeout_s=60)
        self._login(SASL_HANDSHAKE, 1, _string("PLAIN"))
        token = f"\0{user}\0{PASSWORD}".encode()
        self._login(SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)

    def _login(self, api: int, version: int, body: bytes) -> None:
        message = struct.pack(">hhi", api, version, 0) + _string("compat") + body
        self._socket.sendall(struct.pack(">i", len(message)) + message)
        (error,) = struct.unpack_from(">h", self.receive_frame(), 4)
        if error:
            raise ConnectionRefusedError(f"login step {api}: error {error}")


def options() -> dict[str, str]:
    """Return the options of a broker that knows all users and treats every client of its plain listener as a super user."""
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in USERS)
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.max.session.timeout.ms": "3600000",
        "group.consumer.session.timeout.ms": "3600000",
        "delegation.token.secret.key": "a-key",
        "auto.create.topics.enable": "true",
        "num.partitions": "2",
        "default.replication.factor": "1",
    }


def grant(bootstrap: str, users: Mapping[str, tuple[Grant, ...]]) -> None:
    """Give every user its rights, as a super user."""
    rows = [(user, one) for user, grants in users.items() for one in grants]
    body = struct.pack(">i", len(rows)) + b"".join(
        struct.pack(">b", one.resource_type)
        + _string(one.name)
        + struct.pack(">b", LITERAL)
        + _string(f"User:{user}")
        + _string("*")
        + struct.pack(">bb", one.operation, ALLOW)
        for user, one in rows
    )
    host, _, port = bootstrap.rpartition(":")
    with RawConnection(host, int(port)) as connection:
        answer = connection.request(CREATE_ACLS, 1, body)
    row_bytes = len(answer[8:]) // len(rows)  # all have the same: no code, and an empty message or none
    if any(any(answer[at : at + 2]) for at in range(8, len(answer), row_bytes)):
        raise RuntimeError(f"rights refused: {answer!r}")
