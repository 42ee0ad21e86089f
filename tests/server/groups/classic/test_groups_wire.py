"""The group APIs as clients see them: every version, both forms of batched answers, errors in Kafka's places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from support.broker.conversation import address, create_topic
from support.broker.raw_client import RawClient
from support.sizes import size

NOT_HERE = ErrorCode.NOT_COORDINATOR
SESSION_MS = 30_000
"""A long session timeout: no member is late on a machine that stands still for a while."""


def join_request(group: str = "g", member: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        **{
            "group_id": group,
            "member_id": member,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (JoinGroupRequestProtocol(name="range", metadata=b"meta"),),
            **fields,
        }
    )


def join(client: RawClient, group: str = "g", version: int = 9, **fields: Any) -> Any:
    """Join with as many requests as that takes, using the broker's member id if it requires one."""
    answer = client.ask(join_request(group, **fields), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = client.ask(join_request(group, answer.member_id, **fields), version)
    return answer


def sync(client: RawClient, member: str, generation: int, group: str = "g", version: int = 5) -> Any:
    request = SyncGroupRequest(
        group_id=group,
        member_id=member,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupRequestAssignment(member_id=member, assignment=b"all"),),
    )
    return client.ask(request, version)


def commit_request(*offsets: tuple[str | bytes, int, int], group: str = "g", **fields: Any) -> OffsetCommitRequest:
    """Return an OffsetCommit of (topic, partition, offset); a topic id if the topic is bytes."""
    topics = tuple(
        OffsetCommitRequestTopic(
            name=topic if isinstance(topic, str) else "",
            topic_id=topic if isinstance(topic, bytes) else bytes(16),
            partitions=(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_leader_epoch=3, committed_metadata="m"
                ),
            ),
        )
        for topic, partition, offset in offsets
    )
    return OffsetCommitRequest(group_id=group, topics=topics, **fields)


def commit(client: RawClient, *offsets: Any, version: int = 9, **fields: Any) -> list[int]:
    answer = client.ask(commit_request(*offsets, **fields), version)
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def fetch_request(version: int, *places: Any, group: str = "g", everything: bool = False) -> OffsetFetchRequest:
    """Return an OffsetFetch in the form of the version."""
    if version < 8:
        topics = tuple(OffsetFetchRequestTopic(name=topic, partition_indexes=(index,)) for topic, index in places)
        return OffsetFetchRequest(group_id=group, topics=None if everything else topics)
    batched = tuple(
        OffsetFetchRequestTopics(
            **({"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}), partition_indexes=(index,)
        )
        for topic, index in places
    )
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None if everything else batched),))


def fetch(client: RawClient, version: int, *places: Any, **options: Any) -> tuple[int, list[tuple[int, int]]]:
    """Return (group error, (offset, error) per partition)."""
    answer = client.ask(fetch_request(version, *places, **options), version)
    answer = answer if version < 8 else answer.groups[0]
    rows = [(one.committed_offset, one.error_code) for topic in answer.topics for one in topic.partitions]
    return answer.error_code, rows


# All versions


def test_a_member_joins_and_leaves_in_every_version(client: RawClient) -> None:
    for version in range(10):
        group = f"g{version}"
        joined = join(client, group, version)
        assert joined.error_code == ErrorCode.NONE
        assert joined.leader == joined.member_id
        assert joined.protocol_name == "range"
        assert [member.metadata for member in joined.members] == [b"meta"]
        member, generation = joined.member_id, joined.generation_id
        synced = sync(client, member, generation, group, min(version, 5))
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all")
        heartbeat = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
        assert client.ask(heartbeat, min(version, 4)).error_code == ErrorCode.NONE
        described = client.ask(DescribeGroupsRequest(groups=(group,)), min(version, 6)).groups[0]
        assert (described.group_state, described.members[0].client_host) == ("Stable", "/127.0.0.1")
        listed = client.ask(ListGroupsRequest(), min(version, 5))
        assert group in {one.group_id for one in listed.groups}
        leaving = LeaveGroupRequest(group_id=group, member_id=member, members=(MemberIdentity(member_id=member),))
        left = client.ask(leaving, min(version, 5))
        assert left.error_code == ErrorCode.NONE
        assert [one.error_code for one in left.members] == ([] if version < 3 else [ErrorCode.NONE])
        deleted = client.ask(DeleteGroupsRequest(groups_names=(group, group)), min(version, 2))
        assert [(one.group_id, one.error_code) for one in deleted.results] == [(group, ErrorCode.NONE)]


