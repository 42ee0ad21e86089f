"""kafka-python and confluent-kafka write the model's updates, slice by slice, each slice with the next codec."""

import threading
from collections.abc import Iterator

from confluent_kafka import KafkaError, Message, Producer
from kafka import KafkaProducer

from ..support.clients.steps import CODECS
from .model import Model

SLICE = 5_000
KAFKA_PYTHON_EVERY = 5  # one slice in five, as it is about ten times slower than librdkafka


class Writer(threading.Thread):
    """Writes slices until none are left or `halt` is set; unacknowledged updates then become unknown."""

    def __init__(self, model: Model, topic: str, slices: Iterator[tuple[int, range]]) -> None:
        super().__init__(daemon=True)
        self.model, self.topic, self.slices = model, topic, slices
        self.halt = threading.Event()
        self.errors: list[str] = []
        self.pending: set[int] = set()

    def run(self) -> None:
        try:
            for number, updates in self.slices:
                if self.halt.is_set():
                    return
                self.pending.update(updates)
                self.write(CODECS[number % len(CODECS)], updates)
        except Exception as error:  # noqa: BLE001 - a dead broker ends us in any of many ways; the caller judges
            self.errors.append(f"{type(error).__name__}: {error}")
        finally:
            self.model.unknown |= self.pending
            self.close()

    def write(self, codec: str, updates: range) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def acknowledged(self, update: int, offset: int) -> None:
        self.model.acknowledge(update, offset)
        self.pending.discard(update)
        self.model.unknown.discard(update)


class ConfluentWriter(Writer):
    def __init__(self, bootstrap: str, model: Model, topic: str, slices: Iterator[tuple[int, range]]) -> None:
        super().__init__(model, topic, slices)
        self.producers = {
            codec: Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "enable.idempotence": True,
                    "compression.type": codec,
                    "linger.ms": 5,
                    "batch.size": 200_000,
                    "queue.buffering.max.messages": SLICE * 2,
                    "message.timeout.ms": 60_000,
                    "log_level": 0,
                }
            )
            for codec in CODECS
        }

    def write(self, codec: str, updates: range) -> None:
        producer, model = self.producers[codec], self.model
        for update in updates:

            def delivered(error: KafkaError | None, message: Message, update: int = update) -> None:
                if error is None:
                    self.acknowledged(update, message.offset())
                else:
                    self.errors.append(str(error))

            producer.produce(
                self.topic,
                model.value(update),
                model.key(update),
                partition=0,
                timestamp=model.timestamp_ms(update),
                on_delivery=delivered,
            )
        while len(producer) and not self.halt.is_set():
            producer.poll(0.1)

    def close(self) -> None:
        for producer in self.producers.values():
            if len(producer):
                producer.purge()
                producer.flush(5)
        self.producers.clear()


class KafkaPythonWriter(Writer):
    def __init__(self, bootstrap: str, model: Model, topic: str, slices: Iterator[tuple[int, range]]) -> None:
        super().__init__(model, topic, slices)
        self.producers = {
            codec: KafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                linger_ms=5,
                batch_size=100_000,
                max_block_ms=10_000,  # how long a dead broker can hold a round up
            )
            for codec in CODECS
        }

    def write(self, codec: str, updates: range) -> None:
        producer, model = self.producers[codec], self.model
        sent = []
        for update in updates:
            if self.halt.is_set():
                break
            timestamp = model.timestamp_ms(update)
            sent.append((update, producer.send(self.topic, model.value(update), model.key(update), None, 0, timestamp)))
        for update, future in sent:
            while not future.is_done and not self.halt.is_set():
                threading.Event().wait(0.005)
            if not future.is_done:
                return
            self.acknowledged(update, future.get(0).offset)

    def close(self) -> None:
        for producer in self.producers.values():
            if self.halt.is_set():
                # close() flushes first, even with timeout 0, and raises when that fails: against a dead broker only the
                # sender's own exit is left. It must have ended before the broker is back.
                producer._sender.force_close()
                producer._sender.join(10)
            else:
                producer.close(timeout=30)
        self.producers.clear()


class Slices:
    """Hands out slices of updates, numbered, to two writers: every fifth to kafka-python, the others to librdkafka."""

    def __init__(self, updates: range) -> None:
        pieces = [
            (number, updates[start : start + SLICE]) for number, start in enumerate(range(0, len(updates), SLICE))
        ]
        self.for_kafka_python = [piece for piece in pieces if piece[0] // len(CODECS) % KAFKA_PYTHON_EVERY == 0]
        self.for_confluent = [piece for piece in pieces if piece[0] // len(CODECS) % KAFKA_PYTHON_EVERY != 0]


def write_all(bootstrap: str, model: Model, topic: str, updates: range) -> list[str]:
    """Write all updates with both clients at once and wait for every acknowledgement; returns what went wrong."""
    writers = start_writers(bootstrap, model, topic, updates)
    for writer in writers:
        writer.join()
    return [error for writer in writers for error in writer.errors]


def start_writers(bootstrap: str, model: Model, topic: str, updates: range) -> list[Writer]:
    """Start both clients; they stop by themselves at the end, or soon after their `halt` is set."""
    slices = Slices(updates)
    writers: list[Writer] = [
        ConfluentWriter(bootstrap, model, topic, iter(slices.for_confluent)),
        KafkaPythonWriter(bootstrap, model, topic, iter(slices.for_kafka_python)),
    ]
    for writer in writers:
        writer.start()
    return writers
