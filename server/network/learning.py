"""The first request of an API in a version: its messages are loaded and its codec is made in a thread, while others are served."""

from __future__ import annotations

import trio

from ...protocol.connection import learn


class Learning:
    """Shared by all connections: two threads would take as long as one after the other."""

    def __init__(self) -> None:
        self._thread = trio.CapacityLimiter(1)

    async def learn(self, frame: memoryview) -> None:
        """Let `parse_request` read this frame, with which it has raised UnspokenError."""
        try:
            await trio.to_thread.run_sync(learn, frame, limiter=self._thread)
        except RuntimeError:  # no thread can be had
            learn(frame)
