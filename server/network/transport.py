"""Bytes in and out of one plain TCP connection.

A call is tried without blocking first, and the task parks only if that fails. So a request that is already there and a response
that fits the socket buffer cost no scheduler pass, which halves the CPU of a request compared to `trio.SocketStream`. The
socket is an ordinary non-blocking stdlib socket; Trio only waits for its readiness. `tls_transport` has a second class with
these same methods.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Sequence
from typing import TypeAlias

import trio

from ...storage.disk.files import Buffer, FileSlice, WouldWaitError
from ..runtime.threads import read_ahead
from ..runtime.time_slices import TimeSlice

Part: TypeAlias = bytes | bytearray | memoryview | FileSlice

# Bytes for one call: for a fast reader the kernel would never stop sending.
SEND_BYTES = 1 << 20
# Small slices are copied into the same call as the buffers around them, up to this many bytes at a time: that costs no more
# than a call for each, and the whole slice is checked for being in memory, not part of it.
COPIED_BYTES = 16 << 10
# The kernel takes at most IOV_MAX (1024 on Linux) buffers in one sendmsg.
MAX_BUFFERS = 1000
# Mostly some records, and the parts before and after them.
FEW_BUFFERS = 4
# Linux joins the header with the file bytes that follow into full packets.
MSG_MORE = getattr(socket, "MSG_MORE", 0)
# On other systems a closed peer is noticed when its response cannot be sent.
POLLRDHUP = getattr(select, "POLLRDHUP", 0)


class PlainTransport:
    """A non-blocking stdlib socket as a Trio task sees it."""

    is_emptied = False
    """Whether the socket was empty after the last `receive_now`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self.time_slice = TimeSlice()
        """Time slice of the connection's task; it begins again whenever the client has kept it waiting."""
        self.has_moved = False
        """Set whenever bytes have moved in either direction; the checker of idle connections resets it."""

    def receive_now(self, buffer: memoryview) -> int | None:
        """Fill `buffer` with the available bytes, without waiting.

        Returns:
            Bytes received; 0 when the peer closed its side; None when there is nothing yet.

        Raises:
            trio.BrokenResourceError: The connection was reset.
        """
        try:
            received = self._sock.recv_into(buffer)
        except (BlockingIOError, InterruptedError):
            self.is_emptied = True
            return None
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error
        self.has_moved = True
        self.is_emptied = received < len(buffer)
        return received

    def fileno(self) -> int:
        """Return the descriptor; -1 once it is closed."""
        return self._sock.fileno()

    def is_closed_by_peer(self) -> bool:
        """Return whether the peer has closed its side, even if bytes it sent before are still unread; also True after
        `close`."""
        if self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, POLLRDHUP)
        return bool(poll.poll(0))

    def has_unread(self) -> bool:
        """Return whether bytes have arrived that `receive_now` has not returned, or the peer has closed its side; also True
        after `close`."""
        if self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    async def readable(self) -> None:
        """Wait until `receive_now` has a result.

        Raises:
            trio.ClosedResourceError: `close` was called during the wait.
        """
        await trio.lowlevel.wait_readable(self._sock)
        self.time_slice.begin()

    async def send(self, parts: Sequence[Part]) -> None:
        """Send all parts in order; large file slices go from the page cache to the socket uncopied.

        A worker thread first reads what is not in the page cache.

        Raises:
            trio.BrokenResourceError: The connection was closed or reset.
        """
        buffers: list[bytes | bytearray | memoryview] = []
        copied_bytes = 0
        try:
            # Nearly every response is one small part, and fits into the socket buffer.
            if (
                len(parts) == 1
                and not isinstance(part := parts[0], FileSlice)
                and (size_bytes := len(part)) <= SEND_BYTES
            ):
                sent = 0
                try:
                    sent = self._sock.send(part)
                    self.has_moved = True
                except BlockingIOError:
                    pass
                if sent == size_bytes:
                    return
                parts = [memoryview(part)[sent:]]
            for part in parts:
                if isinstance(part, FileSlice):
                    is_copied = part.size_bytes <= COPIED_BYTES
                    if not is_copied or copied_bytes > COPIED_BYTES:
                        await self._send_buffers(buffers, MSG_MORE)
                        buffers, copied_bytes = [], 0
                    if is_copied:
                        buffers.append(await self._read(part))
                        copied_bytes += part.size_bytes
                        if self.time_slice.is_over():
                            await self.time_slice.next()
                    else:
                        await self._send_file(part)
                elif part:
                    buffers.append(part)
            await self._send_buffers(buffers, 0)
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error

    def send_now(self, parts: Sequence[Part]) -> list[Part]:
        """Send as much of a response as possible without waiting, in few calls. Returns the rest, for `send`.

        The first part of a response is never a slice of a file.

        Raises:
            trio.BrokenResourceError: The connection was closed or reset.
        """
        try:
            whole: Buffer | None = joined(parts) if len(parts) > 1 else parts[0]  # type: ignore[assignment]  # no FileSlice
            if whole is None:
                return self._send_in_turn([*parts])
            try:
                sent = self._sock.send(whole)
            except BlockingIOError:
                return [whole]
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error
        self.has_moved = True
        return [] if sent == len(whole) else [memoryview(whole)[sent:]]

    def _send_in_turn(self, parts: list[Part]) -> list[Part]:
        """Send each part by a call of its own, until one would wait or has been sent in part. Returns the rest.

        A response with many parts is left to `send`, which needs fewer calls for them.
        """
        if len(parts) > FEW_BUFFERS:
            return parts
        descriptor = self._sock.fileno()
        while parts:
            part = parts[0]
            size_bytes = len(part)
            try:
                if not isinstance(part, FileSlice):
                    sent = self._sock.send(part, MSG_MORE if len(parts) > 1 else 0)
                elif cached_bytes := part.file.cached_bytes(part.position, min(size_bytes, SEND_BYTES)):
                    sent = os.sendfile(descriptor, part.file.fileno(), part.position, cached_bytes)
                else:
                    break
            except BlockingIOError:
                break
            if sent < size_bytes:
                if sent:
                    self.has_moved = True
                    parts[0] = _after(part, sent)
                break
            self.has_moved = True
            del parts[0]
        return parts

    async def _send_buffers(self, buffers: list[bytes | bytearray | memoryview], flags: int) -> None:
        at = 0
        while at < len(buffers):
            is_all = False
            try:
                if at == 0 and len(buffers) <= FEW_BUFFERS and (size_bytes := sum(map(len, buffers))) <= SEND_BYTES:
                    sent = self._sock.sendmsg(buffers, (), flags)
                    is_all = sent == size_bytes
                else:
                    sent = self._sock.sendmsg(_some_of(buffers, at), (), flags)
            except BlockingIOError:
                await self._writable()
                continue
            self.has_moved = True
            if is_all:
                return
            while at < len(buffers) and sent >= len(buffers[at]):
                sent -= len(buffers[at])
                at += 1
            if sent:
                buffers[at] = memoryview(buffers[at])[sent:]
            if at < len(buffers) and self.time_slice.is_over():
                await self.time_slice.next()

    async def _send_file(self, part: FileSlice) -> None:
        file, position, left = part.file, part.position, part.size_bytes
        while left:
            size_bytes = min(left, SEND_BYTES)
            # The call waits for the disk if it has to, and pages may be dropped while a client reads slowly.
            cached_bytes = file.cached_bytes(position, size_bytes)
            if not cached_bytes:
                await self._read_ahead(FileSlice(file, position, size_bytes))
            try:
                sent = os.sendfile(self._sock.fileno(), file.fileno(), position, cached_bytes or size_bytes)
            except BlockingIOError:
                await self._writable()
                continue
            if sent == 0:  # The file is shorter than promised: the frame cannot be completed.
                raise trio.BrokenResourceError(f"file ended {left} bytes before the expected end")
            self.has_moved = True
            position += sent
            left -= sent
            if self.time_slice.is_over():
                await self.time_slice.next()

    async def _read(self, part: FileSlice) -> Buffer:
        try:
            data = part.file.read_now(part.position, part.size_bytes)
        except WouldWaitError:
            await self._read_ahead(part)
            data = part.file.read_at(part.position, part.size_bytes)
        if len(data) != part.size_bytes:
            raise trio.BrokenResourceError(f"file ended {part.size_bytes - len(data)} bytes before the expected end")
        return data

    async def _read_ahead(self, part: FileSlice) -> None:
        await read_ahead(part)
        self.time_slice.begin()

    async def _writable(self) -> None:
        await trio.lowlevel.wait_writable(self._sock)
        self.time_slice.begin()

    def close(self) -> None:
        """Close the socket at once and wake a task that waits on it."""
        if self._sock.fileno() >= 0:
            trio.lowlevel.notify_closing(self._sock)
            self._sock.close()


