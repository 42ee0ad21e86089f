"""A connection to one broker: blocking, one request at a time.

Not a Kafka client library; programs use kafka-python, confluent-kafka or aiokafka. It shares the codec with the server, but no
server code, so tests also send raw requests through it.
"""

from __future__ import annotations

import itertools
import math
import socket
import struct
import time
from types import TracebackType
from typing import Any, Self

from ...protocol.apis import APIS, Api
from ...protocol.connection import encode_request, parse_response
from .security import PLAIN, Security

# Larger responses are not for a command line; limits what a wrong peer can make us allocate.
MAX_RESPONSE_BYTES = 100 << 20
# Part of a session's lifetime that is used; then another connection is made.
SESSION_PART = 0.8


def api_of(message: Any) -> Api:
    """Return the API of a request body."""
    name = type(message).__name__.removesuffix("Request")
    return next(api for api in APIS.values() if api.name == name)


class Client:
    """A connection to one broker."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = "ottla",
        timeout_s: float = 10,
        security: Security = PLAIN,
    ) -> None:
        """Connect; every blocking call on the socket gives up after `timeout_s`.

        Raises:
            OSError: No broker answers at that address, or TLS or the login fails.
        """
        self.client_id = client_id
        plain = socket.create_connection((host, port), timeout=timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = security.secured(plain, host)
        self._correlation_ids = itertools.count(1)
        self._waiting: list[tuple[Api, int, int]] = []
        self._until_s = math.inf
        if security.login is not None:
            from .sasl import log_in  # most clients do not log in

            try:
                lifetime_ms = log_in(self, security.login)
            except BaseException:
                self.close()
                raise
            if lifetime_ms:
                self._until_s = time.monotonic() + SESSION_PART * lifetime_ms / 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def is_open(self) -> bool:
        """Return whether the connection is open, as known without a request. For a connection without outstanding responses."""
        if time.monotonic() >= self._until_s:
            return False  # the broker would close it at the next request
        timeout_s = self._socket.gettimeout()
        self._socket.settimeout(0)
        try:
            # Read from the socket itself: only a request reads TLS messages, and it ends with them.
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self._socket.settimeout(timeout_s)
        return False

    def ask(self, message: Any, version: int | None = None) -> Any:
        """Send a request (in the API's highest version by default) and return the body of its response."""
        self.send(message, version)
        return self.receive()

    def send(self, message: Any, version: int | None = None) -> int:
        """Send a request without waiting; returns its correlation id."""
        api = api_of(message)
        version = api.versions[1] if version is None else version
        correlation_id = next(self._correlation_ids)
        self._socket.sendall(encode_request(api, version, correlation_id, self.client_id, message))
        self._waiting.append((api, version, correlation_id))
        return correlation_id

    def receive(self) -> Any:
        """Return the body of the next response, which belongs to the oldest outstanding request (Kafka keeps the order).

        Raises:
            ConnectionError: The broker closed the connection.
            ProtocolError: The received bytes are not such a response.
        """
        api, version, expected = self._waiting.pop(0)
        correlation_id, body = parse_response(api, version, self.receive_frame())
        if correlation_id != expected:
            raise ConnectionError(f"unexpected correlation ID {correlation_id} (expected {expected})")
        return body

    def receive_frame(self) -> bytes:
        """Return the next frame, without its size. Raises ConnectionError if the connection ends first."""
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        if not 0 <= size <= MAX_RESPONSE_BYTES:
            raise ConnectionError(f"response too large ({size} bytes, limit {MAX_RESPONSE_BYTES})")
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            data = self._socket.recv(min(size - len(out), 1 << 20))
            if not data:
                raise ConnectionError("the broker closed the connection")
            out += data
        return bytes(out)
