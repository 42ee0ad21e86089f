"""Members of classic groups that send nothing but heartbeats, in the rhythm of a client."""

import multiprocessing
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any, Self

from ottla.protocol.connection import encode_request, parse_response
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.server.client.connection import api_of

RHYTHM_S = 3.0
"""Clients' default of `heartbeat.interval.ms`."""
SESSION_MS = 1_800_000
TIMEOUT_S, PAUSE_S = 60.0, 0.05
TOPIC = "committed"
"""The topic of the commits; the caller creates it."""
VERSION = 3
"""Version of each request."""
NO_TOPICS = struct.pack(">hii", 0, 0, -1)
"""A subscription of consumers, in version 0."""
HOLDING = {"ottla.hold.heartbeats": "true", "group.initial.rebalance.delay.ms": "0"}
"""Options of a broker that holds their heartbeats."""


class Members:
    """Members, each the only one of its group, on a connection of its own; a context manager.

    The broker needs `group.initial.rebalance.delay.ms` of 0. The name of the client's software allows it to hold their heartbeats.
    """

    def __init__(self, bootstrap: str, count: int, prefix: str = "beats") -> None:
        host, _, port = bootstrap.rpartition(":")
        self._members: list[tuple[socket.socket, bytes]] = []
        """The connection and the frame of heartbeats of each."""
        self._commits: list[bytes] = []
        self._waiting = set[int]()
        """Members whose last heartbeat has no answer."""
        self._poller = selectors.DefaultSelector()
        try:
            for number in range(count):
                connection = socket.create_connection((host, int(port)), TIMEOUT_S)
                self._members.append((connection, b""))
                heartbeat, commit = _joined(connection, f"{prefix}-{number}")
                self._members[number] = connection, heartbeat
                self._commits.append(commit)
                self._poller.register(connection, selectors.EVENT_READ, number)
        except BaseException:
            self.close()
            raise

    def beat(self, for_s: float) -> int:
        """Send heartbeats for this time, evenly in the rhythm; return how many. Raises RuntimeError for an error in an answer."""
        begun_s, sent, count = time.perf_counter(), 0, len(self._members)
        order = deque(range(count))
        while (now_s := time.perf_counter() - begun_s) < for_s:
            if sent <= now_s * count / RHYTHM_S:
                number = order[0]
                order.rotate(-1)
                sent += 1
                if number not in self._waiting:  # as clients do
                    connection, frame = self._members[number]
                    connection.sendall(frame)
                    self._waiting.add(number)
            else:
                self._receive(sent * RHYTHM_S / count - now_s)
        return sent

    def commit(self) -> list[float]:
        """Commit an offset with each member, one after the other; return the seconds until each answer.

        A member whose heartbeat has no answer yet gets that first. Raises RuntimeError for an error in an answer.
        """
        took_s = []
        for number, (connection, _) in enumerate(self._members):
            begun_s = time.perf_counter()
            connection.sendall(self._commits[number])
            if number in self._waiting:
                self._take_heartbeat(number)
            answer = parse_response(api_of(OffsetCommitRequest()), VERSION, _answer(connection))[1]
            took_s.append(time.perf_counter() - begun_s)
            if error_code := answer.topics[0].partitions[0].error_code:
                raise RuntimeError(f"a commit was answered with error {error_code}")
        return took_s

    def settle(self) -> None:
        """Receive all answers."""
        until_s = time.perf_counter() + TIMEOUT_S
        while self._waiting:
            if time.perf_counter() > until_s:
                raise TimeoutError(f"{len(self._waiting)} heartbeats were not answered within {TIMEOUT_S:g} s")
            self._receive(PAUSE_S)

    def _receive(self, for_s: float) -> None:
        for key, _ in self._poller.select(for_s):
            self._take_heartbeat(key.data)

    def _take_heartbeat(self, number: int) -> None:
        """Receive the answer to a member's heartbeat."""
        answer = _answer(self._members[number][0])
        error_code = parse_response(api_of(HeartbeatRequest()), VERSION, answer)[1].error_code
        if error_code:
            raise RuntimeError(f"a heartbeat was answered with error {error_code}")
        self._waiting.discard(number)

    def close(self) -> None:
        self._poller.close()
        for connection, _ in self._members:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def beside(bootstrap: str, count: int) -> Iterator[None]:
    """Let a process of its own send the heartbeats of as many members during the context, which begins when they are held."""
    context = multiprocessing.get_context("spawn")
    begins, ends = context.Event(), context.Event()
    process = context.Process(target=_beat_beside, args=(bootstrap, count, begins, ends))
    process.start()
    try:
        while not begins.wait(PAUSE_S):
            if not process.is_alive():
                raise RuntimeError(f"the members ended with {process.exitcode}")
        yield
        if not process.is_alive():
            raise RuntimeError(f"the members ended with {process.exitcode}")
    finally:
        ends.set()
        process.join(TIMEOUT_S)


def _beat_beside(bootstrap: str, count: int, begins: Event, ends: Event) -> None:
    with Members(bootstrap, count, "beside") as members:
        members.beat(2 * RHYTHM_S)
        begins.set()
        while not ends.is_set():
            members.beat(RHYTHM_S)


def _joined(connection: socket.socket, group_id: str) -> tuple[bytes, bytes]:
    """Join a group; return the frames of its heartbeats and of its commits."""
    _ask(connection, ApiVersionsRequest(client_software_name="librdkafka", client_software_version="1"))
    until_s = time.perf_counter() + TIMEOUT_S
    while _ask(connection, FindCoordinatorRequest(key=group_id)).error_code:  # the first makes the topic
        if time.perf_counter() > until_s:
            raise TimeoutError(f"no coordinator of {group_id} within {TIMEOUT_S:g} s")
        time.sleep(PAUSE_S)
    protocol = JoinGroupRequestProtocol(name="range", metadata=NO_TOPICS)
    joining = JoinGroupRequest(
        group_id=group_id, session_timeout_ms=SESSION_MS, rebalance_timeout_ms=SESSION_MS,
        protocol_type="consumer", protocols=(protocol,),
    )  # fmt: skip
    joined = _ask(connection, joining)
    known = {"group_id": group_id, "generation_id": joined.generation_id, "member_id": joined.member_id}
    synced = _ask(connection, SyncGroupRequest(**known))
    if error_code := joined.error_code or synced.error_code:
        raise RuntimeError(f"joining {group_id} ended with error {error_code}")
    row = OffsetCommitRequestTopic(name=TOPIC, partitions=(OffsetCommitRequestPartition(),))
    commit = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=joined.generation_id,
        member_id=joined.member_id,
        topics=(row,),
    )
    return _frame(HeartbeatRequest(**known)), _frame(commit)


def _frame(message: Any) -> bytes:
    return encode_request(api_of(message), VERSION, 1, "compat", message)


def _ask(connection: socket.socket, message: Any) -> Any:
    connection.sendall(_frame(message))
    return parse_response(api_of(message), VERSION, _answer(connection))[1]


def _answer(connection: socket.socket) -> bytes:
    (size_bytes,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size_bytes)


def _exactly(connection: socket.socket, size_bytes: int) -> bytes:
    found = connection.recv(size_bytes, socket.MSG_WAITALL)
    if len(found) < size_bytes:
        raise ConnectionError("closed by the broker")
    return found
