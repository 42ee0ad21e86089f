"""A proxy in front of an S3 server that makes some requests fail, and counts all.

    error        500 InternalError, and the request never reaches the server
    slow down    503 SlowDown, without reaching the server
    reset        half of the body, then the connection is reset
    cut          half of the body, then the connection ends as if that were all
    slow         the body in small pieces, with pauses
    stall        half of the body, and then nothing for a while

A seeded random generator selects the failures, so that a run can be repeated, apart from the order of threads.
"""

import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PIECE_BYTES = 16 << 10
PAUSE_S = 0.02
STALL_S = 8.0
_XML = '<?xml version="1.0"?><Error><Code>{0}</Code><Message>{0}, as it was declared</Message></Error>'
_ERRORS = {"error": (500, "InternalError"), "slow down": (503, "SlowDown")}
_HOP = ("connection", "keep-alive", "transfer-encoding", "content-length", "expect")


class FaultyProxy:
    """A proxy that runs from `start` to `stop`.

    `faults` may be replaced at any time: name -> share of the requests, from 0 to 1.
    """

    def __init__(self, upstream: tuple[str, int], seed: int = 1) -> None:
        self.upstream = upstream
        self.faults: Mapping[str, float] = {}
        self.region: str | None = None
        """Signatures for another region, and requests without one, are refused as Amazon does: moto knows no regions, and answers 500.
        None: they are not."""
        self.happened: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        """Requests by kind: GET, HEAD, LIST, PUT, POST, DELETE."""
        self.bytes_out = 0
        """Bytes of bodies sent to the client."""
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def address(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def start(self) -> "FaultyProxy":
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def forget(self) -> None:
        """Count from nothing again."""
        with self._lock:
            self.happened.clear()
            self.requests.clear()
            self.bytes_out = 0

    def drawn(self, kind: str) -> str | None:
        """Count a request, and return its fault, if any."""
        with self._lock:
            self.requests[kind] += 1
            at = self._chance.random()
            for name, share in self.faults.items():
                if at < share:
                    return name
                at -= share
            return None

    def note(self, fault: str | None, size_bytes: int) -> None:
        with self._lock:
            self.bytes_out += size_bytes
            if fault is not None:
                self.happened[fault] += 1


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    proxy: FaultyProxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of a client that has disconnected."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None: ...

    def _any(self) -> None:
        proxy = self.server.proxy
        body = self._body()
        kind = "LIST" if self.command == "GET" and "list-type=2" in self.path else self.command
        if proxy.region is not None and "Authorization" not in self.headers:
            self._send(403, [], _XML.format("AccessDenied").encode(), None)
            return
        if proxy.region is not None and f"/{proxy.region}/s3/" not in self.headers.get(
            "Authorization", f"/{proxy.region}/s3/"
        ):
            self._send(
                400, [("x-amz-bucket-region", proxy.region)], _XML.format("AuthorizationHeaderMalformed").encode(), None
            )
            return
        fault = proxy.drawn(kind)
        if fault in _ERRORS:
            status, code = _ERRORS[fault]
            proxy.note(fault, 0)
            self._send(status, [("Content-Type", "application/xml")], _XML.format(code).encode(), None)
            return
        upstream = http.client.HTTPConnection(*proxy.upstream, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            upstream.request(self.command, self.path, body or None, {**headers, "Content-Length": str(len(body))})
            answer = upstream.getresponse()
            data = answer.read()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
            # Of a HEAD the length is that of the object.
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self._send(answer.status, kept, data, fault if len(data) > 1 and answer.status < 300 else None, length)
        finally:
            upstream.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _any

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size_bytes := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size_bytes))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return b"".join(pieces)

    def _send(
        self, status: int, headers: list[tuple[str, str]], data: bytes, fault: str | None, length: str | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        self.wfile.flush()
        half = len(data) // 2
        self.server.proxy.note(fault, len(data) if fault in (None, "slow", "stall") else half)
        match fault:
            case "reset" | "cut":
                self.wfile.write(data[:half])
                self.wfile.flush()
                if fault == "reset":  # a RST, and no orderly end
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
            case "slow":
                for at in range(0, len(data), PIECE_BYTES):
                    self.wfile.write(data[at : at + PIECE_BYTES])
                    time.sleep(PAUSE_S)
            case "stall":
                self.wfile.write(data[:half])
                self.wfile.flush()
                time.sleep(STALL_S)
                self.wfile.write(data[half:])
            case _:
                if self.command != "HEAD":
                    self.wfile.write(data)
