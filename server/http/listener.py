"""The admin listener: HTTP/1.1 for programs that work beside the broker. Off unless asked for.

`access` says who may use it, `table` what it can do. h11 parses; what that refuses ends the connection, after an answer that
says why, and nothing else.

    requests up to 16 KiB of head, 4 MiB of body; 30 s for one to come and for its answer to be taken, 5 s without the token

There are 32 connections. Another one takes the place of one that waits for its client: of the address with the most of these the
one that has waited longest. If there is none, it is so with those that wait for news of the broker. If calls are carried out
on all of them, which end by themselves, it is one of four more, which answer probes alone, one each.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from functools import partial

import trio

from ..network.listener import Listener
from ..page import log_tail
from ..page.pages import Pages
from ..runtime.addresses import plain_address
from .access import Access, checked_token, parse_address
from .answering import Answering
from .call import Lives
from .conversation import HttpConversation, StandingConnection
from .table import CallTable

log = logging.getLogger("ottla.admin")

CONNECTIONS_MAX = 32
PROBES_MAX = 4
PAGE_TOKEN_BYTES = 24
BACKLOG = 32


class AdminHttp:
    """The listener of one broker.

    Args:
        address: `[HOST:]PORT`.
        token: What a client has to know; without one the address must be a loopback address.
        page_token: What the status page's calls have to know, which nobody else may guess; drawn unless given.

    Raises:
        ConfigError: One of them is no such thing.
    """

    def __init__(self, address: str, token: str | None = None, page_token: str | None = None) -> None:
        if token is not None:
            checked_token(token, "token of the admin listener")
        host, port = parse_address(address, has_token=token is not None)
        self._access = Access(token, page_token or secrets.token_urlsafe(PAGE_TOKEN_BYTES))
        self._listener = Listener("ADMIN", host, port, host, port)
        self._open: set[HttpConversation] = set()
        self._probes: set[HttpConversation] = set()

    @property
    def address(self) -> str:
        """HOST:PORT to connect to, once it is bound."""
        return self._listener.address

    @property
    def has_token(self) -> bool:
        """Whether a client has to know a token."""
        return self._access.has_token

    def bind(self) -> None:
        """Listen. OSError, naming the address, if it cannot be had."""
        self._listener.bind(BACKLOG)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    async def run(self, lives: Lives) -> None:
        """Answer requests until cancelled, through all lives of a broker."""
        log.info("admin HTTP listener on %s", self.address)
        listening = [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in self._listener.sockets]
        answering, pages = Answering(lives, CallTable()), Pages(lives, self._access.page_token)
        with log_tail.kept():
            await trio.serve_listeners(partial(self._serve, answering, pages), listening)

    async def _serve(self, answering: Answering, pages: Pages, stream: trio.abc.Stream) -> None:
        for_probes = not _has_room(self._open, CONNECTIONS_MAX)
        conversation = HttpConversation(
            stream, answering, self._access, pages, address=_address_of(stream), for_probes=for_probes
        )
        places = self._probes if for_probes else self._open
        try:
            async with stream:
                if not for_probes or _has_room(places, PROBES_MAX):
                    places.add(conversation)
                    await conversation.run()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone, maybe while it was watched whether it has: what a nursery raises is a group
        except* Exception:
            log.exception("an admin connection failed")
        finally:
            places.discard(conversation)


def _has_room(places: set[HttpConversation], most: int) -> bool:
    """Whether there is room for one more, if need be where another one only waits."""
    if len(places) < most:
        return True
    waiting = [(each.standing, each) for each in places if each.standing is not None]
    if not waiting:
        return False
    of_address = Counter((standing.for_news, each.address) for standing, each in waiting)

    def rank(found: tuple[StandingConnection, HttpConversation]) -> tuple[bool, int, float]:
        standing, each = found
        return standing.for_news, -of_address[standing.for_news, each.address], standing.since_s

    _, first = min(waiting, key=rank)
    places.remove(first)
    first.give_up()
    return True


def _address_of(stream: trio.abc.Stream) -> str:
    """Of its client; "" where that has gone already."""
    try:
        return plain_address(stream.socket.getpeername()[0]) if isinstance(stream, trio.SocketStream) else ""
    except OSError:
        return ""
