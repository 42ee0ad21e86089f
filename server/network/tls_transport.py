"""Bytes in and out of one TLS connection, by the methods of `PlainTransport`.

OpenSSL works on two buffers in memory, and the socket stays an ordinary non-blocking one. That costs no more than letting it
work on the socket (0.6 s of CPU for a gigabyte either way), and it decides nothing: how much is read before anybody has proved
who he is, how much is done in one turn, and what lies in memory for a peer that reads nothing, is all decided here.

What the kernel sends from the page cache on a plain connection has to be read and encrypted here, a quarter of a megabyte at a
time; that is what TLS costs.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress

from ...storage.disk.files import FileSlice, WouldWaitError
from ..runtime.threads import read_ahead
from .desk import HangUpError
from .transport import Part, PeerGoneError, PlainTransport, joined

RECORD_BYTES = 16 << 10
"""Of what is encrypted at once; RFC 8446 allows no more."""
FRAMING_BYTES = 512
"""Around a record, at most."""
SEND_BYTES = 256 << 10
"""Encrypted before the socket is asked to take it, a tenth of a millisecond."""
RECEIVE_BYTES = 64 << 10
"""Taken from the socket at a time: OpenSSL's buffer keeps that size."""
HANDSHAKE_BYTES_MAX = 16 << 10
"""A client may send so much before it has shown who it is. Chains of certificates take a quarter of it."""
UNASKED_BYTES_MAX = 64 << 10
"""What a client may have us answer to requests of the protocol itself, while it reads nothing of that."""


class TlsTransport(PlainTransport):
    """A non-blocking stdlib socket with OpenSSL before it, as a Trio task sees it.

    Before anything else, `shake_hands`.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_hostname: str | None = None) -> None:
        super().__init__(sock)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_hostname is None, server_hostname=server_hostname
        )
        self._unsent = memoryview(b"")
        """Encrypted, and taken out of `_outgoing`, but not by the socket yet."""
        self._is_secured = False

    @property
    def peer_certificate(self) -> bytes | None:
        """In DER; None: the peer has shown none that was asked for."""
        return self._tls.getpeercert(binary_form=True)

    async def shake_hands(self) -> int:
        """Come to terms with the peer; returns how many bytes that has taken of it. Takes as long as it takes: the caller sets a limit.

        Raises:
            HangUpError: It fails; the peer was told, as far as TLS has words for it.
            PeerGoneError: The peer has closed the connection.
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
                self._send_now()  # what is wrong
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
                raise PeerGoneError(str(error)) from error
            if not data:
                raise PeerGoneError("closed during the TLS handshake")
            self.has_moved = True
            return self._incoming.write(data)

    def receive_now(self, buffer: memoryview) -> int | None:
        """As `PlainTransport.receive_now`; at most one record.

        Raises:
            PeerGoneError: The connection was reset, or what came cannot be decrypted.
        """
        self.is_emptied = False
        received = self._decrypt(buffer)
        if received is not None:
            return received
        # Once only: whoever sends nothing but what TLS itself is made of has its turn, and no more.
        room_bytes = min(max(len(buffer), RECORD_BYTES) + FRAMING_BYTES, RECEIVE_BYTES)
        try:
            data = self._sock.recv(room_bytes)
        except (BlockingIOError, InterruptedError):
            self.is_emptied = True
            return None
        except OSError as error:
            raise PeerGoneError(str(error)) from error
        self.has_moved = True
        if not data:
            return 0  # without a goodbye, as most clients leave; a frame that was cut short shows by its size
        self._incoming.write(data)
        received = self._decrypt(buffer)
        self.is_emptied = received is None and len(data) < room_bytes
        return received

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
            raise PeerGoneError(f"TLS: {why(error)}") from error
        if self._outgoing.pending:
            self._send_now()
            if self._outgoing.pending > UNASKED_BYTES_MAX:
                raise PeerGoneError("TLS: client does not read the responses")
        return received

    async def send(self, parts: Sequence[Part]) -> None:
        """Encrypt and send all parts in order; what is small goes together into one record.

        Raises:
            PeerGoneError: The peer does not take them any more.
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
            raise PeerGoneError(f"TLS: {why(error)}") from error
        except OSError as error:
            raise PeerGoneError(str(error)) from error

    def send_now(self, parts: Sequence[Part]) -> list[Part]:
        """As `PlainTransport.send_now`. What is encrypted and not taken stays here: `send` sends it before all else."""
        try:
            whole = joined(parts)
            if whole is None:
                return [*parts]
            view = memoryview(whole)
            for at in range(0, len(view), RECORD_BYTES):
                self._tls.write(view[at : at + RECORD_BYTES])
        except ssl.SSLError as error:
            raise PeerGoneError(f"TLS: {why(error)}") from error
        except OSError as error:
            raise PeerGoneError(str(error)) from error
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
                raise PeerGoneError(f"file ended {left - len(data)} bytes before the expected end")
            await self._encrypt(data)
            position += size_bytes
            left -= size_bytes

    async def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt all of `data`, and send all but the end of it."""
        view = memoryview(data)
        write, outgoing = self._tls.write, self._outgoing
        at = 0
        while at < len(view):
            at += write(view[at : at + RECORD_BYTES])
            if outgoing.pending >= SEND_BYTES:
                await self._flush()

    async def _flush(self) -> None:
        """Send what is encrypted."""
        while not self._send_now():
            await self._writable()
        if self.time_slice.is_over():
            await self.time_slice.next()

    def _send_now(self) -> bool:
        """Send what is encrypted as far as the socket takes it now; returns whether that was all.

        Raises:
            PeerGoneError: It takes nothing any more.
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
                raise PeerGoneError(str(error)) from error
            self.has_moved = True
            self._unsent = self._unsent[sent:]

    def close(self) -> None:
        """Say goodbye as far as that needs no waiting, close the socket at once, and wake a task that waits on it."""
        if self._is_secured and not self._unsent and self._sock.fileno() >= 0:
            self._is_secured = False
            with suppress(ssl.SSLError):  # it misses the peer's goodbye, which nobody waits for
                self._tls.unwrap()
            with suppress(PeerGoneError):
                self._send_now()
        super().close()


def why(error: ssl.SSLError) -> str:
    """What OpenSSL says, in its words, without the names of its files."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate rejected: {error.verify_message}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return _PLAINER.get(reason, reason)


_PLAINER = {
    "http request": "client does not use TLS, but HTTP",
    "wrong version number": "client does not use TLS",
    "peer did not return a certificate": "client sent no certificate, but ssl.client.auth is required",
}
