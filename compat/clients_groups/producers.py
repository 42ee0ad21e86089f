"""Transactional producers of the three libraries behind one interface, and one transactional copy step of each.

Every method blocks until the broker has answered, and raises the client's exceptions.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import aiokafka
import confluent_kafka
import kafka
from kafka.structs import OffsetAndMetadata

TIMEOUT_S = 30.0
Place = tuple[str, int]
"""Topic and partition."""


class Producer:
    """Base of the three producers; its constructor sends InitProducerId, which ends a predecessor's open transaction."""

    client = ""
    knows_members = True
    """Whether it sends the consumer's member id and generation along with offsets (KIP-447)."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        raise NotImplementedError

    def send(self, place: Place, value: bytes) -> None:
        raise NotImplementedError

    def commit(self) -> None:
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close the producer without ending an open transaction."""
        raise NotImplementedError

    def copy(self, source: str, target: Place, group: str, count: int, *, member_is_stale: bool = False) -> None:
        """Copy the values of the next `count` records of `source` to `target` as a member of the group, in one transaction.

        The offsets after them are sent with the transaction. With `member_is_stale` the consumer has left before the offsets
        are sent.
        """
        raise NotImplementedError


class ConfluentProducer(Producer):
    client = "confluent-kafka"
    group_protocol = "classic"

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.bootstrap = bootstrap
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        self.producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, place: Place, value: bytes) -> None:
        self.producer.produce(place[0], value, partition=place[1])
        self.producer.flush(TIMEOUT_S)

    def commit(self) -> None:
        self.producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self.producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        """librdkafka ends nothing by itself."""

    def copy(self, source: str, target: Place, group: str, count: int, *, member_is_stale: bool = False) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": group,
                "group.protocol": self.group_protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([source])
        messages: list[confluent_kafka.Message] = []
        while len(messages) < count:
            messages += [message for message in consumer.consume(count - len(messages), 1) if not message.error()]
        for message in messages:
            self.send(target, message.value())
        positions = consumer.position(consumer.assignment())
        metadata = consumer.consumer_group_metadata()
        if member_is_stale:
            consumer.close()
        try:
            self.producer.send_offsets_to_transaction(positions, metadata, TIMEOUT_S)
        finally:
            if not member_is_stale:
                consumer.close()


class ConfluentProducerOfConsumerGroups(ConfluentProducer):
    """A producer whose consumers use the new group protocol, so that member epochs are sent with offsets."""

    client = "confluent-kafka-consumer-protocol"
    group_protocol = "consumer"


class KafkaPythonProducer(Producer):
    client = "kafka-python"

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.bootstrap = bootstrap
        self.producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=TIMEOUT_S * 1000,
        )
        self.producer.init_transactions()

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, place: Place, value: bytes) -> None:
        self.producer.send(place[0], value, partition=place[1]).get(TIMEOUT_S)

    def commit(self) -> None:
        self.producer.commit_transaction()

    def abort(self) -> None:
        self.producer.abort_transaction()

    def close(self) -> None:
        self.producer.close(timeout=0)

    def copy(self, source: str, target: Place, group: str, count: int, *, member_is_stale: bool = False) -> None:
        consumer = kafka.KafkaConsumer(
            source,
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        records: list[Any] = []
        while len(records) < count:
            polled = consumer.poll(1000, max_records=count - len(records))
            records += [record for batch in polled.values() for record in batch]
        for record in records:
            self.send(target, record.value)
        positions = {
            partition: OffsetAndMetadata(consumer.position(partition), "", -1) for partition in consumer.assignment()
        }
        metadata = consumer.group_metadata()
        if member_is_stale:
            consumer.close()
        try:
            self.producer.send_offsets_to_transaction(positions, metadata)
        finally:
            consumer.close()


class AiokafkaProducer(Producer):
    client = "aiokafka"
    knows_members = False

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.bootstrap = bootstrap
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.producer = self._run(self._start(transactional_id, timeout_ms))

    async def _start(self, transactional_id: str, timeout_ms: int) -> aiokafka.AIOKafkaProducer:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await producer.start()
        return producer

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    def begin(self) -> None:
        self._run(self.producer.begin_transaction())

    def send(self, place: Place, value: bytes) -> None:
        self._run(self.producer.send_and_wait(place[0], value, partition=place[1]))

    def commit(self) -> None:
        self._run(self.producer.commit_transaction())

    def abort(self) -> None:
        self._run(self.producer.abort_transaction())

    def close(self) -> None:
        self._run(self.producer.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)

    def copy(self, source: str, target: Place, group: str, count: int, *, member_is_stale: bool = False) -> None:
        self._run(self._copy(source, target, group, count))

    async def _copy(self, source: str, target: Place, group: str, count: int) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            source,
            bootstrap_servers=self.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        await consumer.start()
        try:
            for _ in range(count):
                record = await consumer.getone()
                await self.producer.send_and_wait(target[0], record.value, partition=target[1])
            positions = {partition: await consumer.position(partition) for partition in consumer.assignment()}
            await self.producer.send_offsets_to_transaction(positions, group)
        finally:
            await consumer.stop()


PRODUCERS: tuple[type[Producer], ...] = (
    ConfluentProducer,
    ConfluentProducerOfConsumerGroups,
    KafkaPythonProducer,
    AiokafkaProducer,
)
