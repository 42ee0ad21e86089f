"""One client connection: read a frame, handle it, write the answer, one at a time and in order.

Kafka's ordering promise is per connection, so requests are not handled side by side: the next
frame is looked at only when the answer to the one before has been written (a parked fetch holds
back what is pipelined behind it, as in Apache Kafka).
"""

from __future__ import annotations

import errno
import logging
import struct
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from ...protocol.connection import Request, parse_request
from ...protocol.errors import ProtocolError
from ..runtime.addresses import java_host
from ..security.principal import ANONYMOUS, Principal
from .answer_places import AnswerPlace
from .desk import Desk, HangUpError, LoggingIn, one_line
from .frames import INITIAL_BUFFER_BYTES, FrameReader
from .large_requests import READ_ELEMENTS_AT_ONCE, LargeRequest, read_now, write_now
from .listener import Listener
from .shares import Shares
from .straight import Straight
from .transport import Part, PeerGoneError, PlainTransport
from .unsent_answers import COUNTED_BYTES_MIN, memory_bytes

if TYPE_CHECKING:
    from ..security.tls.contexts import TlsContext
    from .authentication.allowance import Allowance
    from .authentication.counts import Counts

log = logging.getLogger("ottla.connection")

# Its records stay views into the frame; all else of a request is copied out of it.
PRODUCE_KEY = 0
# A frame with more than this may take milliseconds. Hundreds of them may come at once, so those that find others at it already
# stand in line; but not Produce and Fetch, of which a busy broker has hundreds anyway, each of them short.
LITTLE_BYTES = 4 << 10
BULK = (b"\0\0", b"\0\1")
# What a frame says of its size.
unpack_size = struct.Struct(">i").unpack_from
# What the process or the machine is short of for a while.
SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
# A parked request looks this often whether its client is still there.
PEER_CHECK_MS = 5_000


