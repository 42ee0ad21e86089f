"""Bytes in and out of one TLS connection, with the methods of `PlainTransport`.

OpenSSL works on two buffers in memory, and the socket is an ordinary non-blocking one. That costs no more than OpenSSL on the
socket (0.6 s of CPU for a gigabyte either way). It leaves these decisions here: how much is read before the peer is
authenticated, how much is done in one time slice, and how much memory is used for a peer that reads nothing.

Data that the kernel sends from the page cache on a plain connection must be read and encrypted here, a quarter of a megabyte at
a time: that is the cost of TLS.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

import trio

from ...storage.disk.files import FileSlice, WouldWaitError
from ..runtime.threads import read_ahead
from .dispatcher import HangUpError
from .transport import Part, PlainTransport, joined

RECORD_BYTES = 16 << 10
"""Bytes that are encrypted at once; RFC 8446 allows no more."""
FRAMING_BYTES = 512
"""Largest overhead of a record."""
SEND_BYTES = 256 << 10
"""Bytes that are encrypted before they are sent, in a tenth of a millisecond."""
RECEIVE_BYTES = 64 << 10
"""Bytes that are received at a time: OpenSSL's buffer keeps that size."""
HANDSHAKE_BYTES_MAX = 16 << 10
"""Bytes that a client may send before it is authenticated. Chains of certificates take a quarter of it."""
UNASKED_BYTES_MAX = 64 << 10
"""Bytes of our replies to TLS protocol messages that may be unsent, for a client that reads nothing."""


