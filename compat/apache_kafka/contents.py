"""Everything a client can see of a broker's topics, to be compared between brokers."""

from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigResource

from ..support.clients.steps import ReadRecord, admin, read_partitions, watermarks
from . import fill


@dataclass
class Contents:
    """Per partition all records under both isolation levels and the watermarks; topic ids, configs, group offsets."""

    uncommitted: dict[tuple[str, int], list[ReadRecord]]
    committed: dict[tuple[str, int], list[ReadRecord]]
    watermarks: dict[tuple[str, int], tuple[int, int]]
    topics: dict[str, Any]
    configs: dict[str, dict[str, str | None]]
    offsets: dict[tuple[str, int], tuple[int, str]]


def read_contents(bootstrap: str) -> Contents:
    partitions = fill.partitions()
    return Contents(
        uncommitted=read_partitions(bootstrap, partitions),
        committed=read_partitions(bootstrap, partitions, isolation="read_committed"),
        watermarks=watermarks(bootstrap, partitions),
        topics=topics(bootstrap),
        configs=configs(bootstrap),
        offsets=offsets(bootstrap),
    )


def topics(bootstrap: str) -> dict[str, Any]:
    """Return topic -> (its id, number of partitions)."""
    client = admin(bootstrap)
    names = sorted({topic for topic, _ in fill.partitions()})
    described = client.describe_topics(TopicCollection(names))
    results = {name: described[name].result(30) for name in names}
    return {name: (str(result.topic_id), len(result.partitions)) for name, result in results.items()}


def configs(bootstrap: str) -> dict[str, dict[str, str | None]]:
    """Return topic -> its own (not default) configs."""
    client = admin(bootstrap)
    names = sorted({topic for topic, _ in fill.partitions()})
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    answers = {resource.name: done.result(30) for resource, done in client.describe_configs(resources).items()}
    return {
        name: {entry.name: entry.value for entry in entries.values() if entry.source == 1}  # DYNAMIC_TOPIC_CONFIG
        for name, entries in answers.items()
    }


def offsets(bootstrap: str) -> dict[tuple[str, int], tuple[int, str]]:
    """Return the committed offsets of the group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": fill.GROUP, "enable.auto.commit": False})
    asked = [TopicPartition(topic, partition) for topic, partition in fill.committed_offsets()]
    found = consumer.committed(asked, 30)
    consumer.close()
    return {(tp.topic, tp.partition): (tp.offset, tp.metadata) for tp in found}
