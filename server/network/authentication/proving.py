"""State of one login, from the mechanism to the principal: used by the handlers of SaslHandshake and SaslAuthenticate, also at
re-authentication."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ....protocol.connection import Request
from ....protocol.errors import ErrorCode
from ....protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ....protocol.messages.sasl_handshake import SaslHandshakeResponse
from ...security.principal import Principal, UnprovenError
from ...security.sasl.conversation import Conversation
from ..dispatcher import HangUpError
from ..transport import Part

if TYPE_CHECKING:
    from ...security.sasl.logins import ListenerLogin

HANDSHAKE_KEY, AUTHENTICATE_KEY = 17, 36
MAX_RECEIVE = "sasl.server.max.receive.size"

Send: TypeAlias = Callable[[Sequence[Part]], Awaitable[None]]

_SIZE = struct.Struct(">i").pack


class Login:
    """State of one login, which the handlers of SaslHandshake and SaslAuthenticate use.

    Args:
        present: Present principal of a client that logs in again.
    """

    def __init__(self, rules: ListenerLogin, present: Principal | None = None) -> None:
        self.mechanism = ""
        self.has_headers = True
        """Whether tokens are in SaslAuthenticate requests."""
        self.principal: Principal | None = None
        """Principal, once the login has succeeded. `lifetime_ms` is set at the same time."""
        self.lifetime_ms: int | None = None
        """Lifetime of the session that begins then; None: it does not end."""
        self.knows_sessions = False
        """Whether the client can log in again: SaslAuthenticate returns the session lifetime from version 1 on."""
        self.failure: str | None = None
        """Reason for which the client will be disconnected."""
        self._rules = rules
        self._present = present
        self._conversation: Conversation | None = None

    def shake_hands(self, request: Request) -> SaslHandshakeResponse:
        """Take the mechanism that the client has chosen, and answer."""
        mechanisms, mechanism = tuple(self._rules.mechanisms), request.body.mechanism
        if mechanism not in mechanisms and self._present is not None:
            raise HangUpError(f"client requested SASL mechanism {mechanism[:40]!r} for re-authentication")
        if mechanism not in mechanisms:
            self.failure = f"Unsupported SASL mechanism {mechanism[:40]!r}; enabled: {', '.join(mechanisms)}"
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=mechanisms)
        self.mechanism, self.has_headers = mechanism, request.version > 0
        self._conversation = self._rules.begin(mechanism)
        return SaslHandshakeResponse(mechanisms=mechanisms)

    async def authenticate(self, request: Request) -> SaslAuthenticateResponse:
        """Take a token, and answer. Raises HangUpError if it is too large: frames bound it only at the first login."""
        self.knows_sessions |= request.version > 0
        if (size_bytes := len(request.body.auth_bytes)) > (most_bytes := self._rules.max_receive_bytes):
            raise HangUpError(f"SASL token too large ({size_bytes} bytes, limit {most_bytes}: {MAX_RECEIVE})")
        try:
            answer = await self.respond(bytes(request.body.auth_bytes))
        except UnprovenError as error:
            told = self.failure = str(error)
            if not error.is_told:
                doing = "authentication" if self._present is None else "re-authentication"
                told = f"Authentication failed during {doing} due to invalid credentials with SASL mechanism {self.mechanism}"
                self.failure = f"{told}: {error}"
        else:
            return SaslAuthenticateResponse(
                error_message="", auth_bytes=answer, session_lifetime_ms=self.lifetime_ms or 0
            )
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=told)

    async def respond(self, token: bytes) -> bytes:
        """Return the mechanism's answer to a token. Raises UnprovenError."""
        conversation, rules = self._conversation, self._rules
        assert conversation is not None
        answer = await conversation.respond(token, rules.clock.now_ms())
        principal = conversation.principal
        if principal is not None:
            if (was := self._present) is not None and not was.is_same(principal):
                raise UnprovenError(
                    f"Cannot change principals during re-authentication from {was.type}.{was.name}:"
                    f" {principal.type}.{principal.name}",
                    is_told=True,
                )
            self.lifetime_ms = rules.lifetime_ms(self.mechanism, conversation.expires_ms)
            self.principal = principal
        return answer

    def is_refused(self, answer: Any) -> bool:
        """Return whether the login has failed with this answer, which a declared fault may have replaced."""
        if self.failure is None and answer is not None and answer.error_code != ErrorCode.NONE:
            self.failure = f"{ErrorCode(answer.error_code).name} (injected fault)"
        return self.failure is not None


async def take_bare_tokens(login: Login, next_frame: Callable[[], Awaitable[memoryview]], send: Send) -> None:
    """Take tokens without request headers until there is a principal. Raises UnprovenError, after which nothing is sent."""
    while login.principal is None:
        answer = await login.respond(bytes(await next_frame()))
        await send([_SIZE(len(answer)) + answer])