def joined(parts: Sequence[Part]) -> bytes | None:
    """Join all parts in one buffer: to copy and send it is cheaper than to send a list.

    Returns:
        None if a slice of a file among them is large, not in memory, or shorter than promised.

    Raises:
        OSError: A file cannot be read.
    """
    buffers: list[Buffer] = []
    for part in parts:
        if isinstance(part, FileSlice):
            if part.size_bytes > COPIED_BYTES:
                return None
            try:
                data = part.file.read_now(part.position, part.size_bytes)
            except WouldWaitError:
                return None
            if len(data) != part.size_bytes:
                return None
            buffers.append(data)
        else:
            buffers.append(part)
    return b"".join(buffers)


def _after(part: Part, sent_bytes: int) -> Part:
    """Return the part without its first `sent_bytes`."""
    if isinstance(part, FileSlice):
        return FileSlice(part.file, part.position + sent_bytes, part.size_bytes - sent_bytes)
    return memoryview(part)[sent_bytes:]


def _some_of(buffers: list[bytes | bytearray | memoryview], at: int) -> list[bytes | bytearray | memoryview]:
    """Return the buffers from `at` on that one call may send."""
    first = buffers[at]
    if len(first) >= SEND_BYTES:
        return [memoryview(first)[:SEND_BYTES]]
    some, room = [first], SEND_BYTES - len(first)
    for buffer in buffers[at + 1 : at + MAX_BUFFERS]:
        room -= len(buffer)
        if room < 0:
            break
        some.append(buffer)
    return some
