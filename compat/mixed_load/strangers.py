"""Short-lived connections: some send a request, some nothing, some rubbish, some end within a frame."""

import contextlib
import random
import socket
import struct

from ..support.clients.raw import frame
from .load import Load, Scene

API_VERSIONS, METADATA = (18, 0, b""), (3, 1, struct.pack(">i", -1))
ANNOUNCED_BYTES = 1 << 20


def asks(connection: socket.socket, chance: random.Random) -> None:
    """Send two requests, and read their responses."""
    for number, (key, version, body) in enumerate((API_VERSIONS, METADATA)):
        connection.sendall(frame(key, version, number, body))
        size = struct.unpack(">i", exactly(connection, 4))[0]
        (found,) = struct.unpack_from(">i", exactly(connection, size))
        if found != number:
            raise RuntimeError(f"answer {found} to question {number}")


def exactly(connection: socket.socket, size: int) -> bytes:
    found = connection.recv(size, socket.MSG_WAITALL)
    if len(found) < size:
        raise ConnectionError(f"closed after {len(found)} of {size} bytes")
    return found


def says_nothing(connection: socket.socket, chance: random.Random) -> None:
    return None


def raves(connection: socket.socket, chance: random.Random) -> None:
    """Rubbish: the broker closes, with or without an answer."""
    with contextlib.suppress(OSError):
        connection.sendall(chance.randbytes(chance.randrange(1, 4000)))
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass


def breaks_off(connection: socket.socket, chance: random.Random) -> None:
    """Send a part of a frame, and close."""
    connection.sendall(struct.pack(">i", ANNOUNCED_BYTES) + bytes(chance.randrange(1, 100_000)))


def resets(connection: socket.socket, chance: random.Random) -> None:
    """Send a request and reset the connection (RST) without reading the answer."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    key, version, body = METADATA
    connection.sendall(frame(key, version, 0, body))


KINDS = (asks, says_nothing, raves, breaks_off, resets)


class Strangers(Load):
    """A load that opens some connections of each kind in a turn."""

    every_s, each = 1.0, 4

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        host, _, port = scene.bootstrap.rpartition(":")
        self.address = (host, int(port))

    def turn(self) -> None:
        for kind in KINDS:
            for _ in range(self.each):
                with socket.create_connection(self.address, 20) as connection:
                    kind(connection, self.chance)
