"""Partitions get other replicas and other leaders because a client wants them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.server.client.connection import Client
from support.broker.admin import create, metadata, wanted
from support.broker.conversation import address, fetch, produce, records_of
from support.broker.raw_client import RawClient

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(tmp_path), nodes=3) as broker:
        yield broker


@pytest.fixture
def nodes(cluster: ottla.Broker) -> Iterator[list[RawClient]]:
    """A client of each node."""
    with ExitStack() as stack:
        yield [stack.enter_context(RawClient(*address(cluster, node))) for node in range(3)]


def topic(client: Client, *replicas: int, name: str = "t") -> None:
    """A topic whose one partition has these replicas."""
    (row,) = create(client, wanted(name, -1, -1, assignments=[(0, replicas)]))
    assert row.error_code == ErrorCode.NONE


def placed(client: Client, name: str = "t") -> tuple[list[int], int, list[int], int]:
    """Replicas, leader, ISR and leader epoch of partition 0."""
    (row,) = metadata(client, name).topics[0].partitions
    return list(row.replica_nodes), row.leader_id, list(row.isr_nodes), row.leader_epoch


def reassign(
    client: Client, replicas: tuple[int, ...] | None, *, name: str = "t", index: int = 0, **options: Any
) -> Any:
    """The row of the answer for one partition."""
    row = ReassignableTopic(name=name, partitions=(ReassignablePartition(partition_index=index, replicas=replicas),))
    (answer,) = client.ask(AlterPartitionReassignmentsRequest(topics=(row,), **options)).responses
    return answer.partitions[0]


def elect(client: Client, kind: int, *names: str) -> dict[str, list[int]]:
    """The codes of the answer by topic; no names ask for all partitions."""
    which = tuple(TopicPartitions(topic=name, partitions=(0,)) for name in names) if names else None
    answer = client.ask(ElectLeadersRequest(election_type=kind, topic_partitions=which))
    assert answer.error_code == ErrorCode.NONE
    return {row.topic: [each.error_code for each in row.partition_result] for row in answer.replica_election_results}


def test_a_partition_moves_to_another_node_with_its_records(nodes: list[RawClient]) -> None:
    topic(nodes[0], 0)
    produce(nodes[0], "t", ("k", "before"))
    assert reassign(nodes[2], (1,)).error_code == ErrorCode.NONE
    assert [placed(client) for client in nodes] == [([1], 1, [1], 1)] * 3
    assert produce(nodes[0], "t", ("k", "astray")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    produce(nodes[1], "t", ("k", "after"))
    assert [value for _, _, value in records_of(fetch(nodes[1], "t", 0))] == [b"before", b"after"]


def test_the_leader_stays_where_it_is_among_the_new_replicas(nodes: list[RawClient]) -> None:
    topic(nodes[0], 0, 1)
    reassign(nodes[0], (2, 1, 0))
    assert placed(nodes[0]) == ([2, 1, 0], 0, [2, 1, 0], 0)
    reassign(nodes[0], (2, 0))
    assert placed(nodes[0]) == ([2, 0], 0, [2, 0], 1)  # who was a replica before must not take itself for one


def test_what_was_reassigned_stays_so_after_a_restart(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), nodes=2) as broker, RawClient(*address(broker)) as client:
        topic(client, 0)
        reassign(client, (1,))
    with ottla.Broker(str(tmp_path), nodes=2) as broker, RawClient(*address(broker)) as client:
        assert placed(client) == ([1], 1, [1], 1)


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        ({"replicas": (0,), "name": "missing"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "missing"),
        ({"replicas": (0,), "index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t-1"),
        ({"replicas": ()}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "empty"),
        ({"replicas": (1, 1)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once"),
        ({"replicas": (7,)}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 7"),
        ({"replicas": None}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "t-0"),
        (
            {"replicas": (0, 1), "allow_replication_factor_change": False},
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "from 1 to 2",
        ),
    ],
)
def test_bad_reassignments(nodes: list[RawClient], asked: dict[str, Any], code: ErrorCode, says: str) -> None:
    topic(nodes[0], 0)
    row = reassign(nodes[0], **asked)
    assert row.error_code == code
    assert says in row.error_message
    assert placed(nodes[0]) == ([0], 0, [0], 0)


def test_no_partition_moves_to_stopped_nodes_alone(cluster: ottla.Broker, nodes: list[RawClient]) -> None:
    topic(nodes[0], 0)
    cluster.stop_node(1)
    assert reassign(nodes[0], (1,)).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(nodes[0], (1, 2)).error_code == ErrorCode.NONE
    assert placed(nodes[0]) == ([1, 2], 2, [2], 1)


def test_nothing_is_ever_under_way(nodes: list[RawClient]) -> None:
    topic(nodes[0], 0)
    reassign(nodes[0], (1, 2))
    assert nodes[0].ask(ListPartitionReassignmentsRequest()).topics == ()


def test_the_preferred_replica_becomes_leader(nodes: list[RawClient]) -> None:
    for name in ("t", "u"):
        topic(nodes[0], 0, 1, name=name)
    reassign(nodes[0], (1, 0))
    assert elect(nodes[0], PREFERRED, "t", "u") == {"t": [ErrorCode.NONE], "u": [ErrorCode.ELECTION_NOT_NEEDED]}
    assert placed(nodes[0]) == ([1, 0], 1, [1, 0], 1)
    assert produce(nodes[1], "t", ("k", "v")).error_code == ErrorCode.NONE


def test_an_election_for_all_partitions_names_those_it_was_needed_for(nodes: list[RawClient]) -> None:
    for name in ("t", "u"):
        topic(nodes[0], 0, 1, name=name)
    reassign(nodes[0], (1, 0))
    assert elect(nodes[0], PREFERRED) == {"t": [ErrorCode.NONE], "u": []}


def test_a_preferred_replica_that_is_down_is_not_elected(cluster: ottla.Broker, nodes: list[RawClient]) -> None:
    topic(nodes[0], 1, 0)
    cluster.stop_node(1)
    assert elect(nodes[0], PREFERRED, "t") == {"t": [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]}
    cluster.start_node(1)
    assert elect(nodes[0], PREFERRED, "t") == {"t": [ErrorCode.NONE]}
    assert placed(nodes[0])[1] == 1


def test_an_unclean_election_takes_any_live_replica(cluster: ottla.Broker, nodes: list[RawClient]) -> None:
    topic(nodes[0], 1, 2)
    produce(nodes[1], "t", ("k", "v"))
    assert elect(nodes[0], UNCLEAN, "t") == {"t": [ErrorCode.ELECTION_NOT_NEEDED]}
    cluster.stop_node(2)
    cluster.stop_node(1)
    assert elect(nodes[0], UNCLEAN, "t") == {"t": [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]}
    cluster.start_node(2)
    assert placed(nodes[0])[1:3] == (-1, [1])  # node 1 was in step last
    assert elect(nodes[0], UNCLEAN, "t") == {"t": [ErrorCode.NONE]}
    assert placed(nodes[0])[1:3] == (2, [2])


@pytest.mark.parametrize("names", [(), ("missing",)])
def test_what_there_is_no_election_for(nodes: list[RawClient], names: tuple[str, ...]) -> None:
    expected = {name: [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] for name in names}
    assert elect(nodes[0], PREFERRED, *names) == expected
    assert nodes[0].ask(ElectLeadersRequest(election_type=2)).error_code == ErrorCode.INVALID_REQUEST
