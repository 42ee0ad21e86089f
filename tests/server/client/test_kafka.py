"""The client's helpers against a broker of three nodes: each call goes to the right node."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import KafkaError
from ottla.server.client.connection import Client
from ottla.server.client.kafka import Kafka, wall_time_ms
from ottla.server.client.nodes import NodeConnections
from ottla.server.client.producing import produce
from ottla.server.client.table import Table
from ottla.server.client.values import NewRecord, Offsets, Record

_names = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(nodes=3) as running:
        yield running


@pytest.fixture
def kafka(broker: ottla.Broker) -> Iterator[Kafka]:
    with Kafka(broker.bootstrap) as client:
        yield client


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Create a topic whose three partitions have three leaders."""
    name = f"topic-{next(_names)}"
    kafka.create_topic(name, 3, replicas=3)
    assert {partition.leader for partition in kafka.topic(name).partitions} == {0, 1, 2}
    return name


def test_a_record_is_read_back_as_sent(kafka: Kafka, topic: str) -> None:
    made_ms = wall_time_ms() - 5  # recent, otherwise retention deletes it
    sent = kafka.produce(
        topic, "value", key=b"key", headers={"name": "ü", "none": None}, timestamp_ms=made_ms, partition=2
    )
    expected = Record(topic, 2, 0, made_ms, b"key", b"value", (("name", "ü".encode()), ("none", None)))
    assert sent == expected
    assert kafka.records(topic) == [expected]


def test_many_records_keep_their_order_in_each_partition(kafka: Kafka, topic: str) -> None:
    sent = kafka.produce_all(topic, [(f"key {n % 7}", str(n)) for n in range(1000)])
    assert [record.value for record in sent] == [str(n).encode() for n in range(1000)]
    assert kafka.records(topic) == sorted(sent, key=lambda record: (record.partition, record.offset))
    assert {(record.key, record.partition) for record in sent} == {(r.key, r.partition) for r in kafka.records(topic)}


def test_records_beyond_one_batch_are_sent_in_several(kafka: Kafka, topic: str) -> None:
    sent = kafka.produce_all(topic, [NewRecord(bytes(400_000), partition=0) for _ in range(5)])
    assert [record.offset for record in sent] == [0, 1, 2, 3, 4]


def test_keyless_records_are_distributed_in_turn(kafka: Kafka, topic: str) -> None:
    assert sorted(kafka.produce(topic, str(n)).partition for n in range(6)) == [0, 0, 1, 1, 2, 2]


def test_no_record_is_sent_if_one_is_invalid(kafka: Kafka, topic: str) -> None:
    with pytest.raises(KafkaError, match=f"partition 3 of topic '{topic}' not found; it has partitions 0 to 2$"):
        kafka.produce_all(topic, [NewRecord("fits", partition=0), NewRecord("does not", partition=3)])
    assert kafka.records(topic) == []


def test_the_first_record_creates_a_missing_topic(kafka: Kafka) -> None:
    name = f"topic-{next(_names)}"
    assert kafka.produce(name, "first").offset == 0


def test_offsets_give_the_start_and_end_of_each_partition(kafka: Kafka, topic: str) -> None:
    kafka.produce_all(topic, [NewRecord(str(n), partition=1) for n in range(4)])
    assert kafka.offsets(topic) == {0: Offsets(0, 0), 1: Offsets(0, 4), 2: Offsets(0, 0)}


def test_a_scan_returns_the_requested_part(kafka: Kafka, topic: str) -> None:
    kafka.produce_all(topic, [NewRecord(str(n), partition=1) for n in range(10)])
    assert [record.offset for record in kafka.scan(topic, 1, start=3, end=6)] == [3, 4, 5]
    assert list(kafka.scan(topic, 1, start=10)) == []


def test_moved_leaders_are_followed(broker: ottla.Broker, kafka: Kafka, topic: str) -> None:
    broker.stop_node(1)
    try:
        sent = kafka.produce_all(topic, [NewRecord(str(n), partition=n) for n in range(3)])
        assert kafka.records(topic) == sent
    finally:
        broker.start_node(1)
    assert kafka.records(topic) == sent


def test_groups_return_their_committed_offsets(kafka: Kafka, topic: str) -> None:
    kafka.commit("readers", {(topic, 0): 0, (topic, 2): 0})
    (group,) = kafka.groups()
    assert (group.group_id, group.state, group.offsets) == ("readers", "Empty", {(topic, 0): 0, (topic, 2): 0})
    kafka.delete_group("readers")
    assert kafka.groups() == []


