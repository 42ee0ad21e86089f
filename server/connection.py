"""One client connection: read a frame, handle it, write the answer, one at a time and in order.

Kafka's ordering promise is per connection, so requests are not handled side by side: the next
frame is looked at only when the answer to the one before has been written (a parked fetch holds
back what is pipelined behind it, as in Apache Kafka).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from ..protocol.connection import encode_response, parse_request
from ..protocol.errors import ProtocolError
from .frames import FrameReader
from .transport import PeerGoneError, PlainTransport

if TYPE_CHECKING:
    from .broker import Broker
    from .nodes import Listener, Node

log = logging.getLogger("ottla.connection")

# A client whose requests are always already there must not starve the others or dodge cancellation.
REQUESTS_PER_CHECKPOINT = 16
# A parked request looks this often whether its client is still there.
PEER_CHECK_MS = 5_000


@dataclass(frozen=True, slots=True)
class Context:
    """What a handler may know beside the request itself."""

    broker: Broker
    node: Node
    """The node whose listener took the connection; routing facts are seen from here."""
    listener: Listener
    client_host: str
    connection: Connection


class Connection:
    """The server side of one TCP connection."""

    def __init__(self, broker: Broker, node: Node, listener: Listener, transport: PlainTransport, peer: str) -> None:
        self.peer = peer
        self.node = node
        self.idle_since_s = trio.current_time()
        """Trio's time, not the broker's: moving that must not cost clients their connections."""
        self.busy = False
        self._broker = broker
        self._transport = transport
        self._context = Context(broker, node, listener, peer.rpartition(":")[0], self)
        self._frames = FrameReader(transport, broker.config.socket_request_max_bytes, broker.request_memory)

    async def serve(self) -> None:
        """Answer requests until the peer closes, does not speak Kafka, or the node stops.

        Never raises but for cancellation: malformed bytes end this connection with one log line,
        an error of our own with a traceback, and every other connection goes on.
        """
        try:
            await self._serve()
        except ProtocolError as error:
            log.warning("closing %s: %s", self.peer, error)
        except PeerGoneError as error:
            log.debug("%s is gone: %s", self.peer, error)
        except trio.ClosedResourceError:
            log.debug("%s was closed by us", self.peer)
        except Exception:
            log.exception("closing %s after an error of the broker", self.peer)
        finally:
            self._frames.close()
            self._transport.close()

    async def _serve(self) -> None:
        broker, context = self._broker, self._context
        handlers = broker.handlers
        served = 0
        while self.node.is_alive and not broker.stopping:
            frame = await self._frames.next_frame()
            if frame is None:
                return
            self.busy = True
            request = parse_request(frame)
            try:
                handle = handlers[request.api.key]
            except KeyError:
                raise ProtocolError(f"{request.api.name} (API key {request.api.key}) is not served") from None
            body = await handle(context, request)
            if body is not None:
                await self._transport.send(encode_response(request, body))
            self.busy = False
            self.idle_since_s = trio.current_time()
            served += 1
            if served % REQUESTS_PER_CHECKPOINT == 0:
                await trio.lowlevel.checkpoint()

    def check_peer(self) -> None:
        """Raise PeerGoneError if the client has gone while its request was parked.

        Otherwise a client that asks to wait for days and leaves would hold its place for days.
        """
        if self._transport.is_closed_by_peer():
            raise PeerGoneError("closed while its request was parked")

    def shrink(self) -> None:
        """Give back a large receive buffer if the connection is idle."""
        if not self.busy:
            self._frames.shrink()

    def close(self) -> None:
        """Close at once; a task inside `serve` ends."""
        self._transport.close()