class TlsTransport(PlainTransport):
    """A non-blocking stdlib socket with TLS by OpenSSL, as a Trio task sees it.

    Call `shake_hands` before anything else.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        super().__init__(sock)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self._unsent = memoryview(b"")
        """Encrypted bytes that were taken out of `_outgoing` and not sent yet."""
        self._is_secured = False

    @property
    def peer_certificate(self) -> bytes | None:
        """Certificate in DER; None: none was requested, or the peer has shown none."""
        return self._tls.getpeercert(binary_form=True)

    async def shake_hands(self) -> int:
        """Do the handshake; returns how many bytes the peer has sent for it. The caller sets a time limit.

        Raises:
            HangUpError: The handshake failed; the peer has received a TLS alert if there is one.
            trio.BrokenResourceError: The peer has closed the connection.
        """
        spent_bytes = 0
        while True:
            # A signature takes a millisecond, and a hundred clients may come at once.
            if self.time_slice.is_pass_over():
                await self.time_slice.next()
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                self._send_now()  # the alert
                raise HangUpError(f"TLS handshake failed: {why(error)}") from None
            await self._flush()
            room_bytes = HANDSHAKE_BYTES_MAX - spent_bytes
            if room_bytes <= 0:
                raise HangUpError(f"TLS handshake failed: more than {HANDSHAKE_BYTES_MAX} bytes in the handshake")
            spent_bytes += await self._receive(room_bytes)
        await self._flush()
        self._is_secured = True
        return spent_bytes

    async def _receive(self, size_bytes: int) -> int:
        while True:
            try:
                data = self._sock.recv(size_bytes)
            except (BlockingIOError, InterruptedError):
                await self.readable()
                continue
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error
            if not data:
                raise trio.BrokenResourceError("closed during the TLS handshake")
            self.has_moved = True
            return self._incoming.write(data)

    def receive_now(self, buffer: memoryview) -> int | None:
        """Receive as `PlainTransport.receive_now` does; at most one record.

        Raises:
            trio.BrokenResourceError: The connection was reset, or received bytes cannot be decrypted.
        """
        self.is_emptied = False
        received = self._decrypt(buffer)
        if received is not None:
            return received
        # Once only: a peer that sends only TLS protocol messages gets one receive, then other tasks run.
        room_bytes = min(max(len(buffer), RECORD_BYTES) + FRAMING_BYTES, RECEIVE_BYTES)
        try:
            data = self._sock.recv(room_bytes)
        except (BlockingIOError, InterruptedError):
            self.is_emptied = True
            return None
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error
        self.has_moved = True
        if not data:
            return 0  # without close_notify, as most clients close; the size of a frame shows whether it was cut short
        self._incoming.write(data)
        received = self._decrypt(buffer)
        self.is_emptied = received is None and len(data) < room_bytes
        return received

    def has_unread(self) -> bool:
        """See `PlainTransport.has_unread`."""
        return bool(self._tls.pending() or self._incoming.pending) or super().has_unread()

    def _decrypt(self, buffer: memoryview) -> int | None:
        received: int | None = None
        try:
            received = self._tls.read(len(buffer), buffer)  # type: ignore[assignment]  # bytes only without a buffer
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            return 0
        except ssl.SSLError as error:
            self._send_now()
            raise trio.BrokenResourceError(f"TLS: {why(error)}") from error
        if self._outgoing.pending:
            self._send_now()
            if self._outgoing.pending > UNASKED_BYTES_MAX:
                raise trio.BrokenResourceError("TLS: client does not read the responses")
        return received

    async def send(self, parts: Sequence[Part]) -> None:
        """Encrypt and send all parts in order; small parts share a record.

        Raises:
            trio.BrokenResourceError: The connection was closed or reset.
        """
        small: list[bytes | bytearray | memoryview] = []
        small_bytes = 0
        try:
            for part in parts:
                if isinstance(part, FileSlice):
                    if small:
                        await self._encrypt(b"".join(small))
                        small, small_bytes = [], 0
                    await self._send_file(part)
                    continue
                size_bytes = len(part)
                if small_bytes + size_bytes > RECORD_BYTES and small:
                    await self._encrypt(b"".join(small))
                    small, small_bytes = [], 0
                if size_bytes > RECORD_BYTES:
                    await self._encrypt(part)
                elif size_bytes:
                    small.append(part)
                    small_bytes += size_bytes
            if small:
                await self._encrypt(small[0] if len(small) == 1 else b"".join(small))
            await self._flush()
        except ssl.SSLError as error:
            raise trio.BrokenResourceError(f"TLS: {why(error)}") from error
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error

    def send_now(self, parts: Sequence[Part]) -> list[Part]:
        """Send as `PlainTransport.send_now` does. Encrypted bytes that the socket does not take stay here: `send` sends them
        first."""
        try:
            whole = joined(parts)
            if whole is None:
                return [*parts]
            view = memoryview(whole)
            for at in range(0, len(view), RECORD_BYTES):
                self._tls.write(view[at : at + RECORD_BYTES])
        except ssl.SSLError as error:
            raise trio.BrokenResourceError(f"TLS: {why(error)}") from error
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error
        return [] if self._send_now() else [b""]

    async def _send_file(self, part: FileSlice) -> None:
        file, position, left = part.file, part.position, part.size_bytes
        while left:
            size_bytes = min(left, SEND_BYTES)
            piece = FileSlice(file, position, size_bytes)
            try:
                data = file.read_now(position, size_bytes)
            except WouldWaitError:
                await read_ahead(piece)
                self.time_slice.begin()
                data = file.read_at(position, size_bytes)
            if len(data) != size_bytes:  # The file is shorter than promised: the frame cannot be completed.
                raise trio.BrokenResourceError(f"file ended {left - len(data)} bytes before the expected end")
            await self._encrypt(data)
            position += size_bytes
            left -= size_bytes

    async def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt all of `data`, and send all of it except the end."""
        view = memoryview(data)
        write, outgoing = self._tls.write, self._outgoing
        at = 0
        while at < len(view):
            at += write(view[at : at + RECORD_BYTES])
            if outgoing.pending >= SEND_BYTES:
                await self._flush()

    async def _flush(self) -> None:
        """Send all encrypted bytes."""
        while not self._send_now():
            await self._writable()
        if self.time_slice.is_over():
            await self.time_slice.next()

    def _send_now(self) -> bool:
        """Send encrypted bytes without waiting; returns whether all were sent.

        Raises:
            trio.BrokenResourceError: The connection was closed or reset.
        """
        while True:
            if not self._unsent:
                if not self._outgoing.pending:
                    return True
                self._unsent = memoryview(self._outgoing.read())
            try:
                sent = self._sock.send(self._unsent)
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error
            self.has_moved = True
            self._unsent = self._unsent[sent:]

    def close(self) -> None:
        """Send close_notify if that needs no waiting, close the socket at once, and wake a task that waits on it."""
        if self._is_secured and not self._unsent and self._sock.fileno() >= 0:
            self._is_secured = False
            with suppress(ssl.SSLError):  # it misses the peer's close_notify, which is not needed
                self._tls.unwrap()
            with suppress(trio.BrokenResourceError):
                self._send_now()
        super().close()


def why(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in plain words, without the names of its source files."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate rejected: {error.verify_message}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return _PLAINER.get(reason, reason)


_PLAINER = {
    "http request": "client does not use TLS, but HTTP",
    "wrong version number": "client does not use TLS",
    "peer did not return a certificate": "client sent no certificate, but ssl.client.auth is required",
}
