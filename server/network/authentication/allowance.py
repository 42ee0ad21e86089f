"""What a client may spend before it is known, TLS handshake and login together."""

from __future__ import annotations

import trio

from ..desk import RequestingClient

BEFORE_S = 10.0
BEFORE_BYTES = 16 << 10


class Allowance:
    """Of one connection, from now on."""

    def __init__(self) -> None:
        self.until_s = trio.current_time() + BEFORE_S
        self.left_bytes = BEFORE_BYTES

    def spend(self, size_bytes: int) -> None:
        """So much has come."""
        self.left_bytes = max(0, self.left_bytes - size_bytes)


async def let_wait(client: RequestingClient, for_ms: int) -> None:
    """Keep a client that has failed waiting: guessing is to take time. Nobody else waits, and it counts as a connection."""
    await client.hold(trio.Event(), for_ms / 1000, is_client_needed=False)