def test_configs_are_set_and_reset(kafka: Kafka, topic: str) -> None:
    def changed() -> dict[str, str | None]:
        return {option.name: option.value for option in kafka.configs("topic", topic) if not option.is_default}

    kafka.set_configs("topic", topic, {"cleanup.policy": "compact", "preallocate": True, "segment.ms": 1000})
    assert changed() == {"cleanup.policy": "compact", "preallocate": "true", "segment.ms": "1000"}
    kafka.set_configs("topic", topic, {"preallocate": None, "segment.ms": None})
    assert changed() == {"cleanup.policy": "compact"}
    assert {option.name: option.value for option in kafka.configs("broker", "2")}["broker.id"] == "2"


def test_internal_topics_are_shown_only_on_request(kafka: Kafka, topic: str) -> None:
    kafka.commit("any", {(topic, 0): 0})
    assert "__consumer_offsets" not in {found.name for found in kafka.topics()}
    assert "__consumer_offsets" in {found.name for found in kafka.topics(internal=True)}
    kafka.delete_group("any")


def test_a_deleted_topic_is_absent(kafka: Kafka, topic: str) -> None:
    kafka.delete_topic(topic)
    assert topic not in {found.name for found in kafka.topics()}


def test_a_connection_closed_by_the_broker_is_replaced() -> None:
    with ottla.Broker() as broker, Kafka(broker.bootstrap) as kafka:
        kafka.create_topic("orders")
        for connection, _ in kafka._nodes._connections.values():
            connection._socket.shutdown(2)
        assert kafka.produce("orders", "value").offset == 0


@pytest.fixture(scope="module")
def orders() -> Iterator[Kafka]:
    with ottla.Broker() as broker, Kafka(broker.bootstrap) as kafka:
        kafka.create_topic("orders")
        yield kafka


def test_the_response_to_an_interrupted_request_is_dropped(orders: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(self: Client) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Client, "receive", interrupt)
        with pytest.raises(Interrupted):
            orders.topics()
    assert orders.topic("orders").name == "orders"


