"""Session of an authenticated client: its principal and its lifetime (KIP-368)."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import trio

from ....protocol.connection import Request
from ...runtime.log_rate_limit import LogRateLimiter
from ...security.principal import UnprovenError
from ..dispatcher import Handler, HangUpError, RequestDispatcher, RequestingClient, finished, handler_of, one_line
from ..frames import FrameReader
from .allowance import delay_answer, error_message, refused
from .counts import Counts
from .proving import AUTHENTICATE_KEY, HANDSHAKE_KEY, MAX_RECEIVE, Login, Send, take_bare_tokens

if TYPE_CHECKING:
    from ...security.sasl.logins import ListenerLogin

log = logging.getLogger("ottla.connection")

AGAIN_MS_MIN = 1_000
"""Shortest time between two re-authentications, as in Apache Kafka."""
_FAILURES = LogRateLimiter(log)


class Session:
    """Session of a client. A session that ends takes the requests in front of the `RequestDispatcher`."""

    def __init__(
        self,
        rules: ListenerLogin,
        dispatcher: RequestDispatcher,
        login: Login,
        counts: Counts,
        frames: FrameReader,
        send: Send,
    ) -> None:
        assert login.principal is not None
        self.principal = login.principal
        self._rules = rules
        self._dispatcher = dispatcher
        self._counts = counts
        self._frames = frames
        self._send = send
        self.mechanism = login.mechanism
        self._due_ms = math.inf
        """End of the session, by the clock's elapsed time."""
        self._last_ms = -math.inf
        """Start of the client's last re-authentication."""
        self._again: Login | None = None
        """Login state during a re-authentication."""
        self._has_failed = False
        self._begin(login)

    def _begin(self, login: Login) -> None:
        self._again = None
        lifetime_ms = login.lifetime_ms
        self._due_ms = math.inf if lifetime_ms is None else self._rules.clock.elapsed_ms() + lifetime_ms

    @property
    def dispatcher(self) -> RequestDispatcher:
        """The dispatcher for further requests: this session, if it ends."""
        return self._dispatcher if self._due_ms == math.inf else self

    @property
    def node_id(self) -> int:
        return self._dispatcher.node_id

    @property
    def handlers(self) -> Session:
        return self

    def is_open(self) -> bool:
        return self._dispatcher.is_open() and not self._has_failed

    @property
    def login(self) -> ListenerLogin | None:
        return self._dispatcher.login

    async def loaded(self, key: int) -> Handler:
        return await self._dispatcher.loaded(key)

    def context_for(self, client: Any) -> Any:
        return self._dispatcher.context_for(client)

    def get(self, key: int) -> Handler | None:
        """Return the handler of the next request.

        Raises:
            HangUpError: The session has ended, and the client has not logged in again.
        """
        if (again := self._again) is not None:
            if again.mechanism != self.mechanism:
                return self._refuse_mechanism
            return self._log_in if key == AUTHENTICATE_KEY else self._refuse
        if self._due_ms != math.inf:
            present_ms = self._rules.clock.elapsed_ms()
            if key == HANDSHAKE_KEY and present_ms - self._last_ms >= AGAIN_MS_MIN:
                self._last_ms = present_ms
                self._again = Login(self._rules, self.principal)
                return self._log_in
            if present_ms >= self._due_ms:
                self._counts.expired += 1
                raise HangUpError("session expired without re-authentication")
        return self._dispatcher.handlers.get(key)

    async def _log_in(self, context: Any, request: Request) -> Any:
        """Answer a request of a re-authentication. If it is refused, the client is disconnected after the answer."""
        client, again = context.client, self._again
        assert again is not None
        client.logging_in = again
        try:
            answer = await finished((await handler_of(self._dispatcher, request.api.key))(context, request))
        finally:
            client.logging_in = None
        if again.is_refused(answer):
            await self._fail(client, again.failure)
        elif again.principal is not None:
            self._succeed(client, again)
        elif not again.has_headers:
            client.mute(partial(self._take_bare_tokens, client, again))
        return answer

    def _succeed(self, client: RequestingClient, again: Login) -> None:
        assert again.principal is not None
        self._counts.succeed_again((self._rules.clock.elapsed_ms() - self._last_ms) / 1000)
        # The same user, but maybe with a delegation token now, which affects later logins.
        self.principal = client.principal = again.principal
        self._begin(again)

    async def _take_bare_tokens(self, client: RequestingClient, again: Login) -> None:
        """Take the tokens after a handshake of version 0, which have no headers. A failure has no answer, as at the first
        login."""
        if again.mechanism != self.mechanism:
            await self._next_token()
            await self._refuse_mechanism_of(client, again)
        try:
            await take_bare_tokens(again, self._next_token, self._send)
        except UnprovenError as error:
            self._counts.fail_again()
            await delay_answer(client, self._rules.failure_delay_ms)
            raise HangUpError(str(error)) from None
        self._succeed(client, again)

    async def _next_token(self) -> memoryview:
        self._frames.limit(self._rules.max_receive_bytes, MAX_RECEIVE)
        frame = await self._frames.next_frame()
        self._frames.limit()
        if frame is None:
            raise trio.BrokenResourceError("closed before re-authentication")
        return frame

    async def _refuse(self, context: Any, request: Request) -> Any:
        """Refuse another request during a re-authentication; the client is disconnected after the answer."""
        answer = refused(request)
        if answer is None:
            self._counts.fail_again()
            raise HangUpError(error_message(request))
        await self._fail(context.client, error_message(request))
        return answer

    async def _refuse_mechanism(self, context: Any, request: Request) -> Any:
        """Disconnect a client that chose another mechanism, without an answer, as Apache Kafka does."""
        assert self._again is not None
        await self._refuse_mechanism_of(context.client, self._again)

    async def _refuse_mechanism_of(self, client: RequestingClient, again: Login) -> NoReturn:
        self._counts.fail_again()
        await delay_answer(client, self._rules.failure_delay_ms)
        raise HangUpError(
            f"SASL mechanism '{again.mechanism}' requested by client is not supported for re-authentication of mechanism"
            f" '{self.mechanism}'"
        )

    async def _fail(self, client: RequestingClient, why: str | None) -> None:
        self._has_failed = True
        self._counts.fail_again()
        _FAILURES.log(logging.INFO, "closing %s (%s): %s", client.peer, one_line(self.principal), one_line(why))
        await delay_answer(client, self._rules.failure_delay_ms)
