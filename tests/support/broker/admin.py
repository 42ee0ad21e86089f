"""Administration of topics in single calls, for tests that use a running broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio.testing

from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import Client


async def creations_ended(broker: Broker) -> None:
    """Wait for the topics that Metadata creates after its response."""
    await trio.testing.wait_all_tasks_blocked()
    async with broker.services.cluster.change_lock:
        pass


def wanted(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    """Return a topic for CreateTopics; `assignments` are (partition, node ids)."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(nodes)) for index, nodes in assignments
        ),
        configs=tuple(CreatableTopicConfig(name=option, value=value) for option, value in (configs or {}).items()),
    )


def create(client: Client, *topics: CreatableTopic, validate_only: bool = False, version: int = 7) -> list[Any]:
    """Create topics; return the rows of the answer."""
    request = CreateTopicsRequest(topics=topics, timeout_ms=5000, validate_only=validate_only)
    return list(client.ask(request, version).topics)


def delete(client: Client, *which: str | bytes | tuple[str | None, bytes], version: int = 6) -> list[Any]:
    """Delete topics by name, by id, or by a (name, id) that may be invalid; return the rows of the answer."""
    if version < 6:
        request = DeleteTopicsRequest(topic_names=tuple(map(str, which)), timeout_ms=5000)
    else:
        request = DeleteTopicsRequest(topics=tuple(map(_state, which)), timeout_ms=5000)
    return list(client.ask(request, version).responses)


def _state(which: str | bytes | tuple[str | None, bytes]) -> DeleteTopicState:
    if isinstance(which, str):
        return DeleteTopicState(name=which)
    if isinstance(which, bytes):
        return DeleteTopicState(topic_id=which)
    name, topic_id = which
    return DeleteTopicState(name=name, topic_id=topic_id)


def growth(name: str, count: int, assignments: Sequence[Sequence[int]] | None = None) -> CreatePartitionsTopic:
    """Return a topic for CreatePartitions that asks for `count` partitions; `assignments` are the node ids of each new one."""
    rows = None
    if assignments is not None:
        rows = tuple(CreatePartitionsAssignment(broker_ids=tuple(nodes)) for nodes in assignments)
    return CreatePartitionsTopic(name=name, count=count, assignments=rows)


def grow(client: Client, *topics: CreatePartitionsTopic, validate_only: bool = False, version: int = 3) -> list[Any]:
    """Ask for more partitions; return the rows of the answer."""
    request = CreatePartitionsRequest(topics=topics, timeout_ms=5000, validate_only=validate_only)
    return list(client.ask(request, version).results)


def metadata(client: Client, *which: str | bytes, create: bool = False, version: int = 13, **options: bool) -> Any:
    """Return metadata of topics by name or id; of all topics when none is named."""
    topics = tuple(
        MetadataRequestTopic(name=one) if isinstance(one, str) else MetadataRequestTopic(name=None, topic_id=one)
        for one in which
    )
    everything = () if version == 0 else None
    return client.ask(
        MetadataRequest(topics=topics or everything, allow_auto_topic_creation=create, **options), version
    )


def topic_names(client: Client) -> set[str]:
    """Return the names of the topics that the broker knows."""
    return {topic.name for topic in metadata(client).topics}


def delete_records(client: Client, topic: str, offset: int, partition: int = 0, version: int = 2) -> tuple[int, int]:
    """Delete the records below `offset`; return (error code, low watermark)."""
    row = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(row,)),), timeout_ms=5000)
    answer = client.ask(request, version).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


async def set_topic_configs(broker: Broker, name: str, configs: Mapping[str, str]) -> None:
    """Replace the overrides of an existing topic."""
    topic = broker.services.topics.get(name)
    assert topic is not None, name
    async with broker.services.cluster.change_lock:
        assert not await broker.services.config_changes.alter_topics({topic: configs}), name