WRONG: dict[str, tuple[Callable[[Kafka], object], type[Exception], str]] = {
    "an unknown topic": (
        lambda kafka: kafka.records("order"),
        KafkaError,
        "UNKNOWN_TOPIC_OR_PARTITION: topic 'order' not found; did you mean 'orders'?",
    ),
    "an unknown partition": (
        lambda kafka: kafka.records("orders", 1),
        KafkaError,
        "UNKNOWN_TOPIC_OR_PARTITION: partition 1 of topic 'orders' not found; it has partitions 0 to 0",
    ),
    "a topic that is there": (
        lambda kafka: kafka.create_topic("orders"),
        KafkaError,
        "TOPIC_ALREADY_EXISTS: Topic 'orders' already exists.",
    ),
    "an unknown broker": (
        lambda kafka: kafka.configs("broker", "7"),
        KafkaError,
        "INVALID_REQUEST: broker 7 not found; existing brokers: 0",
    ),
    "a topic to delete": (
        lambda kafka: kafka.delete_topic("ordres"),
        KafkaError,
        "UNKNOWN_TOPIC_OR_PARTITION: topic 'ordres' not found; did you mean 'orders'?",
    ),
    "a value of another type": (
        lambda kafka: kafka.produce("orders", 5),  # type: ignore[arg-type]
        TypeError,
        "record value must be str, bytes or None, not int (5)",
    ),
    "a header of another type": (
        lambda kafka: kafka.produce("orders", "", headers={"a": 1}),  # type: ignore[arg-type]
        TypeError,
        "record header must be str, bytes or None, not int (1)",
    ),
    "a record that is no pair": (
        lambda kafka: kafka.produce_all("orders", ["value"]),  # type: ignore[list-item]
        TypeError,
        "record must be a NewRecord or a pair of key and value, not 'value'",
    ),
    "records that are none": (
        lambda kafka: kafka.produce_all("orders", 5),  # type: ignore[arg-type]
        TypeError,
        "records must be Iterable, not int (5)",
    ),
    "headers that are none": (
        lambda kafka: kafka.produce("orders", "", headers="ab"),  # type: ignore[arg-type]
        TypeError,
        "record headers must be a mapping or pairs of name and value, not 'ab'",
    ),
    "a header that is no pair": (
        lambda kafka: kafka.produce("orders", "", headers=[("a",)]),  # type: ignore[list-item]
        TypeError,
        "header must be a pair of name and value, not ('a',)",
    ),
    "option name of another type": (
        lambda kafka: kafka.create_topic("other", configs={1: "compact"}),  # type: ignore[dict-item]
        TypeError,
        "option name must be str, not int (1)",
    ),
    "a bootstrap that is no text": (
        lambda _: Kafka(None),  # type: ignore[arg-type]
        TypeError,
        "bootstrap must be str, not NoneType (None)",
    ),
    "a timestamp": (
        lambda kafka: kafka.produce("orders", "", timestamp_ms=-2),
        ValueError,
        "timestamp -2 ms is out of range; must be from -1 (none) to 9223372036854775807",
    ),
    "an isolation": (
        lambda kafka: kafka.records("orders", isolation="commited"),  # type: ignore[arg-type]
        ValueError,
        "invalid isolation 'commited'; must be one of: read_uncommitted, read_committed",
    ),
    "a negative offset": (
        lambda kafka: kafka.commit("group", {("orders", 0): -1}),
        ValueError,
        "offset -1 for topic 'orders', partition 0 is negative",
    ),
    "a kind of configs": (
        lambda kafka: kafka.configs("topics", "orders"),  # type: ignore[arg-type]
        ValueError,
        "invalid resource type 'topics'; must be one of: topic, broker, group",
    ),
    "configs where partitions are": (
        lambda kafka: kafka.create_topic("other", {"cleanup.policy": "compact"}),  # type: ignore[arg-type]
        TypeError,
        "partitions must be int or None, not dict ({'cleanup.policy': 'compact'})",
    ),
    "a name that is no text": (
        lambda kafka: kafka.records(b"orders"),  # type: ignore[arg-type]
        TypeError,
        "topic name must be str, not bytes (b'orders')",
    ),
    "a partition that is no number": (
        lambda kafka: kafka.produce("orders", "", partition="0"),  # type: ignore[arg-type]
        TypeError,
        "partition must be int, not str ('0')",
    ),
    "a partition that is left out": (
        lambda kafka: kafka.commit("group", {"orders": 1}),  # type: ignore[dict-item]
        TypeError,
        "offsets must be {(topic, partition): offset}, not 'orders'",
    ),
    "an offset that is no number": (
        lambda kafka: kafka.commit("group", {("orders", 0): None}),  # type: ignore[dict-item]
        TypeError,
        "offset must be int, not NoneType (None)",
    ),
    "an option that is no value": (
        lambda kafka: kafka.create_topic("other", configs={"segment.ms": [1]}),  # type: ignore[dict-item]
        TypeError,
        "option value must be str or int or float or bool or None, not list ([1])",
    ),
    "a record that is too large": (
        lambda kafka: kafka.produce("orders", bytes(2_000_000)),
        KafkaError,
        "MESSAGE_TOO_LARGE: a batch of 2000074 bytes exceeds max.message.bytes of topic 'orders'",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_invalid_call_is_refused_in_one_line(orders: Kafka, wrong: str) -> None:
    call, kind, message = WRONG[wrong]
    with pytest.raises(kind) as caught:
        call(orders)
    assert str(caught.value) == message


def test_a_damaged_batch_is_not_returned_as_records(broker: ottla.Broker, kafka: Kafka, topic: str) -> None:
    kafka.produce(topic, "value" * 20, partition=0)
    fault = broker.fault("Fetch", topic=topic, corrupt_batch=True)
    with pytest.raises(KafkaError, match=f"^CORRUPT_MESSAGE: {topic}-0: invalid CRC in the batch at offset 0$"):
        kafka.records(topic, 0)
    assert fault.hits == 1
    assert [record.value for record in kafka.records(topic, 0)] == [b"value" * 20]


def test_a_call_asks_for_the_leaders_once(broker: ottla.Broker, topic: str) -> None:
    asked: list[str] = []

    class Counted(NodeConnections):
        def ask(self, message: Any, node: int | None = None) -> Any:
            asked.append(type(message).__name__)
            return super().ask(message, node)

    nodes = Counted(broker.bootstrap)
    rows = [NewRecord("v", partition=partition) for partition in range(3)]
    assert len(produce(nodes, topic, rows, count(), 0)) == 3
    nodes.close()
    assert asked == ["MetadataRequest", *["ProduceRequest"] * 3]


def test_a_value_that_a_waiting_table_has_just_read_is_not_fetched_again(
    broker: ottla.Broker, kafka: Kafka, topic: str
) -> None:
    with Table(broker.bootstrap, topic) as table:
        kafka.produce(topic, "first", key="k")
        assert table["k"] == b"first"
        fetched: list[int] = []
        table._follower.read_one = lambda partition, offset: fetched.append(offset)  # type: ignore[method-assign]
        writing = threading.Thread(target=kafka.produce, args=(topic, "second"), kwargs={"key": "k"})
        writing.start()
        assert table.wait_for("k", lambda value: value == b"second") == b"second"
        writing.join()
        assert not fetched
