"""A server of an issuer's keys, over http or https, whose answers a suite decides on, and counts."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self


class KeyServer:
    """A server of keys that answers every path alike; a context manager.

    Attributes:
        url: The server's address.
        answer: Called for every fetch; returns a status and a document.
        fetches: The number of fetches.
    """

    def __init__(self, answer: Callable[[], tuple[int, str]], identity: Path | None = None) -> None:
        self.answer = answer
        self.fetches = 0
        keys = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name is http.server's
                keys.fetches += 1
                status, text = keys.answer()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                return None

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if identity is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if identity else ''}://localhost:{self._server.server_port}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
