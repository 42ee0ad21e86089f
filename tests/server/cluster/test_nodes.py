"""Several nodes in one process: their leaderships, errors of the wrong node, and the addresses in Metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.broker.admin import create, delete_records, metadata, wanted
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

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ottla.Broker]:
    """Run three nodes with topic t: six partitions of three replicas, one record in each."""
    with ottla.Broker(str(tmp_path_factory.mktemp("cluster")), nodes=3) as broker, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(*address(broker, node))) for node in range(3)]
        create_topic(clients[0], "t", partitions=6, replicas=3)
        for index, leader in leaders(clients[0]).items():
            assert produce(clients[leader], "t", ("k", f"v{index}"), partition=index).base_offset == 0
        yield broker


@pytest.fixture(scope="module")
def nodes(cluster: ottla.Broker) -> Iterator[list[RawClient]]:
    """Yield a client of each node."""
    with ExitStack() as stack:
        yield [stack.enter_context(RawClient(*address(cluster, node))) for node in range(3)]


def leaders(client: RawClient, topic: str = "t") -> dict[int, int]:
    return {row.partition_index: row.leader_id for row in metadata(client, topic).topics[0].partitions}


def apart(client: RawClient) -> tuple[int, int]:
    """Return a partition of t and a node that does not lead it."""
    return 0, (leaders(client)[0] + 1) % 3


# Leaderships


def test_every_node_returns_the_same_nodes_topics_and_leaders(nodes: list[RawClient]) -> None:
    answers = [metadata(client) for client in nodes]
    assert answers[0] == answers[1] == answers[2]
    assert [node.node_id for node in answers[0].brokers] == [0, 1, 2]
    assert len({node.port for node in answers[0].brokers}) == 3
    assert answers[0].controller_id == 0
    clusters = [client.ask(DescribeClusterRequest()) for client in nodes]
    assert [[row.broker_id for row in answer.brokers] for answer in clusters] == [[0, 1, 2]] * 3


def test_leaders_are_spread_and_every_replica_is_in_sync(nodes: list[RawClient]) -> None:
    (topic,) = metadata(nodes[0], "t").topics
    assert Counter(leaders(nodes[0]).values()) == {0: 2, 1: 2, 2: 2}
    for row in topic.partitions:
        assert sorted(row.replica_nodes) == [0, 1, 2]
        assert (row.replica_nodes[0], row.isr_nodes) == (row.leader_id, row.replica_nodes)


def test_new_partitions_are_assigned_to_nodes_in_turn(cluster: ottla.Broker, nodes: list[RawClient]) -> None:
    for number in range(3):
        create_topic(nodes[number], f"spread{number}", partitions=3, replicas=2)
        assert Counter(leaders(nodes[0], f"spread{number}").values()) == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize("replicas", [4, 100])
def test_more_replicas_than_nodes_are_refused(nodes: list[RawClient], replicas: int) -> None:
    row = create_topic(nodes[0], "too-many", replicas=replicas)
    assert row.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 3 broker(s) are registered" in row.error_message


@pytest.mark.parametrize(("count", "replicas"), [(1, 1), (2, 2), (3, 3), (4, 3)])
def test_no_more_replicas_are_required_than_a_topic_has(tmp_path: Path, count: int, replicas: int) -> None:
    overrides = {"min.insync.replicas": "4"}
    with ottla.Broker(str(tmp_path), nodes=count, overrides=overrides) as broker, RawClient(*address(broker)) as client:
        metadata(client, "__consumer_offsets", create=True)
        (topic,) = metadata(client, "__consumer_offsets").topics
        assert {len(row.replica_nodes) for row in topic.partitions} == {replicas}
        partition = broker.inner.services.topics.partition("__consumer_offsets", 0)
        assert broker.inner.services.appends.min_insync_replicas(partition) == replicas
        create_topic(client, "t", replicas=count)
        with RawClient(*address(broker, leaders(client)[0])) as leader:
            assert produce(leader, "t", ("k", "v")).error_code == ErrorCode.NONE
            assert produce(leader, "t", ("k", "v"), acks=1).error_code == ErrorCode.NONE


# Errors of the wrong node


@pytest.mark.parametrize("version", range(3, 14))
def test_produce_to_the_wrong_node_names_the_leader(nodes: list[RawClient], version: int) -> None:
    index, wrong = apart(nodes[0])
    (topic,) = metadata(nodes[0], "t").topics
    request = produce_request(topic.topic_id if version >= 13 else "t", batch(("k", "v")), partition=index)
    answer = nodes[wrong].ask(request, version)
    (row,) = answer.responses[0].partition_responses
    assert (row.error_code, row.base_offset) == (NOT_LEADER, -1)
    assert_leader_is_returned(answer, row, nodes[0], index, told=version >= 10)


def assert_leader_is_returned(answer: Any, row: Any, client: RawClient, index: int, *, told: bool) -> None:
    """Check that the partition has the leader's id and epoch, and the answer its address (KIP-951)."""
    leader = leaders(client)[index]
    current = row.current_leader
    assert (current.leader_id, current.leader_epoch) == ((leader, 0) if told else (-1, -1))
    (node,) = (each for each in metadata(client).brokers if each.node_id == leader)
    known = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
    assert known == ([(node.node_id, node.host, node.port)] if told else [])


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_from_the_wrong_node_names_the_leader(nodes: list[RawClient], version: int) -> None:
    index, wrong = apart(nodes[0])
    (topic,) = metadata(nodes[0], "t").topics
    request = fetch_request(topic.topic_id if version >= 13 else "t", 0, index, max_wait_ms=60_000)
    answer = nodes[wrong].ask(request, version)
    (row,) = answer.responses[0].partitions
    assert (row.error_code, row.high_watermark, len(row.records or b"")) == (NOT_LEADER, -1, 0)
    leader = leaders(nodes[0])[index]
    assert row.current_leader.leader_id == (leader if version >= 12 else -1)
    assert [each.node_id for each in answer.node_endpoints] == ([leader] if version >= 16 else [])


