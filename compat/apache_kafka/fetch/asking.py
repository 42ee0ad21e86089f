"""Fetches as plain tuples, and one broker that gets them."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Any, NamedTuple

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.server.client.connection import Client

TOPIC_IDS = 13
HEADER_BYTES = 61
TIMEOUT_S = 30.0
PAUSE_S = 0.02
TRANSACTION_TIMEOUT_MS = 900_000


class Want(NamedTuple):
    """One partition of a fetch; all topics have one or more partitions from 0 on."""

    topic: str
    offset: int
    max_bytes: int
    partition: int = 0
    leader_epoch: int = -1
    last_fetched_epoch: int = -1


class Ask(NamedTuple):
    """A fetch."""

    wants: tuple[Want, ...]
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    committed: bool = False
    version: int = 12
    wait_ms: int = 250
    forget: tuple[tuple[str, int], ...] = ()


class Given(NamedTuple):
    """The answer for one partition; bytes are those of whole batches."""

    topic: str
    partition: int
    error: str
    records_bytes: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_from: tuple[int, ...]
    diverging_epoch: tuple[int, int]


class Answer(NamedTuple):
    error: str
    partitions: tuple[Given, ...]


class Side:
    """One broker, with a connection for fetches and another for all else."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.bootstrap = bootstrap
        self._address = host, int(port)
        self._fetches = Client(*self._address, timeout_s=TIMEOUT_S)
        self._others = Client(*self._address, timeout_s=TIMEOUT_S)
        self._ids: dict[str, bytes] = {}
        self._producers: dict[str, tuple[int, int]] = {}
        self._sequences: dict[tuple[str, str], int] = {}
        self.session: tuple[int, int] = (0, -1)
        """The session id and the next epoch; without a session every fetch is a full one."""

    # Fetching

    def ask(self, ask: Ask) -> tuple[Answer, float]:
        """Return the answer, and the milliseconds that it took."""
        begun_s = time.perf_counter()
        self.send(ask)
        answer = self.receive(ask)
        return answer, (time.perf_counter() - begun_s) * 1000

    def send(self, ask: Ask) -> None:
        session_id, epoch = self.session
        self._fetches.send(
            FetchRequest(
                max_wait_ms=ask.wait_ms,
                min_bytes=ask.min_bytes,
                max_bytes=ask.max_bytes,
                isolation_level=int(ask.committed),
                session_id=session_id,
                session_epoch=epoch,
                topics=tuple(self._topic(want, ask.version) for want in ask.wants),
                forgotten_topics_data=tuple(self._forgotten(*one, ask.version) for one in ask.forget),
            ),
            ask.version,
        )

    def receive(self, ask: Ask) -> Answer:
        answer = self._fetches.receive()
        if self.session[1] >= 0:
            self.session = answer.session_id, self.session[1] + 1
        names = {topic_id: name for name, topic_id in self._ids.items()}
        rows = [
            given(names.get(topic.topic_id, "?") if ask.version >= TOPIC_IDS else topic.topic, row)
            for topic in answer.responses
            for row in topic.partitions
        ]
        return Answer(ErrorCode(answer.error_code).name, tuple(sorted(rows)))

    def open_session(self) -> None:
        """Have the next fetch open a session."""
        self.session = (0, 0)

    def leave_session(self) -> None:
        self.session = (0, -1)

    def _topic(self, want: Want, version: int) -> FetchTopic:
        partition = FetchPartition(
            partition=want.partition,
            fetch_offset=want.offset,
            partition_max_bytes=want.max_bytes,
            current_leader_epoch=want.leader_epoch,
            last_fetched_epoch=want.last_fetched_epoch,
        )
        if version < TOPIC_IDS:
            return FetchTopic(topic=want.topic, partitions=(partition,))
        return FetchTopic(topic_id=self._id(want.topic), partitions=(partition,))

    def _forgotten(self, topic: str, partition: int, version: int) -> ForgottenTopic:
        if version < TOPIC_IDS:
            return ForgottenTopic(topic=topic, partitions=(partition,))
        return ForgottenTopic(topic_id=self._id(topic), partitions=(partition,))

    def _id(self, topic: str) -> bytes:
        return self._ids.get(topic, bytes(range(16)))

    # Making what is fetched

    def create(self, topic: str, partitions: int = 1, /, **configs: str) -> None:
        """Make a topic and wait until it is led."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            configs=tuple(CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()),
        )
        self._others.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=10_000))
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        while (row := self._others.ask(asked).topics[0]).error_code or any(one.error_code for one in row.partitions):
            time.sleep(PAUSE_S)
        self._ids[topic] = row.topic_id
        ready = Ask(tuple(Want(topic, 0, 1, partition) for partition in range(partitions)), min_bytes=0)
        while any(row.error != "NONE" for row in self.ask(ready)[0].partitions):
            time.sleep(PAUSE_S)

    def delete(self, topic: str) -> None:
        self._others.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name=topic),), timeout_ms=10_000))

    def produce(self, topic: str, sizes: Iterable[int], *, partition: int = 0, timestamps: Iterable[int] = ()) -> None:
        """Produce a batch of one record for each value size, with these times, or now."""
        times = iter(timestamps)
        for size in sizes:
            now_ms = int(time.time() * 1000)
            self._append(topic, partition, None, build_batch([(0, next(times, now_ms), b"k", bytes(size), ())]))

    def begin(self, transactional_id: str, topic: str) -> None:
        """Open a transaction with `topic` in it."""
        while self._others.ask(FindCoordinatorRequest(key=transactional_id, key_type=1), 3).error_code:
            time.sleep(PAUSE_S)
        asked = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, producer_id=-1
        )
        while (given := self._others.ask(asked, 4)).error_code:
            time.sleep(PAUSE_S)
        self._producers[transactional_id] = given.producer_id, given.producer_epoch
        self._sequences[transactional_id, topic] = 0
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=(0,)),),
        )
        while any(
            row.partition_error_code
            for found in self._others.ask(adding, 3).results_by_topic_v3_and_below
            for row in found.results_by_partition
        ):
            time.sleep(PAUSE_S)

    def produce_in(self, transactional_id: str, topic: str, sizes: Iterable[int]) -> None:
        """Produce batches in the open transaction."""
        producer_id, epoch = self._producers[transactional_id]
        for size in sizes:
            sequence = self._sequences[transactional_id, topic]
            batch = build_batch(
                [(0, int(time.time() * 1000), b"k", bytes(size), ())],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
            self._append(topic, 0, transactional_id, batch)
            self._sequences[transactional_id, topic] = sequence + 1

    def end(self, transactional_id: str, *, commit: bool) -> None:
        """End the transaction. Apache Kafka writes the markers after its answer."""
        producer_id, epoch = self._producers[transactional_id]
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        while self._others.ask(request, 3).error_code:
            time.sleep(PAUSE_S)

    def _append(self, topic: str, partition: int, transactional_id: str | None, batch: bytes | bytearray) -> None:
        data = PartitionProduceData(index=partition, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=(TopicProduceData(name=topic, partition_data=(data,)),),
        )
        answer: Any = self._others.ask(request, 11)
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise RuntimeError(f"producing to {topic} at {self.bootstrap}: {ErrorCode(code).name}")

    def close(self) -> None:
        with closing(self._fetches), closing(self._others):
            pass


def given(topic: str, row: PartitionData) -> Given:
    """Return the answer for one partition, without Apache Kafka's data beyond whole batches.

    That is a part of the batch that a limit cuts, and aborted transactions after the last whole batch.
    """
    records = row.records or b""
    assert isinstance(records, bytes | memoryview)
    end = end_offset = 0
    while end + HEADER_BYTES <= len(records):
        base_offset, length = struct.unpack_from(">qi", records, end)
        if end + 12 + length > len(records):
            break
        end_offset = base_offset + struct.unpack_from(">i", records, end + 23)[0] + 1
        end += 12 + length
    return Given(
        topic,
        row.partition_index,
        ErrorCode(row.error_code).name,
        end,
        row.high_watermark,
        row.last_stable_offset,
        row.log_start_offset,
        tuple(sorted(one.first_offset for one in row.aborted_transactions or () if one.first_offset < end_offset)),
        (row.diverging_epoch.epoch, row.diverging_epoch.end_offset),
    )
