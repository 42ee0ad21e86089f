"""The topics of one broker, and what is written to them."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.server.client.connection import Client

from .records import Batch, whole_batches
from .steps import DeleteRecords, EndTransaction, Place, Produce

PAUSE_S = 0.005
PATIENCE_S = 20.0
TRANSACTION_TIMEOUT_MS = 900_000
LATEST, EARLIEST = -1, -2
NO_TOPIC = bytes(range(16))
BEGAN_MS = int(time.time() * 1000)
"""The start of the run: records have the same times at both brokers."""


class Open(NamedTuple):
    """A transaction that is open."""

    producer_id: int
    epoch: int
    sequences: dict[Place, int]


class Logs:
    """The logs of one broker, by names of topics."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ids: dict[str, bytes] = {}
        self._open: dict[str, Open] = {}

    def id_of(self, topic: str) -> bytes:
        return self._ids.get(topic, NO_TOPIC)

    def name_of(self, topic_id: bytes) -> str:
        return next((name for name, known in self._ids.items() if known == topic_id), topic_id.hex())

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        """Make a topic and wait until it is led."""
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            configs=tuple(CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()),
        )
        self._client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=10_000))
        self.know(topic)
        for index in range(partitions):
            while self._listed(Place(topic, index), LATEST)[0] != "NONE":
                time.sleep(PAUSE_S)

    def know(self, topic: str) -> None:
        """Wait until the topic's partitions are led, and remember its id."""
        asked = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        while (row := self._client.ask(asked).topics[0]).error_code or any(one.error_code for one in row.partitions):
            time.sleep(PAUSE_S)
        self._ids[topic] = row.topic_id

    def coordinators(self, keys: dict[str, int]) -> None:
        """Wait until those of these keys are there, each of its type."""
        for key, kind in keys.items():
            asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
            while self._client.ask(asked, 6).coordinators[0].error_code:
                time.sleep(PAUSE_S)

    def produce(self, step: Produce) -> tuple[Any, ...]:
        begun = None
        sequence = -1
        if step.transaction is not None:
            begun = self._open.get(step.transaction) or self._begin(step.transaction)
            if step.place not in begun.sequences:
                self._add(step.transaction, begun, step.place)
            sequence = begun.sequences[step.place]
            begun.sequences[step.place] += len(step.sizes)
        time_ms = BEGAN_MS - 1000 * step.age_s
        batch = build_batch(
            [(at, time_ms, b"k%d" % at, bytes(size), ()) for at, size in enumerate(step.sizes)],
            producer_id=-1 if begun is None else begun.producer_id,
            producer_epoch=-1 if begun is None else begun.epoch,
            base_sequence=sequence,
            transactional=begun is not None,
        )
        return self.append(step.place, bytes(batch), step.transaction)

    def append(self, place: Place, batch: bytes, transaction: str | None = None) -> tuple[Any, ...]:
        data = PartitionProduceData(index=place.partition, records=batch)
        request = ProduceRequest(
            transactional_id=transaction,
            acks=-1,
            timeout_ms=10_000,
            topic_data=(TopicProduceData(name=place.topic, partition_data=(data,)),),
        )
        answer: Any = self._client.ask(request, 11)
        row = answer.responses[0].partition_responses[0]
        return ErrorCode(row.error_code).name, row.base_offset

    def end(self, step: EndTransaction) -> tuple[Any, ...]:
        """End the transaction, and wait for the markers: Apache Kafka writes them after its answer."""
        begun = self._open.pop(step.transaction, None)
        if begun is None:
            return ()
        before = {place: self._listed(place, LATEST)[1] for place in begun.sequences}
        request = EndTxnRequest(
            transactional_id=step.transaction,
            producer_id=begun.producer_id,
            producer_epoch=begun.epoch,
            committed=step.commit,
        )
        while self._client.ask(request, 3).error_code:
            time.sleep(PAUSE_S)
        for place, end in before.items():
            while self._listed(place, LATEST)[1] == end:
                time.sleep(PAUSE_S)
        return tuple((place, self._listed(place, LATEST)) for place in before)

    def delete_records(self, step: DeleteRecords) -> tuple[Any, ...]:
        row = DeleteRecordsPartition(partition_index=step.place.partition, offset=step.offset)
        topic = DeleteRecordsTopic(name=step.place.topic, partitions=(row,))
        answer = self._client.ask(DeleteRecordsRequest(topics=(topic,), timeout_ms=10_000))
        told = answer.topics[0].partitions[0]
        return ErrorCode(told.error_code).name, told.low_watermark

    def batches(self, place: Place) -> tuple[Batch, ...]:
        """Return all batches of the partition; a fetch returns those of one segment."""
        found: list[Batch] = []
        while some := self._fetched(place, found[-1].last_offset + 1 if found else 0):
            found += some
        return tuple(found)

    def _fetched(self, place: Place, offset: int) -> tuple[Batch, ...]:
        asked = FetchPartition(partition=place.partition, fetch_offset=offset, partition_max_bytes=50 << 20)
        request = FetchRequest(
            max_wait_ms=0, session_epoch=-1, topics=(FetchTopic(topic=place.topic, partitions=(asked,)),)
        )
        row = self._client.ask(request, 12).responses[0].partitions[0]
        return whole_batches(bytes(row.records or b""))

    def _listed(self, place: Place, time_ms: int) -> tuple[str, int]:
        row = ListOffsetsPartition(partition_index=place.partition, timestamp=time_ms)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=place.topic, partitions=(row,)),))
        told = self._client.ask(request, 7).topics[0].partitions[0]
        return ErrorCode(told.error_code).name, told.offset

    def _begin(self, transaction: str) -> Open:
        self.coordinators({transaction: 1})
        asked = InitProducerIdRequest(
            transactional_id=transaction, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, producer_id=-1
        )
        while (given := self._client.ask(asked, 4)).error_code:
            time.sleep(PAUSE_S)
        begun = self._open[transaction] = Open(given.producer_id, given.producer_epoch, {})
        return begun

    def _add(self, transaction: str, begun: Open, place: Place) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction,
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=place.topic, partitions=(place.partition,)),),
        )
        while any(
            row.partition_error_code
            for found in self._client.ask(request, 3).results_by_topic_v3_and_below
            for row in found.results_by_partition
        ):
            time.sleep(PAUSE_S)
        begun.sequences[place] = 0
