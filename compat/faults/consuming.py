"""Members of a group, one for each library: each reads a topic from its beginning, commits, and notes its client's errors."""

import asyncio
import threading
import time
from typing import Any

import aiokafka
import confluent_kafka
import kafka

from .producing import Loop, name_of

SESSION_MS, HEARTBEAT_MS = 6_000, 300
FETCH_TIMEOUT_MS = 2_000


class Consumer:
    """Base of the three. Constructing it subscribes and starts reading in a thread of its own."""

    client = ""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, topic, group
        self.values: list[bytes] = []
        self.errors: list[str] = []
        """Errors that the client raised or reported, in order."""
        self.halted = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.run()
        except Exception as error:  # noqa: BLE001 - any exception of the client goes into the table
            self.errors.append(name_of(error))

    def run(self) -> None:
        """Read until `halted`, then close."""
        raise NotImplementedError

    def stop(self) -> None:
        self.halted.set()
        self.thread.join(20)


class KafkaPython(Consumer):
    client = "kafka-python"

    def run(self) -> None:
        consumer = self._joined()
        while not self.halted.is_set():
            try:
                polled = consumer.poll(200)
                self.values += [record.value for batch in polled.values() for record in batch]
                if polled:
                    consumer.commit()
            except kafka.errors.CorruptRecordError as error:
                self.errors.append(name_of(error))
                consumer.close()  # the next poll of this one would never return
                consumer = self._joined()
            except Exception as error:  # noqa: BLE001
                self.errors.append(name_of(error))
                time.sleep(0.1)
        consumer.close()

    def _joined(self) -> Any:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            check_crcs=True,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=FETCH_TIMEOUT_MS + SESSION_MS,
            retry_backoff_ms=100,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=200,
            metadata_max_age_ms=1_000,
        )
        consumer.topics()  # a consumer that subscribes during the first metadata request may never see the topic
        consumer.subscribe([self.topic])
        return consumer


class Confluent(Consumer):
    client = "confluent-kafka"

    def run(self) -> None:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "socket.timeout.ms": FETCH_TIMEOUT_MS,
                "retry.backoff.ms": 100,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": lambda error: self.errors.append(name_of(error)),
            }
        )
        consumer.subscribe([self.topic])
        while not self.halted.is_set():
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                self.errors.append(name_of(message.error()))
                continue
            self.values.append(message.value())
            try:
                consumer.commit(message, asynchronous=False)
            except confluent_kafka.KafkaException as error:
                self.errors.append(name_of(error))
        consumer.close()


class Aiokafka(Consumer):
    client = "aiokafka"

    def run(self) -> None:
        self.loop = Loop()
        try:
            self.loop.run_for_ever(self._read())
        finally:
            self.loop.close()

    async def _read(self) -> None:
        consumer: Any = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            check_crcs=True,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=FETCH_TIMEOUT_MS,
            retry_backoff_ms=100,
            metadata_max_age_ms=1_000,
        )
        await consumer.start()
        try:
            while not self.halted.is_set():
                try:
                    polled = await consumer.getmany(timeout_ms=200)
                    self.values += [record.value for batch in polled.values() for record in batch]
                    if polled:
                        await consumer.commit()
                except Exception as error:  # noqa: BLE001
                    self.errors.append(name_of(error))
                    await asyncio.sleep(0.1)
        finally:
            await consumer.stop()


CONSUMERS: tuple[type[Consumer], ...] = (KafkaPython, Confluent, Aiokafka)
