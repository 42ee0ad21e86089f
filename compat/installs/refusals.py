"""Everything that an install through a server refuses: addresses, requests, files.

Each with a clear message; nothing is changed.
"""

import errno
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ..support.suite import Suite
from . import bad_files
from .ground import Driver, Ground
from .served import Served
from .traffic import values_of

HEAD = b"POST /v1/cleaning/pause HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def run(suite: Suite, ground: Ground, quick: bool) -> None:
    ground.restore()
    with Served(ground) as server:
        server.start()
        before = ground.untouched()
        bytes_that_are_no_request(suite, server)
        requests_that_are_no_call(suite, ground, server)
        if not quick:
            addresses(suite, ground, server)
        suite.equal("after all of them nothing is changed on disk", before, ground.untouched())
        suite.equal("no lease is left", None, server.status()["lease_expires_ms"])
        if not quick:
            lost_calls(suite, ground, server)
    if not quick:
        bad_files.staged_files(suite, ground)
    bad_files.other_disks(suite, ground)


def bytes_that_are_no_request(suite: Suite, server: Served) -> None:
    host, _, port = server.admin.rpartition(":")
    sent = {
        "zeros": (b"\0" * 64, 400),
        "a head of 1 MiB": (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * (1 << 20), 431),
        "a body that says 1 TiB": (HEAD + b"Content-Length: 1099511627776\r\n\r\n" + b" " * (5 << 20), 413),
        "chunks without end": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"10000\r\n%s\r\n" % (b" " * 65536) * 80, 413),
        "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n", 400),
        "two lengths": (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
        "a line feed in a header": (HEAD + b"A: b\n c\0d\r\n\r\n", 400),
        "a Kafka request": (b"\0\0\0\x18\0\x12\0\0\0\0\0\x01\0\x04test", 400),
        "TLS": (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(range(64)), 400),
    }  # fmt: skip
    found = {}
    for name, (data, _) in sent.items():
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
            except OSError as error:
                assert error.errno in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN), error
                answer = b""  # it was closed while we wrote
        found[name] = int(answer[9:12]) if b'"error"' in answer else answer[:60] and -1
    expected = {name: status for name, (_, status) in sent.items()}
    wrong = {name: status for name, status in found.items() if status not in (expected[name], b"")}
    suite.check(f"{len(sent)} kinds of bytes that are no request", not wrong, wrong or found)


def requests_that_are_no_call(suite: Suite, ground: Ground, server: Served) -> None:
    _, answer = server.post("pause", lease_ms=60_000)
    lease = answer["lease"]
    plan = ground.plan()
    group = ground.staging / f"{0:020}"
    sources = [[each["base_offset"], each["size_bytes"]] for each in plan["sources"][: len(plan["groups"][0])]]
    right = {"topic": "t", "partition": 0, "lease": lease, "sources": sources, "staged": str(group), "manifest_crc": 1}
    (ground.beside / "link").symlink_to(ground.directory)
    elsewhere = ground.directory / "elsewhere"
    shutil.copytree(group, elsewhere)
    rows: list[tuple[str, str, Any, int, str]] = [
        ("DELETE", "install", None, 405, "method DELETE is not allowed; use POST"),
        ("GET", "install", None, 405, "method GET is not allowed; use POST"),
        ("PUT", "pause", {}, 405, "method PUT is not allowed; use POST"),
        ("POST", "../../etc/passwd", {}, 404, "/etc/passwd"),
        ("POST", "install", b"{", 400, "expected a JSON object"),
        ("POST", "install", right | {"manifest_crc": 2**32}, 422, "found 4294967296"),
        ("POST", "install", right | {"topic": "../t"}, 409, "of ../t-0 has expired or was released"),
        ("POST", "install", right | {"topic": "\0"}, 422, r"found '\x00'"),
        ("POST", "install", right | {"partition": -1}, 422, "found -1"),
        ("POST", "install", right | {"lease": "0"}, 409, "lease 0 of"),
        ("POST", "install", right | {"sources": []}, 422, "sources: expected 1 or more members, found 0"),
        ("POST", "install", right | {"sources": [[0, 1]]}, 409, "[(0, 1)]"),
        ("POST", "install", right | {"sources": [[0, "x"]]}, 422, "'x'"),
        ("POST", "install", right, 422, "expected a manifest with CRC 0x1"),
        ("POST", "install", right | {"staged": "/"}, 422, "found '/'"),
        ("POST", "install", right | {"staged": "/etc"}, 422, "found '/etc'"),
        ("POST", "install", right | {"staged": str(ground.data / "t-0")}, 422, "/t-0'"),
        ("POST", "install", right | {"staged": str(ground.beside)}, 422, "expected a directory in"),
        ("POST", "install", right | {"staged": f"{group}/../../../elsewhere"}, 422, "/../../../elsewhere'"),
        ("POST", "install", right | {"staged": f"{ground.beside}/link/elsewhere"}, 422, "/link/elsewhere'"),
        ("POST", "install", right | {"staged": str(ground.beside) + "x/plan"}, 422, "x/plan'"),
        ("POST", "install", right | {"staged": str(group / "none")}, 422, "none/manifest.json"),
        ("POST", "install", right | {"staged": "x" * 100_000}, 422, "characters, found 100000"),
        ("POST", "resume", {"topic": "t", "partition": 0, "lease": lease, "clean_up_to": 10**9}, 422, "1000000000"),
        ("POST", "pause", {"topic": "t", "partition": 0, "lease_ms": 10**9}, 422, "found 1000000000"),
    ]
    wrong = []
    for method, name, body, status, words in rows:
        found = server.ask(method, f"/v1/cleaning/{name}", body)
        if found[0] != status or words not in found[1].get("error", ""):
            wrong.append(f"{method} {name} {str(body)[:80]}: {found}")
    web = server.ask("POST", "/v1/cleaning/pause", {}, Origin="http://localhost")
    if web[0] != 403:
        wrong.append(f"a web page: {web}")
    suite.equal(f"{len(rows) + 1} requests that are no call get their status, and words that name the value", [], wrong)
    server.post("resume", lease=lease)
    (ground.beside / "link").unlink()
    shutil.rmtree(elsewhere)


