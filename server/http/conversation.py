"""Requests of one connection, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import h11
import trio

from ..page.section import EVENTS
from ..runtime.time_slices import TimeSlice
from .access import Access, HttpRefusal
from .call import JSON_TYPE
from .replies import Reply, query_fields, refusal
from .routing import Route, RouteTable, split

if TYPE_CHECKING:  # A listener without pages must not load them.
    from ..page.pages import PageReply, Pages, Stream

HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 4 << 20
"""Maximum size of a body. A group of 100 000 segments takes half of it."""
REQUEST_TIMEOUT_S = 30
"""Time limit for receiving a request, and for sending a response."""
STRANGER_TIMEOUT_S = 5
"""Time limit on a listener with a token, until the client has sent it."""

LOGIN = ("POST", "/login")
"""A call with the right token gets the cookie for reading pages."""

_READ_BYTES = 64 << 10
_BUSY = "too many connections; try again later"
_WITHOUT_BODY = ("GET", "HEAD", "DELETE")


class Answers(Protocol):
    """The calls of a listener."""

    @property
    def table(self) -> RouteTable[Any]:
        """Table of the calls."""

    async def answer(self, route: Route[Any], body: bytes) -> Reply:
        """Run a call and return its response, which may be an error."""


class HttpRequest(NamedTuple):
    """A request for a call."""

    route: Route[Any]
    body: bytes


class PageRequest(NamedTuple):
    """A request for a page of `..page`, or for a file that a page loads."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]

    @classmethod
    def from_request(cls, pages: Pages, method: str, target: str, headers: Mapping[str, str]) -> PageRequest | None:
        """Return the request if it is for one of `pages`, else None.

        HttpRefusal 400: `target` is not a path, or its query is too long.
        """
        path, query = split(target)
        if (method, path) == LOGIN or (method in ("GET", "HEAD") and pages.has(path)):
            fields = dict(query_fields(query))
            if method == "HEAD":
                fields.pop(EVENTS, None)
            return cls(path, fields, headers)
        return None

    @property
    def is_login(self) -> bool:
        return self.path == LOGIN[1]

    @property
    def is_for_all(self) -> bool:
        """Whether it reveals nothing about the broker: files on the appearance of pages."""
        from ..page.pages import STATIC

        return self.path.startswith(STATIC)


class StandingConnection(NamedTuple):
    """State of a connection that is waiting, so that another one may take its place."""

    for_news: bool
    """Whether it waits for events in the broker; otherwise for its client, to send a request or to read the response."""
    since_s: float
    """Start of the wait, by Trio's time."""


def _reply(shown: PageReply) -> Reply:
    return Reply(shown.status, shown.body, shown.content_type, shown.headers)


