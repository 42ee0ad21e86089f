"""Connections by the thousand, from one thread: opened, parked in a Fetch, counted as they are answered."""

import resource
import selectors
import socket
import struct
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ...support.brokers.process import BrokerProcess
from ...support.clients.raw import frame

FETCH = (1, 4)
FOR_LONG_MS = 600_000


class Many:
    """A number of connections to a broker; a context manager."""

    def __init__(self, broker: BrokerProcess, count: int) -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self._poller = selectors.EpollSelector()
        self.sockets = []
        for _ in range(count):
            each = socket.create_connection(("127.0.0.1", broker.port), 30)
            self.sockets.append(each)
            self._poller.register(each, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._poller.close()
        for each in self.sockets:
            each.close()

    def park(self, topic: str, offset: int) -> None:
        """Send a Fetch on each connection, for a record that does not exist yet."""
        request = frame(*FETCH, 1, fetch_body(topic, offset))
        for each in self.sockets:
            each.sendall(request)

    def answered_s(self, begin: Callable[[], None], timeout_s: float = 60) -> list[float]:
        """Call `begin`; return each connection's time from then to its answer, in order."""
        begun_s, found = time.perf_counter(), list[float]()
        begin()
        while len(found) < len(self.sockets):
            ready = self._poller.select(timeout_s)
            if not ready:
                raise RuntimeError(f"{len(found)} of {len(self.sockets)} connections were answered")
            for key, _ in ready:
                answer = key.fileobj
                assert isinstance(answer, socket.socket)
                if len(answer.recv(64 << 10)) < 4:
                    raise RuntimeError("a connection was closed")
                found.append(time.perf_counter() - begun_s)
        return found


def fetch_body(topic: str, offset: int) -> bytes:
    """Return the body of a Fetch 4."""
    name = topic.encode()
    return (
        struct.pack(">iiiib", -1, FOR_LONG_MS, 1, 1 << 20, 0)
        + struct.pack(f">ih{len(name)}s", 1, len(name), name)
        + struct.pack(">iiqi", 1, 0, offset, 1 << 20)
    )
