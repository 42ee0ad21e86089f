"""What the mechanisms have in common: a client says something, the broker answers, until one knows who the client is."""

from __future__ import annotations

from typing import Protocol

from ..principal import Principal


class Conversation(Protocol):
    """One client logs in, by one mechanism."""

    principal: Principal | None
    """Who it is, once it has proved that: then nothing more is said."""
    expires_ms: int | None
    """Until when what it has shown holds, in wall time; None: for ever."""

    async def respond(self, token: bytes, now_ms: int) -> bytes:
        """The answer to what the client says, at this wall time.

        Raises:
            UnprovenError: The client is to be sent away; the conversation is over.
        """
