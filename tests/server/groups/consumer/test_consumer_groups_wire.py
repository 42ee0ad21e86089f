"""The APIs of consumer groups as clients see them: both versions, errors in Kafka's places, topics that change."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.list_groups import ListGroupsRequest
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS

E = ErrorCode


def beat(client: RawClient, member: str, epoch: int, *, version: int = 1, group: str = "g", **fields: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
    return client.ask(request, version)


def join(client: RawClient, member: str, *topics: str, **fields: Any) -> Any:
    return beat(
        client, member, 0, subscribed_topic_names=topics, topic_partitions=(), rebalance_timeout_ms=10_000, **fields
    )


def partitions(answer: Any) -> set[int] | None:
    """Return all partitions in an answer, of any topic; None if it contains no assignment."""
    assert not answer.error_code, answer
    if answer.assignment is None:
        return None
    return {index for topic in answer.assignment.topic_partitions for index in topic.partitions}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RawClient]]:
    """Start a broker and return a client at its last node."""
    with ExitStack() as stack:

        def start(**options: Any) -> RawClient:
            overrides = FEW_PARTITIONS | options.pop("overrides", {})
            broker = stack.enter_context(
                ottla.Broker(str(tmp_path / "data"), rng=random.Random(1), overrides=overrides, **options)
            )
            return stack.enter_context(RawClient(*address(broker, options.get("nodes", 1) - 1)))

        yield start


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_heartbeats_and_leaves(start: Callable[..., RawClient], version: int) -> None:
    client = start()
    topic_id = create_topic(client, "orders", partitions=2).topic_id
    joined = join(client, "a", "orders", version=version)
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("a", 2, 500)
    assert [(one.topic_id, one.partitions) for one in joined.assignment.topic_partitions] == [(topic_id, (0, 1))]
    assert partitions(beat(client, "a", 2, version=version)) is None

    described = client.ask(
        ConsumerGroupDescribeRequest(group_ids=("g", "other", ""), include_authorized_operations=True), version
    ).groups
    assert [(one.error_code, one.error_message) for one in described] == [
        (E.NONE, None),
        (E.GROUP_ID_NOT_FOUND, "Group other not found."),
        (E.INVALID_GROUP_ID, "the group ID is empty"),
    ]
    assert (described[0].group_state, described[0].assignor_name) == ("Stable", "uniform")
    assert described[0].authorized_operations > 0
    assert described[0].members[0].client_host == "/127.0.0.1"
    assert described[0].members[0].member_type == (1 if version else -1)

    assert client.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results[0].error_code == E.NON_EMPTY_GROUP
    assert beat(client, "a", -1, version=version).member_epoch == -1
    assert [one.group_state for one in client.ask(ListGroupsRequest(types_filter=("consumer",)), 5).groups] == ["Empty"]
    assert client.ask(DeleteGroupsRequest(groups_names=("g",)), 2).results[0].error_code == E.NONE


def test_an_error_has_a_message_and_no_other_fields(start: Callable[..., RawClient]) -> None:
    client = start()
    answer = beat(client, "a", 3)
    assert (answer.error_code, answer.error_message) == (E.GROUP_ID_NOT_FOUND, "Consumer group g not found.")
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (None, 0, 0)
    answer = beat(client, "", 0)
    assert (answer.error_code, answer.error_message) == (E.INVALID_REQUEST, "MemberId can't be empty.")


def test_ids_of_maximum_length_are_answered(start: Callable[..., RawClient]) -> None:
    client = start()
    create_topic(client, "orders")
    long = "\N{GRINNING FACE}" * 8_191
    assert join(client, long, "orders", group=long, instance_id=long).member_id == long
    errors = [
        join(client, "b", "orders", group=long, instance_id=long),
        join(client, "b", "orders", server_assignor=long),
        join(client, "b", "orders", subscribed_topic_regex="(" * 32_767),
        beat(client, long, 5, group="none" * 8_000),
        beat(client, "b" * 32_767, 5, group=long),
    ]
    assert [(one.error_code, len(one.error_message) > 8_000) for one in errors] == [
        (E.UNRELEASED_INSTANCE_ID, True),
        (E.UNSUPPORTED_ASSIGNOR, True),
        (E.INVALID_REGULAR_EXPRESSION, True),
        (E.GROUP_ID_NOT_FOUND, True),
        (E.UNKNOWN_MEMBER_ID, True),
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"features": {"group.version": 0}},
        {"overrides": {"group.coordinator.rebalance.protocols": "classic"}},
    ],
)
def test_without_the_protocol_both_apis_are_unsupported(start: Callable[..., RawClient], options: Any) -> None:
    client = start(**options)
    assert beat(client, "a", 0).error_code == E.UNSUPPORTED_VERSION
    described = client.ask(ConsumerGroupDescribeRequest(group_ids=("g",)), 1).groups
    assert [(one.group_id, one.error_code) for one in described] == [("g", E.UNSUPPORTED_VERSION)]


def test_changes_of_topics_reach_the_members(start: Callable[..., RawClient]) -> None:
    client = start(overrides={"group.consumer.assignment.interval.ms": "0"})
    create_topic(client, "orders")
    assert partitions(join(client, "a", "orders", "bills")) == {0}
    grow = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name="orders", count=3, assignments=None),), timeout_ms=5_000
    )
    assert client.ask(grow).results[0].error_code == E.NONE
    assert partitions(beat(client, "a", 2)) == {0, 1, 2}
    create_topic(client, "bills")
    answer = beat(client, "a", 3)
    assert len(answer.assignment.topic_partitions) == 2
    delete = DeleteTopicsRequest(topics=(DeleteTopicState(name="orders"),), timeout_ms=5_000)
    assert client.ask(delete).responses[0].error_code == E.NONE
    answer = beat(client, "a", answer.member_epoch)
    assert len(answer.assignment.topic_partitions) == 1


def test_only_the_partitions_leader_knows_the_group(start: Callable[..., RawClient]) -> None:
    client = start(nodes=3, overrides={"offsets.topic.num.partitions": "3"})
    create_topic(client, "orders", partitions=3)
    errors = {join(client, "a", "orders", group=f"g{number}").error_code for number in range(20)}
    assert errors == {E.NONE, E.NOT_COORDINATOR}
    described = client.ask(ConsumerGroupDescribeRequest(group_ids=tuple(f"g{number}" for number in range(20))), 1)
    assert {one.error_code for one in described.groups} == {E.NONE, E.NOT_COORDINATOR}


def test_a_group_is_restored_after_a_restart(tmp_path: Path) -> None:
    for epoch in (0, 2):
        with ottla.Broker(str(tmp_path / "data")) as broker, RawClient(*address(broker)) as client:
            if epoch == 0:
                create_topic(client, "orders", partitions=2)
                assert partitions(join(client, "a", "orders")) == {0, 1}
            else:
                assert partitions(beat(client, "a", epoch)) is None
                assert beat(client, "a", epoch).member_epoch == 2


def test_topics_are_created_and_deleted_without_a_group_coordinator(tmp_path: Path) -> None:
    """Many short-lived brokers never have a group, and need no code for groups."""
    with ottla.Broker(str(tmp_path / "data")) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "orders")
        client.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="orders"),), timeout_ms=5_000))
        assert broker.inner.services.coordinators._groups is None
