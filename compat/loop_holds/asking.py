"""A broker filled for large requests, and a connection that sends frames and throws answers away."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.server.client.connection import Client

from .values import BIG_PARTITIONS, GROUPS, TOPICS, World

TIMEOUT_S = 300.0
PAUSE_S = 0.05
PIPELINED = 200
_THROWN_AWAY = bytearray(1 << 20)


def address(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def client(bootstrap: str) -> Client:
    return Client(*address(bootstrap), timeout_s=TIMEOUT_S)


class Sender:
    """A connection that sends frames, and reconnects after the broker has closed it."""

    def __init__(self, bootstrap: str) -> None:
        self._address = address(bootstrap)
        self._connect()
        self._buffer = _THROWN_AWAY
        self._closed = False

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address, TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frames: bytes, answers: int = 1) -> bool:
        """Send one or several frames and read all their answers; False if the broker closed the connection."""
        reading = threading.Thread(
            target=self._read, args=(answers,)
        )  # a large send may block until the answers are read
        self._closed = False
        reading.start()
        try:
            self._socket.sendall(frames)
        except (ConnectionError, TimeoutError):
            self._closed = True
        reading.join()
        if self._closed:
            self._socket.close()
            self._connect()
        return not self._closed

    def _read(self, answers: int) -> None:
        try:
            for _ in range(answers):
                self.receive()
        except (ConnectionError, TimeoutError):
            self._closed = True

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self, keep: int = 0) -> bytes:
        """Read an answer and throw it away, but for its first bytes. ConnectionError if there is none."""
        head = self._exactly(4)
        left = struct.unpack(">i", head)[0]
        kept = self._exactly(min(keep, left))
        left -= len(kept)
        while left:
            got = self._socket.recv_into(self._buffer, min(left, len(self._buffer)))
            if not got:
                raise ConnectionError("closed by the broker")
            left -= got
        return kept

    def _exactly(self, size: int) -> bytes:
        data = self._socket.recv(size, socket.MSG_WAITALL) if size else b""
        if len(data) < size:
            raise ConnectionError("closed by the broker")
        return data

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def small_batch(now_ms: int | None = None, **options: Any) -> bytes:
    at_ms = int(time.time() * 1000) if now_ms is None else now_ms
    return bytes(build_batch([(0, at_ms, b"k", b"v", ())], **options))


def in_turn(at: Client, requests: Iterable[Any], version: int | None = None, most: int = PIPELINED) -> list[Any]:
    """Return the answers to many requests, some of which are always on their way."""
    answers, waiting = [], 0
    for request in requests:
        at.send(request, version)
        waiting += 1
        if waiting == most:
            answers += [at.receive() for _ in range(waiting)]
            waiting = 0
    return answers + [at.receive() for _ in range(waiting)]


def create_topics(at: Client, topics: dict[str, int], **configs: str) -> None:
    """Create topics, by their numbers of partitions, and wait until they are led."""
    wanted = tuple(
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=tuple(
                CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
            ),
        )
        for name, partitions in topics.items()
    )
    answer = at.ask(CreateTopicsRequest(topics=wanted, timeout_ms=60_000))
    if failed := [row for row in answer.topics if row.error_code]:
        raise RuntimeError(f"not created: {failed[:3]}")
    first = next(iter(topics))
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=first),), allow_auto_topic_creation=False)
    retried(lambda: at.ask(asked), lambda answer: not answer.topics[0].error_code)


def topic_id(at: Client, name: str) -> bytes:
    asked = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    return bytes(at.ask(asked).topics[0].topic_id)


def retried(do: Callable[[], Any], is_done: Callable[[Any], bool], timeout_s: float = 60.0) -> Any:
    until_s = time.monotonic() + timeout_s
    while not is_done(answer := do()):
        if time.monotonic() > until_s:
            raise TimeoutError(f"still: {str(answer)[:300]}")
        time.sleep(PAUSE_S)
    return answer


def find(at: Client, key: str, key_type: int = 0) -> None:
    """Have the coordinator's topic made, and led."""
    retried(lambda: at.ask(FindCoordinatorRequest(key=key, key_type=key_type), 3), lambda answer: not answer.error_code)


def commits(groups: Iterable[str], topic: str, partitions: range = range(1)) -> Iterable[OffsetCommitRequest]:
    """Yield an offset of each partition for each group, for version 9 and before."""
    offsets = tuple(OffsetCommitRequestPartition(partition_index=number, committed_offset=1) for number in partitions)
    for group in groups:
        yield OffsetCommitRequest(group_id=group, topics=(OffsetCommitRequestTopic(name=topic, partitions=offsets),))


def commit_for_groups(at: Client, groups: Iterable[str], topic: str, partitions: range = range(1)) -> None:
    find(at, "g0000000")
    (first, *others) = commits(groups, topic, partitions)
    retried(lambda: at.ask(first, 9), lambda answer: not answer.topics[0].partitions[0].error_code)
    for answer in in_turn(at, others, 9):
        if code := answer.topics[0].partitions[0].error_code:
            raise RuntimeError(f"a commit was answered {code}")


def begin_transaction_of(at: Client, transactional_id: str, timeout_ms: int = 60_000) -> tuple[int, int]:
    find(at, transactional_id, 1)
    asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, producer_id=-1)
    answer = retried(lambda: at.ask(asked, 4), lambda answer: not answer.error_code)
    return answer.producer_id, answer.producer_epoch


def fill(bootstrap: str) -> World:
    """Make what `values.Known` names."""
    with client(bootstrap) as at:
        create_topics(at, {"big": BIG_PARTITIONS} | {f"t{number:07}": 1 for number in range(TOPICS)})
        commit_for_groups(at, (f"g{number:07}" for number in range(GROUPS)), "big")
        producer_id, producer_epoch = begin_transaction_of(at, "holds")
        return World(topic_id(at, "big"), producer_id, producer_epoch, small_batch())