def test_valid_partitions_of_a_request_succeed_among_invalid_ones(nodes: list[RawClient]) -> None:
    led_by = leaders(nodes[0])
    requests = [fetch_request("t", 0, partition=index) for index in range(6)]
    topics = tuple(request.topics[0] for request in requests)
    answer = nodes[1].ask(replace(requests[0], topics=topics), version=12)
    rows = [row for topic in answer.responses for row in topic.partitions]
    assert {row.partition_index: row.error_code for row in rows} == {
        index: ErrorCode.NONE if leader == 1 else NOT_LEADER for index, leader in led_by.items()
    }
    for row in rows:
        if row.error_code == ErrorCode.NONE:
            assert records_of(row) == [(0, b"k", f"v{row.partition_index}".encode())]


def test_other_requests_about_a_partition_are_answered_only_by_its_leader(nodes: list[RawClient]) -> None:
    index, wrong = apart(nodes[0])
    assert list_offset(nodes[wrong], "t", -1, partition=index) == (NOT_LEADER, -1)
    assert delete_records(nodes[wrong], "t", 0, partition=index) == (NOT_LEADER, -1)
    asked = OffsetForLeaderPartition(partition=index, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(asked,)),))
    assert nodes[wrong].ask(request).topics[0].partitions[0].error_code == NOT_LEADER
    leader = nodes[leaders(nodes[0])[index]]
    assert list_offset(leader, "t", -1, partition=index) == (ErrorCode.NONE, 1)
    assert leader.ask(request).topics[0].partitions[0].end_offset == 1


def test_every_node_has_the_log_directories_of_its_replicas(nodes: list[RawClient]) -> None:
    create(nodes[0], wanted("placed", -1, -1, assignments=[(0, [1, 0]), (1, [2, 1])]))
    found = []
    for client in nodes:
        (directory,) = client.ask(DescribeLogDirsRequest(topics=None)).results
        found.append(
            [row.partition_index for topic in directory.topics if topic.name == "placed" for row in topic.partitions]
        )
    assert found == [[0], [0, 1], [1]]


