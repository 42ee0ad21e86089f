"""Partitions that get other replicas and other leaders at a client's request."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.lowlevel

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.server.client.connection import Client
from ottla.server.cluster.reassignments import Reassignments
from ottla.server.cluster.replication_throttle import ReplicationThrottle
from ottla.server.partitions.topics import Reassigning
from ottla.server.runtime.clock import Clock
from ottla.storage.disk.paths import CATALOG_FILE, TopicPartition
from ottla.storage.topics.config import LogConfig
from ottla.storage.topics.options import MAX_LONG
from support.broker.admin import create, delete, metadata, wanted
from support.broker.conversation import address, fetch, produce, records_of
from support.broker.raw_client import RawClient

PREFERRED, UNCLEAN = 0, 1
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(tmp_path), nodes=3) as broker:
        yield broker


@pytest.fixture
def nodes(cluster: ottla.Broker) -> Iterator[list[RawClient]]:
    """Yield a client of each node."""
    with ExitStack() as stack:
        yield [stack.enter_context(RawClient(*address(cluster, node))) for node in range(3)]


def topic(client: Client, *replicas: int, name: str = "t") -> None:
    """Create a topic whose one partition has these replicas."""
    (row,) = create(client, wanted(name, -1, -1, assignments=[(0, replicas)]))
    assert row.error_code == ErrorCode.NONE


def placed(client: Client, name: str = "t") -> tuple[list[int], int, list[int], int]:
    """Return replicas, leader, ISR and leader epoch of partition 0."""
    (row,) = metadata(client, name).topics[0].partitions
    return list(row.replica_nodes), row.leader_id, list(row.isr_nodes), row.leader_epoch


def reassign(
    client: Client, replicas: tuple[int, ...] | None, *, name: str = "t", index: int = 0, **options: Any
) -> Any:
    """Reassign one partition; return its row of the answer."""
    row = ReassignableTopic(name=name, partitions=(ReassignablePartition(partition_index=index, replicas=replicas),))
    (answer,) = client.ask(AlterPartitionReassignmentsRequest(topics=(row,), **options)).responses
    return answer.partitions[0]


def under_way(client: Client) -> dict[str, tuple[list[int], list[int], list[int]]]:
    """Return replicas, adding and removing ones of each topic whose one partition is being reassigned."""
    return {
        topic.name: (list(row.replicas), list(row.adding_replicas), list(row.removing_replicas))
        for topic in client.ask(ListPartitionReassignmentsRequest()).topics
        for row in topic.partitions
    }


def configure(client: Client, kind: int, name: str, configs: Mapping[str, str | None]) -> None:
    """Set options, or (None) remove them."""
    changes = tuple(
        AlterableConfig(name=option, config_operation=DELETE if value is None else SET, value=value)
        for option, value in configs.items()
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


def until(holds: Callable[[], bool]) -> None:
    """Ask until the condition holds."""
    deadline_s = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline_s, "it did not come to pass"


def elect(client: Client, kind: int, *names: str) -> dict[str, list[int]]:
    """Elect leaders; return the codes of the answer by topic. Without names all partitions are meant."""
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
    assert placed(nodes[0]) == ([2, 0], 0, [2, 0], 1)  # an earlier replica must not consider itself one


def test_what_was_reassigned_stays_so_after_a_restart(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), nodes=2) as broker, RawClient(*address(broker)) as client:
        topic(client, 0)
        reassign(client, (1,))
    with ottla.Broker(str(tmp_path), nodes=2) as broker, RawClient(*address(broker)) as client:
        assert placed(client) == ([1], 1, [1], 1)


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        (
            {"replicas": (0,), "name": "missing"},
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "Unable to find a topic named missing.",
        ),
        ({"replicas": (0,), "index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:1."),
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


def test_a_new_replica_on_a_stopped_node_is_waited_for(cluster: ottla.Broker, nodes: list[RawClient]) -> None:
    topic(nodes[0], 0)
    cluster.stop_node(1)
    assert reassign(nodes[0], (1, 2)).error_code == ErrorCode.NONE
    assert placed(nodes[0]) == ([1, 2, 0], 0, [2, 0], 0)
    assert under_way(nodes[0]) == {"t": ([1, 2, 0], [1, 2], [0])}
    cluster.start_node(1)
    until(lambda: not under_way(nodes[0]))
    assert placed(nodes[0]) == ([1, 2], 1, [1, 2], 1)


def test_nothing_is_under_way_without_a_throttle(nodes: list[RawClient]) -> None:
    topic(nodes[0], 0)
    reassign(nodes[0], (1, 2))
    assert under_way(nodes[0]) == {}


RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def throttle(nodes: list[RawClient], node: int, rate: int | None, *, which: Iterable[str] = RATES) -> None:
    """Set the throttle in bytes per second of one node, as a leader and as a follower; None removes it."""
    configure(nodes[node], BROKER, str(node), dict.fromkeys(which, None if rate is None else str(rate)))


def throttled(client: Client, replicas: str | None, *, which: Iterable[str] = REPLICAS, name: str = "t") -> None:
    """Set the replicas of a topic to which the throttle applies."""
    configure(client, TOPIC, name, dict.fromkeys(which, replicas))


@pytest.fixture
def moving(cluster: ottla.Broker, nodes: list[RawClient]) -> ottla.Broker:
    """Move a partition of a little over 100 000 bytes from node 1 to node 2 at 10 000 bytes per second."""
    cluster.clock.freeze()
    topic(nodes[0], 0, 1)
    for _ in range(10):
        produce(nodes[0], "t", ("k", "v" * 10_000))
    throttled(nodes[0], "*")
    throttle(nodes, 2, 10_000)
    assert reassign(nodes[0], (0, 2)).error_code == ErrorCode.NONE
    return cluster


def test_a_throttled_reassignment_takes_its_time(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    assert [placed(client) for client in nodes] == [([0, 2, 1], 0, [0, 1], 0)] * 3
    assert under_way(nodes[1]) == {"t": ([0, 2, 1], [2], [1])}
    moving.clock.advance(seconds=9)
    assert under_way(nodes[1])
    moving.clock.advance(seconds=2)
    until(lambda: not under_way(nodes[0]))
    assert [placed(client) for client in nodes] == [([0, 2], 0, [0, 2], 1)] * 3


def test_a_new_replica_is_shown_with_what_it_has(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    def shown(node: int) -> tuple[int, int]:
        ((row,),) = (
            topic.partitions
            for found in nodes[node].ask(DescribeLogDirsRequest(topics=None)).results
            for topic in found.topics
            if topic.name == "t"
        )
        return row.partition_size, row.offset_lag

    whole_bytes, _ = shown(0)
    assert shown(2) == (0, 10)
    moving.clock.advance(seconds=5)
    assert shown(2) == (50_000, 5)
    assert shown(0) == shown(1) == (whole_bytes, 0)
    moving.clock.advance(seconds=6)
    until(lambda: not under_way(nodes[0]))
    assert shown(2) == (whole_bytes, 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda nodes: throttle(nodes, 2, None),
        lambda nodes: throttle(nodes, 2, 10**9),
        lambda nodes: throttled(nodes[0], None),
        lambda nodes: throttled(nodes[0], "0:1,7:2"),
    ],
    ids=["no rate", "a higher rate", "no replicas", "other replicas"],
)
def test_a_throttle_that_is_taken_away_ends_the_waiting(
    moving: ottla.Broker, nodes: list[RawClient], change: Callable[[list[RawClient]], None]
) -> None:
    change(nodes)
    moving.clock.advance(milliseconds=1)
    until(lambda: not under_way(nodes[0]))
    assert placed(nodes[0]) == ([0, 2], 0, [0, 2], 1)


def test_a_rate_of_nothing_lets_nothing_through(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    throttle(nodes, 2, 0)
    moving.clock.advance(days=10)
    assert under_way(nodes[0])


def test_two_share_the_rate_of_their_node(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    topic(nodes[0], 0, name="u")
    for _ in range(10):
        produce(nodes[0], "u", ("k", "v" * 10_000))
    throttled(nodes[0], "0:2", name="u", which=REPLICAS[1:])
    reassign(nodes[0], (2,), name="u")
    moving.clock.advance(seconds=19)
    assert under_way(nodes[0]).keys() == {"t", "u"}
    moving.clock.advance(seconds=2)
    until(lambda: not under_way(nodes[0]))
    assert placed(nodes[0], "u") == ([2], 2, [2], 1)


def test_what_is_produced_meanwhile_has_to_be_caught_up_with(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    moving.clock.advance(seconds=5)
    for _ in range(10):
        produce(nodes[0], "t", ("k", "v" * 10_000))
    moving.clock.advance(seconds=10)
    assert under_way(nodes[0])
    moving.clock.advance(seconds=6)
    until(lambda: not under_way(nodes[0]))


def test_one_new_replica_arrives_before_the_other(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    throttle(nodes, 1, 100)
    reassign(nodes[0], (2,))
    reassign(nodes[0], (2, 1, 0))
    moving.clock.advance(seconds=11)
    until(lambda: 2 in placed(nodes[0])[2])
    assert placed(nodes[0]) == ([2, 1, 0], 0, [2, 1, 0], 0)


def test_a_reassignment_is_cancelled(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    assert reassign(nodes[2], None).error_code == ErrorCode.NONE
    assert placed(nodes[0]) == ([0, 1], 0, [0, 1], 1)
    assert under_way(nodes[0]) == {}
    assert reassign(nodes[0], None).error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_another_reassignment_takes_the_place_of_one(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    assert reassign(nodes[0], (2, 1)).error_code == ErrorCode.NONE
    assert under_way(nodes[0]) == {"t": ([2, 1, 0], [2], [0])}
    assert reassign(nodes[0], (2,), allow_replication_factor_change=False).error_code == (
        ErrorCode.INVALID_REPLICATION_FACTOR
    )
    moving.clock.advance(seconds=11)
    until(lambda: not under_way(nodes[0]))
    assert placed(nodes[0]) == ([2, 1], 2, [2, 1], 1)


def test_a_new_replica_counts_as_in_sync_when_it_has_caught_up(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    configure(nodes[0], TOPIC, "t", {"min.insync.replicas": "2"})
    moving.stop_node(1)
    assert produce(nodes[0], "t", ("k", "v"), acks=-1).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    moving.clock.advance(seconds=11)
    until(lambda: not under_way(nodes[0]))
    assert produce(nodes[0], "t", ("k", "v"), acks=-1).error_code == ErrorCode.NONE


def test_who_has_not_caught_up_does_not_lead(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    moving.stop_node(1)
    moving.stop_node(0)
    assert placed(nodes[2])[1:3] == (-1, [])
    moving.clock.advance(days=1)
    assert under_way(nodes[2])
    moving.start_node(0)
    moving.clock.advance(seconds=11)
    until(lambda: not under_way(nodes[2]))


@pytest.mark.parametrize("end", ["restart", "crash"])
def test_a_reassignment_outlives_a_restart(moving: ottla.Broker, end: str) -> None:
    getattr(moving, end)()
    with RawClient(*address(moving)) as client:
        assert placed(client) == ([0, 2, 1], 0, [0, 1], 0)
        assert under_way(client) == {"t": ([0, 2, 1], [2], [1])}
        moving.clock.advance(seconds=11)
        until(lambda: not under_way(client))
        assert placed(client) == ([0, 2], 0, [0, 2], 1)
    getattr(moving, end)()
    with RawClient(*address(moving)) as client:
        assert under_way(client) == {}


def test_a_topic_made_anew_is_not_on_its_way(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    delete(nodes[0], "t")
    topic(nodes[0], 0)
    assert under_way(nodes[0]) == {}
    moving.restart()
    with RawClient(*address(moving)) as client:
        assert placed(client) == ([0], 0, [0], 0)


@pytest.mark.parametrize("count", ["NaN", "Infinity", "-1", "1" + "0" * 400, '"x"', "{}"])
def test_a_damaged_entry_is_passed_over_by_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: str
) -> None:
    with ottla.Broker(tmp_path, nodes=2) as broker, RawClient(*address(broker)) as client:
        topic(client, 0, 1)
    catalog = tmp_path / CATALOG_FILE
    text = catalog.read_text()
    topic_id = json.loads(text)["topics"]["t"]["id"]
    entry = f'{{"adding": [1], "copied_bytes": {{"1": {count}}}, "removing": [], "topic_id": "{topic_id}"}}'
    catalog.write_text(text.replace('"topics": {', f'"reassignments": {{"t-0": {entry}}},\n"topics": {{'))
    with ottla.Broker(tmp_path, nodes=2) as broker, RawClient(*address(broker)) as client:
        assert under_way(client) == {}
    assert any("stored reassignment of t-0 ignored: " in record.getMessage() for record in caplog.records)


def test_those_that_are_asked_for_are_listed(moving: ottla.Broker, nodes: list[RawClient]) -> None:
    def asked(*rows: tuple[str, tuple[int, ...]]) -> list[str]:
        topics = tuple(ListPartitionReassignmentsTopics(name=name, partition_indexes=which) for name, which in rows)
        return [row.name for row in nodes[0].ask(ListPartitionReassignmentsRequest(topics=topics)).topics]

    assert asked(("t", (0, 0, 7)), ("missing", (0,))) == ["t"]
    assert asked(("t", ())) == asked() == []


def test_the_preferred_replica_becomes_leader(nodes: list[RawClient]) -> None:
    for name in ("t", "u"):
        topic(nodes[0], 0, 1, name=name)
    reassign(nodes[0], (1, 0))
    assert elect(nodes[0], PREFERRED, "t", "u") == {"t": [ErrorCode.NONE], "u": [ErrorCode.ELECTION_NOT_NEEDED]}
    assert placed(nodes[0]) == ([1, 0], 1, [1, 0], 1)
    assert produce(nodes[1], "t", ("k", "v")).error_code == ErrorCode.NONE


@pytest.mark.parametrize("kind", [PREFERRED, UNCLEAN])
def test_an_election_that_is_not_needed_is_refused_in_apache_kafkas_words(nodes: list[RawClient], kind: int) -> None:
    topic(nodes[0], 0, 1)
    request = ElectLeadersRequest(election_type=kind, topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),))
    (row,) = nodes[0].ask(request).replica_election_results
    assert [each.error_message for each in row.partition_result] == ["Leader election not needed for topic partition."]


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
    assert placed(nodes[0])[1:3] == (-1, [])  # node 1 was the last in the ISR
    assert elect(nodes[0], UNCLEAN, "t") == {"t": [ErrorCode.NONE]}
    assert placed(nodes[0])[1:3] == (2, [2])


@pytest.mark.parametrize("names", [(), ("missing",)])
def test_what_there_is_no_election_for(nodes: list[RawClient], names: tuple[str, ...]) -> None:
    expected = {name: [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] for name in names}
    assert elect(nodes[0], PREFERRED, *names) == expected
    assert nodes[0].ask(ElectLeadersRequest(election_type=2)).error_code == ErrorCode.INVALID_REQUEST


async def test_a_change_of_thousands_is_one_note_and_reckoned_with_in_turns() -> None:
    count, now_ms = 3_000, [0]
    cluster, replicas = _many_under_way(count)
    reassignments = Reassignments(cluster, Clock(monotonic=lambda: now_ms[0]))
    cluster.reconsider()
    assert {each.reassigning.copied_bytes[1] for each in replicas} == {0.0}
    turns = 0

    async def beside() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside)
        await reassignments._complete_due()
        now_ms[0] = 1_000
        due_ms = await reassignments._complete_due()
        nursery.cancel_scope.cancel()
    assert turns > 2
    assert {round(each.reassigning.copied_bytes[1], 6) for each in replicas} == {1.0}
    assert due_ms == 1_000 + 60_000  # 2 000 bytes are left, at one byte per second each


async def test_a_new_replica_gets_nothing_of_the_time_before_it() -> None:
    now_ms = [0]
    cluster, (first, second) = _many_under_way(2)
    del cluster.under_way[second.topic_partition]
    reassignments = Reassignments(cluster, Clock(monotonic=lambda: now_ms[0]))
    cluster.reconsider()
    await reassignments._complete_due()
    now_ms[0] = 1_000
    cluster.under_way[second.topic_partition] = second
    cluster.reconsider()
    now_ms[0] = 2_000
    await reassignments._complete_due()
    assert (first.reassigning.copied_bytes, second.reassigning.copied_bytes) == ({1: 3.0}, {1: 1.0})


def _many_under_way(count: int) -> tuple[Any, list[Any]]:
    """Run a cluster of two nodes with partitions of 2 001 bytes that move to the second, at one byte per second each."""

    class Moving(SimpleNamespace):
        __hash__ = object.__hash__  # type: ignore[assignment]

    config = LogConfig(follower_replication_throttled_replicas=("*",))
    log = SimpleNamespace(config=config, size_bytes=2_001)
    found: list[Any] = [
        Moving(
            index=index,
            topic_partition=TopicPartition("t", index),
            leader=0,
            present_leader=0,
            isr=(0,),
            elr=(),
            replicas=(1, 0),
            log=log,
            reassigning=Reassigning((1,), (0,), {1: 0.0}),
        )
        for index in range(count)
    ]
    options: Any = SimpleNamespace(
        leader_replication_throttled_rate=MAX_LONG, follower_replication_throttled_rate=count
    )
    live_config: Any = SimpleNamespace(node_config=lambda _: options, watchers=[])
    nodes: Any = [SimpleNamespace(node_id=node_id, is_alive=True) for node_id in range(2)]
    cluster = SimpleNamespace(
        throttle=ReplicationThrottle(nodes, live_config),
        under_way={each.topic_partition: each for each in found},
        catalog=SimpleNamespace(entries=lambda _: {}, topics={}),
        change_lock=trio.Lock(),
        has_eligible_replicas=lambda: True,
    )
    return cluster, found
