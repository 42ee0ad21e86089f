"""Nodes that stop and start while others serve: the leaders, the answers to clients, and that nothing is lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.records import batches
from ottla.server.runtime.errors import ControlError
from support.broker.admin import create, grow, growth, metadata, wanted
from support.broker.conversation import (
    address,
    create_topic,
    fetch,
    fetch_request,
    list_offset,
    produce,
    produce_request,
    records_of,
)
from support.broker.raw_client import RawClient
from support.logs.batches import batch
from support.sizes import size
from support.transactions.transactional_client import TransactionalClient

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
NOBODY = -1


class Cluster:
    """Nodes in a broker, and a client of each live node."""

    def __init__(self, data_dir: Path, nodes: int, **overrides: str) -> None:
        options = {name.replace("_", "."): value for name, value in overrides.items()}
        self._stack = ExitStack()
        self.broker = self._stack.enter_context(ottla.Broker(str(data_dir), nodes=nodes, overrides=options))
        self._clients: dict[int, RawClient] = {}
        self.live = set(range(nodes))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def __getitem__(self, node_id: int) -> RawClient:
        """Return a client of this node, connected when it is first needed."""
        if node_id not in self._clients:
            self._clients[node_id] = self._stack.enter_context(RawClient(*address(self.broker, node_id)))
        return self._clients[node_id]

    @property
    def any(self) -> RawClient:
        """Return a client of the live node with the lowest id."""
        return self[min(self.live)]

    def stop(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.broker.stop_node(node_id)
            self.live.discard(node_id)
            self._clients.pop(node_id, None)

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.broker.start_node(node_id)
            self.live.add(node_id)

    def partitions(self, topic: str = "t") -> list[Any]:
        """Return the rows of Metadata about a topic, by partition."""
        (row,) = metadata(self.any, topic).topics
        return list(row.partitions)

    def leader(self, topic: str = "t", partition: int = 0) -> RawClient:
        """Return a client of the node that leads the partition."""
        return self[self.partitions(topic)[partition].leader_id]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Run three nodes; t has one partition on all of them, led by node 0, with one record in it."""
    with Cluster(tmp_path, 3, transaction_state_log_num_partitions="2") as running:
        create(running[0], wanted("t", -1, -1, assignments=[(0, [0, 1, 2])]))
        assert produce(running[0], "t", ("k", "v0")).base_offset == 0
        yield running


REPLICAS = {"a": [0, 1, 2], "b": [1], "c": [2, 0]}


def create_all(cluster: Cluster) -> None:
    """Create topics of one partition on the nodes of REPLICAS, the first of them the leader."""
    for name, replicas in REPLICAS.items():
        (row,) = create(cluster[0], wanted(name, -1, -1, assignments=[(0, replicas)]))
        assert row.error_code == ErrorCode.NONE


def led(row: Any) -> tuple[int, int, list[int]]:
    """Return leader, epoch and ISR of a row of Metadata."""
    return row.leader_id, row.leader_epoch, list(row.isr_nodes)


# Sequences of stops (-n) and starts (+n), and the final state of a, b and c of REPLICAS

SEQUENCES = {
    "nothing happens": ([], [(0, 0, [0, 1, 2]), (1, 0, [1]), (2, 0, [2, 0])]),
    "the leader stops": (["-0"], [(1, 1, [1, 2]), (1, 0, [1]), (2, 0, [2])]),
    "it comes back as a follower": (["-0", "+0"], [(1, 1, [1, 2, 0]), (1, 0, [1]), (2, 0, [2, 0])]),
    "a follower goes and comes": (["-2", "+2"], [(0, 0, [0, 1, 2]), (1, 0, [1]), (0, 1, [0, 2])]),
    "only the leader could lead": (["-1"], [(0, 0, [0, 2]), (NOBODY, 1, []), (2, 0, [2, 0])]),
    "it leads again": (["-1", "+1"], [(0, 0, [0, 2, 1]), (1, 2, [1]), (2, 0, [2, 0])]),
    "one after the other": (["-0", "-1"], [(2, 2, [2]), (NOBODY, 1, []), (2, 0, [2])]),
    "who stopped last is waited for": (["-2", "-0", "-1", "+0"], [(NOBODY, 2, []), (NOBODY, 1, []), (0, 3, [0])]),
    "and leads again": (["-2", "-0", "-1", "+0", "+1"], [(1, 3, [1, 0]), (1, 2, [1]), (0, 3, [0])]),
    "all go and come": (["-0", "-1", "-2", "+0", "+1", "+2"], [(2, 4, [2, 0, 1]), (1, 2, [1]), (2, 2, [2, 0])]),
    "stops and starts twice": (["-0", "-0", "+0", "+0"], [(1, 1, [1, 2, 0]), (1, 0, [1]), (2, 0, [2, 0])]),
}