class Connection:
    """The server side of one TCP connection."""

    _holding: trio.CancelScope | None = None
    """While its request is kept waiting, or its next one, on purpose."""

    _muted: Callable[[], Awaitable[None]] | None = None
    """What is to be waited for before the next request is taken."""

    software: tuple[str, str] | None = None
    """Name and version of the client's library, if it has told them (KIP-511)."""

    principal: Principal = ANONYMOUS
    """Who the client is, as far as it has proved that."""

    mechanism: str | None = None
    """Of SASL, by which it did."""

    _allowed: Allowance | None = None
    """While it proves who it is, as the next one."""

    logging_in: LoggingIn | None = None

    _straight: Straight | None = None
    """Where its requests are answered without its task, once it has sent one that could have been."""

    farewell: Callable[[], object] | None = None
    """Called once, when it is gone: for what others keep for it. It must not name this."""

    def __init__(self, shares: Shares, listener: Listener, desk: Desk, transport: PlainTransport, peer: str) -> None:
        self.peer = peer
        self.client_host = java_host(peer.rpartition(":")[0])
        """As Apache Kafka writes it: in ACLs, groups and telemetry."""
        self.listener = listener
        self.node_id = desk.node_id
        self.turn = transport.turn
        """Of the task that serves it: for handlers that mostly have little to do."""
        self.busy = False
        self._moved_s = trio.current_time()
        """When it was last seen that bytes had moved. Trio's time, not the broker's: moving that must not cost clients
        their connections."""
        self._shares = shares
        self._desk = desk
        self._transport = transport
        self._frames = FrameReader(
            transport, shares.request_max_bytes, shares.request_memory, self.client_host, self.give_up
        )
        self._place: AnswerPlace | None = None
        """Made with its first request that needs one."""
        self._large: LargeRequest | None = None
        """The request it is at, if that or its answer is large."""

    @property
    def client_port(self) -> str:
        return self.peer.rpartition(":")[2]

    async def serve(self) -> None:
        """Answer requests until the peer closes, does not speak Kafka, or the node stops.

        Never raises but for cancellation: malformed bytes end this connection with one log line,
        an error of our own with a traceback, and every other connection goes on.
        """
        broken_off: list[Exception] = []
        try:
            if self.listener.tls is not None:
                await self._secure(self.listener.tls.present)
            await self._serve()
        except Exception as error:  # noqa: BLE001 -- every connection for itself
            self._log(error)
            if self._large is not None:
                broken_off.append(error)
        finally:
            self._muted = None  # it may name this
            if self.farewell is not None:
                self.farewell()
            if self._straight is not None:
                self._straight.close()
                self._straight = None  # likewise
            self._frames.close()
            self._transport.close()
            if self._place is not None:
                self._place.leave()
            if self._large is not None:
                # Its traceback names the request, and all that the handler has made of it.
                try:
                    await self._large.end(broken_off)
                finally:
                    # It names this frame, too: a cycle, if it was not freed.
                    broken_off.clear()
                    self._large = None

    def _log(self, error: Exception) -> None:
        match error:
            case ProtocolError():
                self._shares.closings.tell(logging.WARNING, "closing %s: %s", self.peer, one_line(error))
            case PeerGoneError():
                log.debug("%s is gone: %s", self.peer, error)
            case HangUpError():
                self._shares.closings.tell(logging.INFO, "closing %s: %s", self.peer, one_line(error))
            case trio.ClosedResourceError():
                log.debug("%s was closed by us", self.peer)
            case ImportError():
                # An API is loaded when it is first spoken, which is tried again with the next request of its kind.
                log.error("closing %s: %s", self.peer, error)
            case OSError() if error.errno in SCARCE:
                log.error("closing %s: %s", self.peer, error)
            case _:
                log.error("closing %s after an error of the broker", self.peer, exc_info=error)

    async def _secure(self, tls: TlsContext) -> None:
        """Have TLS stand between the client and us before anything is read."""
        from .authentication.handshake import shake_hands  # No broker without TLS shall wait for it.
        from .tls_transport import TlsTransport

        assert isinstance(self._transport, TlsTransport)
        logs_in = self._desk.login is not None
        self.principal = await shake_hands(
            self._transport, tls, self, self._allowance(), self._counts(), logs_in=logs_in
        )
        if not logs_in:
            self._allowed = None

    def _allowance(self) -> Allowance:
        """What is left of what the client may spend before it is known."""
        if self._allowed is None:
            from .authentication.allowance import Allowance  # Likewise.

            self._allowed = Allowance()
        return self._allowed

    def _counts(self) -> Counts:
        return self._shares.authentications.at(self.node_id, self.listener.name)

    async def _serve(self) -> None:
        desk, frames = self._desk, self._frames
        # It names this connection, which must not name it: whoever has gone is freed at once, not when cycles are looked for.
        context = desk.context_for(self)
        if desk.login is not None:
            from .authentication.login import log_in  # No broker without SASL shall wait for it.

            send, allowance, counts = self._transport.send, self._allowance(), self._counts()
            session = await log_in(desk.login, desk, context, self, frames, send, allowance, counts)
            self._allowed = None
            self.principal, self.mechanism, desk = session.principal, session.mechanism, session.desk
        handlers, answer_places, turn = desk.handlers, self._shares.answer_places, self.turn
        straight_ones = desk.straight if self.listener.tls is None else {}
        is_straight = False
        """Whether the last request needed no task, so that the next one may go without."""
        while desk.is_open:
            if is_straight:
                if self._straight is None:
                    self._straight = Straight(self._shares.arrivals, self, desk, context, frames, self._transport)
                is_straight = not self._straight.is_paused()
                if is_straight and self._straight.is_due():
                    is_straight = False
                    await self._straight.serve()
                    continue
            frame = await self._straight.soon() if is_straight and self._straight is not None else None
            if frame is None:
                frame = await frames.next_frame()
            if frame is None:
                return
            self.busy = True
            size_bytes = len(frame)
            is_tried = is_straight and size_bytes <= INITIAL_BUFFER_BYTES
            if is_tried and self._straight is not None:
                turn_end_s = turn.end_s
                answer = self._straight.answer(frame)
                if answer is not None:
                    del frame
                    if unsent := self._transport.send_now(answer):
                        await self._transport.send(unsent)
                    del answer, unsent
                    if frames.held_bytes:
                        frames.let_go()
                    self.busy = False
                    is_straight = turn.end_s == turn_end_s
                    if turn.is_over():
                        await turn.next()
                    continue
            request: Request | None
            if size_bytes <= READ_ELEMENTS_AT_ONCE:  # an element has a byte at least
                request = parse_request(frame)
            else:
                if size_bytes > LITTLE_BYTES and frame[:2] not in BULK and turn.is_pass_over():
                    await turn.next()
                request = read_now(frame)
            # Whatever still names the frame here while we wait would keep its memory.
            if request is None:
                box = [frame]
                del frame
                request = await self._at_large().read(box)
            else:
                del frame
            request.size_bytes = size_bytes
            key = request.api.key
            turn_end_s = turn.end_s
            if frames.held_bytes and key != PRODUCE_KEY:
                frames.let_go()
            handle = handlers.get(key)
            if handle is None:
                try:
                    handle = await desk.loaded(key)
                except KeyError:
                    raise ProtocolError(f"{request.api.name} (API key {key}) is not served") from None
            places = answer_places.get(key)
            if places is not None:
                if self._place is None:
                    self._place = AnswerPlace(self.client_host)
                await self._place.take(places)
            if is_tried and key in straight_ones and self._straight is not None:
                self._straight.pause()
            body = await handle(context, request)
            parts = None if body is None or self._large is not None else write_now(request, body)
            if parts is None and (body is not None or self._large is not None):
                unwritten = [request, body]
                del request, body
                parts = await self._at_large().write(unwritten)
            else:
                del request, body
            if places is not None and self._place is not None:
                self._place.leave()
            if frames.held_bytes:
                frames.let_go()
            if parts is not None:
                if unpack_size(parts[0])[0] < COUNTED_BYTES_MIN:  # type: ignore[arg-type]  # the first part is ours
                    await self._transport.send(parts)
                else:
                    await self._send(parts)
            if self._large is not None:
                sent = [parts]
                del parts
                await self._large.end(sent)
                self._large = None
            else:
                del parts
            self.busy = False
            if self._muted is not None:
                await self._stay_mute(self._muted)
            is_straight = key in straight_ones and turn.end_s == turn_end_s
            if turn.is_over():
                await turn.next()

    async def _send(self, parts: list[Part]) -> None:
        size_bytes = memory_bytes(parts)
        if size_bytes < COUNTED_BYTES_MIN:
            await self._transport.send(parts)
            return
        with self._shares.unsent_answers.lying(self, self.client_host, size_bytes):
            await self._transport.send(parts)

    def _at_large(self) -> LargeRequest:
        if self._large is None:
            self._large = LargeRequest(self._shares.large_requests, self, self.client_host)
        return self._large

    def check_peer(self) -> None:
        """Raise PeerGoneError if the client has gone while its request was parked.

        Otherwise a client that asks to wait for days and leaves would hold its place for days.
        """
        if self._transport.is_closed_by_peer():
            raise PeerGoneError("closed while its request was parked")

    @property
    def is_held(self) -> bool:
        """Whether its request is kept waiting on purpose: nothing of it is under way."""
        return self._holding is not None

    async def hold(self, until: trio.Event, for_s: float, *, is_client_needed: bool) -> None:
        """Keep its request waiting until an event, `for_s` seconds at most. Others may have its `AnswerPlace` meanwhile.

        Args:
            is_client_needed: Give up when the client closes the connection; else what it has sent counts.

        Raises:
            PeerGoneError: The connection is closed meanwhile, by us when the node stops.
        """
        if self._place is None:
            await self._hold(until, for_s, is_client_needed)
            return
        async with self._place.lent():
            await self._hold(until, for_s, is_client_needed)

    def mute(self, until: Callable[[], Awaitable[None]]) -> None:
        """Take no further request after the answer to the present one has been sent, before `until()` has returned (KIP-219).

        Of several the last counts. What its client has sent before it left counts, so nobody looks whether it has, as with Apache
        Kafka; it counts as idle as ever.
        """
        self._muted = until

    async def _stay_mute(self, until: Callable[[], Awaitable[None]]) -> None:
        self._muted = None
        if not self._desk.is_open:
            return
        with trio.CancelScope() as holding:
            self._holding = holding
            try:
                await until()
            finally:
                self._holding = None
        if holding.cancelled_caught:
            raise PeerGoneError("closed while it was mute")
        self.turn.begin()

    async def _hold(self, until: trio.Event, for_s: float, is_client_needed: bool) -> None:
        if not self._desk.is_open:
            raise PeerGoneError("the node stops, and its request was to be kept waiting")
        due_s = trio.current_time() + for_s
        with trio.CancelScope() as holding:
            self._holding = holding
            try:
                while (left_s := due_s - trio.current_time()) > 0 and not until.is_set():
                    with trio.move_on_after(min(left_s, PEER_CHECK_MS / 1000)):
                        await until.wait()
                    if is_client_needed:
                        self.check_peer()
            finally:
                self._holding = None
        if holding.cancelled_caught:
            raise PeerGoneError("closed while its request was kept waiting")
        self.turn.begin()

    def idle_s(self, now_s: float) -> float:
        """How long no byte has moved in either direction, as far as the calls of this have seen it.

        A request that is being worked on does not count, as in Apache Kafka: a client whose wait is longer than
        `connections.max.idle.ms` loses its connection there, too.
        """
        if self._transport.has_moved:
            self._transport.has_moved = False
            self._moved_s = now_s
        return now_s - self._moved_s

    def close(self) -> None:
        """Close at once; a task inside `serve` ends, in the midst of a request as soon as it would go on without one."""
        if self._straight is not None:
            self._straight.close()
        self._transport.close()
        self._frames.stop_waiting()
        if self._place is not None:
            self._place.stop_waiting()
        if self._large is not None:
            self._large.stop_waiting()
        if self._holding is not None:
            self._holding.cancel()

    def give_up(self, reason: str) -> None:
        """Close it, and say why."""
        self._shares.closings.tell(logging.WARNING, "closing %s: %s", self.peer, reason)
        self.close()