def test_a_group_is_coordinated_by_one_node_only(nodes: list[RawClient]) -> None:
    answers = [client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))) for client in nodes]
    found = {(row.node_id, row.port) for answer in answers for row in answer.coordinators}
    ((coordinator, port),) = found
    assert port == metadata(nodes[0]).brokers[coordinator].port
    codes = [
        client.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody")).error_code for client in nodes
    ]
    assert codes.pop(coordinator) == ErrorCode.UNKNOWN_MEMBER_ID
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2


def test_a_change_by_one_node_is_known_to_all_at_once(nodes: list[RawClient]) -> None:
    create_topic(nodes[2], "fresh")
    assert len({metadata(client, "fresh").topics[0].topic_id for client in nodes}) == 1


def test_a_restart_keeps_leaders_and_replicas(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), nodes=3) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", partitions=5, replicas=2)
        before = metadata(client, "t").topics
    with ottla.Broker(str(tmp_path), nodes=3) as broker, RawClient(*address(broker)) as client:
        assert metadata(client, "t").topics == before


# Listeners

LISTENERS = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "advertised.listeners": "INSIDE://inside.example:9092,OUTSIDE://outside.example:19092",
    "broker.rack": "r1",
}


def listener_address(broker: ottla.Broker, name: str, node: int = 0) -> tuple[str, int]:
    listener = broker.inner.nodes[node].by_listener[name]
    return "127.0.0.1", listener.port


@pytest.mark.parametrize(
    ("name", "told"), [("INSIDE", ("inside.example", 9092)), ("OUTSIDE", ("outside.example", 19092))]
)
def test_a_client_receives_the_address_of_its_listener(tmp_path: Path, name: str, told: tuple[str, int]) -> None:
    with ottla.Broker(str(tmp_path), overrides=LISTENERS) as broker:
        assert broker.bootstrap == "{}:{}".format(*listener_address(broker, "INSIDE"))
        with RawClient(*listener_address(broker, name)) as client:
            (node,) = metadata(client).brokers
            assert ((node.host, node.port), node.rack) == (told, "r1")
            (node,) = client.ask(DescribeClusterRequest()).brokers
            assert ((node.host, node.port), node.rack) == (told, "r1")
            (row,) = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))).coordinators
            assert (row.host, row.port) == told


def test_without_advertised_addresses_each_listener_returns_its_bound_ones(tmp_path: Path) -> None:
    overrides = {"listeners": LISTENERS["listeners"]}
    with ottla.Broker(str(tmp_path), nodes=2, overrides=overrides) as broker:
        for name in ("INSIDE", "OUTSIDE"):
            expected = [listener_address(broker, name, node) for node in range(2)]
            with RawClient(*listener_address(broker, name, node=1)) as client:
                assert [(node.host, node.port) for node in metadata(client).brokers] == expected
                create_topic(client, "t", partitions=2)
                index = next(index for index, leader in leaders(client).items() if leader == 0)
                request = produce_request("t", batch(("k", "v")), partition=index)
                (endpoint,) = client.ask(request, 12).node_endpoints
                assert (endpoint.host, endpoint.port) == expected[0]


def test_records_sent_to_one_listener_are_read_at_another(tmp_path: Path) -> None:
    with (
        ottla.Broker(str(tmp_path), overrides=LISTENERS) as broker,
        RawClient(*listener_address(broker, "INSIDE")) as inside,
        RawClient(*listener_address(broker, "OUTSIDE")) as outside,
    ):
        create_topic(inside, "t")
        produce(inside, "t", ("k", "v"))
        assert records_of(fetch(outside, "t", 0)) == [(0, b"k", b"v")]


def test_a_wildcard_listener_is_returned_with_the_machines_name(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), overrides={"listeners": "PLAINTEXT://:0"}) as broker:
        host, port = address(broker)
        assert host == "localhost"
        with RawClient("127.0.0.1", port) as client:
            (node,) = metadata(client).brokers
            assert (bool(node.host), node.port) == (True, port)
