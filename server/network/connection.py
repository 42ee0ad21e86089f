"""One client connection: a request, its answer, the next request, in order.

Kafka's ordering promise is per connection, so requests are not handled concurrently: the next frame is parsed only after the
previous response has been written (a parked fetch delays the requests that are pipelined after it, as in Apache Kafka).

    ready      the socket is readable
    take       a frame -> request -> result of its handler -> response
    send       to the socket, after the responses to some other connections that are ready

A handler returns the response, or a coroutine that makes it if that may have to wait. All work that may wait, as the reading of
a large frame, is left to the connection's own task, `serve`, which does it and then waits for the next request. If a handler
returns a `Deferred`, the task stays parked during the wait.
"""

from __future__ import annotations

import errno
import logging
import struct
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from ...protocol.connection import Request, encode_response, parse_request
from ...protocol.errors import LargeMessageError, ProtocolError
from ...protocol.last_produce import LastProduce
from ..runtime.addresses import java_host
from ..security.principal import ANONYMOUS, Principal
from .dispatcher import Deferred, Handler, HangUpError, LoggingIn, RequestDispatcher, finished, one_line
from .frames import FrameReader
from .large_requests import (
    READ_ELEMENTS_AT_ONCE,
    WRITE_BYTES_AT_ONCE,
    WRITE_ELEMENTS_AT_ONCE,
    LargeRequest,
    read_now,
    write_now,
)
from .listener import Listener
from .response_slots import AnswerPlace
from .shares import ConnectionResources
from .transport import Part, PlainTransport
from .unsent_answers import COUNTED_BYTES_MIN, memory_bytes

if TYPE_CHECKING:
    from ..security.tls.contexts import TlsContext
    from .authentication.allowance import Allowance
    from .authentication.counts import Counts

log = logging.getLogger("ottla.connection")

# Records of a produce request stay views into the frame; everything else in a request is copied out of it.
PRODUCE_KEY = 0
PRODUCE = b"\0\0"
_NO_FRAME = memoryview(b"")
# The size in front of a frame.
unpack_size = struct.Struct(">i").unpack_from
# Errors of a process or machine that is short of a resource for a while.
SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
# Interval at which a parked request checks whether its client is still connected.
PEER_CHECK_MS = 5_000


