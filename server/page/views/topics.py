"""All topics, and one topic with its partitions and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ....storage.pictures.legend import between, parts_in
from ....storage.pictures.log_picture import LogPicture
from ...broker.broker import Broker
from ...control.partitions import topic_named
from ...control.pictures import pictures
from ...control.topic_configs import topic_configs
from ...control.topics import TopicState, list_topics
from ...partitions.topics import Partition
from ...runtime.time_slices import TimeSlice
from ..section import Page, Row, Section, segment
from . import compaction

BARS_MAX = 40
"""Maximum number of bars of a partition in a list."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic in the list."""

    name: str
    partitions: int
    replicas: int
    records: str
    size_bytes: int
    policy: str
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition of a topic."""

    topic: str
    partition: int
    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    segments: int
    picture: LogPicture


async def view(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of all topics; internal ones only with the field `internal`."""
    with_internal = "internal" in fields
    topics = (await list_topics(broker, internal=with_internal)).topics
    rows = await TimeSlice().map(lambda each: Row(f"topic-{each.name}", _row(broker, each)), topics)
    return Page(
        "Topics",
        "/topics",
        (
            Section(
                "topics",
                "topics",
                with_internal,
                tuple(rows),
            ),
            Section("create", "create_topic", None),
        ),
    )


def _row(broker: Broker, topic: TopicState) -> TopicRow:
    policy = topic.configs.get("cleanup.policy", ",".join(broker.config.current.log_defaults.cleanup_policy))
    records = between(topic.counts.records_min, topic.counts.records_max)
    return TopicRow(topic.name, topic.partitions, topic.replicas, records, topic.size_bytes, policy, topic.is_internal)


async def topic_page(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of the topic in the field `topic`."""
    topic = topic_named(broker.services.topics, fields["topic"])
    known = tuple(topic.partitions)
    taken = await pictures(broker, [each.log for each in known], bars_max=BARS_MAX)
    rows = await TimeSlice().map(
        lambda each: Row(f"partition-{each[0].index}", _partition(*each)), zip(known, taken, strict=True)
    )
    return Page(
        topic.name,
        "/topics",
        (
            await compaction.topic_section(broker, topic),
            Section("more", "topic_more", topic.name),
            Section(
                "partitions",
                "partitions",
                tuple(parts_in(*taken)),
                tuple(rows),
            ),
            Section("delete", "delete_topic", (topic.name, topic.is_internal)),
        ),
        trail=(("Topics", "/topics"),),
    )


async def options(broker: Broker, fields: Mapping[str, str]) -> Page:
    """Return the page of the options of the topic in the field `topic`."""
    configs = topic_configs(broker, fields["topic"])
    rows = tuple(Row(f"config-{each.name}", (configs.topic, each)) for each in configs.configs)
    return Page(
        "Options",
        "/topics",
        (Section("configs", "configs", configs.topic, rows),),
        trail=(("Topics", "/topics"), (configs.topic, f"/topics/{segment(configs.topic)}")),
    )


def _partition(partition: Partition, picture: LogPicture) -> PartitionRow:
    log = partition.log
    return PartitionRow(
        topic=partition.topic_partition.topic,
        partition=partition.topic_partition.partition,
        leader=partition.present_leader,
        isr=tuple(partition.isr),
        replicas=tuple(partition.replicas),
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        size_bytes=log.size_bytes,
        segments=len(log.segments),
        picture=picture,
    )
