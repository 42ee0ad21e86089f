"""The issuer of tokens for tests, and an HTTP server with its public keys."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

jwt = pytest.importorskip("jwt")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

NOW_S = 1_700_000_000
GOOD = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 3600, "iss": "https://issuer"}
_KEYS: dict[str, Any] = {}


def key(name: str) -> Any:
    """Return the private key of this name, made once per run."""
    if name not in _KEYS:
        _KEYS[name] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return _KEYS[name]


def jwks_text(*names: str) -> str:
    """Return the public keys of these names."""
    rows = [json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key(name).public_key())) | {"kid": name} for name in names]
    return json.dumps({"keys": rows})


def token(by: str = "k1", **claims: Any) -> str:
    """Return GOOD with other claims, signed by a key; None removes a claim."""
    said = {name: value for name, value in (GOOD | claims).items() if value is not None}
    return str(jwt.encode(said, key(by), "RS256", headers={"kid": by}))


class KeyServer:
    """An HTTP server on loopback that answers as a test asks."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        """Requested paths, in order."""
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self.keys("k1")
        self.over = threading.Event()
        """Set at the end; slow answers wait for it."""
        self.url = ""

    def keys(self, *names: str) -> Callable[[BaseHTTPRequestHandler], None]:
        """Return a handler that answers with these keys."""
        return self.says(jwks_text(*names).encode())

    def says(self, body: bytes, code: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
        """Return a handler that answers with this body."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(code)
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(body)

        return answer

    def raw(self, *pieces: bytes, without_end: bytes = b"") -> Callable[[BaseHTTPRequestHandler], None]:
        """Return a handler that writes these bytes, then repeats the last ones, slowly if it is one byte."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            for piece in pieces:
                handler.wfile.write(piece)
            while without_end and not self.over.is_set():
                handler.wfile.write(without_end)
                if len(without_end) == 1:
                    self.over.wait(0.01)

        return answer

    def silence(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer nothing until the end."""
        self.over.wait()


@contextmanager
def key_server(tls: ssl.SSLContext | None = None) -> Iterator[KeyServer]:
    """Run a key server during the block, over https with a context."""
    server = KeyServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.path)
            with suppress(OSError):
                server.answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Listening(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

        def get_request(self) -> tuple[Any, Any]:
            request, address = super().get_request()
            if tls is None:
                return request, address
            try:
                request.getpeername()  # after a reset by the client, `wrap_socket` would leave the socket open
                return tls.wrap_socket(request, server_side=True), address
            except OSError:
                request.close()
                raise

    with Listening(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        server.url = f"http{'s' if tls else ''}://127.0.0.1:{listening.server_port}/keys"
        try:
            yield server
        finally:
            server.over.set()
            listening.shutdown()
            thread.join()
