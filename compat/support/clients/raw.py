"""Requests over a bare socket, for what client libraries hide: readiness, round-trip times, odd versions.

Bodies are built by hand and only for versions without tagged fields, so nothing here leans on Ottla's codec.
"""

import contextlib
import socket
import struct
from collections.abc import Sequence
from typing import Self


class RawConnection:
    """One blocking connection; `request` sends a body and returns the response body without its correlation id."""

    def __init__(self, host: str, port: int, timeout_s: float = 10.0) -> None:
        self.socket = socket.create_connection((host, port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def request(self, api_key: int, version: int, body: bytes) -> bytes:
        """Send one request with header v1 (client id `compat`) and wait for its response."""
        self.correlation_id += 1
        self.socket.sendall(frame(api_key, version, self.correlation_id, body))
        response = self.read_frame()
        (correlation_id,) = struct.unpack_from(">i", response)
        if correlation_id != self.correlation_id:
            raise RuntimeError(f"response to {correlation_id}, expected {self.correlation_id}")
        return response[4:]

    def pipeline(self, api_key: int, version: int, bodies: Sequence[bytes]) -> list[bytes]:
        """Send requests of one kind at once, then wait for their responses; these arrive in the same order."""
        first = self.correlation_id + 1
        self.correlation_id += len(bodies)
        self.socket.sendall(b"".join(frame(api_key, version, first + n, body) for n, body in enumerate(bodies)))
        responses = [self.read_frame() for _ in bodies]
        answered = [struct.unpack_from(">i", response)[0] for response in responses]
        if answered != list(range(first, first + len(bodies))):
            raise RuntimeError(f"responses to {answered[:5]}…, expected from {first} on")
        return [response[4:] for response in responses]

    def read_frame(self) -> bytes:
        size = struct.unpack(">i", self._read(4))[0]
        return self._read(size)

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            got = self.socket.recv(size - len(parts))
            if not got:
                raise ConnectionError(f"closed after {len(parts)} of {size} bytes")
            parts += got
        return bytes(parts)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Return the request's size, header v1 (client id `compat`), and body."""
    message = struct.pack(">hhih", api_key, version, correlation_id, 6) + b"compat" + body
    return struct.pack(">i", len(message)) + message


def produce_body(topic: str, partition: int, records: bytes, acks: int = 1, timeout_ms: int = 5000) -> bytes:
    """Return the body of Produce v3 (the oldest version that Kafka 4 takes) with one partition."""
    name = topic.encode()
    return (
        struct.pack(">hhi", -1, acks, timeout_ms)
        + struct.pack(f">ih{len(name)}s", 1, len(name), name)
        + struct.pack(">iii", 1, partition, len(records))
        + records
    )


def produce_result(body: bytes, topic: str) -> tuple[int, int]:
    """Return error code and base offset of the only partition in a Produce v3 response."""
    error_code, base_offset = struct.unpack_from(">hq", body, 4 + 2 + len(topic.encode()) + 4 + 4)
    return error_code, base_offset


def has_brokers(host: str, port: int) -> bool:
    """Return whether a Metadata v1 request is answered with at least one broker: what a client needs to begin."""
    with contextlib.suppress(OSError, ConnectionError, struct.error), RawConnection(host, port, 5.0) as connection:
        return bool(struct.unpack_from(">i", connection.request(3, 1, struct.pack(">i", 0)))[0] > 0)
    return False
