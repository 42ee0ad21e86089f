"""M connections of one kind in a process of their own, each in a closed loop: what they wait for, and for how long."""

import multiprocessing
import selectors
import statistics
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event

from ...support.clients.raw import RawConnection, frame, produce_body

PRODUCE, FETCH, OFFSET_COMMIT, FIND_COORDINATOR = (0, 7), (1, 11), (8, 7), (10, 1)
"""The newest versions without tagged fields."""
GROUPS = 20
COORDINATORS_COME = (14, 15, 16)
"""Errors of a group's first request: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
FETCH_WAIT_MS = 500
SILENCE_S = 60.0

_BATCH_HEAD = struct.Struct(">qi11xi")
"""The base offset, the length and, after some skipped bytes, the last offset delta of a batch."""
_OVERHEAD_BYTES = 12


class NotYetError(Exception):
    """The group has no coordinator yet."""


@dataclass
class Client:
    """One connection, and its state."""

    number: int
    connection: RawConnection
    sent_s: float = 0.0
    answers: int = 0
    session_id: int = 0
    epoch: int = 0
    offset: int = 0
    received: bytearray = field(default_factory=bytearray)

    @property
    def topic(self) -> str:
        return topic_of(self.number)


@dataclass(frozen=True)
class Waited:
    """The results of all connections of a kind."""

    answers_a_s: float
    p50_ms: float
    p99_ms: float
    longest_ms: float
    fewest_part: float
    """Answers of the connection with the fewest, divided by those of the median connection."""


def topic_of(number: int) -> str:
    return f"mixed-{number}"


def group_of(number: int) -> str:
    return f"mixed-{number % GROUPS}"


def find_coordinator(client: Client) -> bytes:
    """Return the body of a FindCoordinator request for the client's group."""
    return _text(group_of(client.number)) + b"\0"


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(f">h{len(encoded)}s", len(encoded), encoded)


def produce(client: Client, records: bytes) -> bytes:
    return frame(*PRODUCE, 1, produce_body(client.topic, 0, records))


def produced(client: Client, answer: memoryview) -> None:
    at = 4 + 4 + 2 + len(client.topic) + 4 + 4
    (error_code,) = struct.unpack_from(">h", answer, at)
    _expect_none(client, error_code)


def fetch(client: Client, _: bytes) -> bytes:
    body = struct.pack(">iiiib", -1, FETCH_WAIT_MS, 1, 1 << 20, 0) + struct.pack(">ii", client.session_id, client.epoch)
    body += struct.pack(">i", 1) + _text(client.topic)
    body += struct.pack(">iiiqqi", 1, 0, -1, client.offset, -1, 1 << 20)
    return frame(*FETCH, 1, body + struct.pack(">i", 0) + _text(""))


def fetched(client: Client, answer: memoryview) -> None:
    _, error_code, session_id, topics = struct.unpack_from(">ihii", answer, 4)
    _expect_none(client, error_code)
    client.session_id = session_id
    client.epoch += 1
    if not topics:
        return
    at = 4 + 14 + 2 + len(client.topic) + 4
    _, error_code, _, _, _, _, _, size_bytes = struct.unpack_from(">ihqqqiii", answer, at)
    _expect_none(client, error_code)
    at += 42
    end = at + size_bytes
    while at < end:
        base_offset, length, last_offset_delta = _BATCH_HEAD.unpack_from(answer, at)
        client.offset = base_offset + last_offset_delta + 1
        at += _OVERHEAD_BYTES + length


def commit(client: Client, _: bytes) -> bytes:
    body = _text(group_of(client.number)) + struct.pack(">i", -1) + _text("") + struct.pack(">h", -1)
    body += struct.pack(">i", 1) + _text(client.topic) + struct.pack(">iiqi", 1, 0, 5, -1) + struct.pack(">h", -1)
    return frame(*OFFSET_COMMIT, 1, body)


def committed(client: Client, answer: memoryview) -> None:
    at = 4 + 4 + 4 + 2 + len(client.topic) + 4 + 4
    (error_code,) = struct.unpack_from(">h", answer, at)
    if error_code in COORDINATORS_COME:
        raise NotYetError(client.topic)
    _expect_none(client, error_code)


KINDS: dict[str, tuple[Callable[[Client, bytes], bytes], Callable[[Client, memoryview], None]]] = {
    "produce": (produce, produced),
    "fetch": (fetch, fetched),
    "commit": (commit, committed),
}
"""Kind -> the function that returns the next request, and the function that reads an answer."""


def _expect_none(client: Client, error_code: int) -> None:
    if error_code:
        raise RuntimeError(f"{client.topic}: error code {error_code}")


def run(
    kind: str,
    port: int,
    connections: int,
    records: bytes,
    counts: Event,
    ends: Event,
    results: "multiprocessing.Queue[Waited | str]",
) -> None:
    """Ask until it `ends`; what was answered before it `counts` warms up."""
    try:
        results.put(_run(kind, port, connections, records, counts, ends))
    except Exception as error:  # noqa: BLE001 -- reported by the suite
        results.put(f"{kind}: {type(error).__name__}: {error}")


def _run(kind: str, port: int, connections: int, records: bytes, counts: Event, ends: Event) -> Waited:
    request, answered = KINDS[kind]
    clients = [Client(number, RawConnection("127.0.0.1", port, SILENCE_S)) for number in range(connections)]
    waits_ms: list[float] = []
    begun_s: float | None = None
    with selectors.DefaultSelector() as selector:
        for client in clients:
            client.connection.socket.setblocking(False)
            selector.register(client.connection.socket, selectors.EVENT_READ, client)
            _send(client, request(client, records))
        heard_s = time.monotonic()
        while not ends.is_set():
            for key, _ in selector.select(0.2):
                client = key.data
                answer = _answer_of(client)
                if answer is None:
                    continue
                heard_s = time.monotonic()
                answered(client, answer)
                if begun_s is not None:
                    waits_ms.append((heard_s - client.sent_s) * 1000)
                    client.answers += 1
                _send(client, request(client, records))
            if begun_s is None and counts.is_set():
                begun_s = time.monotonic()
            if time.monotonic() - heard_s > SILENCE_S:
                raise TimeoutError(f"no answer for {SILENCE_S:.0f} s")
    now_s = time.monotonic()
    waiting_ms = [(now_s - client.sent_s) * 1000 for client in clients]
    for client in clients:
        client.connection.close()
    assert begun_s is not None
    quantiles = statistics.quantiles(waits_ms, n=100)
    each = [client.answers for client in clients]
    return Waited(
        len(waits_ms) / (now_s - begun_s),
        quantiles[49],
        quantiles[98],
        max(*waits_ms, *waiting_ms),
        min(each) / max(statistics.median(each), 1),
    )


def _send(client: Client, request: bytes) -> None:
    client.sent_s = time.monotonic()
    client.connection.socket.sendall(request)  # it is small, and the one before has been answered


def _answer_of(client: Client) -> memoryview | None:
    """Return the answer without its size, if it is complete."""
    data = client.connection.socket.recv(1 << 20)
    if not data:
        raise ConnectionError("the broker closed a connection")
    client.received += data
    if len(client.received) < 4:
        return None
    (size_bytes,) = struct.unpack_from(">i", client.received)
    if len(client.received) < 4 + size_bytes:
        return None
    answer = memoryview(bytes(client.received))[4 : 4 + size_bytes]
    client.received.clear()
    return answer
