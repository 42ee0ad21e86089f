"""Topics: create, delete and list them, for tests in languages whose Kafka client would need an extra admin client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated

from ...protocol.errors import KafkaError
from ...storage.logs.record_counts import RecordCounts
from ..broker.broker import Broker
from ..partitions.topics import Topic
from ..runtime.errors import ControlError, Kind, refusal
from ..runtime.time_slices import TimeSlice
from .operation import Name, Range, TopicName, operation
from .partitions import topic_named

PARTITIONS_MAX = 10_000
"""Maximum number of partitions, equal to that of one CreateTopics request."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic."""

    name: str
    topic_id: str
    """32 hexadecimal digits."""
    is_internal: bool
    """Whether the topic is internal."""
    partitions: int
    """Number of partitions."""
    replicas: int
    """Number of replicas of each partition; all replicas share one log."""
    size_bytes: int
    """Total size of its logs."""
    counts: RecordCounts
    """Numbers of records in all partitions together."""
    configs: Mapping[str, str]
    """Options set for the topic; all others have the broker's defaults."""


@dataclass(frozen=True, slots=True)
class TopicList:
    """Topics in the order of their names."""

    topics: tuple[TopicState, ...]


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A deleted topic; its files are deleted a little later."""

    name: str
    topic_id: str


@operation("GET", "/v1/topics")
async def list_topics(broker: Broker, *, internal: bool = False) -> TopicList:
    """List all topics, by name.

    Args:
        internal: Include internal topics.
    """
    time_slice = TimeSlice()
    shown = [topic for topic in broker.services.topics if internal or not topic.is_internal]
    shown.sort(key=lambda topic: topic.name)
    return TopicList(tuple([await _state(broker, topic, time_slice) for topic in shown]))


@operation("GET", "/v1/topics/{topic}", statuses=(404,))
async def describe_topic(broker: Broker, topic: Name) -> TopicState:
    """Show one topic.

    Raises:
        ControlError: NOT_FOUND: topic not found.
    """
    return await _state(broker, topic_named(broker.services.topics, topic), TimeSlice())


@operation("POST", "/v1/topics", statuses=(409, 500))
async def create_topic(
    broker: Broker,
    topic: TopicName,
    partitions: Annotated[int, Range(1, PARTITIONS_MAX)] | None = None,
    *,
    replicas: Annotated[int, Range(1, 1_000)] | None = None,
    configs: Mapping[str, str] = MappingProxyType({}),
) -> TopicState:
    """Create a topic.

    All nodes know the topic when this returns.

    Args:
        partitions: Number of partitions (default: the broker's `num.partitions`).
        replicas: Number of replicas (default: the broker's `default.replication.factor`).
        configs: Values by option name, as strings.

    Raises:
        ControlError: CONFLICT: the topic exists; INVALID: the name or an option is invalid; FAILED: the disk failed. Nothing was
            created.
    """
    services = broker.services
    if partitions is not None and partitions > PARTITIONS_MAX:
        raise ControlError(Kind.INVALID, f"partitions: expected at most {PARTITIONS_MAX}, found {partitions}")
    try:
        plan = services.topic_admin.planner.plan(
            topic,
            num_partitions=-1 if partitions is None else partitions,
            replication_factor=-1 if replicas is None else replicas,
            configs=configs,
        )
        return await _state(broker, await services.topic_admin.create(plan), TimeSlice())
    except KafkaError as error:
        raise refusal(error) from error


@operation("DELETE", "/v1/topics/{topic}", statuses=(404, 500))
async def delete_topic(broker: Broker, topic: Name) -> TopicDeleted:
    """Delete a topic and all of its data.

    Raises:
        ControlError: NOT_FOUND; INVALID: the topic is internal, or `delete.topic.enable` is false; FAILED: the disk failed. The topic
            is unchanged.
    """
    found = topic_named(broker.services.topics, topic)
    try:
        await broker.services.topic_admin.delete(found)
    except KafkaError as error:
        raise refusal(error) from error
    return TopicDeleted(found.name, found.id.hex())


async def _state(broker: Broker, topic: Topic, time_slice: TimeSlice) -> TopicState:
    partitions = tuple(topic.partitions)
    sizes_bytes = await time_slice.map(lambda partition: partition.log.size_bytes, partitions)
    counts = await time_slice.map(lambda partition: partition.log.counts, partitions)
    if time_slice.is_over():
        await time_slice.next()
    entry = broker.services.cluster.catalog.topics.get(topic.name)  # none if it was deleted since
    return TopicState(
        name=topic.name,
        topic_id=topic.id.hex(),
        is_internal=topic.is_internal,
        partitions=len(partitions),
        replicas=len(partitions[0].replicas),
        size_bytes=sum(sizes_bytes),
        counts=RecordCounts.total(counts),
        configs={} if entry is None else dict(entry.configs),
    )
