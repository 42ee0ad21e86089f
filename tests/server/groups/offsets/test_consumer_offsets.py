"""Offsets of consumer groups: who may commit, fetch and delete them, and when they expire (KIP-848, KIP-1251)."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.server.groups.offset_commits import TopicCommit
from support.broker.conversation import create_topic
from support.broker.raw_client import RawClient
from support.groups.consumer_groups import ConsumerGroups, raised
from support.noted import each_case

E = ErrorCode
DAY_MS = 86_400_000


def commit(
    groups: ConsumerGroups, member: str, epoch: int, *places: tuple[str, int], version: int = 9, metadata: str = ""
) -> ErrorCode:
    """Commit offset 1 in these places in one request; return the error of the request."""
    request = OffsetCommitRequest(group_id="g", member_id=member, generation_id_or_member_epoch=epoch)
    topics = [
        TopicCommit(
            topic,
            groups.topics.id_of(topic) or b"",
            [OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=metadata)],
        )
        for topic, index in places
    ]
    return raised(lambda: groups.commit_all(request, version, topics, groups.now_ms))[0]


def two_members() -> ConsumerGroups:
    """Return member a in epoch 4 with partitions 0 since epoch 2 and 2 since epoch 4, and member b in epoch 3 with 1 and 3."""
    groups = ConsumerGroups(orders=2)
    assert groups.enter("a").member_epoch == 2
    groups.enter("b")
    assert groups.given(groups.beat("a", 2)) == {"orders": {0}}
    assert groups.beat("a", 2, owns={"orders": [0]}).member_epoch == 3
    assert groups.given(groups.beat("b", 3)) == {"orders": {1}}
    groups.grow_topic("orders", 4)
    assert groups.given(groups.beat("a", 3)) == {"orders": {0, 2}}
    assert groups.table().members["a"].epoch == 4
    assert groups.table().members["b"].epoch == 3
    return groups


# Committing


@each_case(
    "member, epoch, partition, error",
    [
        ("a", 4, 0, E.NONE),
        ("a", 4, 1, E.NONE),  # In the member's own epoch its partitions are not checked.
        ("a", 5, 0, E.STALE_MEMBER_EPOCH),
        ("a", 3, 0, E.NONE),
        ("a", 2, 0, E.NONE),
        ("a", 1, 0, E.STALE_MEMBER_EPOCH),
        ("a", 3, 2, E.STALE_MEMBER_EPOCH),
        ("a", 3, 1, E.STALE_MEMBER_EPOCH),
        ("a", -1, 0, E.STALE_MEMBER_EPOCH),
        ("b", 3, 1, E.NONE),
        ("b", 4, 1, E.STALE_MEMBER_EPOCH),
        ("c", 4, 0, E.UNKNOWN_MEMBER_ID),
        ("", -1, 0, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_commits_with_an_epoch_in_which_it_owned_the_partition(
    member: str, epoch: int, partition: int, error: ErrorCode
) -> None:
    groups = two_members()
    assert commit(groups, member, epoch, ("orders", partition)) is error
    assert groups.committed() == ({} if error else {("orders", partition): 1})


def test_a_partition_under_revocation_may_be_committed() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    assert groups.given(groups.beat("a", 2)) == {"orders": {0}}
    assert commit(groups, "a", 2, ("orders", 0), ("orders", 1)) is E.NONE
    groups.beat("a", 2, owns={"orders": [0]})
    assert commit(groups, "a", 2, ("orders", 0)) is E.NONE
    assert commit(groups, "a", 2, ("orders", 1)) is E.STALE_MEMBER_EPOCH


def test_one_partition_out_of_order_refuses_the_whole_request() -> None:
    groups = two_members()
    assert commit(groups, "a", 3, ("orders", 0), ("orders", 2)) is E.STALE_MEMBER_EPOCH
    assert groups.committed() == {}


@pytest.mark.parametrize(("version", "error"), [(8, E.UNSUPPORTED_VERSION), (9, E.NONE), (10, E.NONE)])
def test_commits_of_members_need_a_version_with_epochs(version: int, error: ErrorCode) -> None:
    groups = two_members()
    assert commit(groups, "a", 4, ("orders", 0), version=version) is error


@pytest.mark.parametrize("version", [8, 9])
def test_any_client_may_commit_while_the_group_is_empty(version: int) -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.beat("a", -1)
    assert commit(groups, "", -1, ("orders", 0), version=version) is E.NONE
    assert commit(groups, "a", 2, ("orders", 0), version=version) is E.UNKNOWN_MEMBER_ID
    assert groups.described().group_state == "Empty"


@pytest.mark.parametrize(("version", "error"), [(8, E.ILLEGAL_GENERATION), (9, E.GROUP_ID_NOT_FOUND)])
def test_a_commit_to_an_unknown_group_is_refused(version: int, error: ErrorCode) -> None:
    assert commit(ConsumerGroups(orders=1), "a", 1, ("orders", 0), version=version) is error


def test_a_commit_does_not_renew_the_session() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.advance(44_999)
    assert commit(groups, "a", 2, ("orders", 0)) is E.NONE
    groups.advance(1)
    assert groups.described().group_state == "Empty"


def test_offsets_stay_after_a_groups_sessions_end() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    commit(groups, "a", 2, ("orders", 0))
    groups.advance(45_000)
    assert groups.committed() == {("orders", 0): 1}
    assert groups.restarted().committed() == {("orders", 0): 1}


# Fetching


@pytest.mark.parametrize(
    ("member", "epoch", "error"),
    [
        (None, -1, E.NONE),
        ("a", 4, E.NONE),
        ("a", 3, E.STALE_MEMBER_EPOCH),
        ("a", 5, E.STALE_MEMBER_EPOCH),
        ("a", -1, E.STALE_MEMBER_EPOCH),
        ("b", 3, E.NONE),
        ("c", 4, E.UNKNOWN_MEMBER_ID),
        ("", -1, E.UNKNOWN_MEMBER_ID),
        (None, 4, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_fetches_only_in_its_own_epoch(member: str | None, epoch: int, error: ErrorCode) -> None:
    groups = two_members()
    assert (
        raised(lambda: groups.coordinator.check_fetch(groups.coordinator.shard_for("g"), "g", member, epoch))[0]
        is error
    )


def test_a_fetch_from_an_unknown_group_returns_no_offsets() -> None:
    groups = ConsumerGroups()
    groups.coordinator.check_fetch(groups.coordinator.shard_for("g"), "g", "a", 1)
    assert groups.committed() == {}


# Deleting and expiry


def test_offsets_of_subscribed_topics_cannot_be_deleted() -> None:
    groups = ConsumerGroups(orders=2, bills=1)
    groups.enter("a", "orders")
    groups.enter("b", subscribed_topic_regex="bi.*")
    commit(groups, "a", 2, ("orders", 0), ("bills", 0))
    delete = groups.delete_offsets
    assert delete("g", [("orders", 0), ("bills", 0)], groups.now_ms) == [E.GROUP_SUBSCRIBED_TO_TOPIC] * 2
    groups.beat("b", -1)
    assert delete("g", [("orders", 0), ("bills", 0)], groups.now_ms) == [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE]
    assert groups.committed() == {("orders", 0): 1}


def test_offsets_expire_by_the_age_of_their_commit_unless_subscribed_to() -> None:
    groups = ConsumerGroups(orders=2, bills=1, settings={"group_consumer_session_timeout_ms": 30 * DAY_MS})
    groups.enter("a", "orders")
    commit(groups, "a", 2, ("orders", 0), ("bills", 0))
    groups.advance(6 * DAY_MS)
    assert len(groups.committed()) == 2
    groups.advance(DAY_MS + 600_000)
    assert groups.committed() == {("orders", 0): 1}
    groups.beat("a", 2, topics=["bills"], owns={})
    groups.advance(600_000)
    assert groups.committed() == {}
    assert groups.described().group_state != "Dead"


def test_an_empty_group_is_deleted_with_its_last_offset() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    commit(groups, "a", 2, ("orders", 0))
    groups.beat("a", -1)
    groups.advance(7 * DAY_MS - 600_000)
    assert groups.described().group_state == "Empty"
    groups.advance(2 * 600_000)
    assert groups.committed() == {}
    assert "g" not in groups.coordinator.shard_of("g").groups
    assert groups.store.table(groups.coordinator.partition_for("g")) == {}


def test_a_deleted_group_deletes_its_offsets() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    commit(groups, "a", 2, ("orders", 0))
    assert raised(lambda: groups.delete_group("g", groups.now_ms))[0] is E.NON_EMPTY_GROUP
    groups.beat("a", -1)
    groups.delete_group("g", groups.now_ms)
    assert groups.store.table(groups.coordinator.partition_for("g")) == {}


# Over the wire


def wire_member(client: RawClient) -> tuple[bytes, int]:
    """Join a member "a" that has all of topic "orders"; return the topic's id, and the member's epoch."""
    topic_id = create_topic(client, "orders", 2).topic_id
    answer = client.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="a",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        ),
        1,
    )
    assert [one.partitions for one in answer.assignment.topic_partitions] == [(0, 1)]
    return topic_id, answer.member_epoch


@pytest.mark.parametrize("version", [9, 10])
def test_a_member_commits_and_fetches_by_name_and_by_topic_id(client: RawClient, version: int) -> None:
    topic_id, epoch = wire_member(client)
    by_id = version >= 10
    place: dict[str, Any] = {"topic_id": topic_id} if by_id else {"name": "orders"}
    partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata="")

    def commit_error(member: str, epoch: int) -> int:
        request = OffsetCommitRequest(
            group_id="g",
            member_id=member,
            generation_id_or_member_epoch=epoch,
            topics=(OffsetCommitRequestTopic(**place, partitions=(partition,)),),
        )
        (topic,) = client.ask(request, version).topics
        return int(topic.partitions[0].error_code)

    def fetched(member: str | None, epoch: int) -> tuple[int, list[int]]:
        request = OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id="g",
                    member_id=member,
                    member_epoch=epoch,
                    topics=(OffsetFetchRequestTopics(**place, partition_indexes=(1,)),),
                ),
            )
        )
        (group,) = client.ask(request, version).groups
        return group.error_code, [one.committed_offset for topic in group.topics for one in topic.partitions]

    assert commit_error("a", epoch - 1) == E.STALE_MEMBER_EPOCH
    assert commit_error("b", epoch) == E.UNKNOWN_MEMBER_ID
    assert commit_error("a", epoch) == E.NONE
    assert fetched("a", epoch) == (E.NONE, [7])
    assert fetched(None, -1) == (E.NONE, [7])
    assert fetched("a", epoch - 1) == (E.STALE_MEMBER_EPOCH, [])
    assert fetched("b", epoch) == (E.UNKNOWN_MEMBER_ID, [])


def test_the_assignment_interval_may_change_while_the_broker_runs(broker: ottla.Broker, client: RawClient) -> None:
    def set_interval(value: str) -> int:
        config = AlterableConfig(name="group.consumer.assignment.interval.ms", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=(config,))
        (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
        return int(row.error_code)

    assert set_interval("15001") == E.INVALID_REQUEST
    assert set_interval("10000") == E.NONE
    _, epoch = wire_member(client)

    def joined(member: str) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("orders",),
            topic_partitions=(),
        )
        return int(client.ask(request, 1).member_epoch)

    assert joined("b") == epoch
    assert set_interval("0") == E.NONE
    assert joined("c") > epoch
