"""Before a client of a SASL listener is served: it says by which mechanism it logs in, and does so (KIP-43, KIP-152, KIP-368).

    ApiVersions, at most once          SaslHandshake          SaslAuthenticate, or bare tokens after a handshake of version 0

Nothing else is read, nothing that is large, and nothing for long. Where sessions end, their clients may log in again, between
requests: by the same mechanism, as the same principal. Who comes with another request after the end is cut off.
"""

from __future__ import annotations

import logging
import math
import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import trio

from ...protocol.apis import API_VERSIONS_KEY, APIS
from ...protocol.connection import Request, encode_response, parse_request
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ...protocol.messages.sasl_handshake import SaslHandshakeResponse
from ..security.principal import Principal
from ..security.sasl.conversation import Conversation, InvalidCredentialsError, SaslError
from .desk import Client, Desk, Handler, HangUpError, one_line
from .frames import FrameReader
from .transport import Part, PeerGoneError

if TYPE_CHECKING:
    from ..security.sasl.logins import ListenerLogin

log = logging.getLogger("ottla.connection")

HANDSHAKE_KEY, AUTHENTICATE_KEY = 17, 36
LOGIN_S = 10.0
"""From the first byte to the last."""
ELEMENTS_MAX = 100
"""Of a request: none that is taken here has an array, and some have tags."""
AGAIN_MS_MIN = 1_000
"""Who logs in again sooner is refused, as by Apache Kafka."""
_SIZE = struct.Struct(">i").pack

Send = Callable[[Sequence[Part]], Awaitable[None]]


class Login:
    """From a handshake to a principal: what the handlers of SaslHandshake and SaslAuthenticate ask.

    Args:
        session: That of a client which logs in again.
    """

    def __init__(self, rules: ListenerLogin, session: Session | None = None) -> None:
        self.mechanism = ""
        self.has_headers = True
        """Whether tokens come as SaslAuthenticate."""
        self.principal: Principal | None = None
        """Set when it is over, as the next one is."""
        self.lifetime_ms: int | None = None
        """How long the session lasts that begins then; None: it does not end."""
        self.failure: str | None = None
        """Why the client is to be sent away."""
        self._rules = rules
        self._session = session
        self._conversation: Conversation | None = None

    def shake_hands(self, request: Request) -> SaslHandshakeResponse:
        """Take the mechanism that the client has chosen."""
        mechanisms, mechanism = tuple(self._rules.mechanisms), request.body.mechanism
        if mechanism not in mechanisms:
            self.failure = f"Unsupported SASL mechanism {mechanism[:40]!r}; enabled: {', '.join(mechanisms)}"
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        self.mechanism, self.has_headers = mechanism, request.version > 0
        self._conversation = self._rules.begin(mechanism)
        return SaslHandshakeResponse(mechanisms=mechanisms)

    async def authenticate(self, request: Request) -> SaslAuthenticateResponse:
        """Take a token, and answer. Raises HangUpError: it is larger than a login may be, which frames bound the first time only."""
        if (size_bytes := len(request.body.auth_bytes)) > (most_bytes := self._rules.max_receive_bytes):
            raise HangUpError(f"a token of {size_bytes} bytes, more than {most_bytes} (sasl.server.max.receive.size)")
        try:
            answer = await self.respond(bytes(request.body.auth_bytes))
        except SaslError as error:
            told = self.failure = str(error)
        except InvalidCredentialsError as error:
            # The reason would tell who has an account.
            doing = "authentication" if self._session is None else "re-authentication"
            told = (
                f"Authentication failed during {doing} due to invalid credentials with SASL mechanism {self.mechanism}"
            )
            self.failure = f"{told}: {error}"
        else:
            return SaslAuthenticateResponse(
                error_message=None, auth_bytes=answer, session_lifetime_ms=self.lifetime_ms or 0
            )
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)

    async def respond(self, token: bytes) -> bytes:
        """What the mechanism answers. Raises SaslError, InvalidCredentialsError."""
        conversation, rules = self._conversation, self._rules
        assert conversation is not None
        answer = await conversation.respond(token, rules.clock.now_ms())
        principal = conversation.principal
        if principal is not None:
            if self._session is not None and (was := self._session.principal) != principal:
                raise SaslError(
                    f"Cannot change principals during re-authentication from {was.type}.{was.name}:"
                    f" {principal.type}.{principal.name}"
                )
            self.lifetime_ms = rules.lifetime_ms(self.mechanism, conversation.expires_ms)
            self.principal = principal
        return answer

    def is_refused(self, answer: Any) -> bool:
        """Whether the client is to be sent away with this answer; somebody may have put it in the place of ours."""
        if self.failure is None and answer is not None and answer.error_code != ErrorCode.NONE:
            self.failure = f"{ErrorCode(answer.error_code).name}, as was declared"
        return self.failure is not None


