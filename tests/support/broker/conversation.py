"""Requests in single calls, for tests that use a running broker."""

from __future__ import annotations

from typing import Any

from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records import batches
from ottla.server.client.connection import Client
from ottla.server.runtime.clock import wall_time_ms
from support.logs.batches import batch


def address(broker: Any, node: int = 0) -> tuple[str, int]:
    """Return host and port of a node's first listener."""
    host, _, port = broker.bootstrap.split(",")[node].rpartition(":")
    return host, int(port)


def create_topic(client: Client, name: str, partitions: int = 1, replicas: int = 1, **configs: Any) -> Any:
    """Create a topic (underscores in config names stand for dots) and return its result row."""
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=(),
        configs=tuple(
            CreatableTopicConfig(name=option.replace("_", "."), value=str(value)) for option, value in configs.items()
        ),
    )
    return client.ask(CreateTopicsRequest(topics=(wanted,), timeout_ms=5000)).topics[0]


def produce_request(topic: str | bytes, records: Any, partition: int = 0, acks: int = -1) -> ProduceRequest:
    """Return a Produce request for one partition; a topic as bytes is an id, which versions from 13 on accept."""
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=5000,
        topic_data=(
            TopicProduceData(name=topic, partition_data=(data,))
            if isinstance(topic, str)
            else TopicProduceData(topic_id=topic, partition_data=(data,)),
        ),
    )


def produce(
    client: Client, topic: str, *pairs: Any, partition: int = 0, acks: int = -1, **options: Any
) -> PartitionProduceResponse:
    """Produce one batch of (key, value) pairs, by default with the current time; return the partition's row of the answer."""
    options.setdefault("timestamp", wall_time_ms())
    answer = client.ask(produce_request(topic, batch(*pairs, **options), partition, acks), version=12)
    row: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return row


def fetch_request(
    topic: str | bytes,
    offset: int,
    partition: int = 0,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    committed: bool = False,
    leader_epoch: int = -1,
) -> FetchRequest:
    """Return a Fetch request for one partition; a topic as bytes is an id, which versions from 13 on accept."""
    wanted = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=leader_epoch
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        isolation_level=int(committed),
        topics=(
            FetchTopic(topic=topic, partitions=(wanted,))
            if isinstance(topic, str)
            else FetchTopic(topic_id=topic, partitions=(wanted,)),
        ),
        forgotten_topics_data=(),
    )


def fetch(client: Client, topic: str, offset: int, partition: int = 0, **options: Any) -> PartitionData:
    """Fetch from one partition; return its row of the answer."""
    answer = client.ask(fetch_request(topic, offset, partition, **options), version=12)
    row: PartitionData = answer.responses[0].partitions[0]
    return row


def records_of(data: PartitionData) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return (offset, key, value) of all records in a fetched partition."""
    records = data.records or b""
    assert isinstance(records, bytes | memoryview)
    return [
        (
            record.offset,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
        )
        for one in batches(records)
        for record in one.records()
    ]


def list_offset(
    client: Client, topic: str, timestamp: int, partition: int = 0, version: int = 11, *, committed: bool = False
) -> tuple[int, int]:
    """Return (error code, offset) for a timestamp or one of the negative special timestamps."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=(ListOffsetsTopic(name=topic, partitions=(wanted,)),),
    )
    row = client.ask(request, version).topics[0].partitions[0]
    return row.error_code, row.offset
