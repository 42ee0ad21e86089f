"""One login by OAUTHBEARER over a bare socket: every field of every answer, as the broker sends them.

By hand and in versions without tagged fields, so nothing here leans on Ottla's codec.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from ...support.clients.raw import RawConnection

SASL_HANDSHAKE, SASL_AUTHENTICATE, CREATE_DELEGATION_TOKEN = 17, 36, 38
CONFIRMED = b"\x01"
MINUTE_MS = 60_000


@dataclass
class Conversation:
    """A connection that has named its mechanism, and the broker's answers since."""

    connection: RawConnection
    answers: list[dict[str, Any]] = field(default_factory=list)

    def say(self, token: bytes) -> bool:
        """Send this; return whether the broker still answers without an error."""
        try:
            body = struct.pack(">i", len(token)) + token
            data = self.connection.request(SASL_AUTHENTICATE, 1, body)
        except OSError:
            self.answers.append({"closed": True})
            return False
        (code,) = struct.unpack_from(">h", data)
        message, at = _nullable(data, 2)
        (size,) = struct.unpack_from(">i", data, at)
        said = data[at + 4 : at + 4 + size]
        (lifetime_ms,) = struct.unpack_from(">q", data, at + 4 + size)
        told = {"code": code, "message": message, "said": said.decode(), "minutes": round(lifetime_ms / MINUTE_MS)}
        self.answers.append({name: value for name, value in told.items() if value})
        return not code

    def who(self) -> str:
        """Return the user as whom the broker knows this client: the owner of a delegation token that it creates."""
        try:
            data = self.connection.request(CREATE_DELEGATION_TOKEN, 1, struct.pack(">iq", 0, -1))
        except OSError:
            return "closed"
        (code,) = struct.unpack_from(">h", data)
        if code:
            return f"error {code}"
        kind, at = _nullable(data, 2)
        name, _ = _nullable(data, at)
        return f"{kind}:{name}"


def begin(address: str) -> Conversation:
    """Connect to HOST:PORT, and name OAUTHBEARER as the mechanism."""
    host, _, port = address.rpartition(":")
    connection = RawConnection(host, int(port))
    connection.request(SASL_HANDSHAKE, 1, struct.pack(">h", 11) + b"OAUTHBEARER")
    return Conversation(connection)


def first_message(token: str) -> bytes:
    """Return a client's first message."""
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def login(address: str, message: bytes, reply: bytes = CONFIRMED) -> list[Any]:
    """Return the broker's answers to a first message, and to the reply to its error; after a login, also the user."""
    conversation = begin(address)
    with conversation.connection:
        if conversation.say(message):
            if "said" in conversation.answers[0]:
                conversation.say(reply)
            else:
                return [*conversation.answers, conversation.who()]
        return conversation.answers


def _nullable(data: bytes, at: int) -> tuple[str | None, int]:
    (size,) = struct.unpack_from(">h", data, at)
    return (None, at + 2) if size < 0 else (data[at + 2 : at + 2 + size].decode(), at + 2 + size)