class HttpConversation:
    """One connection of a client; see the module.

    Args:
        address: The client's address.
        for_probes: The connection answers one request, only if that needs no token.
        content_types: Content types of requests with a body.
        refuse: Function of a status, a sentence and headers that returns the response of a refused request.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        answering: Answers,
        access: Access,
        pages: Pages | None = None,
        *,
        address: str = "",
        for_probes: bool = False,
        content_types: Collection[str] = (JSON_TYPE,),
        refuse: Callable[..., Reply] = refusal,
    ) -> None:
        self.address = address
        self._stream = stream
        self._pages = pages
        self._answering = answering
        self._access = access
        self._content_types = content_types
        self._refuse = refuse
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._wants_no_body = False
        self._for_probes = for_probes
        self._timeout_s = STRANGER_TIMEOUT_S if access.has_token else REQUEST_TIMEOUT_S
        self._life = trio.CancelScope()
        self.standing: StandingConnection | None = None
        """None while a call runs, which ends without the client."""

    def give_up(self) -> None:
        """Close the connection, as another one needs its place."""
        self._life.cancel()

    async def run(self) -> None:
        """Answer requests until the client disconnects, or sends something that is not HTTP."""
        with self._life:
            await self._run()

    def _begin_wait(self) -> None:
        """Close the connection if the client takes too long from now on."""
        now_s = trio.current_time()
        self.standing = StandingConnection(False, now_s)
        self._life.deadline = now_s + self._timeout_s

    def _end_wait(self, standing: StandingConnection | None = None) -> None:
        """End the wait: the connection is not cancelled any more, so that calls end."""
        self._life.deadline = math.inf
        self.standing = standing

    async def _run(self) -> None:
        while True:
            try:
                self._begin_wait()
                try:
                    request = await self._request()
                finally:
                    self._end_wait()
                if request is None or self._life.cancel_called:
                    return
                reply = await self._answer(request)
                if reply is None:
                    return
            except h11.RemoteProtocolError as error:
                reply = self._refuse(error.error_status_hint, f"not HTTP: {error}")
            except HttpRefusal as error:
                reply = self._refuse(error.status, str(error), *error.headers)
            await self._respond(reply)
            if (
                self._life.cancel_called
                or self._http.our_state is not h11.DONE
                or self._http.their_state is not h11.DONE
            ):
                return
            self._http.start_next_cycle()

    def _check_token(self, headers: Mapping[str, str]) -> None:
        """Check the token. Raises HttpRefusal 401."""
        self._access.check_token(headers)
        self._timeout_s = REQUEST_TIMEOUT_S

    async def _request(self) -> HttpRequest | PageRequest | None:
        """Return the next request: its call or page, and its body; None at the connection's end.

        Raises:
            h11.RemoteProtocolError: The received data is not HTTP.
            HttpRefusal: The request is refused.
        """
        request = await self._event()
        if not isinstance(request, h11.Request):
            return None
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        method = request.method.decode()
        self._wants_no_body = method == "HEAD"
        self._access.check_page(headers)
        target = request.target.decode("ascii", "replace")
        if (
            self._pages is not None
            and (asked := PageRequest.from_request(self._pages, method, target, headers)) is not None
        ):
            if asked.is_login:
                self._check_token(headers)
            elif self._access.may_read(headers):
                self._timeout_s = REQUEST_TIMEOUT_S
            if self._for_probes:
                raise HttpRefusal(503, _BUSY)
            await self._body()
            return asked
        try:
            route = self._answering.table.route(method, target)
        except HttpRefusal:
            self._check_token(headers)  # before routing: strangers must not learn which calls exist
            raise
        if not route.call.without_token:
            self._check_token(headers)
            if self._for_probes:
                raise HttpRefusal(503, _BUSY)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        if has_body and method not in _WITHOUT_BODY and kind not in self._content_types:
            raise HttpRefusal(415, f"Content-Type: expected {' or '.join(self._content_types)}, found {kind[:60]!r}")
        body = await self._body()
        return None if body is None else HttpRequest(route, body)

    async def _body(self) -> bytes | None:
        """Return the request's whole body; None at the connection's end. Raises HttpRefusal 413."""
        body, time_slice = bytearray(), TimeSlice()
        while isinstance(event := await self._event(), h11.Data):
            if time_slice.is_over():  # a chunk may be one byte
                await time_slice.next()
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise HttpRefusal(413, f"expected a body of at most {BODY_BYTES_MAX} bytes")
        return bytes(body) if isinstance(event, h11.EndOfMessage) else None

    async def _answer(self, asked: HttpRequest | PageRequest) -> Reply | None:
        """Return the reply; None if the client has disconnected, or if a watched page was sent."""
        if isinstance(asked, HttpRequest) and not asked.route.call.only_waits:
            return await self._answering.answer(*asked)
        reply = None
        self.standing = StandingConnection(True, trio.current_time())
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_when_left, nursery.cancel_scope)
                if isinstance(asked, HttpRequest):
                    reply = await self._answering.answer(*asked)
                else:
                    reply = await self._page(asked)
                nursery.cancel_scope.cancel()
        finally:
            self.standing = None
        return reply

    async def _page(self, asked: PageRequest) -> Reply | None:
        """Return a page; None after a watched page whose client has disconnected."""
        from ..page.pages import Stream

        pages, access = self._pages, self._access
        assert pages is not None
        if asked.is_login:
            return Reply(204, b"", "text/plain", (("set-cookie", access.cookie(asked.headers)),))
        if not asked.is_for_all and not access.may_read(asked.headers):
            return _reply(await pages.ask_for_token())
        shown = await pages.answer(asked.path, asked.query)
        if not isinstance(shown, Stream):
            return _reply(shown)
        await self._watched(shown)
        return None

    async def _watched(self, stream: Stream) -> None:
        """Send changes until the client disconnects, or reads nothing for too long.

        A disconnection cancels this, or breaks the connection.
        """
        kind = ("content-type", "text/event-stream; charset=utf-8")
        await self._send(h11.Response(status_code=200, headers=[kind, *stream.headers]))
        async with aclosing(stream.pieces) as pieces:
            async for piece in pieces:
                before = self.standing
                self._begin_wait()
                try:
                    await self._send(h11.Data(data=piece))
                except trio.BrokenResourceError:
                    return
                finally:
                    self._end_wait(before)

    async def _cancel_when_left(self, scope: trio.CancelScope) -> None:
        try:
            data = await self._stream.receive_some(_READ_BYTES)
        except trio.BrokenResourceError:
            data = b""
        if data:  # the next request, which can wait
            self._http.receive_data(bytes(data))
        else:
            scope.cancel()

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(bytes(await self._stream.receive_some(_READ_BYTES)))
        return event

    async def _respond(self, reply: Reply) -> None:
        """Send a reply, if the client can still receive one."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [("content-type", reply.content_type), ("content-length", str(len(reply.body))), *reply.headers]
        if self._http.their_state is h11.SEND_BODY:
            with suppress(h11.RemoteProtocolError):
                self._http.next_event()  # the end of a request without a body was received with its head
        # The rest of the body is not read, and the next request may get a connection that answers all calls.
        if self._for_probes or self._http.their_state not in (h11.DONE, h11.MUST_CLOSE):
            headers.append(("connection", "close"))
        body = [] if self._wants_no_body else [h11.Data(data=reply.body)]
        self._begin_wait()  # it ends with the next one, or with the connection
        # In one call: another connection must not take this one's place between head and body.
        await self._send(h11.Response(status_code=reply.status, headers=headers), *body, h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        data = b"".join([self._http.send(event) or b"" for event in events])
        if data:
            await self._stream.send_all(data)
