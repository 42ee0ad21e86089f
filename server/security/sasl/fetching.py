"""HTTP requests with limits on time and size that hold whatever the server does."""

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
"""Time limit of a whole fetch, however slowly its bytes arrive."""
FETCH_BYTES_MAX = 1 << 20
_TOO_SLOW = "response incomplete after {:g} s"


def fetched(url: str, tls: Mapping[str, str] | None = None) -> bytes:
    """Return the body of the response, at most one byte more than FETCH_BYTES_MAX. Blocks.

    Args:
        tls: Options `ssl.*` of Kafka's clients for an https: server. Files are read with each fetch; without options the system's trust store is used.

    Raises:
        OSError: The server cannot be reached, or refuses.
        ValueError: The response is not the expected one, or too slow; or an option is invalid.
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
    """Ends the connections of one fetch after a time: a socket's timeout applies to each read, not to the whole."""

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
                    # Not `shutdown` of TLS, which would wait for the peer.
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
    """Follows redirects that keep the protocol; urllib itself refuses those to other protocols than HTTP and FTP."""

    def redirect_request(self, request: Request, fp: Any, code: int, message: str, headers: Any, url: str) -> Any:
        fp.close()  # urllib would read the body, which may never end
        if url.partition(":")[0].lower() != request.type:
            raise ValueError(f"redirect from {request.type} to another protocol")
        return super().redirect_request(request, fp, code, message, headers, url)


def _watched(cls: type[HTTPConnection], patience: _Patience) -> type[HTTPConnection]:
    class Watched(cls):  # type: ignore[misc, valid-type]  # the classes of one module, by their common base
        def connect(self) -> None:
            super().connect()
            patience.watch(self.sock)

    return Watched
