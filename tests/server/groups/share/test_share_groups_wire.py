"""The APIs of share groups as clients see them: errors in Kafka's places, offsets described, moved and deleted, restarts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import alter_share_group_offsets as alter
from ottla.protocol.messages import delete_share_group_offsets as forget
from ottla.protocol.messages import describe_share_group_offsets as describe
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.wire import ZERO_UUID
from ottla.server.groups.settings import UNSETTLED_MS
from support.broker.background_jobs import TRIES
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.broker.served import FEW_PARTITIONS

E = ErrorCode
UNKNOWN = "This server does not host this topic-partition."
NOT_EMPTY = "The group is not empty."


def beat(client: RawClient, member: str, epoch: int, *topics: str, group: str = "g", **fields: Any) -> Any:
    return client.ask(
        ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics or None, **fields
        )
    )


def owned(client: RawClient, member: str, *topics: str, group: str = "g") -> set[int]:
    """Join, and send heartbeats until the partitions are assigned."""
    answer = beat(client, member, 0, *topics, group=group)
    for _ in range(TRIES):
        assert not answer.error_code, answer
        has = {index for topic in answer.assignment.topic_partitions for index in topic.partitions}
        if has:
            return has
        answer = beat(client, member, answer.member_epoch, *topics, group=group)
    raise AssertionError("no partitions")


def leave(client: RawClient, member: str, group: str = "g") -> None:
    assert not beat(client, member, -1, group=group).error_code


def offsets(client: RawClient, *topics: tuple[str, tuple[int, ...]], group: str = "g", version: int = 1) -> Any:
    rows = tuple(describe.DescribeShareGroupOffsetsRequestTopic(topic_name=one, partitions=two) for one, two in topics)
    asked = describe.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=rows or None)
    (answer,) = client.ask(describe.DescribeShareGroupOffsetsRequest(groups=(asked,)), version).groups
    return answer


def rows(answer: Any) -> dict[str, list[tuple[Any, ...]]]:
    assert not answer.error_code, answer
    return {
        topic.topic_name: [(one.partition_index, one.start_offset, one.lag, one.error_code) for one in topic.partitions]
        for topic in answer.topics
    }


def move(client: RawClient, *topics: tuple[str, dict[int, int]], group: str = "g") -> Any:
    wanted = tuple(
        alter.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=tuple(
                alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in places.items()
            ),
        )
        for name, places in topics
    )
    return client.ask(alter.AlterShareGroupOffsetsRequest(group_id=group, topics=wanted))


def drop(client: RawClient, *topics: str, group: str = "g") -> Any:
    named = tuple(forget.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics)
    return client.ask(forget.DeleteShareGroupOffsetsRequest(group_id=group, topics=named))


def delete(client: RawClient, group: str = "g") -> ErrorCode:
    return ErrorCode(client.ask(DeleteGroupsRequest(groups_names=(group,)), 2).results[0].error_code)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RawClient]]:
    """Start a broker and return a client at its last node."""
    with ExitStack() as stack:

        def start(**options: Any) -> RawClient:
            overrides = FEW_PARTITIONS | {"group.share.assignment.interval.ms": "0", **options.pop("overrides", {})}
            broker = stack.enter_context(
                ottla.Broker(str(tmp_path / "data"), rng=random.Random(1), overrides=overrides, **options)
            )
            return stack.enter_context(RawClient(*address(broker, options.get("nodes", 1) - 1)))

        yield start


def test_a_member_joins_heartbeats_and_leaves(start: Callable[..., RawClient]) -> None:
    client = start()
    topic_id = create_topic(client, "orders", partitions=2).topic_id
    joined = beat(client, "a", 0, "orders")
    # The interval is short until the states of the partitions have been initialized.
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("a", 2, UNSETTLED_MS)
    assert owned(client, "a", "orders") == {0, 1}
    described = client.ask(
        ShareGroupDescribeRequest(group_ids=("g", "other", "", "g"), include_authorized_operations=True)
    ).groups
    assert [(one.error_code, one.error_message) for one in described] == [
        (E.NONE, None),
        (E.GROUP_ID_NOT_FOUND, "Group other not found."),
        (E.INVALID_GROUP_ID, None),
    ]
    assert (described[0].group_state, described[0].assignor_name) == ("Stable", "simple")
    assert described[0].authorized_operations > 0
    (member,) = described[0].members
    assert (member.client_host, member.assignment.topic_partitions[0].topic_id) == ("/127.0.0.1", topic_id)
    listed = client.ask(ListGroupsRequest(types_filter=("share",)), 5).groups
    assert [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in listed] == [
        ("g", "share", "Stable", "share")
    ]
    assert delete(client) is E.NON_EMPTY_GROUP
    leave(client, "a")
    assert rows(offsets(client)) == {"orders": [(0, -1, -1, 0), (1, -1, -1, 0)]}
    assert delete(client) is E.NONE
    assert rows(offsets(client)) == {}
    assert delete(client) is E.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "member, epoch, fields, code, message",
    [
        ("", 0, {}, E.INVALID_REQUEST, None),
        ("x" * 37, 0, {}, E.INVALID_REQUEST, None),
        ("\N{GRINNING FACE}" * 18 + "x", 0, {}, E.INVALID_REQUEST, None),
        (" ", 0, {}, E.INVALID_REQUEST, "MemberId can't be empty."),
        ("a", -2, {}, E.INVALID_REQUEST, "MemberEpoch is invalid."),
        ("a", 1, {}, E.GROUP_ID_NOT_FOUND, "Share group g not found."),
    ],
)
def test_invalid_heartbeats_are_refused(
    start: Callable[..., RawClient],
    member: str,
    epoch: int,
    fields: dict[str, Any],
    code: ErrorCode,
    message: str | None,
) -> None:
    answer = beat(start(), member, epoch, "orders", **fields)
    assert (answer.error_code, answer.error_message, answer.member_id) == (code, message, None)


def test_consumers_of_different_group_types_are_refused(start: Callable[..., RawClient]) -> None:
    client = start()
    create_topic(client, "orders", partitions=1)
    owned(client, "a", "orders")
    consumer = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="b", subscribed_topic_names=("orders",), topic_partitions=(), rebalance_timeout_ms=1_000
    )
    refused = client.ask(consumer, 1)
    assert (refused.error_code, refused.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")


def test_offsets_are_described_and_moved(start: Callable[..., RawClient]) -> None:
    client = start()
    topic_id = create_topic(client, "orders", partitions=2).topic_id
    moved = move(client, ("orders", {1: 7, 0: 0, 2: 1, -1: 1}), ("none", {0: 1}))
    assert (moved.error_code, moved.error_message) == (E.NONE, None)
    assert [(one.topic_name, one.topic_id) for one in moved.responses] == [("none", ZERO_UUID), ("orders", topic_id)]
    assert [
        [(one.partition_index, one.error_code, one.error_message) for one in topic.partitions]
        for topic in moved.responses
    ] == [
        [(0, E.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN)],
        [
            (1, E.NONE, None),
            (0, E.NONE, None),
            (2, E.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN),
            (-1, E.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN),
        ],
    ]
    assert rows(offsets(client)) == {"orders": [(0, 0, 0, 0), (1, 7, -7, 0)]}
    named = offsets(client, ("orders", (1, 5)), ("none", (0,)))
    assert rows(named) == {"orders": [(1, 7, -7, 0), (5, -1, -1, 0)], "none": [(0, -1, -1, 0)]}
    assert [topic.topic_id for topic in named.topics] == [topic_id, ZERO_UUID]
    assert rows(offsets(client, ("orders", (1,)), version=0)) == {"orders": [(1, 7, -1, 0)]}
    assert owned(client, "a", "orders") == {0, 1}
    refused = move(client, ("orders", {0: 1}))
    assert (refused.error_code, refused.error_message, refused.responses) == (E.NON_EMPTY_GROUP, NOT_EMPTY, ())
    assert rows(offsets(client)) == {"orders": [(0, 0, 0, 0), (1, 7, -7, 0)]}


def test_offsets_are_deleted(start: Callable[..., RawClient]) -> None:
    client = start()
    ids = {name: create_topic(client, name, partitions=1).topic_id for name in ("orders", "bills", "unread")}
    assert drop(client, "orders").error_code == E.NOT_COORDINATOR  # __consumer_offsets does not exist yet.
    move(client, ("orders", {0: 0}), group="h")
    nobody = drop(client, "orders")
    assert (nobody.error_code, nobody.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g not found.")
    owned(client, "a", "orders", "bills")
    busy = drop(client, "orders")
    assert (busy.error_code, busy.error_message, busy.responses) == (E.NON_EMPTY_GROUP, NOT_EMPTY, ())
    leave(client, "a")
    gone = drop(client, "orders", "none", "unread", "orders")
    assert not gone.error_code
    assert [(one.topic_name, one.topic_id, one.error_code, one.error_message) for one in gone.responses] == [
        ("orders", ids["orders"], E.NONE, None),
        ("none", ZERO_UUID, E.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN),
        ("unread", ZERO_UUID, E.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."),
    ]
    assert rows(offsets(client)) == {"bills": [(0, -1, -1, 0)]}
    assert owned(client, "a", "orders") == {0}


@pytest.mark.parametrize("ask", [move, drop], ids=["alter", "delete"])
def test_a_group_needs_a_name(start: Callable[..., RawClient], ask: Callable[..., Any]) -> None:
    answer = ask(start(), group="")
    assert (answer.error_code, answer.error_message) == (E.INVALID_GROUP_ID, "The group id is invalid.")


def test_a_group_without_a_name_has_no_offsets(start: Callable[..., RawClient]) -> None:
    client = start()
    create_topic(client, "orders", partitions=1)
    move(client, ("orders", {0: 0}))
    assert rows(offsets(client, group="")) == {}
    assert offsets(client, ("orders", (0,)), group="").error_code == E.UNKNOWN_SERVER_ERROR


def test_a_deleted_topic_deletes_its_states(start: Callable[..., RawClient]) -> None:
    client = start()
    create_topic(client, "orders", partitions=1)
    create_topic(client, "bills", partitions=1)
    owned(client, "a", "orders", "bills")
    client.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="orders"),)), 6)
    assert list(rows(offsets(client))) == ["bills"]
    create_topic(client, "orders", partitions=3)
    answer = beat(client, "a", 0, "orders")
    for _ in range(TRIES):
        if any(len(topic.partitions) == 3 for topic in answer.assignment.topic_partitions):
            break
        answer = beat(client, "a", answer.member_epoch, "orders")
    assert len(answer.assignment.topic_partitions) == 1


def test_a_group_survives_a_restart(tmp_path: Path) -> None:
    def asked(ask: Callable[[RawClient], Any]) -> Any:
        overrides = {"group.share.assignment.interval.ms": "0"}
        with (
            ottla.Broker(str(tmp_path), rng=random.Random(1), overrides=overrides) as broker,
            RawClient(*address(broker)) as client,
        ):
            return ask(client)

    def before(client: RawClient) -> int:
        create_topic(client, "orders", partitions=2)
        move(client, ("orders", {0: 0, 1: 3}))
        owned(client, "a", "orders")
        return int(beat(client, "a", 0, "orders").member_epoch)

    epoch = asked(before)
    assert not asked(lambda client: beat(client, "a", epoch)).error_code
    assert asked(lambda client: rows(offsets(client))) == {"orders": [(0, 0, 0, 0), (1, 3, -3, 0)]}


def test_a_lowered_feature_disables_share_groups(start: Callable[..., RawClient]) -> None:
    client = start(features={"share.version": 0})
    assert beat(client, "a", 0, "orders").error_code == E.UNSUPPORTED_VERSION