@pytest.mark.parametrize(("steps", "expected"), SEQUENCES.values(), ids=SEQUENCES)
def test_sequences_of_leader_changes_are_followed(
    tmp_path: Path, steps: list[str], expected: list[tuple[int, int, list[int]]]
) -> None:
    with Cluster(tmp_path, 3) as cluster:
        create_all(cluster)
        for step in steps:
            (cluster.stop if step[0] == "-" else cluster.start)(int(step[1]))
        for node_id in cluster.live:
            for name, (leader, epoch, isr) in zip(REPLICAS, expected, strict=True):
                (topic,) = metadata(cluster[node_id], name).topics
                assert led(topic.partitions[0]) == (leader, epoch, isr)
                code = produce(cluster[node_id], name, ("k", "v")).error_code
                assert code == (ErrorCode.NONE if leader == node_id else NOT_LEADER)


def test_any_live_replica_may_become_unclean_leader(tmp_path: Path) -> None:
    with Cluster(tmp_path, 2, unclean_leader_election_enable="true") as cluster:
        create(cluster[0], wanted("t", -1, -1, assignments=[(0, [0, 1])]))
        cluster.stop(0)
        assert produce(cluster[1], "t", ("k", "v")).base_offset == 0
        cluster.stop(1)
        cluster.start(0)
        assert led(cluster.partitions()[0]) == (0, 3, [0])
        assert [offset for offset, _, _ in records_of(fetch(cluster[0], "t", 0))] == [0]  # one log: nothing is lost


# Invariants after any sequence


@settings(max_examples=size(3, 25), deadline=None)
@given(st.data())
def test_leaders_are_live_epochs_never_decrease_and_acknowledged_records_survive(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, 4), "nodes")
    epochs: dict[tuple[str, int], int] = {}
    acknowledged: dict[tuple[str, int], list[tuple[int, bytes | None, bytes | None]]] = {}
    directory = tmp_path_factory.mktemp("nodes")

    def look(cluster: Cluster) -> None:
        """Check what clients see, and what the broker knows while no client can see it."""
        for topic in cluster.broker.inner.services.topics:
            for partition in topic.partitions:
                key = topic.name, partition.index
                assert partition.leader_epoch >= epochs.get(key, 0)
                epochs[key] = partition.leader_epoch
                assert partition.leader == NOBODY or partition.leader in cluster.live & set(partition.isr)
                assert partition.leader != NOBODY or not cluster.live & set(partition.isr)
                if cluster.live:
                    row = cluster.partitions(topic.name)[partition.index]
                    isr = [] if partition.leader == NOBODY else list(partition.isr)
                    assert led(row) == (partition.leader, partition.leader_epoch, isr)
                    assert set(row.offline_replicas) == set(partition.replicas) - cluster.live
                if partition.leader != NOBODY:
                    read = fetch(cluster[partition.leader], topic.name, 0, partition=partition.index)
                    assert records_of(read) == acknowledged.get(key, [])

    for life in range(data.draw(st.integers(1, 2), "lives")):
        with Cluster(directory, count) as cluster:
            look(cluster)
            for number in range(data.draw(st.integers(1, 10), "steps")):
                step = data.draw(st.sampled_from(["stop", "start", "produce", "produce", "create"]))
                node_id = data.draw(st.integers(0, count - 1), "node")
                if step == "stop":
                    cluster.stop(node_id)
                elif step == "start":
                    cluster.start(node_id)
                elif step == "create" and cluster.live:
                    replicas = data.draw(st.integers(1, count), "replicas")
                    row = create_topic(cluster.any, f"t{life}.{number}", 2, replicas)
                    assert row.error_code == ErrorCode.NONE
                elif step == "produce" and node_id in cluster.live:
                    for topic in cluster.broker.inner.services.topics:
                        row = produce(cluster[node_id], topic.name, ("k", f"{life}.{number}"))
                        if row.error_code == ErrorCode.NONE:
                            record = row.base_offset, b"k", f"{life}.{number}".encode()
                            acknowledged.setdefault((topic.name, 0), []).append(record)
                look(cluster)


