"""What is fetched over HTTP: within a time and a size, whatever the server does."""

from __future__ import annotations

import difflib
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

FETCH_S = 8.0
"""However slowly it comes."""
FETCH_BYTES_MAX = 1 << 20
_TOO_SLOW = "response incomplete after {:g} s"


def fetched(url: str, tls: Mapping[str, str] | None = None) -> bytes:
    """What the server answers, one byte more than FETCH_BYTES_MAX at most. Blocks.

    Args:
        tls: Options `ssl.*` of Kafka's clients for an https: server. Files are read anew; without any the system decides.

    Raises:
        OSError: There is no such server, or it refuses.
        ValueError: It answers something else, or too slowly; or an option is not what it should be.
    """
    patience = _Patience()
    opener = build_opener(_Http(patience), _Https(patience, _context(tls)), _Redirects())
    try:
        with patience.lasting(FETCH_S), opener.open(url, timeout=FETCH_S) as answer:
            data = bytes(answer.read(FETCH_BYTES_MAX + 1))
    except HTTPError as error:
        error.close()
        raise ValueError(f"HTTP status {error.code}") from None
    except (HTTPException, OSError) as error:
        cause = error.reason if isinstance(error, URLError) else error
        if patience.is_over or isinstance(cause, TimeoutError):
            raise ValueError(_TOO_SLOW.format(FETCH_S)) from None
        if isinstance(error, OSError):
            raise OSError(str(cause)) from None
        raise ValueError(f"response is not HTTP ({type(error).__name__})") from None
    if patience.is_over:
        raise ValueError(_TOO_SLOW.format(FETCH_S))
    return data


class _Patience:
    """Ends the connections of one fetch: the limit of a socket is for each byte of it."""

    def __init__(self) -> None:
        self.is_over = False
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()

    @contextmanager
    def lasting(self, for_s: float) -> Iterator[None]:
        timer = threading.Timer(for_s, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def watch(self, sock: socket.socket) -> None:
        with self._lock:
            self._sockets.append(sock)
        if self.is_over:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        with self._lock:
            for sock in self._sockets:
                with suppress(OSError):
                    # Not `shutdown` of TLS, which would wait for the other side.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)


class _Http(HTTPHandler):
    def __init__(self, patience: _Patience) -> None:
        super().__init__()
        self._patience = patience

    def http_open(self, request: Request) -> Any:
        return self.do_open(_watched(HTTPConnection, self._patience), request)


class _Https(HTTPSHandler):
    def __init__(self, patience: _Patience, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._patience, self._of_options = patience, context

    def https_open(self, request: Request) -> Any:
        return self.do_open(_watched(HTTPSConnection, self._patience), request, context=self._of_options)


def _context(tls: Mapping[str, str] | None) -> ssl.SSLContext | None:
    if not tls:
        return None
    from ..tls.client import NAMES, client_context

    for name in tls:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"unknown option {name} for the JWKS server{hint}")
    return client_context(tls)


class _Redirects(HTTPRedirectHandler):
    """Follows those that stay with their protocol; urllib itself refuses what is neither HTTP nor FTP."""

    def redirect_request(self, request: Request, fp: Any, code: int, message: str, headers: Any, url: str) -> Any:
        fp.close()  # urllib would read what comes with it, to an end that there may not be
        if url.partition(":")[0].lower() != request.type:
            raise ValueError(f"redirect from {request.type} to another protocol")
        return super().redirect_request(request, fp, code, message, headers, url)


def _watched(cls: type[HTTPConnection], patience: _Patience) -> type[HTTPConnection]:
    class Watched(cls):  # type: ignore[misc, valid-type]  # the classes of one module, by their common base
        def connect(self) -> None:
            super().connect()
            patience.watch(self.sock)

    return Watched
