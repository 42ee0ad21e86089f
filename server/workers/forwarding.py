"""What a node in a process of its own does not answer itself: the first process answers, as if the client were connected to it.

The first such request of a connection opens a second one, a pair of Unix sockets of which the first process is given one end
through the `door`, with who the client is. It serves that end as any other connection, with its limits and time-outs; here frames
and answers pass as they are, an answer piece by piece. A client that leaves is seen there, since its pair is closed.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import TYPE_CHECKING, Any

import trio

from ...protocol.apis import APIS
from ..network.transport import PeerGoneError, PlainTransport

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..network.connections import Connections
    from ..network.desk import Desk
    from ..network.listener import Listener

OWN = frozenset(
    {
        "ApiVersions",
        "DeleteRecords",
        "DescribeLogDirs",
        "DescribeProducers",
        "Fetch",
        "ListOffsets",
        "OffsetForLeaderEpoch",
        "Produce",
        "WriteTxnMarkers",
    }
)
"""What clients ask the leader of a partition, or each node for itself."""

OWN_KEYS = frozenset(struct.pack(">h", key) for key, api in APIS.items() if api.name in OWN)

PEER_CHECK_S = 5.0
PIECE_BYTES = 1 << 16
FACTS_BYTES_MAX = 4096
SIZE = struct.Struct(">i")


class Forwarding:
    """Of one listener."""

    own_keys = OWN_KEYS

    def __init__(self, door: Door, listener: str) -> None:
        self._door = door
        self._listener = listener

    async def open(self, client: Connection) -> Upstream:
        """For the requests of one connection. PeerGoneError: the first process takes no more."""
        ours, theirs = socket.socketpair()
        facts = {"listener": self._listener, "peer": client.peer, "software": client.software}
        try:
            await self._door.give(json.dumps(facts).encode(), theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return Upstream(PlainTransport(ours))


class Door:
    """Through which one process is given sockets by another, whose end is `take_over`'s."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._one_at_a_time = trio.Lock()

    async def give(self, facts: bytes, given: socket.socket) -> None:
        """Wait while there is no room: the kernel keeps ten (`net.unix.max_dgram_qlen`) until they are looked at.

        Raises:
            PeerGoneError: The other end is closed.
        """
        async with self._one_at_a_time:
            while True:
                try:
                    socket.send_fds(self._sock, [facts], [given.fileno()])
                    return
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(self._sock)
                except OSError as error:
                    raise PeerGoneError(f"the first process takes no more: {error}") from error


class Upstream:
    """The pair of one connection, from here."""

    def __init__(self, transport: PlainTransport) -> None:
        self._transport = transport
        self._piece = memoryview(bytearray(PIECE_BYTES))

    @property
    def is_closed(self) -> bool:
        """Whether the first process has closed it, as it does when nothing has moved for long."""
        return self._transport.is_closed_by_peer()

    def close(self) -> None:
        self._transport.close()

    async def exchange(self, frame: memoryview, client: PlainTransport) -> None:
        """Pass a frame on, and its answer back. PeerGoneError: one of both sides is gone."""
        await self._transport.send([SIZE.pack(len(frame)), frame])
        got = 0
        while got < SIZE.size:
            got += await self._receive(client, got)
        (size,) = SIZE.unpack_from(self._piece)
        left = SIZE.size + size - got
        await client.send([self._piece[:got]])
        while left:
            got = await self._receive(client, 0, left)
            left -= got
            await client.send([self._piece[:got]])

    async def _receive(self, client: PlainTransport, at: int, most: int = PIECE_BYTES) -> int:
        while (received := self._transport.receive_now(self._piece[at : at + most])) is None:
            with trio.move_on_after(PEER_CHECK_S) as waiting:
                await self._transport.readable()
            if waiting.cancelled_caught and client.is_closed_by_peer():
                raise PeerGoneError("closed while its request was elsewhere")
        if not received:
            raise PeerGoneError("the first process has closed the connection")
        return received


async def take_over(
    door: socket.socket, listeners: dict[str, tuple[Listener, Desk]], connections: Connections, nursery: trio.Nursery
) -> None:
    """Serve what comes through the door of one node, until it is closed."""
    door.setblocking(False)
    while True:
        try:
            await trio.lowlevel.wait_readable(door)
            data, fds, _, _ = socket.recv_fds(door, FACTS_BYTES_MAX, 1)
        except BlockingIOError:
            continue
        except (trio.ClosedResourceError, OSError):
            return
        if not fds:
            return
        facts: dict[str, Any] = json.loads(data)
        listener, desk = listeners[facts["listener"]]
        software = facts["software"]
        connections.take_over(
            socket.socket(fileno=fds[0]),
            facts["peer"],
            None if software is None else (software[0], software[1]),
            listener,
            desk,
            nursery,
        )