# Answers to clients


def test_a_stopped_node_leaves_the_cluster_and_refuses_connections(cluster: Cluster) -> None:
    cluster.stop(0)
    answer = metadata(cluster[1], "t")
    assert [node.node_id for node in answer.brokers] == [1, 2]
    assert answer.controller_id == 1
    assert list(answer.topics[0].partitions[0].offline_replicas) == [0]
    told = cluster[1].ask(DescribeClusterRequest())
    assert ([row.broker_id for row in told.brokers], told.controller_id) == ([1, 2], 1)
    fenced = cluster[1].ask(DescribeClusterRequest(include_fenced_brokers=True))
    assert [(row.broker_id, row.is_fenced) for row in fenced.brokers] == [(0, True), (1, False), (2, False)]
    with pytest.raises(ConnectionRefusedError):
        RawClient(*address(cluster.broker, 0))


def test_a_restarted_node_keeps_its_address(cluster: Cluster) -> None:
    before = metadata(cluster[1]).brokers
    cluster.stop(0)
    cluster.start(0)
    assert metadata(cluster[0]).brokers == before
    assert metadata(cluster[0]).controller_id == 0


def test_the_former_leader_returns_the_current_leader(cluster: Cluster) -> None:
    cluster.stop(0)
    cluster.start(0)
    produced = cluster[0].ask(produce_request("t", batch(("k", "v"))), 12)
    fetched = cluster[0].ask(fetch_request(metadata(cluster[0], "t").topics[0].topic_id, 0), 16)
    for answer, row in (
        (produced, produced.responses[0].partition_responses[0]),
        (fetched, fetched.responses[0].partitions[0]),
    ):
        assert row.error_code == NOT_LEADER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 1)
        assert [(node.host, node.port) for node in answer.node_endpoints] == [address(cluster.broker, 1)]


def test_a_partition_without_a_leader_is_reported(cluster: Cluster) -> None:
    create(cluster[0], wanted("alone", -1, -1, assignments=[(0, [0])]))
    cluster.stop(0)
    (row,) = cluster.partitions("alone")
    assert row.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert (*led(row), row.offline_replicas) == (NOBODY, 1, [], (0,))
    described = cluster[1].ask(DescribeTopicPartitionsRequest(topics=(TopicRequest(name="alone"),)))
    (row,) = described.topics[0].partitions
    assert (row.error_code, *led(row), row.offline_replicas) == (ErrorCode.NONE, NOBODY, 1, [], (0,))
    assert (row.eligible_leader_replicas, row.last_known_elr) == ((0,), (0,))
    produced = cluster[1].ask(produce_request("alone", batch(("k", "v"))), 12)
    (refused,) = produced.responses[0].partition_responses
    assert (refused.error_code, refused.current_leader.leader_id, produced.node_endpoints) == (NOT_LEADER, NOBODY, ())
    assert "no live node does" in refused.error_message
    assert fetch(cluster[1], "alone", 0).error_code == NOT_LEADER
    assert list_offset(cluster[1], "alone", -1) == (NOT_LEADER, -1)


