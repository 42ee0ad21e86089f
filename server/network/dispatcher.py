"""Interface that a listener's connections use to handle requests: the network knows no APIs, nodes or topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import trio

from ...protocol.connection import Request
from ..runtime.deferrals import Deferrals
from ..runtime.log_rate_limit import printable
from ..runtime.time_slices import TimeSlice
from ..security.principal import Principal

if TYPE_CHECKING:
    from ..security.sasl.logins import ListenerLogin

Handler: TypeAlias = Callable[[Any, Request], Any]
"""Function that is called with the result of `RequestDispatcher.context_for` and a request. Returns the body of the response, or None if
none is sent; or, if it may have to wait, a coroutine that has not started and returns that; or a `Deferred` with it. Effects of the call itself stay
even if the coroutine never starts: a Produce that waits for a flush has appended."""

_LINE_CHARS_MAX = 500


class HangUpError(Exception):
    """Error of a handler, a login or a TLS handshake: the connection is closed without an answer."""


def one_line(text: object) -> str:
    """Make a text safe for a log line: client names may contain line ends and terminal control sequences."""
    return printable(str(text)[:_LINE_CHARS_MAX])


class Deferred:
    """A response that waits until something changes or its deadline comes; its connection's task stays parked.

    Attributes:
        is_due: Whether the wait is over.
    """

    __slots__ = ("_send", "_tick", "_waits", "is_due")

    def __init__(self, waits: Deferrals, deadline_ms: float) -> None:
        """
        Args:
            waits: All waits of its kind.
            deadline_ms: Moment of Trio's time at which the wait ends, or up to a tick earlier.
        """
        self._waits = waits
        self._tick = int(deadline_ms // waits.tick_ms)
        self._send: Callable[[], object] | None = None
        self.is_due = False

    def begin(self, send: Callable[[], object]) -> None:
        """Begin the wait. At its end `is_due` is set, and `send` called."""
        self._send = send
        self._waits.add(self, self._tick)

    def end(self) -> None:
        """End the wait, unless it has ended."""
        if self._send is not None:
            self.is_due = True
            self._send()

    def move(self, deadline_ms: float) -> None:
        """Let the wait end at this moment, if that is earlier."""
        tick = int(deadline_ms // self._waits.tick_ms)
        if tick < self._tick:
            self._waits.remove(self, self._tick)
            self._tick = tick
            self._waits.add(self, tick)

    def leave(self) -> None:
        """Forget `send`, and the connection that it belongs to."""
        self._send = None
        self._waits.remove(self, self._tick)

    def yields(self, *, is_ending: bool) -> bool:
        """Return whether the wait ends now, as the client has sent another request, or (`is_ending`) has closed the connection."""
        raise NotImplementedError

    def finish(self, handle_again: Callable[[], Any]) -> Any:
        """Return the response after the wait, as a handler does: also a coroutine, or another wait."""
        raise NotImplementedError

    def instead(self) -> Any:
        """Return the response, or a coroutine that waits for it, for a caller that cannot leave the wait to the connection."""
        raise NotImplementedError


class Lookup(Protocol):
    def get(self, key: int, /) -> Handler | None:
        """Return the handler of an API; None if it must be `loaded` first."""


class LoggingIn(Protocol):
    """Answers to a client that logs in: `network.authentication.proving.Login`."""

    def shake_hands(self, request: Request) -> Any: ...

    async def authenticate(self, request: Request) -> Any: ...


class RequestingClient(Protocol):
    """A connection, as handlers see it."""

    software: tuple[str, str] | None
    """Name and version of the client library, if sent."""

    @property
    def time_slice(self) -> TimeSlice:
        """Time slice of the task that serves the connection."""

    @property
    def client_host(self) -> str: ...

    @property
    def client_port(self) -> str: ...

    principal: Principal
    """Principal, as authenticated so far."""

    logging_in: LoggingIn | None
    """Login state, during authentication."""

    @property
    def peer(self) -> str:
        """HOST:PORT, for log lines."""

    heartbeat_s: float | None
    """Trio's time of its last heartbeat, or of the answer to a SyncGroup before it."""

    interval_ms: int
    """Interval of heartbeats that the last answer to one requested; 0: none."""

    joining: tuple[Request, float] | None
    """Its request to join a group whose answer was held last, and the moment of Trio's time until which it may be."""

    quiet: Any
    """Its last heartbeat, the answer, and the member that sent it: `handlers.holding`. None: not known, or the group was not quiet."""

    farewell: Callable[[], object] | None
    """Called once, when the connection has ended."""

    def check_peer(self) -> None:
        """Raise trio.BrokenResourceError if the client has disconnected."""

    def on_more(self, call: Callable[[], object] | None) -> None:
        """Call a function whenever the client sends another request or disconnects, at once if it has already; None: no longer.
        Some systems cannot notice it during the wait of a request."""

    def mute(self, until: Callable[[], Awaitable[None]]) -> None:
        """Take no further request after the answer to the present one has been sent, before `until()` has returned."""

    async def hold(self, until: trio.Event, for_s: float, *, is_client_needed: bool) -> None:
        """Delay the request until an event, `for_s` seconds at most. Raises if the node stops, or, if the client is needed,
        when it has disconnected."""


class RequestDispatcher(Protocol):
    """Interface to the handlers of one listener."""

    @property
    def handlers(self) -> Lookup:
        """Handlers by API key; only loaded ones. A missing one may be `loaded`."""

    @property
    def node_id(self) -> int:
        """Id of the node that listens."""

    def is_open(self) -> bool:
        """Whether requests are taken; a connection ends when they are not."""

    @property
    def login(self) -> ListenerLogin | None:
        """Rules for logins; None: clients do not log in."""

    async def loaded(self, key: int) -> Handler:
        """Load the handler of an API. Raises KeyError if the API is not served."""

    def context_for(self, client: Any) -> Any:
        """Make the context of a connection's handlers."""


async def handler_of(dispatcher: RequestDispatcher, key: int) -> Handler:
    """Return the handler of an API, at once if it is loaded; `loaded` is a checkpoint. Raises KeyError if the API is not
    served."""
    return dispatcher.handlers.get(key) or await dispatcher.loaded(key)


async def finished(answer: Any) -> Any:
    """Return the response body of a handler's result."""
    while isinstance(answer, CoroutineType | Deferred):
        answer = answer.instead() if isinstance(answer, Deferred) else await answer
    return answer