class Connection:
    """The server side of one TCP connection."""

    _holding: trio.CancelScope | None = None
    """Scope of a deliberate delay of its request, or of its next one."""

    _muted: Callable[[], Awaitable[None]] | None = None
    """Function to wait for before the next request is taken."""

    software: tuple[str, str] | None = None
    """Name and version of the client library, if sent (KIP-511)."""

    principal: Principal = ANONYMOUS
    """Principal of the client, as authenticated so far."""

    mechanism: str | None = None
    """SASL mechanism of the login."""

    _allowed: Allowance | None = None
    """Rest of the allowance, during authentication."""

    logging_in: LoggingIn | None = None

    is_queued = is_parked = False

    _context: Any = None
    """Context for its handlers. It refers to this connection, so it is dropped with the task."""

    _on_more: Callable[[], object] | None = None
    """Function to call when the client sends more, or disconnects, during the wait of a request."""

    _task: trio.lowlevel.Task | None = None
    """The connection's task, while it is parked: it waits for a request."""

    _error: Exception | None = None
    """Error that was raised outside the task, or that closed the connection; the task raises it."""

    _deferred: tuple[Request, Handler, Deferred] | None = None
    """The last request, its handler, and its response that waits for a change."""

    heartbeat_s: float | None = None

    interval_ms: int = 0

    joining: tuple[Request, float] | None = None

    quiet: Any = None

    _left: partial[Coroutine[Any, Any, None]] | None = None
    """Work that is left to the task."""

    _last_produce: LastProduce | None = None
    """The last request, if it was a Produce that the next one may repeat."""

    farewell: Callable[[], object] | None = None
    """Called once, when the connection has ended, to release state that others keep for it. It must not refer to this
    object."""

    def __init__(
        self,
        shares: ConnectionResources,
        listener: Listener,
        dispatcher: RequestDispatcher,
        transport: PlainTransport,
        peer: str,
    ) -> None:
        self.peer = peer
        self.client_host = java_host(peer.rpartition(":")[0])
        """The client's address as Apache Kafka writes it: in ACLs, groups and telemetry."""
        self.listener = listener
        self.node_id = dispatcher.node_id
        self.time_slice = transport.time_slice
        """Time slice of the task that serves the connection: for handlers that mostly have little to do."""
        self.busy = False
        self._moved_s = trio.current_time()
        """Time when movement of bytes was last seen. Trio's time, not the broker's: moving the broker's clock must not cost
        clients their connections."""
        self._shares = shares
        self._dispatcher = dispatcher
        self._session: RequestDispatcher = dispatcher
        """The dispatcher, or the session in front of it for a client whose session ends."""
        self._transport = transport
        self._frames = FrameReader(
            transport, shares.request_max_bytes, shares.request_memory, self.client_host, self.give_up
        )
        self._place: AnswerPlace | None = None
        """Made with the first request that needs a place."""
        self._large: LargeRequest | None = None
        """The current request, if it or its response is large."""

    @property
    def client_port(self) -> str:
        return self.peer.rpartition(":")[2]

    async def serve(self) -> None:
        """Answer requests until the peer closes, does not speak Kafka, or the node stops.

        Never raises but for cancellation: malformed bytes end this connection with one log line,
        an error of our own with a traceback. Other connections continue.
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
            self._muted = None  # it may refer to this object
            if self._deferred is not None:
                self._deferred[2].leave()
                self._deferred = None
            if self.farewell is not None:
                self.farewell()
            self._context = None  # it refers to this object
            self._drop_left()
            self._shares.ready.forget(self._transport.fileno(), self)
            self._frames.close()
            self._transport.close()
            if self._place is not None:
                self._place.leave()
            if self._large is not None:
                # Its traceback refers to the request, and to everything that the handler has made of it.
                try:
                    await self._large.end(broken_off)
                finally:
                    # It refers to this frame: a cycle, if it was not freed.
                    broken_off.clear()
                    self._large = None

    def _log(self, error: Exception) -> None:
        match error:
            case ProtocolError():
                self._shares.closings.log(logging.WARNING, "closing %s: %s", self.peer, one_line(error))
            case trio.BrokenResourceError():
                log.debug("%s disconnected: %s", self.peer, error)
            case HangUpError():
                self._shares.closings.log(logging.INFO, "closing %s: %s", self.peer, one_line(error))
            case trio.ClosedResourceError():
                log.debug("%s: connection closed by the broker", self.peer)
            case ImportError():
                # An API is loaded with its first request; the next request of its kind tries again.
                log.error("closing %s: %s", self.peer, error)
            case OSError() if error.errno in SCARCE:
                log.error("closing %s: %s", self.peer, error)
            case _:
                log.error("closing %s after an internal error", self.peer, exc_info=error)

    async def _secure(self, tls: TlsContext) -> None:
        """Set up TLS before anything is read."""
        from .authentication.handshake import shake_hands  # A broker without TLS must not load it.
        from .tls_transport import TlsTransport

        assert isinstance(self._transport, TlsTransport)
        logs_in = self._dispatcher.login is not None
        self.principal = await shake_hands(
            self._transport, tls, self, self._allowance(), self._counts(), logs_in=logs_in
        )
        if not logs_in:
            self._allowed = None

    def _allowance(self) -> Allowance:
        """Return what is left of the allowance of an unauthenticated client."""
        if self._allowed is None:
            from .authentication.allowance import Allowance  # As above.

            self._allowed = Allowance()
        return self._allowed

    def _counts(self) -> Counts:
        return self._shares.authentications.counts_of(self.node_id, self.listener.name)

    async def _serve(self) -> None:
        # It refers to this connection, which must not refer to it for longer: a closed connection is freed at once, not by the
        # garbage collector.
        self._context = self._dispatcher.context_for(self)
        if self._dispatcher.login is not None:
            await self._log_in()
        time_slice, transport = self.time_slice, self._transport
        while self._session.is_open() or self.busy:  # a response is sent to its end
            if self._left is None and time_slice.is_over():
                await self._enqueue()
            parts = self.take(self._shares.ready.buffer) if self._left is None and self._error is None else None
            if self._error is not None:
                self._raise()
            if parts is not None:
                self._frames.release()  # first: a client may never read the response
                if parts and (unsent := transport.send_now(parts)):
                    await self._send_unsent(unsent)
            elif self._left is not None:
                await self._go_on()
            elif self._session.is_open():
                await self._readable()

    async def _log_in(self) -> None:
        from .authentication.login import log_in  # A broker without SASL must not load it.

        dispatcher, send = self._dispatcher, self._transport.send
        assert dispatcher.login is not None
        session = await log_in(
            dispatcher.login,
            dispatcher,
            self._context,
            self,
            self._frames,
            send,
            self._shares.learning,
            self._allowance(),
            self._counts(),
        )
        self._allowed = None
        self.principal, self.mechanism, self._session = session.principal, session.mechanism, session.dispatcher

    def _readable(self) -> Awaitable[None]:
        """Leave the next requests to `take`, and wait until the task is needed. Raises trio.ClosedResourceError, also during the
        wait."""
        if self._transport.fileno() < 0:
            raise trio.ClosedResourceError("closed by the broker")
        if self._shares.ready.watch(self._transport.fileno(), self):
            return self._park()
        return self._transport.readable()

    def _enqueue(self) -> Awaitable[None]:
        """Put the connection at the end of the queue, as its time slice is over: others have their requests handled first."""
        ready, fd = self._shares.ready, self._transport.fileno()
        if fd >= 0 and ready.watch(fd, self) and ready.enqueue(self):
            return self._park()
        return self.time_slice.next()

    async def _park(self) -> None:
        self._task = trio.lowlevel.current_task()
        self.is_parked = True
        await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        self.time_slice.begin()

    def _raise(self) -> NoReturn:
        error, self._error = self._error, None
        assert error is not None
        try:
            raise error
        finally:
            del error  # it refers to this frame

    def _stop_waiting(self, _raise_cancel: Any) -> trio.lowlevel.Abort:
        self._task, self.is_parked = None, False
        return trio.lowlevel.Abort.SUCCEEDED

    def _go_on(self) -> Awaitable[None]:
        """Begin the work that is left. Only its own coroutine refers to the objects that it works on."""
        left, self._left = self._left, None
        assert left is not None
        return left()

    def _drop_left(self) -> None:
        """Drop the work that is left; a coroutine that is never awaited must be closed."""
        left, self._left = self._left, None
        for argument in () if left is None else left.args:
            if isinstance(argument, CoroutineType):
                argument.close()

    def has_news(self, *, is_ending: bool) -> None:
        self._frames.is_drained = False
        if is_ending:
            self._frames.is_ending = True
        if self._on_more is not None:
            self._on_more()

    def wake(self) -> None:
        task, self._task, self.is_parked = self._task, None, False
        if task is not None:
            trio.lowlevel.reschedule(task)

    def _fail(self, error: Exception) -> None:
        self._error = error
        self.wake()

    def take(self, buffer: memoryview) -> list[Part] | None:
        """See `WatchedConnection`."""
        frames = self._frames
        try:
            if self._deferred is not None:
                parts = self._end_deferral()
                if parts and not self._session.is_open():
                    self.busy = True  # the task sends it, and ends
                    self._left = partial(self._send_unsent, parts)
                elif parts is not None or self._left is None:
                    return parts
            elif self._session.is_open():
                frame = frames.frame_now(buffer)
                if frame is not None:
                    parts = self._answer(frame)
                    if parts is not None:
                        return parts
                elif frames.is_drained:
                    return None
                else:
                    self._left = partial(self._take_long_frame)
            self.wake()
        except Exception as error:  # noqa: BLE001 -- the task knows what to do about each
            self._fail(error)
        return None

    def send(self, parts: list[Part]) -> bool:
        if not self.is_parked:  # closed since `take`
            return False
        try:
            unsent = self._transport.send_now(parts) if parts else parts
        except Exception as error:  # noqa: BLE001 -- the task knows what to do about each
            self._fail(error)
            return False
        frames = self._frames
        if frames.held_bytes:
            frames.release()
        if unsent:
            self.busy = True
            self._left = partial(self._send_unsent, unsent)
            self.wake()
            return False
        return not (frames.is_drained and frames.is_last)

    async def _send_unsent(self, parts: list[Part]) -> None:
        self.busy = True
        await self._transport.send(parts)
        self.busy = False

    async def _take_long_frame(self) -> None:
        frame = await self._frames.next_frame()
        if frame is None:
            raise trio.BrokenResourceError("closed")
        parts = self._answer(frame)
        del frame
        if parts is not None:
            self._frames.release()
            await self._send_unsent(parts)

    def _answer(self, frame: memoryview, waited: tuple[Request, Handler, Any] | None = None) -> list[Part] | None:
        """Handle a request, or begin it if it has to wait.

        Args:
            waited: A request whose wait has ended, its handler, and the answer; then the frame is not used.

        Returns:
            The parts of the response; None if work is `_left`.
        """
        last, request = self._last_produce, None
        if waited is not None:
            last, (request, handle, answer) = None, waited
        elif last is not None:
            request = last.parse(frame)
        if request is None:
            last, size_bytes, frames = None, len(frame), self._frames
            # An element takes at least one byte.
            try:
                request = parse_request(frame, at_once=True) if size_bytes <= READ_ELEMENTS_AT_ONCE else read_now(frame)
            except LargeMessageError:
                self._leave(frame, self._read_large, [frame], size_bytes)
                return None
            if request is None:
                self._leave(frame, self._learn, [frame])
                return None
            request.size_bytes = size_bytes
            if request.api.key == PRODUCE_KEY:
                self._last_produce = LastProduce.from_frame(frame, request)
            elif frames.held_bytes:
                frames.release()
        if waited is None:
            found = self._session.handlers.get(request.api.key)
            if found is None:
                self._leave(frame, self._load, request)
                return None
            handle, answer = found, found(self._context, request)
        if isinstance(answer, Deferred):
            if self._defer(request, handle, answer):
                return []
            answer = answer.instead()
        if isinstance(answer, CoroutineType):
            self._leave(frame, self._complete, request, answer)
            return None
        if answer is None:
            return []
        if last is not None and (repeated := last.encode(request, answer)) is not None:
            return repeated
        try:
            parts = encode_response(request, answer, WRITE_ELEMENTS_AT_ONCE, WRITE_BYTES_AT_ONCE)
        except LargeMessageError:
            self._leave(frame, self._complete, request, answer)
            return None
        if unpack_size(parts[0])[0] >= COUNTED_BYTES_MIN and memory_bytes(parts) >= COUNTED_BYTES_MIN:
            self._leave(frame, self._send_large, parts)
            return None
        return parts

    def _defer(self, request: Request, handle: Handler, deferred: Deferred) -> bool:
        """Begin the wait of a response. Return False if the client has sent more, or the connection could not notice that."""
        ready = self._shares.ready
        if self._frames.has_more() or not (self.is_parked or ready.watch(self._transport.fileno(), self)):
            return False
        self._deferred = request, handle, deferred
        deferred.begin(self._end_soon)
        return True

    def _end_deferral(self) -> list[Part] | None:
        """End the wait of a response if it is time, or the client has sent more; returns as `_answer`."""
        assert self._deferred is not None
        request, handle, deferred = self._deferred
        frames = self._frames
        if not deferred.is_due and (frames.is_drained or not deferred.yields(is_ending=frames.is_ending)):
            return None
        self._deferred, self.busy = None, False
        deferred.leave()
        answer = deferred.finish(partial(handle, self._context, request))
        return self._answer(_NO_FRAME, (request, handle, answer))

    def _end_soon(self) -> None:
        """Let the response be sent whose wait has ended. If the connection is in the queue, or its task runs, they do that."""
        if self.is_parked:
            self.busy = True
            self._shares.ready.serve_soon(self)

    def _leave(self, frame: memoryview, work: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Leave work to the task. It may read the frame: of a request everything except its records has been copied out of
        it."""
        if self._frames.is_shared and (work in (self._learn, self._read_large) or frame[:2] == PRODUCE):
            self._shares.ready.give_buffer_away()
        self.busy = True  # it has been taken, and is handled even if the node stops
        self._left = partial(work, *arguments)

    async def _learn(self, box: list[memoryview]) -> None:
        """Handle the first request of an API in a version."""
        await self._shares.learning.learn(box[0])
        parts = self._answer(box.pop())
        if parts is not None:
            self._frames.release()
            await self._send_unsent(parts)

    async def _read_large(self, box: list[memoryview], size_bytes: int) -> None:
        request = await self._large_request().read(box)
        request.size_bytes = size_bytes
        if self._frames.held_bytes and request.api.key != PRODUCE_KEY:
            self._frames.release()
        loading = self._load(request)
        del request
        await loading

    async def _load(self, request: Request) -> None:
        """Handle a request whose handler may have to be loaded first."""
        key = request.api.key
        handle = self._session.handlers.get(key)
        if handle is None:
            try:
                handle = await self._session.loaded(key)
            except KeyError:
                raise ProtocolError(f"{request.api.name} (API key {key}) is not supported by this listener") from None
        completing = self._complete(request, handle(self._context, request))
        del request
        await completing

    async def _complete(self, request: Request, answer: Any) -> None:
        """Handle the part of a request that may have to wait.

        Args:
            answer: The handler's result.
        """
        frames, places = self._frames, self._shares.response_slots.get(request.api.key)
        if places is not None:
            if self._place is None:
                self._place = AnswerPlace(self.client_host)
            try:
                await self._place.take(places)
            except BaseException:
                if isinstance(answer, CoroutineType):
                    answer.close()
                raise
        # A reference to the frame during the wait would keep its memory.
        body = await answer if isinstance(answer, CoroutineType) else answer
        del answer
        if isinstance(body, Deferred):
            handle = self._session.handlers.get(request.api.key)
            if places is None and self._large is None and handle is not None and self._defer(request, handle, body):
                self.busy = False
                return
            body = await finished(body)
        parts = None if body is None or self._large is not None else write_now(request, body)
        if parts is None and (body is not None or self._large is not None):
            unwritten = [request, body]
            del request, body
            parts = await self._large_request().write(unwritten)
        else:
            del request, body
        if places is not None and self._place is not None:
            self._place.leave()
        if frames.held_bytes:
            frames.release()
        if parts is not None:
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

    async def _send_large(self, parts: list[Part]) -> None:
        if self._frames.held_bytes:
            self._frames.release()
        await self._send(parts)
        self.busy = False

    async def _send(self, parts: list[Part]) -> None:
        if unpack_size(parts[0])[0] < COUNTED_BYTES_MIN or (size_bytes := memory_bytes(parts)) < COUNTED_BYTES_MIN:  # type: ignore[arg-type]  # the first part is ours
            await self._transport.send(parts)
            return
        with self._shares.unsent_answers.lying(self, self.client_host, size_bytes):
            await self._transport.send(parts)

    def _large_request(self) -> LargeRequest:
        if self._large is None:
            self._large = LargeRequest(self._shares.large_requests, self, self.client_host)
        return self._large

    def check_peer(self) -> None:
        """Raise trio.BrokenResourceError if the client has disconnected while its request was parked.

        Otherwise a client that asks for a wait of days and disconnects would keep its place for days.
        """
        if self.is_closed_by_peer():
            raise trio.BrokenResourceError("closed while its request was parked")

    def is_closed_by_peer(self) -> bool:
        """See `Transport`. It is noticed late while a request is parked."""
        return self._transport.is_closed_by_peer()

    def on_more(self, call: Callable[[], object] | None) -> None:
        """Call a function whenever the client sends another request or disconnects, at once if it has already; None: no longer.
        Without epoll it is called at once or never."""
        self._on_more = call
        if call is not None:
            self._shares.ready.watch(self._transport.fileno(), self)
            if self._frames.has_more():
                call()

    @property
    def is_held(self) -> bool:
        """Whether its request is delayed on purpose: no work on it is under way."""
        return self._holding is not None

    async def hold(self, until: trio.Event, for_s: float, *, is_client_needed: bool) -> None:
        """Delay its request until an event, `for_s` seconds at most. Its `AnswerPlace` is free for others during the wait.

        Args:
            is_client_needed: Give up when the client closes the connection; otherwise the request takes effect even then.

        Raises:
            trio.BrokenResourceError: The connection is closed during the wait, e.g. by us when the node stops.
        """
        if self._place is None:
            await self._hold(until, for_s, is_client_needed)
            return
        async with self._place.lent():
            await self._hold(until, for_s, is_client_needed)

    def mute(self, until: Callable[[], Awaitable[None]]) -> None:
        """Take no further request after the answer to the present one has been sent, before `until()` has returned (KIP-219).

        Only the latest call counts. Requests that the client sent before it disconnected are still handled, so a disconnect is
        not checked for; the idle timer keeps running, as in Apache Kafka.
        """
        self._muted = until

    async def _stay_mute(self, until: Callable[[], Awaitable[None]]) -> None:
        self._muted = None
        if not self._dispatcher.is_open():
            return
        with trio.CancelScope() as holding:
            self._holding = holding
            try:
                await until()
            finally:
                self._holding = None
        if holding.cancelled_caught:
            raise trio.BrokenResourceError("closed while muted")
        self.time_slice.begin()

    async def _hold(self, until: trio.Event, for_s: float, is_client_needed: bool) -> None:
        if not self._dispatcher.is_open():
            raise trio.BrokenResourceError("node is shutting down")
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
            raise trio.BrokenResourceError("closed while its request was waiting")
        self.time_slice.begin()

    def idle_s(self, now_s: float) -> float:
        """Return for how long no byte has moved in either direction, as seen by the calls of this method.

        A request in progress does not count as movement, as in Apache Kafka: also there a client whose wait is longer than
        `connections.max.idle.ms` is disconnected.
        """
        if self._transport.has_moved:
            self._transport.has_moved = False
            self._moved_s = now_s
        return now_s - self._moved_s

    def close(self) -> None:
        """Close at once. A task inside `serve` ends; in the middle of a request it ends when it next uses the connection."""
        self._shares.ready.forget(self._transport.fileno(), self)
        self._transport.close()
        if self._task is not None or self._left is not None:
            self._fail(trio.ClosedResourceError("closed by the broker"))
        self._frames.stop_waiting()
        if self._place is not None:
            self._place.stop_waiting()
        if self._large is not None:
            self._large.stop_waiting()
        if self._holding is not None:
            self._holding.cancel()

    def give_up(self, reason: str) -> None:
        """Close the connection, and log the reason."""
        self._shares.closings.log(logging.WARNING, "closing %s: %s", self.peer, reason)
        self.close()
