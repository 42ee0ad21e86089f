"""Transactions with popular clients, over real sockets: committed records are read once, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as OfKafkaPython
from kafka.errors import ProducerFencedError

import ottla
from support.broker.conversation import create_topic
from support.broker.raw_client import RawClient

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def topics(client: RawClient) -> None:
    create_topic(client, "in", 2)
    create_topic(client, "out", 2)


def confluent_producer(broker: ottla.Broker, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(WAIT_S)
    return producer


def confluent_consumer(broker: ottla.Broker, topic: str, group: str = "g") -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    return consumer


def confluent_values(consumer: Consumer, count: int) -> list[str]:
    values: list[str] = []
    while len(values) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"{len(values)} of {count} came"
        assert message.error() is None
        values.append(message.value().decode())
    return values


def test_confluent_kafka_reads_its_committed_records(broker: ottla.Broker) -> None:
    producer = confluent_producer(broker, "x")
    for number in range(4):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("out", f"{number}-{partition}", partition=partition)
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    consumer = confluent_consumer(broker, "out")
    assert sorted(confluent_values(consumer, 4)) == ["0-0", "0-1", "2-0", "2-1"]
    assert consumer.poll(0.2) is None
    consumer.close()


def test_confluent_kafka_copies_exactly_once(broker: ottla.Broker) -> None:
    """Consume, produce and commit the offsets in one transaction; an aborted one is repeated."""
    source = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(6):
        source.produce("in", str(number), partition=0)
    source.flush(WAIT_S)
    producer = confluent_producer(broker, "copier")
    for commit in (False, True):
        consumer = confluent_consumer(broker, "in")
        producer.begin_transaction()
        for value in confluent_values(consumer, 6):
            producer.produce("out", f"copied-{value}", partition=0)
        positions = consumer.position([TopicPartition("in", 0)])
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
        consumer.close()
    copied = confluent_consumer(broker, "out", "reader")
    assert confluent_values(copied, 6) == [f"copied-{number}" for number in range(6)]
    assert copied.poll(0.2) is None
    copied.close()
    again = confluent_consumer(broker, "in")
    assert again.poll(1.0) is None, "the offsets were committed with the transaction"
    (position,) = again.committed([TopicPartition("in", 0)], WAIT_S)
    assert position.offset == 6
    again.close()


def test_confluent_kafka_is_fenced_by_its_successor(broker: ottla.Broker) -> None:
    first = confluent_producer(broker, "x")
    first.begin_transaction()
    first.produce("out", "lost", partition=0)
    first.flush(WAIT_S)
    second = confluent_producer(broker, "x")
    with pytest.raises(KafkaException) as refusal:
        first.commit_transaction(WAIT_S)
    assert refusal.value.args[0].fatal()
    second.begin_transaction()
    second.produce("out", "kept", partition=0)
    second.commit_transaction(WAIT_S)
    consumer = confluent_consumer(broker, "out")
    assert confluent_values(consumer, 1) == ["kept"]
    consumer.close()


@pytest.fixture
def kafka_python(broker: ottla.Broker) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="y")
    producer.init_transactions()
    yield producer
    producer.close()


def test_kafka_python_reads_its_committed_records(broker: ottla.Broker, kafka_python: KafkaProducer) -> None:
    for number in range(4):
        kafka_python.begin_transaction()
        for partition in (0, 1):
            kafka_python.send("out", f"{number}-{partition}".encode(), partition=partition)
        if number % 2:
            kafka_python.abort_transaction()
        else:
            kafka_python.commit_transaction()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, isolation_level="read_committed", group_id=None)
    partitions = [OfKafkaPython("out", number) for number in (0, 1)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    ends, values = consumer.end_offsets(partitions), []
    while any(consumer.position(each) < ends[each] for each in partitions):
        values += [record.value for records in consumer.poll(1_000).values() for record in records]
    assert sorted(values) == [b"0-0", b"0-1", b"2-0", b"2-1"]
    consumer.close()


def test_kafka_python_is_fenced_by_its_successor(broker: ottla.Broker, kafka_python: KafkaProducer) -> None:
    kafka_python.begin_transaction()
    kafka_python.send("out", b"lost", partition=0).get(WAIT_S)
    second = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="y")
    second.init_transactions()
    with pytest.raises(ProducerFencedError):
        kafka_python.commit_transaction()
    second.close()
