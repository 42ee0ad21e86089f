"""A small blocking client that speaks raw requests: what a test says is what goes over the wire.

    with RawClient("127.0.0.1", 9092) as client:
        response = client.ask(METADATA, 12, MetadataRequest(topics=None))

It shares the codec with the server but none of the server's code. `send` and `receive` apart allow pipelining;
`send_bytes` allows nonsense.
"""

import itertools
import socket
import struct
from types import TracebackType
from typing import Any, Self

from ottla.protocol.apis import APIS, Api
from ottla.protocol.connection import encode_request, parse_response


def api_of(message: Any) -> Api:
    """The API that a request body belongs to."""
    name = type(message).__name__.removesuffix("Request")
    return next(api for api in APIS.values() if api.name == name)


class RawClient:
    def __init__(self, host: str, port: int, *, client_id: str | None = "raw-client", timeout_s: float = 10) -> None:
        """Connects; every blocking call on the socket gives up after `timeout_s`."""
        self.client_id = client_id
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)
        self._waiting: list[tuple[Api, int, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

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
        """The body of the next response; it must answer the oldest request still waiting, as Kafka keeps the order.

        Raises ConnectionError when the broker has closed the connection.
        """
        api, version, expected = self._waiting.pop(0)
        correlation_id, body = parse_response(api, version, self.receive_frame())
        assert correlation_id == expected, f"response {correlation_id} came where {expected} was due"
        return body

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive_frame(self) -> bytes:
        """The next frame, without its size. Raises ConnectionError when there is none."""
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def is_closed_by_peer(self) -> bool:
        """Whether the broker closes the connection; waits for it until the time limit."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def _receive_exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            data = self._socket.recv(min(size - len(out), 1 << 20))
            if not data:
                raise ConnectionError("the broker closed the connection")
            out += data
        return bytes(out)
