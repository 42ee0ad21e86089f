"""The raw client of the tests, against a server of ten lines."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from ottla.protocol.connection import encode_response, parse_request
from ottla.protocol.errors import ProtocolError
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.metadata import MetadataRequest
from support.broker.raw_client import RawClient, api_of

ANSWER = ApiVersionsResponse(api_keys=(ApiVersion(api_key=18, max_version=4),))


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    """Serve one connection with the given function, in a thread; return the port."""
    listeners: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def start(talk: Callable[[socket.socket], None]) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                talk(connection)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        port: int = listener.getsockname()[1]
        return port

    yield start
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()
    for listener in listeners:
        listener.close()


def answer(connection: socket.socket, count: int) -> None:
    with connection.makefile("rb") as stream:
        for _ in range(count):
            size = int.from_bytes(stream.read(4), "big")
            request = parse_request(memoryview(stream.read(size)))
            connection.sendall(b"".join(encode_response(request, ANSWER)))


def test_the_client_sends_a_request_and_receives_the_response(
    serve: Callable[[Callable[[socket.socket], None]], int],
) -> None:
    with RawClient("127.0.0.1", serve(lambda connection: answer(connection, 3))) as client:
        assert client.ask(ApiVersionsRequest()) == ANSWER
        client.send(ApiVersionsRequest(), 0)
        client.send(ApiVersionsRequest(), 3)
        assert [client.receive(), client.receive()] == [ANSWER, ANSWER]


def test_the_client_notices_a_connection_closed_by_the_broker(
    serve: Callable[[Callable[[socket.socket], None]], int],
) -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.recv(7)

    with RawClient("127.0.0.1", serve(hang_up)) as client:
        client.send_bytes(b"no frame")
        assert client.is_closed_by_peer()

    with RawClient("127.0.0.1", serve(lambda connection: None)) as client, pytest.raises(ConnectionError):
        client.ask(ApiVersionsRequest())


def test_the_client_notices_an_open_connection(serve: Callable[[Callable[[socket.socket], None]], int]) -> None:
    done = threading.Event()

    def stay(connection: socket.socket) -> None:
        done.wait(60)

    with RawClient("127.0.0.1", serve(stay), timeout_s=0.01) as client:
        assert not client.is_closed_by_peer()
        done.set()


def test_the_client_refuses_invalid_bytes_from_the_broker(
    serve: Callable[[Callable[[socket.socket], None]], int],
) -> None:
    def talk_nonsense(connection: socket.socket) -> None:
        connection.sendall(b"\0\0\0\x06\0\0\0\x01\0\0")

    with RawClient("127.0.0.1", serve(talk_nonsense)) as client, pytest.raises(ProtocolError):
        client.ask(ApiVersionsRequest())


def test_a_request_body_knows_its_api() -> None:
    assert [api_of(body).key for body in (MetadataRequest(), HeartbeatRequest(), ApiVersionsRequest())] == [3, 12, 18]
