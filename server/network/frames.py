"""Cuts request frames out of one connection's bytes, within named memory limits.

A frame is four size bytes and that many bytes. Frames that fit the connection's buffer are handed
out as views into it, so a produced batch is validated and written to the log where `recv` put it.

An announced size costs no memory. Up to 1 MiB a buffer doubles when it is full. Beyond that it is address space for the whole
frame, which the kernel backs with memory as bytes are written: nothing more is copied, and no time slice fills much with zeros.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from contextlib import suppress

import trio

from ...protocol.errors import ProtocolError
from .request_memory import RequestMemory
from .transport import PlainTransport

# Size of a connection's first buffer. Requests other than Produce are far smaller.
INITIAL_BUFFER_BYTES = 16 << 10
# A producer's buffer is kept between requests up to this size (Kafka's largest batch by default
# is 1 MiB, and a frame adds a little), so that a steady stream never allocates.
RETAINED_BUFFER_BYTES = (1 << 20) + (128 << 10)
# A connection gets room for as many bytes as it has sent, within these bounds.
STEP_BYTES_MIN = 64 << 10
STEP_BYTES_MAX = 1 << 20
# Larger buffers grow by pages of this size: small pages would take the kernel six times as long. Other tasks run in between.
HUGE_PAGE_BYTES = 2 << 20

_SIZE = struct.Struct(">i")
_NOTHING = memoryview(b"")


class FrameReader:
    """Receiving half of one connection.

    Args:
        transport: Source of the bytes.
        max_frame_bytes: `socket.request.max.bytes`; a larger declared size is refused before any
            memory is spent on it.
        memory: Shared by all connections of the broker.
        address: Address whose share of the memory this connection uses.
        give_up: Ends the connection, for the reason given.
    """

    give_up: Callable[[str], None]

    def __init__(
        self,
        transport: PlainTransport,
        max_frame_bytes: int,
        memory: RequestMemory,
        address: str,
        give_up: Callable[[str], None],
    ) -> None:
        self.address = address
        self.held_bytes = 0
        self.give_up = give_up
        self._transport = transport
        self._request_max_bytes = max_frame_bytes
        self.limit()
        self._memory = memory
        self._view = _NOTHING
        """The buffer, made for the first frame that does not come in one piece."""
        self._start = 0
        self._end = 0
        self._room = INITIAL_BUFFER_BYTES
        """End of the part of the buffer that may be filled: all of it, except while a large frame grows."""
        self._has_brought_much = False
        """Whether the connection has sent a frame that was too large to keep its buffer: the next such buffer need not begin
        small."""
        self._is_in_use = False
        """Whether the frame given last may still be read."""
        self._is_taking = False
        self._frame_bytes = 0
        """Size of the frame that was given last, including size bytes."""
        self.is_shared = False
        """Whether the frame given last is in the buffer that `frame_now` was given."""
        self.is_last = False
        """Whether nothing had been received after the frame given last."""
        self.is_drained = False
        """Whether the last receive found the socket empty."""
        self.is_ending = False
        """Whether the client has closed its side; bytes that it sent before may still be unread."""

    @property
    def is_receiving(self) -> bool:
        return not (self._is_in_use or self._is_taking)

    async def next_frame(self) -> memoryview | None:
        """Return the next frame without its size bytes, or None when the peer closed between frames.

        The view is writable and stays valid only until the next call, or until `release`.

        Raises:
            ProtocolError: A negative or too large size.
            trio.BrokenResourceError: The connection ended inside a frame.
        """
        self._is_in_use = False
        if self._start == self._end:
            self._start_over()
        while True:
            frame = self._cut()
            if frame is not None:
                return frame
            if self._start + self._frame_bytes > self._room:
                await self._make_room(self._frame_bytes)
            received = self._transport.receive_now(self._view[self._end : self._room])
            while received is None:
                await self._transport.readable()
                # Sliced again: `shrink` may have taken the buffer while nothing was in it.
                received = self._transport.receive_now(self._view[self._end : self._room])
            if not received:
                if have := self._end - self._start:
                    raise trio.BrokenResourceError(f"closed inside a frame, after {have} bytes")
                return None
            self._end += received
            self.is_drained = self._transport.is_emptied and not self.is_ending

    def _start_over(self) -> None:
        """Put the next frame at the front of the buffer, which need not be as large as for the last one."""
        self._start = self._end = 0
        if not self._view:
            self._view = _first_buffer()
        if self._room > RETAINED_BUFFER_BYTES:
            self._has_brought_much = True
            self.shrink()
        elif self._room > INITIAL_BUFFER_BYTES and self._memory.is_short:
            self.shrink()

    def frame_now(self, shared: memoryview) -> memoryview | None:
        """Return the next frame as `next_frame` does, if that needs no waiting and no larger buffer.

        Returns:
            None if it does. If `is_drained`, call again when the socket is readable; else call `next_frame`.

        Args:
            shared: A buffer as large as the first one, which all connections use, one after the other: it is nearer to the
                processor than their own, and most of them need no other. See `is_shared`.

        Raises:
            ProtocolError: As `next_frame`.
            trio.BrokenResourceError: The connection was reset.
        """
        self._is_in_use = self.is_shared = False
        may_share = False
        if self._start == self._end:
            if self.held_bytes:
                self._start_over()
            self._start = self._end = 0
            may_share = not self.held_bytes
            target = shared if may_share else self._view[: self._room]
        else:
            frame = self._cut()
            if frame is not None:
                return frame
            if self._start:
                self._move_to(self._view)
            target = self._view[self._end : self._room]
            if not target:  # the frame is larger than that
                self.is_drained = False
                return None
        transport = self._transport
        received = transport.receive_now(target)
        if not received:
            self.is_drained = received is None and transport.is_emptied and not self.is_ending
            return None
        self.is_drained = transport.is_emptied and not self.is_ending
        if may_share:
            (size_bytes,) = _SIZE.unpack_from(shared)
            if size_bytes == received - 4 and 0 <= size_bytes <= self._max_frame_bytes:
                self.is_shared = self.is_last = True
                return shared[4:received]
            if not self._view:
                self._view = _first_buffer()
            self._view[:received] = shared[:received]
        self._end += received
        frame = self._cut()
        if frame is None and self._start + self._frame_bytes > self._room:
            self.is_drained = False
        return frame

    def _cut(self) -> memoryview | None:
        """Return the frame at the front of the received bytes, if it is complete. `_frame_bytes` becomes its length, or 4 until
        its size bytes are received."""
        have = self._end - self._start
        if have < 4:
            self._frame_bytes = 4
            return None
        (size,) = _SIZE.unpack_from(self._view, self._start)
        if not 0 <= size <= self._max_frame_bytes:
            raise ProtocolError(f"frame size {size} is outside 0..{self._max_frame_bytes} ({self._limited_by})")
        self._frame_bytes = size + 4
        if have <= size + 3:
            return None
        start = self._start
        self._start = start + size + 4
        self._is_in_use = True
        self.is_last = self._start == self._end
        return self._view[start + 4 : start + size + 4]

    def has_more(self) -> bool:
        """Return whether anything has been received after the frame given last, or the client has closed its side."""
        if self.is_last and not self.is_drained and not self._transport.has_unread():
            self.is_drained = True
        return not (self.is_last and self.is_drained)

    def limit(self, max_frame_bytes: int | None = None, limited_by: str = "socket.request.max.bytes") -> None:
        """Refuse frames of more than these bytes from the next one on, for the reason given; None restores the default."""
        most_bytes = self._request_max_bytes
        self._max_frame_bytes = most_bytes if max_frame_bytes is None else min(max_frame_bytes, most_bytes)
        self._limited_by = limited_by

    def release(self) -> None:
        """Release the frame given last. Optional for a frame in the first buffer, which is never taken away."""
        self._is_in_use = False
        if self.held_bytes and self._memory.is_short:
            self.shrink()

    def shrink(self) -> None:
        """Return to the first buffer, unless a frame in use or unread bytes need the larger one."""
        if self._is_in_use or self._is_taking or not self.held_bytes:
            return
        if self._end - self._start < INITIAL_BUFFER_BYTES:
            self._move_to(_first_buffer())
            self._room = INITIAL_BUFFER_BYTES
            self._memory.give_back(self, self.held_bytes)

    def stop_waiting(self) -> None:
        """Stop waiting for memory: a `next_frame` that waits raises trio.BrokenResourceError."""
        self._memory.stop_waiting(self)

    def close(self) -> None:
        """Give all memory back. Neither the reader nor the frame it gave last is used again."""
        self._view = _NOTHING
        self._start = self._end = self._room = 0
        self._memory.give_back(self, self.held_bytes)
        self.give_up = _is_over  # it refers to its connection, which refers to this object

    async def _make_room(self, need_bytes: int) -> None:
        """Make room for more bytes of a frame of `need_bytes`, which may take several calls."""
        size_bytes = len(self._view)
        if need_bytes > size_bytes and self._end - self._start == size_bytes:
            if need_bytes > RETAINED_BUFFER_BYTES and (size_bytes >= STEP_BYTES_MAX or self._has_brought_much):
                self._move_to(_untouched(_in_steps(need_bytes, HUGE_PAGE_BYTES)))
                self._room = self.held_bytes
            else:
                await self._double(need_bytes)
        elif self._start + need_bytes > size_bytes:
            self._move_to(self._view)
        if self._end >= self._room:
            await self._take(min(HUGE_PAGE_BYTES, len(self._view) - self.held_bytes))
            self._room = self.held_bytes
            await trio.lowlevel.checkpoint()

    async def _double(self, need_bytes: int) -> None:
        """Move to a buffer of twice the size, or of the size that the frame needs or a connection may keep, if that is less."""
        most_bytes = _in_steps(need_bytes, STEP_BYTES_MIN) if need_bytes <= RETAINED_BUFFER_BYTES else STEP_BYTES_MAX
        size_bytes = min(max(2 * self.held_bytes, STEP_BYTES_MIN), most_bytes)
        await self._take(size_bytes - self.held_bytes)
        # Not from the heap, which keeps freed memory between small objects: thousands of these must leave nothing.
        self._move_to(_untouched(size_bytes))
        self._room = size_bytes

    async def _take(self, size_bytes: int) -> None:
        self._is_taking = True
        try:
            if not self._memory.take_now(self, size_bytes):
                await self._memory.take(self, size_bytes)
        finally:
            self._is_taking = False

    def _move_to(self, target: memoryview) -> None:
        """Move the unread bytes to the front of `target`, which may be the buffer itself."""
        unread_bytes = self._end - self._start
        target[:unread_bytes] = self._view[self._start : self._end]  # as memmove, where they overlap
        self._view, self._start, self._end = target, 0, unread_bytes


def _in_steps(size_bytes: int, step_bytes: int) -> int:
    """Round up, so that frames of slightly different sizes do not each need a new buffer."""
    return -(-size_bytes // step_bytes) * step_bytes


def _first_buffer() -> memoryview:
    """Make the first buffer, also outside the heap: the memory of ten thousand connections must be freed with them."""
    try:
        return _untouched(INITIAL_BUFFER_BYTES)
    except ProtocolError:
        return memoryview(bytearray(INITIAL_BUFFER_BYTES))


def _untouched(size_bytes: int) -> memoryview:
    """A buffer of zeros that takes no memory before it is written to, and is freed with its last view.

    Raises:
        ProtocolError: The system has no address space for it.
    """
    try:
        memory = mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError) as error:
        raise ProtocolError(f"cannot allocate memory for a frame of up to {size_bytes} bytes: {error}") from error
    if size_bytes >= HUGE_PAGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # not every kernel has huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)


def _is_over(_reason: str) -> None:
    """Do nothing: the connection has ended."""
