"""Cuts request frames out of one connection's bytes, within named memory limits.

A frame is four size bytes and that many bytes. Frames that fit the connection's buffer are handed
out as views into it, so a produced batch is validated and written to the log where `recv` put it.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

import trio

from ..protocol.errors import ProtocolError
from .transport import PeerGoneError, PlainTransport

# What an idle connection costs. Requests other than Produce are far smaller.
INITIAL_BUFFER_BYTES = 16 << 10
# A producer's buffer is kept between requests up to this size (Kafka's largest batch by default
# is 1 MiB, and a frame adds a little), so that a steady stream never allocates.
RETAINED_BUFFER_BYTES = (1 << 20) + (128 << 10)

_SIZE = struct.Struct(">i")


class MemoryBudget:
    """Bytes that all connections together may hold for frames larger than their first buffer.

    `queued.max.request.bytes` of Kafka. A connection that finds no room waits, unread, so the
    limit reaches the client as TCP back-pressure; waiters are served in order.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self.reclaim: Callable[[], None] = lambda: None
        """Called when room is short: makes idle connections give back what they keep."""
        self._waiting: deque[tuple[int, trio.Event]] = deque()

    async def acquire(self, size_bytes: int) -> None:
        """Take `size_bytes`, waiting for room. One request may exceed the whole limit when nothing else is held."""
        if not self._fits(size_bytes):
            self.reclaim()
        if not self._waiting and self._fits(size_bytes):
            self.used_bytes += size_bytes
            return
        turn = trio.Event()
        entry = (size_bytes, turn)
        self._waiting.append(entry)
        try:
            await turn.wait()
        except trio.Cancelled:
            if turn.is_set():
                self.release(size_bytes)
            else:
                self._waiting.remove(entry)
                self._wake()
            raise

    def release(self, size_bytes: int) -> None:
        """Give `size_bytes` back and let waiters in."""
        self.used_bytes -= size_bytes
        self._wake()

    def _fits(self, size_bytes: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size_bytes <= self.limit_bytes

    def _wake(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size_bytes, turn = self._waiting.popleft()
            self.used_bytes += size_bytes
            turn.set()


class FrameReader:
    """The receiving half of one connection.

    Args:
        transport: Where bytes come from.
        max_frame_bytes: `socket.request.max.bytes`; a larger declared size is refused before any
            memory is spent on it.
        budget: Shared by all connections of the broker.
    """

    def __init__(self, transport: PlainTransport, max_frame_bytes: int, budget: MemoryBudget) -> None:
        self._transport = transport
        self._max_frame_bytes = max_frame_bytes
        self._budget = budget
        self._held_bytes = 0
        self._view = memoryview(bytearray(INITIAL_BUFFER_BYTES))
        self._start = 0
        self._end = 0

    async def next_frame(self) -> memoryview | None:
        """The next frame without its size bytes, or None when the peer closed between frames.

        The view is writable and stays valid only until the next call.

        Raises:
            ProtocolError: A negative or too large size.
            PeerGoneError: The connection ended inside a frame.
        """
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._view) > RETAINED_BUFFER_BYTES:
                self.shrink()
        while True:
            have = self._end - self._start
            need = 4
            if have >= 4:
                (size,) = _SIZE.unpack_from(self._view, self._start)
                if not 0 <= size <= self._max_frame_bytes:
                    raise ProtocolError(
                        f"frame size {size} is outside 0..{self._max_frame_bytes} (socket.request.max.bytes)"
                    )
                need += size
                if have >= need:
                    frame = self._view[self._start + 4 : self._start + need]
                    self._start += need
                    return frame
            if self._start + need > len(self._view):
                await self._make_room(need)
            received = self._transport.receive_now(self._view[self._end :])
            while received is None:
                await self._transport.readable()
                # Sliced anew: `shrink` may have taken the buffer while nothing was in it.
                received = self._transport.receive_now(self._view[self._end :])
            if not received:
                if have:
                    raise PeerGoneError(f"closed inside a frame, {have} bytes in")
                return None
            self._end += received

    def shrink(self) -> None:
        """Fall back to the first buffer if nothing unread is in the larger one."""
        if self._start == self._end and len(self._view) > INITIAL_BUFFER_BYTES:
            self._start = self._end = 0
            self._replace_buffer(INITIAL_BUFFER_BYTES)
            self._give_back()

    def close(self) -> None:
        """Give the budget back. The reader is not used again."""
        self._give_back()

    async def _make_room(self, need_bytes: int) -> None:
        """Move the unread bytes to the front of a buffer that holds `need_bytes`."""
        if need_bytes <= len(self._view):
            self._replace_buffer(len(self._view))
            return
        # Steps of 64 KiB, so that frames of slightly different size do not each bring a new buffer.
        size_bytes = -(-need_bytes >> 16) << 16
        # The old buffer's share goes back first: two growing connections that waited for each other
        # while holding theirs could wait for ever.
        self._give_back()
        await self._budget.acquire(size_bytes)
        self._held_bytes = size_bytes
        self._replace_buffer(size_bytes)

    def _replace_buffer(self, size_bytes: int) -> None:
        unread = self._view[self._start : self._end]
        if size_bytes == len(self._view) and len(unread) <= self._start:
            self._view[: len(unread)] = unread  # Apart, so a plain copy to the front is safe.
        else:
            target = memoryview(bytearray(size_bytes))
            target[: len(unread)] = unread
            self._view = target
        self._start, self._end = 0, len(unread)

    def _give_back(self) -> None:
        if self._held_bytes:
            self._budget.release(self._held_bytes)
            self._held_bytes = 0
