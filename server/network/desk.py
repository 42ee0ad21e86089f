"""Where a listener's connections hand in what they have read: the network knows no APIs, nodes or topics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import trio

from ...protocol.connection import Request
from ..runtime.floods import printable
from ..runtime.time_slices import TimeSlice
from ..security.principal import Principal

if TYPE_CHECKING:
    from ..security.sasl.logins import ListenerLogin

Handler: TypeAlias = Callable[[Any, Request], Any]
"""Called with what `Desk.context_for` has made, and a request. Returns the body of the answer, or None where none is sent; or, if it
may have to wait, a coroutine that has not started and returns that. What was done before stands if the coroutine never starts: a
Produce that waits for a flush has appended."""

_LINE_CHARS_MAX = 500


class HangUpError(Exception):
    """Raised by a handler, a login or a TLS handshake: the connection is closed without an answer."""


def one_line(text: object) -> str:
    """As it may stand in a log: names of clients may have line ends, and what moves the cursor of a terminal."""
    return printable(str(text)[:_LINE_CHARS_MAX])


class Lookup(Protocol):
    def get(self, key: int, /) -> Handler | None:
        """Who answers requests of an API; None if that has to be `loaded` first."""


class LoggingIn(Protocol):
    """What a client that logs in is answered: `network.login`."""

    def shake_hands(self, request: Request) -> Any: ...

    async def authenticate(self, request: Request) -> Any: ...


class RequestingClient(Protocol):
    """Who sends requests, as handlers see it: a connection."""

    software: tuple[str, str] | None
    """Name and version of the client's library, if it has told them."""

    @property
    def time_slice(self) -> TimeSlice:
        """Of the task that serves it."""

    @property
    def client_host(self) -> str: ...

    @property
    def client_port(self) -> str: ...

    principal: Principal
    """Who it is, as far as it has proved that."""

    logging_in: LoggingIn | None
    """While it proves who it is."""

    @property
    def peer(self) -> str:
        """HOST:PORT, for people."""

    farewell: Callable[[], object] | None
    """Called once, when it is gone."""

    def check_peer(self) -> None:
        """Raise if nobody waits any more."""

    def mute(self, until: Callable[[], Awaitable[None]]) -> None:
        """Take no further request after the answer to the present one has been sent, before `until()` has returned."""

    async def hold(self, until: trio.Event, for_s: float, *, is_client_needed: bool) -> None:
        """Keep the request waiting until an event, `for_s` seconds at most. Raises if the node stops, or, where the client
        is needed, nobody waits any more."""


class Desk(Protocol):
    """Who answers the requests of one listener."""

    @property
    def handlers(self) -> Lookup:
        """By API key; those that have been asked for so far. One that is missing may be `loaded`."""

    @property
    def node_id(self) -> int:
        """Of the node that listens."""

    @property
    def is_open(self) -> bool:
        """Whether requests are taken; a connection ends when they are not."""

    @property
    def login(self) -> ListenerLogin | None:
        """How clients log in before they are served; None: they do not."""

    async def loaded(self, key: int) -> Handler:
        """The handler of an API. Raises KeyError if it is not served."""

    def context_for(self, client: Any) -> Any:
        """What handlers are to know of a connection."""


async def handler_of(desk: Desk, key: int) -> Handler:
    """Who answers an API, at once if that has been loaded: `loaded` lets others in first. Raises KeyError if it is not served."""
    return desk.handlers.get(key) or await desk.loaded(key)


async def finished(answer: Any) -> Any:
    """What a `Handler` has returned, once it is an answer."""
    return await answer if isinstance(answer, CoroutineType) else answer
