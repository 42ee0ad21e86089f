"""A connection to one broker: blocking, one request at a time.

Not a Kafka client library; programs use kafka-python, confluent-kafka or aiokafka. It shares the codec
with the server and none of the server's code, so tests speak raw requests through it too.
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

# Larger answers than this are not for a command line; bounds what a wrong peer makes us allocate.
MAX_RESPONSE_BYTES = 100 << 20
# Of a session that ends is used; then another connection is made.
SESSION_PART = 0.8


def api_of(message: Any) -> Api:
    """The API that a request body belongs to."""
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
        """Connects; every blocking call on the socket gives up after `timeout_s`.

        Raises:
            OSError: There is no broker at that address, or it does not come to terms with us.
        """
        self.client_id = client_id
        plain = socket.create_connection((host, port), timeout=timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = security.secured(plain, host)
        self._correlation_ids = itertools.count(1)
        self._waiting: list[tuple[Api, int, int]] = []
        self._until_s = math.inf
        if security.login is not None:
            from .sasl import log_in  # most clients need not

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
        """Whether the broker has kept the connection, as far as is known without asking it. For one that waits for
        no answer."""
        if time.monotonic() >= self._until_s:
            return False  # the broker would close it with the next request
        timeout_s = self._socket.gettimeout()
        self._socket.settimeout(0)
        try:
            # Of the socket itself: what TLS has to say is for the one who waits for an answer, and ends with that.
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            self._socket.settimeout(timeout_s)
        return False

    def ask(self, message: Any, version: int | None = None) -> Any:
        """Send a request (in the API's highest version unless told) and return the body of its response."""
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
        """The body of the next response, which answers the oldest request still waiting (Kafka keeps the order).

        Raises:
            ConnectionError: The broker closed the connection.
            ProtocolError: What came is no such response.
        """
        api, version, expected = self._waiting.pop(0)
        correlation_id, body = parse_response(api, version, self.receive_frame())
        if correlation_id != expected:
            raise ConnectionError(f"unexpected correlation ID {correlation_id} (expected {expected})")
        return body

    def receive_frame(self) -> bytes:
        """The next frame, without its size. Raises ConnectionError when there is none."""
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