def test_a_replica_that_left_an_undersized_isr_may_lead(cluster: Cluster) -> None:
    def described() -> tuple[int, list[int], list[int], list[int]]:
        found = cluster.any.ask(DescribeTopicPartitionsRequest(topics=(TopicRequest(name="two"),)))
        (row,) = found.topics[0].partitions
        return row.leader_id, list(row.isr_nodes), list(row.eligible_leader_replicas), list(row.last_known_elr)

    cluster.broker.create_topic("two", replicas=3, configs={"min.insync.replicas": 2})
    leader, followers, _, _ = described()
    first, second = (node_id for node_id in followers if node_id != leader)
    cluster.stop(first)
    found = described()
    assert (found[0], sorted(found[1]), *found[2:]) == (leader, sorted((leader, second)), [], [])
    cluster.stop(second)
    assert described() == (leader, [leader], [second], [])
    cluster.start(first)
    assert described()[2:] == ([], [])


def test_no_replica_is_eligible_while_the_feature_is_off(cluster: Cluster) -> None:
    cluster.broker.create_topic("two", replicas=2, configs={"min.insync.replicas": 2})
    (row,) = cluster.partitions("two")
    last = row.leader_id
    cluster.stop(*(node_id for node_id in row.replica_nodes if node_id != last), last)
    off = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=2)
    assert cluster.any.ask(UpdateFeaturesRequest(feature_updates=(off,))).error_code == ErrorCode.NONE
    described = cluster.any.ask(DescribeTopicPartitionsRequest(topics=(TopicRequest(name="two"),)))
    (row,) = described.topics[0].partitions
    assert (row.leader_id, row.isr_nodes, row.eligible_leader_replicas, row.last_known_elr) == (NOBODY, (last,), (), ())


def test_the_oldest_metadata_names_live_replicas_only(cluster: Cluster) -> None:
    cluster.stop(0)
    (row,) = metadata(cluster[1], "t", version=0).topics[0].partitions
    assert (row.error_code, row.replica_nodes, row.isr_nodes) == (ErrorCode.REPLICA_NOT_AVAILABLE, (1, 2), (1, 2))
    (row,) = metadata(cluster[1], "t", version=1).topics[0].partitions
    assert (row.error_code, row.replica_nodes, row.isr_nodes) == (ErrorCode.NONE, (0, 1, 2), (1, 2))


def test_records_and_epochs_show_when_leaders_changed(cluster: Cluster) -> None:
    cluster.stop(0)
    assert produce(cluster[1], "t", ("k", "v1"), ("k", "v2")).base_offset == 1
    cluster.stop(1)
    records = fetch(cluster[2], "t", 0).records
    assert isinstance(records, bytes | memoryview)
    assert [one.partition_leader_epoch for one in batches(records)] == [0, 1]
    assert fetch(cluster[2], "t", 0, leader_epoch=1).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert fetch(cluster[2], "t", 0, leader_epoch=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    for asked, expected in {0: (0, 1), 1: (1, 3), 2: (2, 3)}.items():
        row = OffsetForLeaderPartition(partition=0, leader_epoch=asked)
        request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(row,)),))
        (answer,) = cluster[2].ask(request).topics[0].partitions
        assert (answer.leader_epoch, answer.end_offset) == expected


@pytest.mark.parametrize(
    ("stopped", "wanted_replicas", "code"),
    [
        ([], 3, ErrorCode.NONE),
        ([2], 3, ErrorCode.NOT_ENOUGH_REPLICAS),
        ([2], 2, ErrorCode.NONE),
        ([1, 2], 2, ErrorCode.NOT_ENOUGH_REPLICAS),
        ([1, 2], 1, ErrorCode.NONE),
    ],
)
def test_min_insync_replicas_counts_live_ones(
    tmp_path: Path, stopped: list[int], wanted_replicas: int, code: ErrorCode
) -> None:
    with Cluster(tmp_path, 3, min_insync_replicas=str(wanted_replicas)) as cluster:
        create(cluster[0], wanted("t", -1, -1, assignments=[(0, [0, 1, 2])]))
        cluster.stop(*stopped)
        assert produce(cluster[0], "t", ("k", "v")).error_code == code
        assert produce(cluster[0], "t", ("k", "v"), acks=1).error_code == ErrorCode.NONE
        cluster.start(*stopped)
        assert produce(cluster[0], "t", ("k", "v")).error_code == ErrorCode.NONE


