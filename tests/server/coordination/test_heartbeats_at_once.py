"""Heartbeats that are answered at once, and those that wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import CoroutineType
from typing import Any

import pytest

from ottla.protocol.connection import Request
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from ottla.server.broker.broker import Broker
from ottla.server.client.connection import api_of
from ottla.server.network.dispatcher import finished
from ottla.server.partitions.internal_topics import OFFSETS_TOPIC
from support.broker.admin import set_topic_configs
from support.broker.contexts import context_of
from support.broker.in_process_broker import run_in_order, running
from support.disk.crash_files import CrashFiles

AT_ONCE, LATER = True, False
HEARTBEAT_KEY = 12
VERSIONS = {"ConsumerGroupHeartbeat": 1, "ShareGroupHeartbeat": 1, "Heartbeat": 4, "StreamsGroupHeartbeat": 0}
JOINS: dict[str, Callable[[], Any]] = {
    "consumer": lambda: ConsumerGroupHeartbeatRequest(
        group_id="consumer",
        member_id="a",
        rebalance_timeout_ms=1_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    ),
    "share": lambda: ShareGroupHeartbeatRequest(group_id="share", member_id="a", subscribed_topic_names=("t",)),
}


def joins_streams() -> StreamsGroupHeartbeatRequest:
    topology = Topology(epoch=1, subtopologies=(Subtopology(subtopology_id="0", source_topics=("t",)),))
    nothing: dict[str, Any] = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"), ())
    return StreamsGroupHeartbeatRequest(
        group_id="streams", member_id="a", rebalance_timeout_ms=1_000, process_id="p", topology=topology, **nothing
    )


async def ask(broker: Broker, message: Any) -> tuple[bool, Any]:
    """Return whether an answer came at once, and the answer."""
    api = api_of(message)
    handle = broker.handlers.get(api.key) or await broker.handlers.loaded(api.key)
    body = handle(context_of(broker), Request(api, VERSIONS[api.name], 0, "c", message))
    return not isinstance(body, CoroutineType), await finished(body)


def with_broker(work: Callable[[Broker], Awaitable[None]]) -> None:
    async def life() -> None:
        async with running(CrashFiles()) as (broker, _):
            await work(broker)

    run_in_order(life)


@pytest.mark.parametrize("kind", JOINS)
def test_only_the_creation_of_the_groups_topic_is_waited_for(kind: str) -> None:
    async def work(broker: Broker) -> None:
        join = JOINS[kind]()
        way, first = await ask(broker, join)
        assert (way, first.error_code) == (LATER, ErrorCode.NONE)
        way, again = await ask(broker, join)
        assert (way, again.member_epoch) == (AT_ONCE, first.member_epoch)

    with_broker(work)


@pytest.mark.parametrize("kind", JOINS)
def test_acknowledged_heartbeats_are_on_disk(kind: str) -> None:
    async def work(broker: Broker) -> None:
        await broker.services.coordinators.groups.ensure_topic()
        await set_topic_configs(broker, OFFSETS_TOPIC, {"flush.messages": "1"})
        log = broker.services.topics.partition(OFFSETS_TOPIC, 0).log
        for member in ("a", "b"):  # the second one's topics are known, so it joins in one piece
            way, answer = await ask(broker, replace(JOINS[kind](), member_id=member))
            assert (way, answer.error_code) == (LATER, ErrorCode.NONE)
            assert log.recovery_point == log.log_end_offset > 0
        known = {"group_id": kind, "member_id": "b", "member_epoch": answer.member_epoch}
        way, answer = await ask(broker, type(JOINS[kind]())(**known))
        assert (way, answer.error_code) == (AT_ONCE, ErrorCode.NONE)

    with_broker(work)


def test_a_classic_member_waits_for_no_disk() -> None:
    async def work(broker: Broker) -> None:
        groups = broker.services.coordinators.groups
        await groups.ensure_topic()
        await set_topic_configs(broker, OFFSETS_TOPIC, {"flush.messages": "1"})
        await broker.handlers.loaded(HEARTBEAT_KEY)  # nothing is left to wait for after the append
        groups.coordinator.begin_at("other", 1, 0)
        assert broker.services.topics.partition(OFFSETS_TOPIC, 0).log.needs_flush
        way, answer = await ask(broker, HeartbeatRequest(group_id="g", member_id="a", generation_id=1))
        assert (way, answer.error_code) == (AT_ONCE, ErrorCode.UNKNOWN_MEMBER_ID)

    with_broker(work)


def test_a_topology_is_checked_first_and_each_refusal_is_a_response() -> None:
    async def work(broker: Broker) -> None:
        way, joined = await ask(broker, joins_streams())
        assert (way, joined.error_code) == (LATER, ErrorCode.NONE)
        refuse_partition = StreamsGroupHeartbeatRequest(group_id="streams", member_id="b", member_epoch=1)
        way, refused = await ask(broker, refuse_partition)
        assert (way, refused.error_code) == (AT_ONCE, ErrorCode.UNKNOWN_MEMBER_ID)

    with_broker(work)


@pytest.mark.parametrize("kind", JOINS)
def test_a_refusal_after_the_step_is_a_response(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic of groups may be deleted while the answer is made."""

    def refuse_partition(_: object) -> bool:
        raise KafkaError(ErrorCode.NOT_COORDINATOR, "no partition")

    async def work(broker: Broker) -> None:
        groups = broker.services.coordinators.groups
        await ask(broker, JOINS[kind]())
        monkeypatch.setattr(groups, "is_settled", refuse_partition)
        way, answer = await ask(broker, JOINS[kind]())
        assert (way, answer.error_code) == (AT_ONCE, ErrorCode.NOT_COORDINATOR)

    with_broker(work)
