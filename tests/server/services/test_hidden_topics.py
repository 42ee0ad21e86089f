"""A topic that a Metadata request creates: Metadata does not list it for some tens of milliseconds, other requests know it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.server.broker.broker import Broker
from ottla.server.handlers.metadata import HIDDEN_S
from ottla.server.services.context import ROWS_MIN
from support.broker.admin import creations_ended
from support.broker.conversation import fetch_request, produce_request
from support.broker.in_process_broker import InProcessClient, run_in_order, running
from support.disk.crash_files import CrashFiles
from support.logs.batches import batch

KAFKA_SHOWS_AFTER_S = 0.035
"""The shortest time that was measured on Apache Kafka 4.3.1, from the first request on; the longest was 0.117."""
CLIENTS_ASK_AGAIN_AFTER_S = 0.1
"""The value of `retry.backoff.ms` and similar options."""


def by_name(broker: Broker, *, version: int = 12, create: bool = True) -> tuple[MetadataRequest, int]:
    return MetadataRequest(topics=(MetadataRequestTopic(name="t"),), allow_auto_topic_creation=create), version


def by_id(broker: Broker) -> tuple[MetadataRequest, int]:
    topic = broker.services.topics.get("t")
    assert topic is not None
    return MetadataRequest(topics=(MetadataRequestTopic(name=None, topic_id=topic.id),)), 12


def all_of_them(broker: Broker) -> tuple[MetadataRequest, int]:
    return MetadataRequest(topics=None), 12


METADATA: dict[str, Callable[[Broker], tuple[MetadataRequest, int]]] = {
    "by name": by_name,
    "by name, by an old client": lambda broker: by_name(broker, version=0),
    "by name, without the wish to create it": lambda broker: by_name(broker, create=False),
    "by id": by_id,
    "all": all_of_them,
}


async def found(broker: Broker, client: InProcessClient, question: str) -> bool:
    """Return whether the answer contains t."""
    request, version = METADATA[question](broker)
    rows = {row.name: row for row in (await client.ask(request, version)).topics}
    if "t" in rows and not rows["t"].error_code:
        return len(rows["t"].partitions) == 1
    errors = {row.error_code for row in rows.values()} - {ErrorCode.NONE}
    assert errors <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
    return False


def in_a_broker(work: Callable[[Broker, InProcessClient], Awaitable[None]], **options: str) -> None:
    async def run() -> None:
        async with running(CrashFiles(), **options) as (broker, client):
            await work(broker, client)

    run_in_order(run)


def pass_s(seconds: float) -> None:
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    clock.jump(seconds)


@pytest.mark.parametrize("more_topics", [0, ROWS_MIN])
def test_metadata_omits_the_topic_at_first(more_topics: int) -> None:
    """With this many topics answers are cached: one that lacks the topic is not returned later."""

    async def work(broker: Broker, client: InProcessClient) -> None:
        async def check(*, is_known: bool) -> None:
            for question in METADATA:
                assert await found(broker, client, question) == is_known, question

        await create_topics(client, *(f"other-{number}" for number in range(more_topics)))
        await found(broker, client, "all")
        assert not await found(broker, client, "by name"), "the first answer never tells of it, as on Apache Kafka"
        await creations_ended(broker)
        for _ in range(3):
            await check(is_known=False)
        pass_s(KAFKA_SHOWS_AFTER_S)
        await check(is_known=False)
        pass_s(HIDDEN_S - KAFKA_SHOWS_AFTER_S)
        for _ in range(3):
            await check(is_known=True)

    in_a_broker(work)


def test_a_repeated_metadata_request_finds_the_topic() -> None:
    assert KAFKA_SHOWS_AFTER_S < HIDDEN_S < CLIENTS_ASK_AGAIN_AFTER_S


def test_a_broker_with_a_frozen_clock_shows_the_topic() -> None:
    async def work(broker: Broker, client: InProcessClient) -> None:
        broker.clock.freeze()
        assert not await found(broker, client, "by name")
        await creations_ended(broker)
        pass_s(HIDDEN_S)
        assert await found(broker, client, "by name")
        broker.clock.unfreeze()

    in_a_broker(work)


async def create_topics(client: InProcessClient, *names: str) -> list[int]:
    rows = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names)
    return [row.error_code for row in (await client.ask(CreateTopicsRequest(topics=rows), 7)).topics]


async def deleted(client: InProcessClient) -> list[int]:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1)
    return [row.error_code for row in (await client.ask(request, 6)).responses]


def test_other_requests_find_the_topic_at_once() -> None:
    async def work(broker: Broker, client: InProcessClient) -> None:
        def first(answer: Any, *path: str) -> Any:
            for name in path:
                (answer,) = getattr(answer, name)
            return answer.error_code

        asked = ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),))
        described = DescribeTopicPartitionsRequest(topics=(TopicRequest(name="t"),))
        assert not await found(broker, client, "by name")
        await creations_ended(broker)
        answers = [
            first(await client.ask(produce_request("t", batch(("k", "v"))), 9), "responses", "partition_responses"),
            first(await client.ask(fetch_request("t", 0), 12), "responses", "partitions"),
            first(await client.ask(ListOffsetsRequest(topics=(asked,)), 8), "topics", "partitions"),
            first(await client.ask(described, 0), "topics"),
        ]
        assert answers == [ErrorCode.NONE] * 4
        assert await create_topics(client, "t") == [ErrorCode.TOPIC_ALREADY_EXISTS]
        assert not await found(broker, client, "by name"), "who did not create it does not show it either"

    in_a_broker(work)


def test_a_topic_created_otherwise_is_visible_at_once() -> None:
    async def work(broker: Broker, client: InProcessClient) -> None:
        assert await create_topics(client, "t") == [ErrorCode.NONE]
        for question in METADATA:
            assert await found(broker, client, question)
        assert await deleted(client) == [ErrorCode.NONE]
        assert not await found(broker, client, "by name")
        await creations_ended(broker)
        assert await deleted(client) == [ErrorCode.NONE]
        assert await create_topics(client, "t") == [ErrorCode.NONE]
        for question in METADATA:
            assert await found(broker, client, question), "this is another topic of the name"

    in_a_broker(work)


def test_two_concurrent_clients_create_one_topic_hidden_once() -> None:
    async def work(broker: Broker, client: InProcessClient) -> None:
        async def ask() -> None:
            assert not await found(broker, client, "by name")

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(ask)
        await creations_ended(broker)
        pass_s(HIDDEN_S / 2)
        await ask()
        pass_s(HIDDEN_S / 2)
        assert await found(broker, client, "by name")

    in_a_broker(work)