# Connections and sessions


def test_a_waiting_fetch_is_answered_before_its_connection_ends(cluster: Cluster) -> None:
    client = cluster[0]
    topic_id = metadata(client, "t").topics[0].topic_id
    client.send(fetch_request(topic_id, 1, max_wait_ms=600_000), 16)
    wait_until_parked(cluster)
    cluster.stop(0)
    answer = client.receive()
    (row,) = answer.responses[0].partitions
    assert (row.error_code, row.current_leader.leader_id) == (NOT_LEADER, 1)
    assert client.is_closed_by_peer()


def wait_until_parked(cluster: Cluster) -> None:
    """Wait until the last request has reached the broker and waits there."""

    async def until_there_is_one() -> None:
        while not cluster.broker.inner.waits:
            await trio.sleep(0.001)

    cluster.broker.run(until_there_is_one)


def test_idle_connections_end_only_with_their_node(cluster: Cluster) -> None:
    first, second = cluster[0], cluster[1]
    metadata(second)
    cluster.stop(0)
    assert first.is_closed_by_peer()
    assert metadata(second).controller_id == 1


def test_fetch_sessions_end_with_their_node(cluster: Cluster) -> None:
    opening = replace(fetch_request("t", 0), session_epoch=0)
    session_id = cluster[0].ask(opening, 12).session_id
    cluster.stop(0)
    cluster.start(0)
    going_on = replace(fetch_request("t", 1), session_id=session_id, session_epoch=1)
    assert cluster[0].ask(going_on, 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


# Topics that are created while nodes are stopped


def test_new_replicas_are_led_by_live_nodes_and_stopped_ones_follow(cluster: Cluster) -> None:
    cluster.stop(0)
    assert create_topic(cluster[1], "new", partitions=4, replicas=3).error_code == ErrorCode.NONE
    for row in cluster.partitions("new"):
        assert row.leader_id == row.replica_nodes[0] in (1, 2)
        assert (row.replica_nodes[2], sorted(row.isr_nodes), row.leader_epoch) == (0, [1, 2], 0)
    assert create_topic(cluster[1], "more", replicas=4).error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    (refused,) = create(cluster[1], wanted("dead", -1, -1, assignments=[(0, [0])]))
    assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    (grown,) = grow(cluster[1], growth("t", 3))
    assert grown.error_code == ErrorCode.NONE
    assert {row.leader_id for row in cluster.partitions("t")} <= {1, 2}
    cluster.start(0)
    assert all(sorted(row.isr_nodes) == [0, 1, 2] for row in cluster.partitions("new"))


# Coordinators


def test_a_coordinator_is_at_its_partitions_leader_or_missing(tmp_path: Path) -> None:
    with Cluster(tmp_path, 2, offsets_topic_num_partitions="2", offsets_topic_replication_factor="1") as cluster:
        keys = ("a", "b", "c", "d")
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=keys)
        before = {row.key: row.node_id for row in cluster[0].ask(request).coordinators}
        assert set(before.values()) == {0, 1}
        cluster.stop(1)
        for row in cluster[0].ask(request).coordinators:
            gone = before[row.key] == 1
            assert row.error_code == (ErrorCode.COORDINATOR_NOT_AVAILABLE if gone else ErrorCode.NONE)
            assert row.node_id == (-1 if gone else 0)
        cluster.start(1)
        assert {row.key: row.node_id for row in cluster[0].ask(request).coordinators} == before


def coordinator(cluster: Cluster, key: str, key_type: int = 0) -> int:
    """Return the node that coordinates a group (0) or a transactional id (1)."""
    (row,) = cluster.any.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))).coordinators
    assert row.error_code == ErrorCode.NONE, row
    node_id: int = row.node_id
    return node_id


