"""Leaders that move at a user's request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import read_share_group_state_summary as read_summary
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.read_share_group_state import PartitionData
from ottla.server.runtime.errors import ControlError, Kind
from ottla.server.sharing.share_records import SharePartitionKey
from support.broker.conversation import address, create_topic, fetch, produce, records_of
from support.broker.raw_client import RawClient
from support.sharing.members import initialize_share


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(nodes=3) as broker:
        with RawClient(*address(broker)) as client:
            create_topic(client, "t")
            create_topic(client, "r", replicas=3)
        yield broker


def connected(broker: ottla.Broker, node: int) -> RawClient:
    return RawClient(*address(broker, node))


@pytest.mark.parametrize("topic", ["t", "r"])
def test_the_new_leader_has_all_records_and_a_new_epoch(topic: str, broker: ottla.Broker) -> None:
    epoch = broker.move_leader(topic, 0, 0).leader_epoch
    with connected(broker, 0) as first, connected(broker, 2) as second:
        assert produce(first, topic, ("k", "v")).base_offset == 0
        moved = broker.move_leader(topic, 0, 2)
        assert (moved.was, moved.leader, moved.leader_epoch) == (0, 2, epoch + 1)
        assert produce(first, topic, ("k", "v")).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert produce(second, topic, ("k", "v")).base_offset == 1
        assert len(records_of(fetch(second, topic, 0))) == 2


def test_a_replica_becomes_leader_or_another_node_replaces_the_only_one(broker: ottla.Broker) -> None:
    replicas = broker.move_leader("r", 0, 1).replicas
    assert sorted(replicas) == [0, 1, 2]
    assert broker.move_leader("r", 0, 2).replicas == replicas
    assert broker.move_leader("t", 0, 0).replicas == (0,)
    assert broker.move_leader("t", 0, 1).replicas == (1,)


def test_a_move_to_the_current_leader_does_nothing(broker: ottla.Broker) -> None:
    first = broker.move_leader("t", 0, 1)
    again = broker.move_leader("t", 0, 1)
    assert (again.was, again.leader, again.leader_epoch) == (1, 1, first.leader_epoch)


def test_a_moved_leader_survives_a_restart(broker: ottla.Broker) -> None:
    for node in (0, 2):
        broker.move_leader("t", 0, node)
        broker.restart()
        with connected(broker, node) as client:
            assert produce(client, "t", ("k", "v")).error_code == 0


@pytest.mark.parametrize("kind", [0, 1], ids=["group", "transactional id"])
def test_clients_find_a_moved_coordinator(kind: int, broker: ottla.Broker) -> None:
    for node in (2, 0, 1):
        named: dict[str, Any] = {["group", "transactional_id"][kind]: "mine"}
        broker.move_coordinator(node, **named)
        with connected(broker, 0) as client:
            found = client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=("mine",)), 4).coordinators[0]
            assert (found.error_code, found.node_id) == (0, node)


def test_the_state_of_a_share_partition_moves_with_its_coordinator(broker: ottla.Broker) -> None:
    found = broker.inner.services.topics.get("t")
    assert found is not None
    topic_id = found.id
    broker.move_coordinator(0, group="g", topic="t", partition=0)
    with connected(broker, 0) as client:
        initialize_share(client, "g", topic_id, start_offset=7)
    key = SharePartitionKey("g", topic_id, 0).text
    summary = read_summary.ReadShareGroupStateSummaryRequest(
        group_id="g",
        topics=(read_summary.ReadStateSummaryData(topic_id=topic_id, partitions=(PartitionData(partition=0),)),),
    )
    for node in (2, 0, 1):
        broker.move_coordinator(node, group="g", topic="t", partition=0)
        for each in range(3):
            with connected(broker, each) as client:
                at = client.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=(key,))).coordinators[0]
                assert (at.error_code, at.node_id) == (0, node)
                row = client.ask(summary).results[0].partitions[0]
                told = (0, 7) if each == node else (ErrorCode.NOT_COORDINATOR, 0)
                assert (row.error_code, row.start_offset) == told


def test_a_share_partition_needs_group_topic_and_partition(broker: ottla.Broker) -> None:
    wrong: list[tuple[dict[str, Any], Kind]] = [
        ({"group": "g", "topic": "t"}, Kind.INVALID),
        ({"group": "g", "partition": 0}, Kind.INVALID),
        ({"transactional_id": "x", "topic": "t", "partition": 0}, Kind.INVALID),
        ({"topic": "t", "partition": 0}, Kind.INVALID),
        ({"group": "g", "topic": "t", "partition": 9}, Kind.NOT_FOUND),
    ]
    for named, kind in wrong:
        with pytest.raises(ControlError) as refused:
            broker.move_coordinator(1, **named)
        assert refused.value.kind == kind, named


def test_invalid_leaders_and_partitions_are_named(broker: ottla.Broker) -> None:
    broker.stop_node(2)
    wrong = {
        ("tt", 0, 1): (Kind.NOT_FOUND, "topic 'tt' not found; did you mean 't'?"),
        ("t", 3, 1): (Kind.NOT_FOUND, "partition 3 of t not found; partitions: 0 to 0"),
        ("t", -1, 1): (Kind.NOT_FOUND, "partition -1 of t not found; partitions: 0 to 0"),
        ("t", 0, 7): (Kind.NOT_FOUND, "node 7 not found; nodes: 0, 1, 2"),
        ("t", 0, 2): (Kind.CONFLICT, "node 2 is stopped; start it first"),
    }
    for (topic, partition, node), (kind, why) in wrong.items():
        with pytest.raises(ControlError) as refused:
            broker.move_leader(topic, partition, node)
        assert (refused.value.kind, str(refused.value)) == (kind, why)
