"""An HTTP/1.1 listener: what the admin listener and the schema registry have in common. Off by default.

`access` decides who may use it, `routing` finds its calls. h11 parses. Data that it refuses ends the connection after a
response with the reason.

    requests up to 16 KiB of head, 4 MiB of body; 30 s to receive one and to send its response, 5 s without the token

At most 32 connections are open. A further one replaces a connection that waits for its client: that of the address with
most of these, and of those the one that has waited longest. If none waits for its client, one that waits for events of
the broker is replaced in the same way. If all are running calls, which end without their clients, it becomes one of
four more connections, which answer only probes, one each.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..network.listener import Listener
from ..runtime.addresses import plain_address
from .access import Access, checked_token, parse_address
from .conversation import Answers, HttpConversation, StandingConnection

if TYPE_CHECKING:
    from ..page.pages import Pages

log = logging.getLogger("ottla.admin")

CONNECTIONS_MAX = 32
PROBES_MAX = 4
PAGE_TOKEN_BYTES = 24
BACKLOG = 32


class HttpListener:
    """An HTTP listener of one broker; its subclasses say what it serves.

    Args:
        address: `[HOST:]PORT`, the value of `option`.
        token: The token that clients need; without one the address must be a loopback address.
        page_token: The token of the status page's calls, which must be unguessable; random by default.
        takes_basic: See `Access`.

    Raises:
        ConfigError: An argument is invalid.
    """

    NAME = "ADMIN"
    """Name of the listener in errors."""
    CONNECTIONS = CONNECTIONS_MAX
    """Maximum number of open connections, without those that only answer probes."""

    def __init__(
        self,
        address: str,
        token: str | None = None,
        page_token: str | None = None,
        *,
        option: str = "--admin",
        takes_basic: bool = False,
    ) -> None:
        if token is not None:
            checked_token(token, "token of the admin listener")
        host, port = parse_address(address, has_token=token is not None, option=option)
        self._access = Access(token, page_token or secrets.token_urlsafe(PAGE_TOKEN_BYTES), takes_basic=takes_basic)
        self._listener = Listener(self.NAME, host, port, host, port)
        self._open: set[HttpConversation] = set()
        self._probes: set[HttpConversation] = set()

    @property
    def address(self) -> str:
        """HOST:PORT to connect to, once it is bound."""
        return self._listener.address

    @property
    def has_token(self) -> bool:
        """Whether clients need a token."""
        return self._access.has_token

    def reserve(self) -> None:
        """Keep the address for a later `bind`. OSError as for `bind`."""
        self._listener.reserve()

    def bind(self) -> None:
        """Start to listen. OSError that names the address if it cannot be bound."""
        self._listener.bind(BACKLOG)

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    async def _serve_all(self, answering: Answers, pages: Pages | None) -> None:
        """Answer requests until cancelled."""
        listening = [trio.SocketListener(trio.socket.from_stdlib_socket(sock)) for sock in self._listener.sockets]
        await trio.serve_listeners(partial(self._serve, answering, pages), listening)

    def _conversation(
        self, stream: trio.abc.Stream, answering: Answers, pages: Pages | None, *, for_probes: bool
    ) -> HttpConversation:
        """Return a new connection."""
        return HttpConversation(
            stream, answering, self._access, pages, address=address_of(stream), for_probes=for_probes
        )

    async def _serve(self, answering: Answers, pages: Pages | None, stream: trio.abc.Stream) -> None:
        for_probes = not _has_room(self._open, self.CONNECTIONS)
        conversation = self._conversation(stream, answering, pages, for_probes=for_probes)
        places = self._probes if for_probes else self._open
        try:
            async with stream:
                if not for_probes or _has_room(places, PROBES_MAX):
                    places.add(conversation)
                    await conversation.run()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has disconnected, maybe while that was being watched, in which case a nursery raises a group
        except* Exception:
            log.exception("an HTTP connection failed")
        finally:
            places.discard(conversation)


def _has_room(places: set[HttpConversation], most: int) -> bool:
    """Return whether one more connection may be open; if necessary, close one that only waits."""
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


def address_of(stream: trio.abc.Stream) -> str:
    """Return the address of the client; "" if it has disconnected already."""
    try:
        return plain_address(stream.socket.getpeername()[0]) if isinstance(stream, trio.SocketStream) else ""
    except OSError:
        return ""
