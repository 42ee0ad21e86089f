"""A transactional producer made of raw requests; the test chooses what it sends, and in which version.

    producer = TransactionalClient(client, "t-1", version=2)
    producer.begin()
    producer.produce("orders", ("k", "v"))
    producer.end(commit=True)

It counts sequences and follows the broker's epochs, as clients do; it retries nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.runtime.clock import wall_time_ms
from support.broker.raw_client import RawClient
from support.logs.batches import Pair, batch

# Versions of the requests that clients of a transaction version send: Produce, EndTxn, TxnOffsetCommit.
OLD, NEW = (11, 4, 4), (12, 5, 5)


class TransactionalClient:
    """One producer. `version` is its transaction version: 0 adds partitions by request."""

    def __init__(self, client: RawClient, transactional_id: str, *, version: int, timeout_ms: int = 60_000) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.is_new = version >= 2
        self.timeout_ms = timeout_ms
        self.produce_version, self.end_version, self.commit_version = NEW if self.is_new else OLD
        self.producer_id = -1
        self.epoch = -1
        self.sequences: Counter[tuple[str, int]] = Counter()

    def begin(self) -> None:
        """Send InitProducerId, which fences the earlier producer; send it again if that had an open transaction."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        answer = self.client.ask(request, 4)
        if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            # The open transaction of the earlier producer is aborted now.
            answer = self.client.ask(request, 4)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        self._follow(answer.producer_id, answer.producer_epoch)

    def _follow(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.sequences.clear()

    def add(self, topic: str, *partitions: int) -> ErrorCode:
        """Send AddPartitionsToTxn."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=topic, partitions=partitions),),
        )
        answer = self.client.ask(request, 3)
        (row,) = answer.results_by_topic_v3_and_below
        return ErrorCode(row.results_by_partition[0].partition_error_code)

    def add_group(self, group_id: str) -> ErrorCode:
        """Send AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        return ErrorCode(self.client.ask(request, 3).error_code)

    def records(self, *pairs: Pair, at: tuple[str, int], **options: Any) -> memoryview:
        """Return the producer's next batch for a partition; its sequences count as sent."""
        fields = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self.sequences[at],
            "transactional": True,
            "timestamp": wall_time_ms(),
            **options,
        }
        self.sequences[at] += len(pairs)
        return memoryview(batch(*pairs, **fields))

    def request(self, batches: dict[tuple[str, int], memoryview], **fields: Any) -> ProduceRequest:
        """Return a Produce with one batch for each (topic, partition)."""
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, index), records in batches.items():
            topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=records))
        return ProduceRequest(
            **{
                "transactional_id": self.transactional_id,
                "acks": -1,
                "timeout_ms": 5_000,
                "topic_data": tuple(
                    TopicProduceData(name=topic, partition_data=tuple(rows)) for topic, rows in topics.items()
                ),
                **fields,
            }
        )

    def send(
        self, topic: str, *pairs: Pair, partition: int = 0, version: int | None = None, **options: Any
    ) -> PartitionProduceResponse:
        """Produce one batch, whether or not the transaction knows the partition."""
        at = topic, partition
        request = self.request({at: self.records(*pairs, at=at, **options)})
        answer = self.client.ask(request, version or self.produce_version)
        row: PartitionProduceResponse = answer.responses[0].partition_responses[0]
        return row

    def produce(self, topic: str, *pairs: Pair, partition: int = 0) -> PartitionProduceResponse:
        """Produce one batch as a correct client does; it must succeed."""
        if not self.is_new:
            assert self.add(topic, partition) == ErrorCode.NONE
        row = self.send(topic, *pairs, partition=partition)
        assert row.error_code == ErrorCode.NONE, row
        return row

    def end(self, *, commit: bool) -> None:
        """Send EndTxn, which must succeed."""
        code = self.try_to_end(commit=commit)
        assert code == ErrorCode.NONE, code

    def try_to_end(self, *, commit: bool) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer: EndTxnResponse = self.client.ask(request, self.end_version)
        if answer.error_code == ErrorCode.NONE and self.is_new:
            self._follow(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code)
