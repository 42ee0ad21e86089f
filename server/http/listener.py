"""The admin listener: HTTP/1.1 for programs on this machine that work beside the broker. Off unless asked for.

It has no authentication, so it listens on loopback addresses only, and a web page in somebody's browser cannot use it:
requests with an `Origin`, with a body that does not call itself JSON, or with a `Host` that is no name of this machine (to
which a page's own name may have been made to lead, "DNS rebinding") are refused. What it can do stands in
`cleaning_calls`. h11 parses; what that refuses ends the connection, after an answer that says why, and nothing else.

    requests up to 16 KiB of head, 4 MiB of body; 30 s for one to come; 32 connections
"""

from __future__ import annotations

import ipaddress
import logging
from functools import partial

import h11
import trio

from ...storage.topics.options import ConfigError
from ..network.listener import Listener
from ..runtime.turns import Turn
from .cleaning_calls import AdminCalls, Answer, CallError, encoded

log = logging.getLogger("ottla.admin")

HEAD_BYTES_MAX = 16 << 10
BODY_BYTES_MAX = 4 << 20
"""A group of 100 000 segments takes half of it."""
REQUEST_TIMEOUT_S = 30
CONNECTIONS_MAX = 32
BACKLOG = 32

_READ_BYTES = 64 << 10
_WITHOUT_BODY = ("GET", "HEAD", "DELETE")


def parse_address(text: str) -> tuple[str, int]:
    """`[HOST:]PORT` of the admin listener; 127.0.0.1 unless given.

    Raises:
        ConfigError: Malformed, or not an address of this machine alone.
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ConfigError(f"Invalid value {text} for --admin: must be [HOST:]PORT, port up to 65535")
    if not _is_loopback(host):
        raise ConfigError(f"Invalid value {text} for --admin: must be a loopback address, as it asks nobody who he is")
    return host, int(port)


def _is_loopback(host: str) -> bool:
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class AdminHttp:
    """The listener of one broker."""

    def __init__(self, address: tuple[str, int]) -> None:
        host, port = address
        self._listener = Listener("ADMIN", host, port, host, port)
        self._connections = 0

    @property
    def address(self) -> str:
        """HOST:PORT to connect to, once it is bound."""
        return self._listener.address

    def bind(self) -> None:
        """Listen. OSError, naming the address, if it cannot be had."""
        self._listener.bind(BACKLOG)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()

    async def run(self, calls: AdminCalls) -> None:
        """Answer requests until cancelled."""
        assert self._listener.socket is not None
        log.info("admin HTTP listener on %s", self.address)
        listening = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener.socket))
        async with trio.open_nursery() as nursery:
            await nursery.start(calls.leases.run)
            await trio.serve_listeners(partial(self._serve, calls), [listening])

    async def _serve(self, calls: AdminCalls, stream: trio.SocketStream) -> None:
        self._connections += 1
        try:
            async with stream:
                if self._connections <= CONNECTIONS_MAX:
                    await _Conversation(stream, calls).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the client has gone
        except Exception:
            log.exception("an admin connection failed; the others go on")
        finally:
            self._connections -= 1


def _without_port(host: str) -> str:
    """The host of a `Host` header, an IPv6 address without its brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


class _Conversation:
    """The requests of one connection, one after the other."""

    def __init__(self, stream: trio.SocketStream, calls: AdminCalls) -> None:
        self._stream = stream
        self._calls = calls
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._wants_no_body = False

    async def run(self) -> None:
        while True:
            try:
                with trio.move_on_after(REQUEST_TIMEOUT_S) as waiting:
                    request = await self._request()
                if waiting.cancelled_caught or request is None:
                    return
                status, answer = await self._calls.answer(*request)
            except h11.RemoteProtocolError as error:
                status, answer = error.error_status_hint, {"error": f"not HTTP: {error}"}
            except CallError as error:
                status, answer = error.status, {"error": str(error)}
            await self._respond(status, answer)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> tuple[str, str, bytes] | None:
        """Method, target and body of the next request; None at the connection's end.

        Raises:
            h11.RemoteProtocolError: What came is no HTTP.
            CallError: 403, 413, 415: it is not to be answered.
        """
        request = await self._event()
        if not isinstance(request, h11.Request):
            return None
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        method = request.method.decode()
        self._wants_no_body = method == "HEAD"
        if "origin" in headers:
            raise CallError(403, "requests of web pages are not answered")
        host = headers.get("host")
        if host is not None and not _is_loopback(_without_port(host)):  # HTTP/1.0 needs none, and no browser speaks it
            raise CallError(403, f"Host: expected localhost or a loopback address, found {host[:100]!r}")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method not in _WITHOUT_BODY and kind != "application/json":
            raise CallError(415, f"Content-Type: expected application/json, found {kind[:60]!r}")
        body, turn = bytearray(), Turn()
        while isinstance(event := await self._event(), h11.Data):
            if turn.is_over():  # a chunk may be one byte
                await turn.next()
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise CallError(413, f"expected a body of at most {BODY_BYTES_MAX} bytes")
        if not isinstance(event, h11.EndOfMessage):
            return None
        return method, request.target.decode("ascii", "replace"), bytes(body)

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[]))
            self._http.receive_data(await self._stream.receive_some(_READ_BYTES))
        return event

    async def _respond(self, status: int, answer: Answer) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = await self._calls.in_worker(encoded, answer)
        headers = [("content-type", "application/json"), ("content-length", str(len(body)))]
        if self._http.their_state not in (h11.DONE, h11.MUST_CLOSE):
            headers.append(("connection", "close"))  # nobody reads the rest of what is coming
        with trio.move_on_after(REQUEST_TIMEOUT_S):
            await self._send(h11.Response(status_code=status, headers=headers))
            if not self._wants_no_body:
                await self._send(h11.Data(data=body))
            await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send_all(data)