@contextmanager
def meeting(meet: Callable[[socket.socket], None]) -> Iterator[str]:
    """Return the address of a server that handles each connection with `meet`, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    meet(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join()


def answering(data: bytes) -> AbstractContextManager[str]:
    """Return the address of a server that answers every client with `data`."""

    def say(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(data)

    return meeting(say)


def answer(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


def addresses(suite: Suite, ground: Ground, server: Served) -> None:
    """Other ends than the server's admin listener."""
    others: Mapping[str, bytes] = {
        "nobody who says anything": b"",
        "a web server": answer("200 OK", b"<html>"),
        "a web server that knows nothing": answer("404 Not Found", b"nothing here"),
        "a service with lists": answer("200 OK", b"[1]"),
        "a service with other objects": answer("200 OK", b'{"data_dir": 7}'),
        "a service with other errors": answer("404 Not Found", b'{"message": "no"}'),
        "a header without end": b"HTTP/1.1 200 OK\r\nA: " + b"x" * (1 << 20),
        "half an answer": answer("200 OK", b'{"data_dir": "/d"}')[:-3],
        "another broker's": answer("200 OK", json.dumps({"data_dir": "/srv/data"}).encode()),
    }
    wrong = []

    def judge(name: str, address: str) -> None:
        code, text = Driver("install", ground.data, "--admin", address).wait()
        if code != 1 or address not in text or "expected" not in text or "Traceback" in text:
            wrong.append(f"{name}: {code} {text[-300:]}")

    for name, data in others.items():
        with answering(data) as address:
            judge(name, address)
    for name, address in (
        ("nobody listens", "127.0.0.1:1"),
        ("the listener of clients", server.bootstrap),
        ("no number", "127.0.0.1:port"),
        ("no address", "::"),
        ("no such host", "no-such-host.invalid:9644"),
    ):
        judge(name, address)
    suite.equal(f"{len(others) + 5} wrong admin addresses are refused by name, exit code 1", [], wrong)


def losing(server: Served, name: str, *, at: int, asks: bool) -> AbstractContextManager[str]:
    """Return the address of a way to the admin listener on which call number `at` of this name has no answer.

    Args:
        asks: Whether the server gets that call.
    """
    host, _, port = server.admin.rpartition(":")
    calls = 0

    def pass_on(connection: socket.socket) -> None:
        nonlocal calls
        request = whole_request(connection)
        is_lost = f"/{name}".encode() in request.partition(b"\r\n")[0]
        calls += is_lost
        is_lost = is_lost and calls == at + 1
        if is_lost and not asks:
            return
        with socket.create_connection((host, int(port))) as onward:
            onward.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            heard = b"".join(iter(lambda: onward.recv(1 << 16), b""))
        if not is_lost:
            connection.sendall(heard)

    return meeting(pass_on)


def whole_request(connection: socket.socket) -> bytes:
    data = b""
    while True:
        head, end, body = data.partition(b"\r\n\r\n")
        length = [int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        if end and len(body) >= sum(length):
            return data
        if not (more := connection.recv(1 << 16)):
            return data
        data += more


def lost_calls(suite: Suite, ground: Ground, server: Served) -> None:
    """Break the connection during a call: the driver cannot know the result, and is called again."""
    wrong, count = list[str](), 0
    for name, at in (("status", 0), ("install", 0), ("install", 1), ("resume", 0)):
        for asks in (False, True):
            count += 1
            server.kill()
            ground.restore()
            server.start()
            with losing(server, name, at=at, asks=asks) as address:
                code, text = Driver("install", ground.data, "--admin", address).wait()
            again = Driver("install", ground.data, "--admin", server.admin).wait()
            if code != (1 if name == "status" else 6) or address not in text or again[0] != 0:
                wrong.append(f"{name} {at} {asks}: {code} {text}, again {again}")
            if values_of(server.bootstrap) != ground.values:
                wrong.append(f"{name} {at} {asks}: newest values are lost")
    suite.equal(
        f"{count} calls whose connection breaks before or after the request: a second call completes", [], wrong
    )
