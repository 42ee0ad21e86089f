"""SASL login, before a client is served: the client chooses a mechanism, then authenticates (KIP-43, KIP-152, KIP-368).

    ApiVersions, at most once          SaslHandshake          SaslAuthenticate, or bare tokens after a handshake of version 0

Nothing else is read; size and time are limited. Where sessions end, clients may log in again, between requests, with the same
mechanism and principal. A client that sends another request after the end of its session is disconnected.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

import trio

from ....protocol.apis import API_VERSIONS_KEY, APIS
from ....protocol.connection import Request, encode_response, parse_request
from ....protocol.errors import ErrorCode, ProtocolError
from ...security.principal import UnprovenError
from ..dispatcher import HangUpError, RequestDispatcher, RequestingClient, finished, handler_of
from ..frames import FrameReader
from ..large_requests import Learning
from ..transport import Part
from .allowance import BEFORE_BYTES, BEFORE_S, ELEMENTS_MAX, Allowance, delay_answer, error_message, refused
from .counts import Counts
from .proving import AUTHENTICATE_KEY, HANDSHAKE_KEY, MAX_RECEIVE, Login, Send, take_bare_tokens
from .session import Session

if TYPE_CHECKING:
    from ...security.sasl.logins import ListenerLogin

_SIZE_BYTES = 4


async def log_in(
    rules: ListenerLogin,
    dispatcher: RequestDispatcher,
    context: Any,
    client: RequestingClient,
    frames: FrameReader,
    send: Send,
    learning: Learning,
    allowance: Allowance,
    counts: Counts,
) -> Session:
    """Let a client log in.

    Raises:
        HangUpError: The login failed, and the client has received the error; or it took too long.
        ProtocolError: The client sent another request, or bytes that are not a request.
        trio.BrokenResourceError: The client has disconnected.
    """
    login = client.logging_in = Login(rules)
    talk = _Talk(login, dispatcher, context, client, frames, send, rules, learning, allowance)
    try:
        with trio.CancelScope(deadline=allowance.until_s) as patience:
            await talk.greet()
            await talk.identify()
    except UnprovenError as error:
        counts.fail()
        await delay_answer(client, rules.failure_delay_ms)
        if talk.last:
            with trio.move_on_after(BEFORE_S):
                await send(talk.last)
        raise HangUpError(str(error)) from None
    finally:
        client.logging_in = None
    if patience.cancelled_caught:
        raise HangUpError(f"login timed out after {BEFORE_S:g} s")
    frames.limit()
    counts.succeed(knows_sessions=login.knows_sessions)
    return Session(rules, dispatcher, login, counts, frames, send)


class _Talk:
    """Dialogue with a client until it is authenticated. `greet` and `identify` raise UnprovenError if the login fails."""

    def __init__(
        self,
        login: Login,
        dispatcher: RequestDispatcher,
        context: Any,
        client: RequestingClient,
        frames: FrameReader,
        send: Send,
        rules: ListenerLogin,
        learning: Learning,
        allowance: Allowance,
    ) -> None:
        self.last: Sequence[Part] = ()
        """The response that is sent before the client is disconnected."""
        self._login = login
        self._dispatcher = dispatcher
        self._context = context
        self._time_slice = client.time_slice
        self._frames = frames
        self._send = send
        self._rules = rules
        self._learning = learning
        self._allowance = allowance

    async def greet(self) -> None:
        """Serve requests until a mechanism is chosen."""
        knows_versions = False
        while True:
            request = await self._request((API_VERSIONS_KEY, HANDSHAKE_KEY), "before login")
            if request.api.key == HANDSHAKE_KEY:
                await self._answer(request)
                if self._login.mechanism:
                    return
                continue
            if knows_versions:
                raise ProtocolError("client sent a second ApiVersions request before login")
            body = await finished((await handler_of(self._dispatcher, API_VERSIONS_KEY))(self._context, request))
            if body is not None:
                await self._send(encode_response(request, body))
                knows_versions = body.error_code == ErrorCode.NONE

    async def identify(self) -> None:
        """Serve requests until there is a principal."""
        login = self._login
        if not login.has_headers:
            await take_bare_tokens(login, self._next, self._send)
        while login.principal is None:
            await self._answer(await self._request(APIS, "during login"))

    async def _answer(self, request: Request) -> None:
        login, is_meant = self._login, request.api.key in (HANDSHAKE_KEY, AUTHENTICATE_KEY)
        if not is_meant or bool(login.mechanism) is (request.api.key == HANDSHAKE_KEY):
            if (body := refused(request)) is None:
                raise ProtocolError(error_message(request))
            self.last = encode_response(request, body)
            raise UnprovenError(error_message(request))
        body = await finished((await handler_of(self._dispatcher, request.api.key))(self._context, request))
        parts = () if body is None else encode_response(request, body)
        if login.is_refused(body):
            self.last = parts
            raise UnprovenError(login.failure or "")
        if parts:
            await self._send(parts)

    async def _request(self, keys: Container[int], when: str) -> Request:
        frame = await self._next()
        key = int.from_bytes(frame[:2], signed=True) if len(frame) > 1 else -1
        if key not in keys:
            named = (
                APIS[key].name
                if key in APIS
                else "data that is not a Kafka request (possibly a different security protocol)"
            )
            raise ProtocolError(f"client sent {named} {when}")
        request = parse_request(frame, ELEMENTS_MAX, at_once=True)
        if request is None:
            await self._learning.learn(frame)
            request = parse_request(frame, ELEMENTS_MAX)
        return request

    async def _next(self) -> memoryview:
        if self._time_slice.is_over():  # a client may send ApiVersions in unknown versions without end
            await self._time_slice.next()
        most_bytes, why = self._rules.max_receive_bytes, MAX_RECEIVE
        if self._rules.is_limited_in_all and self._allowance.left_bytes < most_bytes:
            most_bytes, why = self._allowance.left_bytes, f"of {BEFORE_BYTES} before login"
        self._frames.limit(most_bytes, why)
        frame = await self._frames.next_frame()
        if frame is None:
            raise trio.BrokenResourceError("closed before login")
        self._allowance.spend(len(frame) + _SIZE_BYTES)
        return frame