@pytest.mark.parametrize("version", range(10))
def test_errors_of_a_join_are_returned_in_every_version(client: RawClient, version: int) -> None:
    answer = client.ask(join_request(member="nobody"), version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")
    assert answer.protocol_name == ("" if version < 7 else None)
    assert client.ask(join_request(session_timeout_ms=1), version).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_version_0_of_join_waits_as_long_as_its_session(broker: ottla.Broker, client: RawClient) -> None:
    with RawClient(*address(broker)) as other:
        first = join(client, version=0, rebalance_timeout_ms=-1, session_timeout_ms=20_000)
        sync(client, first.member_id, first.generation_id)
        other.send(join_request(session_timeout_ms=30_000), 0)
        client.ask(HeartbeatRequest(group_id="g", member_id=first.member_id, generation_id=first.generation_id))
        broker.advance_clock(20_000)
        assert other.receive().generation_id == first.generation_id + 1


def test_commits_in_every_version(client: RawClient) -> None:
    topic_id = create_topic(client, "t", partitions=2).topic_id
    for version in range(2, 11):
        topic = topic_id if version >= 10 else "t"
        assert commit(client, (topic, 0, version), (topic, 1, 7), version=version) == [0, 0]
        assert fetch(client, 9, ("t", 0), ("t", 1)) == (0, [(version, 0), (7, 0)])


def test_unknown_topics_have_their_own_errors(client: RawClient) -> None:
    topic_id = create_topic(client, "t").topic_id
    missing, unknown_id = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
    assert commit(client, ("t", 0, 1), ("t", 1, 1), ("t", -1, 1), ("u", 0, 1)) == [0, missing, missing, missing]
    by_id = [(topic_id, 0, 2), (topic_id, 1, 1), (b"\1" * 16, 0, 1), (bytes(16), 0, 1)]
    assert commit(client, *by_id, version=10) == [0, missing, unknown_id, unknown_id]
    assert fetch(client, 9, everything=True) == (0, [(2, 0)])
    assert commit(client, ("u", 0, 1), group="never") == [missing]
    assert client.ask(DescribeGroupsRequest(groups=("never",))).groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_the_groups_error_is_returned_for_every_existing_partition(client: RawClient) -> None:
    create_topic(client, "t")
    fields = {"member_id": "m", "generation_id_or_member_epoch": 1}
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(client, ("t", 0, 1), ("u", 0, 1), version=8, **fields) == [ErrorCode.ILLEGAL_GENERATION, missing]
    assert commit(client, ("t", 0, 1), ("u", 0, 1), version=9, **fields) == [ErrorCode.GROUP_ID_NOT_FOUND, missing]
    assert commit(client, ("t", 0, 1), member_id="m" * 30_000) == [0]


def test_fetches_in_every_version(client: RawClient) -> None:
    topic_id = create_topic(client, "t", partitions=2).topic_id
    commit(client, ("t", 0, 42))
    for version in range(1, 11):
        topic = topic_id if version >= 10 else "t"
        answer = client.ask(fetch_request(version, (topic, 0), (topic, 1)), version)
        rows = [one for part in (answer if version < 8 else answer.groups[0]).topics for one in part.partitions]
        assert [(one.committed_offset, one.metadata, one.error_code) for one in rows] == [(42, "m", 0), (-1, "", 0)]
        assert rows[0].committed_leader_epoch == (3 if version >= 5 else -1)
        if version >= 2:
            assert fetch(client, version, everything=True) == (0, [(42, 0)])


def test_a_fetch_by_id_distinguishes_topics(client: RawClient) -> None:
    old_id = create_topic(client, "t").topic_id
    commit(client, ("t", 0, 42))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(client, 10, (old_id, 0), (b"\1" * 16, 5)) == (0, [(42, 0), (-1, unknown)])
    (topic,) = client.ask(fetch_request(10, everything=True), 10).groups[0].topics
    assert topic.topic_id == old_id


def test_a_fetch_returns_unknown_topics_after_known_ones(client: RawClient) -> None:
    topic_id = create_topic(client, "t").topic_id
    commit(client, ("t", 0, 42))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    asked = [(b"\1" * 16, 5), (topic_id, 0), (b"\2" * 16, 6)]
    assert fetch(client, 10, *asked) == (0, [(42, 0), (-1, unknown), (-1, unknown)])
    topics = client.ask(fetch_request(10, *asked), 10).groups[0].topics
    assert [topic.topic_id for topic in topics] == [topic_id, b"\1" * 16, b"\2" * 16]


def test_several_groups_are_fetched_at_once(client: RawClient) -> None:
    create_topic(client, "t")
    commit(client, ("t", 0, 1), group="a")
    commit(client, ("t", 0, 2), group="b")
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    asked = tuple(OffsetFetchRequestGroup(group_id=group, topics=topics) for group in ("a", "b", "c"))
    answer = client.ask(OffsetFetchRequest(groups=asked), 8)
    assert [(one.group_id, one.topics[0].partitions[0].committed_offset) for one in answer.groups] == [
        ("a", 1),
        ("b", 2),
        ("c", -1),
    ]


def test_offsets_are_deleted_one_by_one(client: RawClient) -> None:
    create_topic(client, "t", partitions=2)
    commit(client, ("t", 0, 1), ("t", 1, 2))
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 5))
    topics = (OffsetDeleteRequestTopic(name="t", partitions=partitions),)
    answer = client.ask(OffsetDeleteRequest(group_id="g", topics=topics))
    assert answer.error_code == ErrorCode.NONE
    assert [one.error_code for one in answer.topics[0].partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert fetch(client, 9, everything=True) == (0, [(2, 0)])
    assert client.ask(OffsetDeleteRequest(group_id="no", topics=topics)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_members_leave_by_instance_and_unknown_ids_are_refused(client: RawClient) -> None:
    join(client, group_instance_id="i")
    members = (MemberIdentity(group_instance_id="i"), MemberIdentity(member_id="x"))
    answer = client.ask(LeaveGroupRequest(group_id="g", members=members))
    assert [one.error_code for one in answer.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert client.ask(LeaveGroupRequest(group_id="g", member_id="x"), 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_must_name_the_protocol_from_version_5(client: RawClient) -> None:
    joined = join(client)
    request = SyncGroupRequest(group_id="g", member_id=joined.member_id, generation_id=joined.generation_id)
    assert client.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert client.ask(request, 4).error_code == ErrorCode.NONE


def test_authorized_operations_are_returned_on_request(client: RawClient) -> None:
    join(client)
    asked, not_asked = (
        client.ask(DescribeGroupsRequest(groups=("g",), include_authorized_operations=asked)).groups[0]
        for asked in (True, False)
    )
    # READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
    assert asked.authorized_operations == 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
    assert not_asked.authorized_operations == -(2**31)


def test_names_of_maximum_length_are_answered(client: RawClient) -> None:
    """Member ids and messages that the broker derives from a name must still fit into an answer."""
    longest = "n" * 32_767
    joined = join(client, longest, group_instance_id=longest)
    assert joined.error_code == ErrorCode.NONE
    assert sync(client, joined.member_id, joined.generation_id, longest).error_code == ErrorCode.NONE
    client.client_id = longest
    assert join(client, "g").error_code == ErrorCode.NONE
    described = client.ask(DescribeGroupsRequest(groups=(longest, "x" * 32_767))).groups
    assert [one.error_code for one in described] == [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    (found,) = client.ask(FindCoordinatorRequest(coordinator_keys=(longest,))).coordinators
    assert found.error_code == ErrorCode.NONE


# Time


def test_a_silent_member_is_removed_by_the_brokers_clock(broker: ottla.Broker, client: RawClient) -> None:
    with RawClient(*address(broker)) as other:
        first = join(client)
        sync(client, first.member_id, first.generation_id)
        other.send(join_request(), 3)
        client.ask(HeartbeatRequest(group_id="g", member_id=first.member_id, generation_id=first.generation_id))
        broker.advance_clock(SESSION_MS)
        second = other.receive()
        assert (second.leader, len(second.members)) == (second.member_id, 1)


def test_a_stop_answers_waiting_requests(tmp_path: Path) -> None:
    """A rebalance may last minutes; a stop must not."""
    overrides = {"group.initial.rebalance.delay.ms": "600000"}
    with (
        ottla.Broker(str(tmp_path / "data"), overrides=overrides) as broker,
        RawClient(*address(broker)) as client,
    ):
        client.send(join_request(), 3)
        with RawClient(*address(broker)) as other:
            while not other.ask(ListGroupsRequest()).groups:
                pass
        broker.stop()
        assert client.receive().error_code == NOT_HERE


# Nodes


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[RawClient]]:
    """Yield a client at each of three nodes."""
    with ExitStack() as stack:
        broker = stack.enter_context(ottla.Broker(str(tmp_path / "data"), nodes=3, rng=random.Random(1)))
        yield [stack.enter_context(RawClient(*address(broker, node))) for node in range(3)]


def test_each_version_of_find_coordinator_finds_the_same_node(nodes: list[RawClient]) -> None:
    names = tuple(f"group-{number}" for number in range(20))
    batched = nodes[0].ask(FindCoordinatorRequest(coordinator_keys=names)).coordinators
    found = {one.key: (one.node_id, one.host, one.port) for one in batched}
    assert {node for node, _, _ in found.values()} == {0, 1, 2}
    for version in range(7):
        for client in nodes:
            if version < 4:
                one = client.ask(FindCoordinatorRequest(key="group-0"), version)
            else:
                (one,) = client.ask(FindCoordinatorRequest(coordinator_keys=("group-0",)), version).coordinators
            assert (one.node_id, one.host, one.port) == found["group-0"]


def test_unknown_types_of_coordinator_are_refused(client: RawClient) -> None:
    request = FindCoordinatorRequest(key="k", key_type=7)
    assert client.ask(request, 3).error_code == ErrorCode.INVALID_REQUEST
    (one,) = client.ask(FindCoordinatorRequest(coordinator_keys=("k",), key_type=2)).coordinators
    assert (one.error_code, one.node_id, one.port) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_only_the_coordinator_answers_for_its_groups(nodes: list[RawClient]) -> None:
    create_topic(nodes[0], "t")
    (found,) = nodes[0].ask(FindCoordinatorRequest(coordinator_keys=("g",))).coordinators
    here, elsewhere = nodes[found.node_id], nodes[(found.node_id + 1) % 3]
    assert commit(here, ("t", 0, 1)) == [0]

    assert commit(elsewhere, ("t", 0, 2)) == [NOT_HERE]
    assert join(elsewhere).error_code == NOT_HERE
    assert sync(elsewhere, "m", 1).error_code == NOT_HERE
    assert elsewhere.ask(HeartbeatRequest(group_id="g", member_id="m")).error_code == NOT_HERE
    assert elsewhere.ask(LeaveGroupRequest(group_id="g", members=(MemberIdentity(),))).error_code == NOT_HERE
    assert elsewhere.ask(OffsetDeleteRequest(group_id="g")).error_code == NOT_HERE
    assert elsewhere.ask(DescribeGroupsRequest(groups=("g",))).groups[0].error_code == NOT_HERE
    assert elsewhere.ask(DeleteGroupsRequest(groups_names=("g",))).results[0].error_code == NOT_HERE
    assert fetch(elsewhere, 9, ("t", 0)) == (NOT_HERE, [])
    assert fetch(elsewhere, 2, ("t", 0)) == (NOT_HERE, [])
    assert fetch(elsewhere, 1, ("t", 0)) == (0, [(-1, NOT_HERE)])
    assert fetch(here, 9, ("t", 0)) == (0, [(1, 0)])


def test_each_node_lists_its_own_groups(nodes: list[RawClient]) -> None:
    create_topic(nodes[0], "t")
    assert nodes[0].ask(ListGroupsRequest()).groups == ()
    names = tuple(f"group-{number}" for number in range(20))
    for one in nodes[0].ask(FindCoordinatorRequest(coordinator_keys=names)).coordinators:
        assert commit(nodes[one.node_id], ("t", 0, 1), group=one.key) == [0]
    listed = [{one.group_id for one in client.ask(ListGroupsRequest()).groups} for client in nodes]
    assert sum(map(len, listed)) == 20
    assert set.union(*listed) == set(names)
    assert all(listed)


def test_listing_groups_does_not_create_the_topic(client: RawClient) -> None:
    assert client.ask(ListGroupsRequest()).groups == ()
    assert client.ask(DescribeGroupsRequest(groups=("g",))).groups[0].error_code == NOT_HERE
    assert client.ask(DeleteGroupsRequest(groups_names=("g",))).results[0].error_code == NOT_HERE


# Restarts


def test_groups_are_restored_after_a_restart(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with ottla.Broker(data) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        joined = join(client)
        sync(client, joined.member_id, joined.generation_id)
        fields = {"member_id": joined.member_id, "generation_id_or_member_epoch": joined.generation_id}
        assert commit(client, ("t", 0, 5), **fields) == [0]
    with ottla.Broker(data) as broker, RawClient(*address(broker)) as client:
        assert fetch(client, 9, ("t", 0)) == (0, [(5, 0)])
        heartbeat = HeartbeatRequest(group_id="g", member_id=joined.member_id, generation_id=joined.generation_id)
        assert client.ask(heartbeat).error_code == ErrorCode.NONE
        assert sync(client, joined.member_id, joined.generation_id).assignment == b"all"


def test_a_large_partition_is_loaded_while_the_broker_serves(tmp_path: Path) -> None:
    data, count = str(tmp_path / "data"), size(80, 300)
    with ottla.Broker(data) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", partitions=10)
        for number in range(count):
            for _ in range(3):
                client.send(commit_request(*(("t", index, number) for index in range(10))), 9)
            for _ in range(3):
                client.receive()
    with ottla.Broker(data) as broker, RawClient(*address(broker)) as client:
        while (found := fetch(client, 9, ("t", 0), ("t", 9)))[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            pass
        assert found == (0, [(count - 1, 0)] * 2)


def test_offsets_of_a_deleted_topic_are_deleted(client: RawClient) -> None:
    create_topic(client, "t")
    create_topic(client, "u")
    assert commit(client, ("t", 0, 5), ("u", 0, 6)) == [0, 0]
    client.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=5000))
    assert fetch(client, 9, everything=True) == (0, [(6, 0)])
