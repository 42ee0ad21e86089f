"""The transaction APIs as clients see them: every version, errors in Kafka's places, nodes, restarts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, TopicData
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.server.coordination.records import Producer
from support.broker.conversation import address, create_topic, fetch
from support.broker.raw_client import RawClient
from support.logs.batches import read_batches
from support.noted import noted

ID = "x"
E = ErrorCode
NOT_HERE = E.NOT_COORDINATOR


def init(
    client: RawClient,
    transactional_id: str = ID,
    version: int = 5,
    timeout_ms: int = 60_000,
    present: Producer = Producer(-1, -1),  # noqa: B008 - a value
) -> tuple[ErrorCode, Producer]:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=present.producer_id,
        producer_epoch=present.producer_epoch,
    )
    answer = client.ask(request, version)
    return ErrorCode(answer.error_code), Producer(answer.producer_id, answer.producer_epoch)


def topics_of(places: tuple[tuple[str, int], ...]) -> tuple[AddPartitionsToTxnTopic, ...]:
    return tuple(AddPartitionsToTxnTopic(name=name, partitions=(partition,)) for name, partition in places)


def rows_of(topics: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, row.partition_index): ErrorCode(row.partition_error_code)
        for topic in topics
        for row in topic.results_by_partition
    }


def transaction(
    producer: Producer, *places: tuple[str, int], transactional_id: str = ID, verify_only: bool = False
) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=topics_of(places),
    )


def add(
    client: RawClient, producer: Producer, *places: tuple[str, int], version: int = 3, transactional_id: str = ID
) -> dict[tuple[str, int], ErrorCode]:
    if version >= 4:
        asked = transaction(producer, *places, transactional_id=transactional_id)
        answer = client.ask(AddPartitionsToTxnRequest(transactions=(asked,)), version)
        assert answer.error_code == 0
        (one,) = answer.results_by_transaction
        assert one.transactional_id == transactional_id
        return rows_of(one.topic_results)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics_of(places),
    )
    return rows_of(client.ask(request, version).results_by_topic_v3_and_below)


def end(
    client: RawClient, producer: Producer, *, commit: bool, version: int = 5, transactional_id: str = ID
) -> tuple[ErrorCode, Producer]:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )
    answer = client.ask(request, version)
    return ErrorCode(answer.error_code), Producer(answer.producer_id, answer.producer_epoch)


def add_offsets(client: RawClient, producer: Producer, version: int = 4) -> ErrorCode:
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, group_id="g"
    )
    return ErrorCode(client.ask(request, version).error_code)


def describe(client: RawClient, transactional_id: str = ID) -> Any:
    (found,) = client.ask(DescribeTransactionsRequest(transactional_ids=(transactional_id,))).transaction_states
    return found


def listed(client: RawClient, version: int = 2, **filters: Any) -> dict[str, str]:
    answer = client.ask(ListTransactionsRequest(**filters), version)
    assert answer.error_code == 0
    return {one.transactional_id: one.transaction_state for one in answer.transaction_states}


# Every version


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_init_producer_id_is_answered(client: RawClient, version: int) -> None:
    code, first = init(client, version=version)
    assert (code, first.producer_epoch) == (E.NONE, 0)
    assert init(client, version=version) == (E.NONE, Producer(first.producer_id, 1))
    assert init(client, version=version, timeout_ms=900_001) == (E.INVALID_TRANSACTION_TIMEOUT, Producer(-1, -1))
    assert init(client, "", version=version) == (E.INVALID_REQUEST, Producer(-1, -1))
    if version >= 3:
        fenced, _ = init(client, version=version, present=first)
        assert fenced is (E.PRODUCER_FENCED if version >= 4 else E.INVALID_PRODUCER_EPOCH)
        current = first._replace(producer_epoch=1)
        following = first._replace(producer_epoch=2)
        assert init(client, version=version, present=current) == (E.NONE, following)
        for half in (current._replace(producer_id=-1), current._replace(producer_epoch=-1)):
            assert init(client, version=version, present=half)[0] is E.INVALID_REQUEST


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_add_partitions_to_txn_is_answered(client: RawClient, version: int) -> None:
    create_topic(client, "t", 2)
    _, producer = init(client)
    here = {("t", 0): E.NONE, ("t", 1): E.NONE}
    assert add(client, producer, ("t", 0), ("t", 1), version=version) == here
    assert add(client, producer, ("t", 0), version=version) == {("t", 0): E.NONE}
    assert describe(client).topics == (TopicData(topic="t", partitions=(0, 1)),)
    later = producer._replace(producer_epoch=9)
    assert add(client, later, ("t", 0), version=version) == {
        ("t", 0): E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH
    }
    assert set(add(client, Producer(77, 0), *here, version=version).values()) == {E.INVALID_PRODUCER_ID_MAPPING}
    assert set(add(client, producer, *here, version=version, transactional_id="").values()) == {E.INVALID_REQUEST}


def test_one_missing_partition_refuses_all(client: RawClient) -> None:
    create_topic(client, "t")
    for version in range(6):
        with noted(f"version {version}"):
            mine = f"x{version}"
            _, producer = init(client, mine)
            assert add(client, producer, ("t", 0), ("t", 1), ("u", 0), version=version, transactional_id=mine) == {
                ("t", 0): E.OPERATION_NOT_ATTEMPTED,
                ("t", 1): E.UNKNOWN_TOPIC_OR_PARTITION,
                ("u", 0): E.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert describe(client, mine).transaction_state == "Empty"


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
def test_partitions_of_internal_topics_cannot_be_added(client: RawClient, topic: str) -> None:
    create_topic(client, "t")
    client.ask(FindCoordinatorRequest(key="g", key_type=0), 3)  # creates the topic
    for version in range(6):
        with noted(f"version {version}"):
            mine = f"x{version}"
            _, producer = init(client, mine)
            assert add(client, producer, ("t", 0), (topic, 0), version=version, transactional_id=mine) == {
                ("t", 0): E.OPERATION_NOT_ATTEMPTED,
                (topic, 0): E.TOPIC_AUTHORIZATION_FAILED,
            }
            assert describe(client, mine).transaction_state == "Empty"


@pytest.mark.parametrize("version", [4, 5])
def test_several_transactions_are_added_and_verified_together(client: RawClient, version: int) -> None:
    create_topic(client, "t", 2)
    producers = {name: init(client, name)[1] for name in ("x", "y")}
    add(client, producers["x"], ("t", 0), transactional_id="x")
    request = AddPartitionsToTxnRequest(
        transactions=(
            transaction(producers["x"], ("t", 0), ("t", 1), verify_only=True),
            transaction(producers["y"], ("t", 1), transactional_id="y"),
            transaction(producers["y"], ("t", 1), transactional_id="nobody"),
        )
    )
    answer = client.ask(request, version)
    assert [(one.transactional_id, rows_of(one.topic_results)) for one in answer.results_by_transaction] == [
        ("x", {("t", 0): E.NONE, ("t", 1): E.TRANSACTION_ABORTABLE}),
        ("y", {("t", 1): E.NONE}),
        ("nobody", {("t", 1): E.INVALID_PRODUCER_ID_MAPPING}),
    ]
    assert describe(client, "y").topics == (TopicData(topic="t", partitions=(1,)),)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_add_offsets_to_txn_is_answered(client: RawClient, version: int) -> None:
    _, producer = init(client)
    assert add_offsets(client, producer, version) is E.NONE
    (topic,) = describe(client).topics
    assert (topic.topic, len(topic.partitions)) == ("__consumer_offsets", 1)
    fenced = add_offsets(client, producer._replace(producer_epoch=9), version)
    assert fenced is (E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH)
    assert add_offsets(client, Producer(77, 0), version) is E.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.parametrize("commit", [True, False])
def test_every_version_of_end_txn_is_answered(client: RawClient, commit: bool) -> None:
    create_topic(client, "t")
    for version in range(6):
        with noted(f"version {version}"):
            check_end_txn(client, version, f"x{version}", commit=commit)


def check_end_txn(client: RawClient, version: int, mine: str, *, commit: bool) -> None:
    _, producer = init(client, mine)

    def ended(producer: Producer, *, commit: bool) -> tuple[ErrorCode, Producer]:
        return end(client, producer, commit=commit, version=version, transactional_id=mine)

    assert ended(producer, commit=True)[0] is E.INVALID_TXN_STATE
    add(client, producer, ("t", 0), transactional_id=mine)
    later = producer._replace(producer_epoch=9)
    assert ended(later, commit=commit)[0] is (E.PRODUCER_FENCED if version >= 2 else E.INVALID_PRODUCER_EPOCH)
    answer = ended(producer, commit=commit)
    following = producer._replace(producer_epoch=1)
    assert answer == (E.NONE, following if version >= 5 else Producer(-1, -1))
    assert ended(producer, commit=commit) == answer, "asked again"
    assert ended(producer, commit=not commit)[0] is E.INVALID_TXN_STATE
    found = describe(client, mine)
    assert (found.error_code, found.transaction_state, found.producer_id, found.producer_epoch) == (
        E.NONE,
        "CompleteCommit" if commit else "CompleteAbort",
        producer.producer_id,
        1 if version >= 5 else 0,
    )
    assert (found.transaction_timeout_ms, found.topics) == (60_000, ())
    assert found.transaction_start_time_ms > 0


def test_describing_an_unknown_id_is_refused(client: RawClient) -> None:
    assert describe(client).error_code == NOT_HERE, "there is no topic yet"
    init(client)
    assert describe(client, "y").error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    assert describe(client, "").error_code == E.INVALID_REQUEST
    answer = client.ask(DescribeTransactionsRequest(transactional_ids=("x", "y", "x")))
    assert [(one.transactional_id, one.error_code) for one in answer.transaction_states] == [
        ("x", E.NONE),
        ("y", E.TRANSACTIONAL_ID_NOT_FOUND),
    ]


def test_transactions_are_listed_by_state_producer_age_and_pattern(broker: ottla.Broker, client: RawClient) -> None:
    assert listed(client) == {}
    create_topic(client, "t")
    producers = {name: init(client, name, timeout_ms=900_000)[1] for name in ("order-1", "order-2", "bill-1")}
    add(client, producers["order-1"], ("t", 0), transactional_id="order-1")
    broker.advance_clock(60_000)
    add(client, producers["bill-1"], ("t", 0), transactional_id="bill-1")
    everything = {"order-1": "Ongoing", "order-2": "Empty", "bill-1": "Ongoing"}
    for version in range(3):
        assert listed(client, version) == everything
        assert set(listed(client, version, state_filters=("Ongoing",))) == {"order-1", "bill-1"}
        assert listed(client, version, state_filters=("ongoing",)) == {}
        wanted = producers["order-2"].producer_id
        assert set(listed(client, version, producer_id_filters=(wanted, 1 << 40))) == {"order-2"}
    for version in (1, 2):
        # A transaction that never began counts as begun in 1970, as in Apache Kafka.
        assert set(listed(client, version, duration_filter=59_000)) == {"order-1", "order-2"}
        assert listed(client, version, duration_filter=59_000, state_filters=("Ongoing",)) == {"order-1": "Ongoing"}
    for pattern, expected in {
        "": set(everything),
        "order-[12]": {"order-1", "order-2"},
        "order": set(),
        r".*-1": {"order-1", "bill-1"},
        "(?i)ORDER-2": {"order-2"},
    }.items():
        assert set(listed(client, transactional_id_pattern=pattern)) == expected
    for pattern in ("[", "(?=x)", "a**"):
        answer = client.ask(ListTransactionsRequest(transactional_id_pattern=pattern))
        assert (answer.error_code, answer.transaction_states) == (E.INVALID_REGULAR_EXPRESSION, ())
    answer = client.ask(ListTransactionsRequest(state_filters=("Ongoing", "Open", "PrepareEpochFence", "Open")))
    assert answer.unknown_state_filters == ("Open",)


def test_listing_does_not_create_the_topic(broker: ottla.Broker, client: RawClient) -> None:
    listed(client)
    describe(client)
    assert broker.inner.services.topics.get("__transaction_state") is None


# Topic


def test_the_topic_has_its_own_options(tmp_path: Path) -> None:
    overrides = {
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.segment.bytes": "2000000",
        "transaction.state.log.min.isr": "1",
    }
    with (
        ottla.Broker(str(tmp_path / "data"), overrides=overrides) as broker,
        RawClient(*address(broker)) as client,
    ):
        init(client)
        resource = DescribeConfigsResource(
            resource_type=2, resource_name="__transaction_state", configuration_keys=None
        )
        (found,) = client.ask(DescribeConfigsRequest(resources=(resource,))).results
        configs = {one.name: one.value for one in found.configs}
        topic = broker.inner.services.topics.get("__transaction_state")
        assert topic is not None
        assert len(topic.partitions) == 3
    wanted = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "2000000",
        "unclean.leader.election.enable": "false",
    }
    assert {name: configs[name] for name in wanted} == wanted


# Restarts and time


def test_an_open_transaction_survives_a_restart(tmp_path: Path) -> None:
    for turn in range(3):
        with (
            ottla.Broker(str(tmp_path / "data"), rng=random.Random(1)) as broker,
            RawClient(*address(broker)) as client,
        ):
            if turn == 0:
                create_topic(client, "t")
                _, producer = init(client)
                add(client, producer, ("t", 0))
            elif turn == 1:
                assert listed(client) == {ID: "Ongoing"}
                assert end(client, producer, commit=True)[0] is E.NONE
            else:
                assert listed(client) == {ID: "CompleteCommit"}
                assert init(client) == (E.NONE, Producer(producer.producer_id, 2))


def test_many_transactional_ids_are_loaded_while_the_broker_serves(tmp_path: Path) -> None:
    """The ids are more than are loaded before the first request: until the rest is loaded, clients must wait."""
    overrides = {"transaction.state.log.num.partitions": "1"}
    names = [f"{number:0>400}" for number in range(300)]
    given: dict[str, int] = {}
    for turn in range(2):
        with (
            ottla.Broker(str(tmp_path / "data"), overrides=overrides) as broker,
            RawClient(*address(broker)) as client,
        ):
            for name in names:
                code, producer = init(client, name)
                while code is E.COORDINATOR_LOAD_IN_PROGRESS:
                    code, producer = init(client, name)
                assert code is E.NONE
                assert producer.producer_epoch == turn
                assert given.setdefault(name, producer.producer_id) == producer.producer_id
            assert broker.inner.services.topics.partition("__transaction_state", 0).log.log_end_offset == 300 * (
                turn + 1
            )


def test_a_transaction_that_takes_too_long_is_aborted(tmp_path: Path) -> None:
    overrides = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
    with (
        ottla.Broker(str(tmp_path / "data"), overrides=overrides) as broker,
        RawClient(*address(broker)) as client,
    ):
        create_topic(client, "t")
        _, producer = init(client, timeout_ms=5_000)
        add(client, producer, ("t", 0))
        broker.advance_clock(4_000)
        assert describe(client).transaction_state == "Ongoing"
        broker.advance_clock(2_500)
        while describe(client).transaction_state == "Ongoing":
            pass
        assert describe(client).transaction_state == "CompleteAbort"
        assert add(client, producer, ("t", 0)) == {("t", 0): E.PRODUCER_FENCED}


def test_a_transactional_id_is_forgotten(tmp_path: Path) -> None:
    overrides = {
        "transactional.id.expiration.ms": "10000",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
    }
    with (
        ottla.Broker(str(tmp_path / "data"), overrides=overrides) as broker,
        RawClient(*address(broker)) as client,
    ):
        _, producer = init(client)
        broker.advance_clock(20_000)
        while listed(client):
            pass
        assert init(client)[1].producer_id > producer.producer_id


# Nodes


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[ottla.Broker, list[RawClient]]]:
    """Run a broker of three nodes; yield it with a client at each."""
    with ExitStack() as stack:
        broker = stack.enter_context(ottla.Broker(str(tmp_path / "data"), nodes=3, rng=random.Random(1)))
        yield broker, [stack.enter_context(RawClient(*address(broker, node))) for node in range(3)]


def coordinator_of(client: RawClient, transactional_id: str = ID) -> int:
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=(transactional_id,))
    (found,) = client.ask(request).coordinators
    assert found.error_code == 0
    node: int = found.node_id
    return node


def test_each_version_of_find_coordinator_finds_the_node(nodes: tuple[ottla.Broker, list[RawClient]]) -> None:
    _, clients = nodes
    node = coordinator_of(clients[0])
    for version in range(1, 7):
        for client in clients:
            if version < 4:
                assert client.ask(FindCoordinatorRequest(key=ID, key_type=1), version).node_id == node
            else:
                request = FindCoordinatorRequest(key_type=1, coordinator_keys=(ID,))
                assert client.ask(request, version).coordinators[0].node_id == node


def test_only_the_coordinator_answers(nodes: tuple[ottla.Broker, list[RawClient]]) -> None:
    _, clients = nodes
    create_topic(clients[0], "t")
    node = coordinator_of(clients[0])
    here, elsewhere = clients[node], clients[(node + 1) % 3]
    _, producer = init(here)
    add(here, producer, ("t", 0))
    assert init(elsewhere)[0] is NOT_HERE
    for version in (3, 5):
        assert add(elsewhere, producer, ("t", 0), version=version) == {("t", 0): NOT_HERE}
    assert add_offsets(elsewhere, producer) is NOT_HERE
    assert end(elsewhere, producer, commit=True)[0] is NOT_HERE
    assert describe(elsewhere).error_code == NOT_HERE
    assert [listed(client) for client in (here, elsewhere)] == [{ID: "Ongoing"}, {}]
    assert end(here, producer, commit=True)[0] is E.NONE


def test_a_transaction_continues_at_the_next_coordinator(nodes: tuple[ottla.Broker, list[RawClient]]) -> None:
    broker, clients = nodes
    create_topic(clients[0], "t", replicas=3)
    node = coordinator_of(clients[0])
    other = clients[(node + 1) % 3]
    _, producer = init(clients[node])
    add(clients[node], producer, ("t", 0))
    broker.stop_node(node)
    following = coordinator_of(other)
    assert following != node
    assert end(clients[following], producer, commit=True) == (E.NONE, producer._replace(producer_epoch=1))


def test_markers_wait_for_a_partition_on_a_stopped_node(nodes: tuple[ottla.Broker, list[RawClient]]) -> None:
    broker, clients = nodes
    node = coordinator_of(clients[0])
    away = (node + 1) % 3
    names = ("a", "b", "c", "d", "e", "f")
    for name in names:
        create_topic(clients[node], name)
    leaders = {name: broker.inner.services.topics.partition(name, 0).leader for name in names}
    lost = next(name for name, leader in leaders.items() if leader == away)
    kept = next(name for name, leader in leaders.items() if leader == node)
    client = clients[node]
    _, producer = init(client)
    add(client, producer, (lost, 0), (kept, 0))
    broker.stop_node(away)
    code, following = end(client, producer, commit=True)
    assert code is E.NONE
    found = describe(client)
    assert (found.transaction_state, found.topics) == (
        "PrepareCommit",
        (TopicData(topic=lost, partitions=(0,)),),
    )
    assert add(client, following, (kept, 0)) == {(kept, 0): E.CONCURRENT_TRANSACTIONS}
    assert init(client)[0] is E.CONCURRENT_TRANSACTIONS
    broker.start_node(away)
    broker.advance_clock(1_000)
    while describe(client).transaction_state == "PrepareCommit":
        pass
    assert describe(client).transaction_state == "CompleteCommit"
    assert add(client, following, (kept, 0)) == {(kept, 0): E.NONE}


def test_waiting_markers_are_written_after_a_restart(tmp_path: Path) -> None:
    def markers(client: RawClient, partition: int) -> list[tuple[int, int]]:
        records = fetch(client, "t", 0, partition).records
        assert isinstance(records, memoryview)
        return [(one.producer_id, one.producer_epoch) for one in read_batches(records) if one.is_control]

    overrides = {"transaction.state.log.min.isr": "1"}
    with ExitStack() as stack:
        broker = stack.enter_context(ottla.Broker(str(tmp_path / "data"), nodes=2, overrides=overrides))
        clients = [stack.enter_context(RawClient(*address(broker, node))) for node in range(2)]
        node = coordinator_of(clients[0])
        create_topic(clients[node], "t", 2)
        (lost,) = [index for index in range(2) if broker.inner.services.topics.partition("t", index).leader != node]
        _, producer = init(clients[node])
        add(clients[node], producer, ("t", 0), ("t", 1))
        broker.stop_node(1 - node)
        assert end(clients[node], producer, commit=True)[0] is E.NONE
        assert describe(clients[node]).transaction_state == "PrepareCommit"
    with ExitStack() as stack:
        broker = stack.enter_context(ottla.Broker(str(tmp_path / "data"), nodes=2, overrides=overrides))
        clients = [stack.enter_context(RawClient(*address(broker, node))) for node in range(2)]
        assert describe(clients[coordinator_of(clients[0])]).transaction_state == "CompleteCommit"
        leader = broker.inner.services.topics.partition("t", lost).leader
        assert markers(clients[leader], lost) == [(producer.producer_id, 1)]


def test_a_transaction_ends_although_one_of_its_topics_was_deleted(client: RawClient) -> None:
    for name in ("kept", "deleted"):
        create_topic(client, name)
    _, producer = init(client)
    add(client, producer, ("kept", 0), ("deleted", 0))
    deletion = DeleteTopicsRequest(topics=(DeleteTopicState(name="deleted"),), timeout_ms=5_000)
    assert client.ask(deletion).responses[0].error_code == 0
    assert end(client, producer, commit=True)[0] is E.NONE
    assert describe(client).transaction_state == "CompleteCommit"


def test_an_absent_coordinator_is_not_available(tmp_path: Path) -> None:
    """The longest possible id leaves room for the error message."""
    name = "x" * 32_767
    with ExitStack() as stack:
        overrides = {"transaction.state.log.replication.factor": "1"}
        broker = stack.enter_context(ottla.Broker(str(tmp_path / "data"), nodes=2, overrides=overrides))
        clients = [stack.enter_context(RawClient(*address(broker, node))) for node in range(2)]
        node = coordinator_of(clients[0], name)
        broker.stop_node(node)
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=(name,))
        (found,) = clients[1 - node].ask(request).coordinators
        assert (found.error_code, found.node_id) == (E.COORDINATOR_NOT_AVAILABLE, -1)
        broker.start_node(node)
        assert coordinator_of(clients[1 - node], name) == node


def test_too_few_replicas_of_the_transaction_log_are_refused(tmp_path: Path) -> None:
    with ExitStack() as stack:
        overrides = {"transaction.state.log.min.isr": "2", "transaction.state.log.num.partitions": "1"}
        broker = stack.enter_context(ottla.Broker(str(tmp_path / "data"), nodes=2, overrides=overrides))
        clients = [stack.enter_context(RawClient(*address(broker, node))) for node in range(2)]
        node = coordinator_of(clients[0])
        _, producer = init(clients[node])
        broker.stop_node(1 - node)
        assert init(clients[node])[0] is E.COORDINATOR_NOT_AVAILABLE
        broker.start_node(1 - node)
        assert init(clients[node]) == (E.NONE, producer._replace(producer_epoch=1))
