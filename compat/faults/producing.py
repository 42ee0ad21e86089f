"""Producers of the three libraries behind one interface: idempotent or not, with time-outs of a second and a half."""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import aiokafka
import confluent_kafka
import kafka

REQUEST_TIMEOUT_MS = 1_500
RETRY_BACKOFF_MS = 100
DELIVERY_TIMEOUT_MS = 15_000
TIMEOUT_S = 40.0

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # the table has the clients' errors
logging.getLogger("kafka").setLevel(logging.CRITICAL)


def name_of(error: BaseException | confluent_kafka.KafkaError) -> str:
    """Return the client's own word for what went wrong."""
    if isinstance(error, confluent_kafka.KafkaException):
        error = error.args[0]
    return str(error.name()) if isinstance(error, confluent_kafka.KafkaError) else type(error).__name__


class Producer:
    """Base of the three. Sends to partition 0 of a topic."""

    client = ""

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool) -> None:
        self.topic = topic

    def send(self, values: Sequence[bytes]) -> dict[bytes, str]:
        """Send each value as a record, without waiting in between; return "" or the error's name of each."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class KafkaPython(Producer):
    client = "kafka-python"

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool) -> None:
        super().__init__(bootstrap, topic, idempotent=idempotent)
        self.producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap.split(","),
            enable_idempotence=idempotent,
            acks="all",
            retries=100,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
            reconnect_backoff_ms=50,
            reconnect_backoff_max_ms=200,
            max_block_ms=DELIVERY_TIMEOUT_MS,
        )

    def send(self, values: Sequence[bytes]) -> dict[bytes, str]:
        sent: dict[bytes, Any] = {}
        found: dict[bytes, str] = {}
        for value in values:
            try:
                sent[value] = self.producer.send(self.topic, value, partition=0)
            except Exception as error:  # noqa: BLE001 - as below
                found[value] = name_of(error)
        for value, future in sent.items():
            try:
                future.get(TIMEOUT_S)
                found[value] = ""
            except Exception as error:  # noqa: BLE001 - any exception of the client goes into the table
                found[value] = name_of(error)
        return found

    def close(self) -> None:
        self.producer.close(timeout=1)


class Confluent(Producer):
    client = "confluent-kafka"

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool) -> None:
        super().__init__(bootstrap, topic, idempotent=idempotent)
        self.producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": idempotent,
                "acks": "all",
                "linger.ms": 5,
                "request.timeout.ms": REQUEST_TIMEOUT_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
                "retry.backoff.ms": RETRY_BACKOFF_MS,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def send(self, values: Sequence[bytes]) -> dict[bytes, str]:
        found: dict[bytes, str] = {}

        def told(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            found[message.value()] = name_of(error) if error else ""

        for value in values:
            try:
                self.producer.produce(self.topic, value, partition=0, on_delivery=told)
            except confluent_kafka.KafkaException as error:
                found[value] = name_of(error)
        self.producer.flush(TIMEOUT_S)
        return {value: found.get(value, "never told") for value in values}

    def close(self) -> None:
        self.producer.flush(1)


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda loop, context: None)
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def start(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Any) -> Any:
        return self.start(work).result(TIMEOUT_S)

    def run_for_ever(self, work: Any) -> Any:
        return self.start(work).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)


class Aiokafka(Producer):
    client = "aiokafka"

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool) -> None:
        super().__init__(bootstrap, topic, idempotent=idempotent)
        self.loop = Loop()
        self.producer = self.loop.run(self._started(bootstrap, idempotent))

    async def _started(self, bootstrap: str, idempotent: bool) -> Any:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=idempotent,
            acks="all",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            retry_backoff_ms=RETRY_BACKOFF_MS,
        )
        await producer.start()
        return producer

    def send(self, values: Sequence[bytes]) -> dict[bytes, str]:
        return self.loop.run(self._send(values))  # type: ignore[no-any-return]

    async def _send(self, values: Sequence[bytes]) -> dict[bytes, str]:
        sent: dict[bytes, Any] = {}
        found: dict[bytes, str] = {}
        for value in values:
            try:
                sent[value] = await self.producer.send(self.topic, value, partition=0)
            except Exception as error:  # noqa: BLE001 - any exception of the client goes into the table
                found[value] = name_of(error)
        done = await asyncio.gather(*sent.values(), return_exceptions=True)
        return found | {
            value: name_of(result) if isinstance(result, BaseException) else ""
            for value, result in zip(sent, done, strict=True)
        }

    def close(self) -> None:
        with suppress(Exception):  # it may wait for an answer that never arrives
            self.loop.start(self.producer.stop()).result(3)
        self.loop.close()


PRODUCERS: tuple[type[Producer], ...] = (KafkaPython, Confluent, Aiokafka)


def until(holds: Any, timeout_s: float = TIMEOUT_S) -> bool:
    """Wait until `holds()`; return whether it did in time."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True
