"""Topics: see `...control.topics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from ...control.topic.configs import TopicConfigs, alter_topic_configs, topic_configs
from ...control.topics import (
    PARTITIONS_MAX,
    TopicDeleted,
    TopicList,
    TopicState,
    create_topic,
    delete_topic,
    describe_topic,
    list_topics,
)
from ..call import Call, Lives
from ..fields import Name, Range, TopicName


@dataclass(frozen=True, slots=True)
class TopicsRequest:
    internal: bool = False
    """Show the broker's own, too."""


@dataclass(frozen=True, slots=True)
class TopicRequest:
    topic: Name


@dataclass(frozen=True, slots=True)
class CreateTopicRequest:
    topic: TopicName
    partitions: Annotated[int, Range(1, PARTITIONS_MAX)] | None = None
    """The broker's `num.partitions` unless given."""
    replicas: Annotated[int, Range(1, 1_000)] | None = None
    """The broker's `default.replication.factor` unless given."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Options of topics by name, as texts."""


@dataclass(frozen=True, slots=True)
class AlterConfigsRequest:
    topic: Name
    configs: Mapping[str, str | None]
    """Options of topics by name, as texts; null: as the broker has it."""


async def configs(lives: Lives, request: TopicRequest) -> TopicConfigs:
    return topic_configs(lives.broker, request.topic)


async def altered(lives: Lives, request: AlterConfigsRequest) -> TopicConfigs:
    return await alter_topic_configs(lives.broker, request.topic, request.configs)


async def listed(lives: Lives, request: TopicsRequest) -> TopicList:
    return await list_topics(lives.broker, internal=request.internal)


async def described(lives: Lives, request: TopicRequest) -> TopicState:
    return await describe_topic(lives.broker, request.topic)


async def created(lives: Lives, request: CreateTopicRequest) -> TopicState:
    return await create_topic(
        lives.broker, request.topic, request.partitions, replicas=request.replicas, configs=request.configs
    )


async def deleted(lives: Lives, request: TopicRequest) -> TopicDeleted:
    return await delete_topic(lives.broker, request.topic)


CALLS: tuple[Call[Any, Any], ...] = (
    Call("GET", "/v1/topics", "All topics, by name.", TopicsRequest, TopicList, listed),
    Call(
        "POST",
        "/v1/topics",
        "Create a topic.",
        CreateTopicRequest,
        TopicState,
        created,
        statuses=(409, 500),
    ),
    Call("GET", "/v1/topics/{topic}", "One topic.", TopicRequest, TopicState, described, statuses=(404,)),
    Call(
        "DELETE",
        "/v1/topics/{topic}",
        "Delete a topic with all that is in it.",
        TopicRequest,
        TopicDeleted,
        deleted,
        statuses=(404, 500),
    ),
    Call(
        "GET",
        "/v1/topics/{topic}/configs",
        "Every option of a topic: value, where it comes from, type, bound.",
        TopicRequest,
        TopicConfigs,
        configs,
        statuses=(404,),
    ),
    Call(
        "POST",
        "/v1/topics/{topic}/configs",
        "Set options of a topic, or unset them.",
        AlterConfigsRequest,
        TopicConfigs,
        altered,
        statuses=(404, 500),
    ),
)
