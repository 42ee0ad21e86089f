"""A blocking client for tests that sends exactly what a test gives it, including invalid requests.

    with RawClient("127.0.0.1", 9092) as client:
        response = client.ask(MetadataRequest(topics=None), version=12)

`send` and `receive` apart allow pipelining; `send_bytes` allows invalid bytes.
"""

import select
import socket
from typing import Any

from ottla.protocol.connection import encode_request
from ottla.server.client.connection import Client, api_of

__all__ = ["RawClient", "api_of"]


class RawClient(Client):
    """A `Client` that can also send invalid requests. Its timeouts are long: the broker shares a machine with other tests."""

    def __init__(self, host: str, port: int, *, timeout_s: float = 60, **options: Any) -> None:
        super().__init__(host, port, timeout_s=timeout_s, **options)

    def send_without_answer(self, message: Any, version: int) -> None:
        """Send a request that the broker does not answer (Produce with acks=0)."""
        self._socket.sendall(encode_request(api_of(message), version, 0, self.client_id, message))

    def answer_bytes(self, message: Any, version: int | None = None) -> int:
        """Send a request and return the size of its answer in bytes."""
        self.send(message, version)
        self._waiting.pop()
        return len(self.receive_frame())

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def shut_down_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def has_answer(self, within_s: float = 0.05) -> bool:
        """Return whether data has arrived, or arrives within `within_s`; for tests that expect nothing."""
        return bool(select.select([self._socket], [], [], within_s)[0])

    def is_closed_by_peer(self) -> bool:
        """Return whether the broker closes the connection; waits for it until the time limit."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