def test_the_next_coordinator_knows_the_offsets_and_the_former_one_refuses(cluster: Cluster) -> None:
    former = coordinator(cluster, "g")
    rows = (OffsetCommitRequestPartition(partition_index=0, committed_offset=7),)
    commit = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=rows),))
    assert cluster[former].ask(commit, 9).topics[0].partitions[0].error_code == ErrorCode.NONE
    wish = OffsetFetchRequestGroup(group_id="g", topics=(OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),))
    fetch_offsets = OffsetFetchRequest(groups=(wish,))
    cluster.stop(former)
    now = coordinator(cluster, "g")
    assert now != former
    (group,) = cluster[now].ask(fetch_offsets, 9).groups
    assert group.topics[0].partitions[0].committed_offset == 7
    cluster.start(former)
    (group,) = cluster[former].ask(fetch_offsets, 9).groups
    assert group.error_code == ErrorCode.NOT_COORDINATOR


def test_a_waiting_join_is_redirected_to_the_next_coordinator(tmp_path: Path) -> None:
    with Cluster(tmp_path, 3, group_initial_rebalance_delay_ms="600000") as cluster:
        former = coordinator(cluster, "g")
        client = cluster[former]
        client.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=60_000,
                rebalance_timeout_ms=600_000,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
            ),
            version=3,  # before joins without a member id were refused
        )
        with RawClient(*address(cluster.broker, former)) as other:
            while not other.ask(DescribeGroupsRequest(groups=("g",))).groups[0].members:
                pass
        cluster.stop(former)
        assert client.receive().error_code == ErrorCode.NOT_COORDINATOR
        assert client.is_closed_by_peer()


@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_continues_at_the_next_coordinator(cluster: Cluster, version: int) -> None:
    former = coordinator(cluster, "x", 1)
    producer = TransactionalClient(cluster[former], "x", version=version)

    def write(value: str) -> None:
        if version < 2:
            producer.client = cluster[coordinator(cluster, "x", 1)]
            assert producer.add("t", 0) == ErrorCode.NONE
        producer.client = cluster.leader()
        assert producer.send("t", ("k", value)).error_code == ErrorCode.NONE

    producer.begin()
    write("v1")
    cluster.stop(former)
    write("v2")
    assert [value for _, _, value in records_of(fetch(cluster.leader(), "t", 0, committed=True))] == [b"v0"]
    producer.client = cluster[coordinator(cluster, "x", 1)]
    producer.end(commit=True)
    read = fetch(cluster.leader(), "t", 0, committed=True)
    assert [value for _, key, value in records_of(read) if key == b"k"] == [b"v0", b"v1", b"v2"]


# A restart of everything


def test_a_restart_starts_all_nodes_and_reuses_no_epoch(tmp_path: Path) -> None:
    with Cluster(tmp_path, 3) as cluster:
        create_all(cluster)
        cluster.stop(0, 1, 2)
        partitions = [cluster.broker.inner.services.topics.partition(name, 0) for name in REPLICAS]
        assert [(each.leader, each.leader_epoch) for each in partitions] == [(NOBODY, 3), (NOBODY, 1), (NOBODY, 1)]
    with Cluster(tmp_path, 3) as cluster:
        rows = [led(*cluster.partitions(name)) for name in REPLICAS]
        assert rows == [(2, 3, [0, 1, 2]), (1, 1, [1]), (2, 1, [2, 0])]


# Refusals


def test_an_unknown_node_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ControlError, match="node 7 not found"):
        cluster.broker.stop_node(7)
    with pytest.raises(ControlError, match="node 7 not found"):
        cluster.broker.start_node(7)


def test_the_port_of_a_stopped_node_is_not_reused_by_clients(cluster: Cluster) -> None:
    cluster.stop(0)
    with socket.socket() as client, pytest.raises(OSError, match="in use"):
        client.bind(address(cluster.broker, 0))


def test_a_node_whose_port_is_taken_stays_stopped_until_it_is_free(cluster: Cluster) -> None:
    cluster.stop(0)
    with closing(socket.create_server(address(cluster.broker, 0))):
        with pytest.raises(OSError, match="cannot listen on"):
            cluster.broker.start_node(0)
        assert led(cluster.partitions()[0]) == (1, 1, [1, 2])
    cluster.start(0)
    assert led(cluster.partitions()[0]) == (1, 1, [1, 2, 0])
