"""Small requests that are answered where they arrive: read, carried out and sent in one turn, without their connection's task.

    arrivals   the socket has something
    arrived    a frame -> request -> what its handler offers as `straight` -> answer
    send       to the socket, behind the answers to some others that have brought something

Whatever is not like that wakes the task, which finds everything as if nobody had looked: a frame that is not there yet and
needs room, an API or a request for which there is no straight way, what has to wait, a client that has gone, a listener that
takes no requests any more. What went wrong is raised in the task, and what the socket does not take is sent by it.
"""

from __future__ import annotations

from typing import Any, Protocol

import trio

from ...protocol.connection import encode_response, parse_request
from .arrivals import Arrivals
from .desk import Again, Desk
from .frames import FrameReader
from .large_requests import READ_ELEMENTS_AT_ONCE, read_now
from .transport import Part, PlainTransport

ALONE_REQUESTS = 50
"""Who has sent so many in a row while nobody else sent one waits for itself again."""
LOOKS = 6
"""For the next request of who is alone and mostly sends it at once, before it is waited for: to fall asleep and to be woken takes
longer, on both sides. In between others have their turn."""
REST_REQUESTS = 32
"""After looks that found nothing so many are waited for without: a client that takes its time."""
PAUSE_REQUESTS = 16
"""After one that was not for here so many go the ordinary way: who mostly sends such requests would have each read twice."""

UNLIKE_REQUESTS = 8
"""After so many of which none was like an earlier one somebody is made who answers those that are like the last: that takes longer
than any of them."""


class Busy(Protocol):
    """A connection."""

    busy: bool
    """Whether it is in the midst of a request."""


class Straight:
    """The straight way of one connection. It names the connection, and is kept by its task alone, and by `Arrivals`."""

    __slots__ = (
        "_again",
        "_arrivals",
        "_connection",
        "_context",
        "_desk",
        "_error",
        "_fd",
        "_frames",
        "_handlers",
        "_in_a_row",
        "_is_closed",
        "_pause",
        "_rest",
        "_task",
        "_transport",
        "_unlike",
        "_unsent",
    )

    def __init__(
        self,
        arrivals: Arrivals,
        connection: Busy,
        desk: Desk,
        context: Any,
        frames: FrameReader,
        transport: PlainTransport,
    ) -> None:
        self._arrivals = arrivals
        self._connection = connection
        self._context = context
        self._desk = desk
        self._handlers = desk.straight
        self._frames = frames
        self._transport = transport
        self._fd = transport.fileno()
        self._task: trio.lowlevel.Task | None = None
        """The connection's own, while it is parked."""
        self._pause = 0
        """Requests that are to go the ordinary way yet."""
        self._in_a_row = 0
        self._rest = 0
        """Requests that are not to be looked for yet."""
        self._is_closed = self._fd < 0
        """It may be by the time that this is made."""
        self._error: Exception | None = None
        self._unsent: list[Part] = []
        self._again: Again | None = None
        """Who answers requests that are like an earlier one."""
        self._unlike = 0
        """Requests that were not, since somebody was looked for last."""

    def is_due(self) -> bool:
        """Whether to `serve`, as the last request needed no waiting: mostly the next one is like it. A connection that is alone had
        better wait for itself: two looks cost more than one."""
        is_alone, self._arrivals.last = self._arrivals.last is self, self
        return not is_alone and self._frames.is_at_rest

    def pause(self) -> None:
        """One was not for here."""
        self._pause = PAUSE_REQUESTS

    def is_paused(self) -> bool:
        """Whether the next request, for which this is asked once, is to go the ordinary way."""
        self._pause -= 1
        if self._pause >= 0:
            return True
        self._pause = 0
        return False

    async def soon(self) -> memoryview | None:
        """For who is not to `serve`: the next frame, if it comes while some looks are had. None: it is to be waited for."""
        frames = self._frames
        if not frames.is_at_rest:
            return None
        if self._rest:
            self._rest -= 1
            return None
        frame = frames.frame_now()
        for _ in range(LOOKS):
            if frame is not None or not frames.is_drained:
                return frame
            await trio.lowlevel.checkpoint()
            self._transport.turn.begin()
            frame = frames.frame_now()
        if frame is None:
            self._rest = REST_REQUESTS
        return frame

    async def serve(self) -> None:
        """Leave the requests to `arrived`; returns when the task is needed for the next one, and raises what went wrong."""
        if self._is_closed:
            raise trio.ClosedResourceError("closed by us")
        if not self._arrivals.watch(self._fd, self):
            return
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._stop_waiting)
        self._transport.turn.begin()
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # it names this frame
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            await self._transport.send(unsent)
            self._connection.busy = False

    def _stop_waiting(self, _raise_cancel: Any) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED

    def close(self) -> None:
        """Watch no more; a parked task ends. To be called before the socket is closed, and may be called again."""
        if self._is_closed:
            return  # its descriptor may be another connection's
        self._is_closed = True
        if self._arrivals.last is self:
            self._arrivals.last = None
        self._arrivals.forget(self._fd)
        if self._task is not None:
            self._error = trio.ClosedResourceError("closed by us")
            self.wake()

    @property
    def is_parked(self) -> bool:
        """As `Watched`."""
        return self._task is not None

    def stirred(self) -> None:
        """As `Watched`."""
        self._frames.is_drained = False

    def wake(self) -> None:
        """As `Watched`."""
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def arrived(self) -> list[Part] | None:
        """As `Watched`."""
        frames = self._frames
        try:
            frame = frames.frame_now(self._arrivals.buffer)
            if frame is None:
                if not frames.is_drained:
                    self.wake()
                return None
            parts = self.answer(frame)
            if parts is None:
                frames.put_back(frame)
                del frame
                self.pause()
                self.wake()
            return parts
        except Exception as error:  # noqa: BLE001 -- the connection's task knows what to do about each
            self._error = error
            self.wake()
            return None

    def send(self, answer: list[Part], *, is_ending: bool) -> bool:
        """As `Watched`."""
        if self._is_closed:  # meanwhile
            return False
        frames = self._frames
        try:
            unsent = self._transport.send_now(answer)
        except Exception as error:  # noqa: BLE001 -- likewise
            self._error = error
            self.wake()
            return False
        if unsent:
            self._unsent = unsent
            self._connection.busy = True
            self.wake()
            return False
        if is_ending or not frames.is_at_rest:
            return True
        if self._arrivals.last is not self:
            self._arrivals.last, self._in_a_row = self, 0
        elif self._in_a_row >= ALONE_REQUESTS:
            self.wake()
        self._in_a_row += 1
        return False

    def answer(self, frame: memoryview) -> list[Part] | None:
        """The parts of the answer; None if it is not for here: then nothing has been done."""
        size_bytes = len(frame)
        if size_bytes < 2 or not self._desk.is_open:
            return None
        key = frame[0] << 8 | frame[1]
        handle = self._handlers.get(key)
        if handle is None:
            return None
        parts: list[Part] | None
        if self._again is not None and (parts := self._again(frame)) is not None:
            return parts
        request = parse_request(frame) if size_bytes <= READ_ELEMENTS_AT_ONCE else read_now(frame)
        if request is None:
            return None
        request.size_bytes = size_bytes
        body = handle(self._context, request)
        if body is None:
            return None
        parts = encode_response(request, body)
        self._unlike += 1
        if self._unlike >= UNLIKE_REQUESTS and (again := self._desk.again.get(key)) is not None:
            self._unlike = 0
            self._again = again(self._context, frame, request, body)
        return parts