class _SentAwayError(Exception):
    """Its client is to be sent away, with this answer if there is one."""

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        self.parts = parts


async def log_in(
    rules: ListenerLogin, desk: Desk, context: Any, client: Client, frames: FrameReader, send: Send
) -> Session:
    """Have a client log in, which begins with its first byte.

    Raises:
        HangUpError: It did not, and has been told; or it took too long.
        ProtocolError: It asked for something else, or its bytes are no request.
        PeerGoneError: It has gone.
    """
    frames.limit(rules.max_receive_bytes, "sasl.server.max.receive.size")
    login = client.logging_in = Login(rules)
    try:
        with trio.move_on_after(LOGIN_S) as patience:
            await _greet(login, desk, context, frames, send)
            await _identify(login, desk, context, frames, send)
    except _SentAwayError as sent_away:
        await _let_wait(client, rules)
        if sent_away.parts:
            with trio.move_on_after(LOGIN_S):
                await send(sent_away.parts)
        raise HangUpError(login.failure or "") from None
    finally:
        client.logging_in = None
    if patience.cancelled_caught:
        raise HangUpError(f"it had not logged in after {LOGIN_S:g} s")
    frames.limit()
    return Session(rules, desk, login)


async def _greet(login: Login, desk: Desk, context: Any, frames: FrameReader, send: Send) -> None:
    """Until there is a mechanism."""
    knows_versions = False
    while True:
        request = _parsed(await _next(frames), (API_VERSIONS_KEY, HANDSHAKE_KEY), "before it has logged in")
        if request.api.key == HANDSHAKE_KEY:
            await _answer(login, desk, context, request, send)
            if login.mechanism:
                return
            continue
        if knows_versions:
            raise ProtocolError("it asks for ApiVersions once more before it has logged in")
        body = await (await desk.loaded(API_VERSIONS_KEY))(context, request)
        if body is not None:
            await send(encode_response(request, body))
            knows_versions = body.error_code == ErrorCode.NONE


async def _identify(login: Login, desk: Desk, context: Any, frames: FrameReader, send: Send) -> None:
    """Until there is a principal."""
    while login.principal is None:
        frame = await _next(frames)
        if login.has_headers:
            await _answer(login, desk, context, _parsed(frame, (AUTHENTICATE_KEY,), "while it logs in"), send)
            continue
        try:
            answer = await login.respond(bytes(frame))
        except (SaslError, InvalidCredentialsError) as error:
            login.failure = str(error)
            raise _SentAwayError from None
        await send([_SIZE(len(answer)) + answer])


async def _answer(login: Login, desk: Desk, context: Any, request: Request, send: Send) -> None:
    body = await (await desk.loaded(request.api.key))(context, request)
    parts = () if body is None else encode_response(request, body)
    if login.is_refused(body):
        raise _SentAwayError(parts)
    if parts:
        await send(parts)


async def _let_wait(client: Client, rules: ListenerLogin) -> None:
    """Guessing is to take time; nobody else waits."""
    await client.hold(trio.Event(), rules.failure_delay_ms / 1000, is_client_needed=False)


