"""Protocol of the mechanisms: client and broker exchange messages until the client's identity is known."""

from __future__ import annotations

from typing import Protocol

from ..principal import Principal


class Conversation(Protocol):
    """Login of one client, by one mechanism."""

    principal: Principal | None
    """The client's identity once it is authenticated; then the conversation has ended."""
    expires_ms: int | None
    """When the credentials expire, in wall time; None: never."""

    async def respond(self, token: bytes, now_ms: int) -> bytes:
        """Return the response to a message of the client, at this wall time.

        Raises:
            UnprovenError: The login failed, and the broker must close the connection.
        """