async def _next(frames: FrameReader) -> memoryview:
    frame = await frames.next_frame()
    if frame is None:
        raise PeerGoneError("closed before it had logged in")
    return frame


def _parsed(frame: memoryview, keys: Sequence[int], when: str) -> Request:
    key = int.from_bytes(frame[:2], signed=True) if len(frame) > 1 else -1
    if key not in keys:
        named = APIS[key].name if key in APIS else "what is no request of Kafka's (another security protocol, perhaps)"
        raise ProtocolError(f"it sends {named} {when}")
    return parse_request(frame, ELEMENTS_MAX)


class Session:
    """Who a client is, and for how long. Where that ends, it stands between the client's requests and the `Desk`."""

    def __init__(self, rules: ListenerLogin, desk: Desk, login: Login) -> None:
        assert login.principal is not None
        self.principal = login.principal
        self._rules = rules
        self._desk = desk
        self._mechanism = login.mechanism
        self._due_ms = math.inf
        """When it ends, by the clock's elapsed time."""
        self._last_ms = -math.inf
        """When the client last began to log in again."""
        self._again: Login | None = None
        """While it does."""
        self._has_failed = False
        self._begin(login)

    def _begin(self, login: Login) -> None:
        self._again = None
        lifetime_ms = login.lifetime_ms
        self._due_ms = math.inf if lifetime_ms is None else self._rules.clock.elapsed_ms() + lifetime_ms

    @property
    def desk(self) -> Desk:
        """Who is to be asked from now on: this, if it ends."""
        return self._desk if self._due_ms == math.inf else self

    @property
    def node_id(self) -> int:
        return self._desk.node_id

    @property
    def handlers(self) -> Session:
        """As `Desk`."""
        return self

    @property
    def is_open(self) -> bool:
        """As `Desk`."""
        return self._desk.is_open and not self._has_failed

    @property
    def login(self) -> ListenerLogin | None:
        """As `Desk`."""
        return self._desk.login

    async def loaded(self, key: int) -> Handler:
        """As `Desk`."""
        return await self._desk.loaded(key)

    def context_for(self, client: Any) -> Any:
        """As `Desk`."""
        return self._desk.context_for(client)

    def get(self, key: int) -> Handler | None:
        """Who answers the next request.

        Raises:
            HangUpError: The session has ended, or the client does not go on with logging in.
        """
        if (again := self._again) is not None:
            if key != AUTHENTICATE_KEY:
                raise HangUpError(f"Unexpected Kafka request of type {APIS[key].name} during SASL authentication")
            if again.mechanism != self._mechanism:
                raise HangUpError(
                    f"SASL mechanism '{again.mechanism}' requested by client is not supported for re-authentication of"
                    f" mechanism '{self._mechanism}'"
                )
            return self._log_in
        if self._due_ms != math.inf:
            present_ms = self._rules.clock.elapsed_ms()
            if key == HANDSHAKE_KEY and present_ms - self._last_ms >= AGAIN_MS_MIN:
                self._last_ms = present_ms
                self._again = Login(self._rules, self)
                return self._log_in
            if present_ms >= self._due_ms:
                raise HangUpError("its session has ended, and it has not logged in again")
        return self._desk.handlers.get(key)

    async def _log_in(self, context: Any, request: Request) -> Any:
        """The answer to a client that logs in again; if it is refused, it is cut off behind that."""
        client, again = context.client, self._again
        assert again is not None
        client.logging_in = again
        try:
            answer = await (await self._desk.loaded(request.api.key))(context, request)
        finally:
            client.logging_in = None
        if again.is_refused(answer):
            self._has_failed = True
            log.info("closing %s (%s): %s", client.peer, one_line(self.principal), one_line(again.failure))
            await _let_wait(client, self._rules)
        elif again.principal is not None:
            self._begin(again)
        return answer
