"""Clients that run all the time: one writes, one reads its records, whatever happens to the server."""

import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from .ground import PATIENCE_S, Values

LIVE_KEYS = ("k0", "live0", "live1", "live2")
"""Keys of the live traffic; one of them is also in the compacted part."""
_QUICK = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "log_level": 0}


class Traffic:
    """Constant traffic, which starts at once; `finish` returns the errors.

    Args:
        compacted: Whether the records may be compacted: then the reader must only see the newest value of each key.
    """

    def __init__(self, bootstrap: str, *, compacted: bool = False) -> None:
        self._bootstrap, self._topic, self._compacted = bootstrap, "t", compacted
        self._ended = threading.Event()
        self._sent: Values = {}
        self._acknowledged: dict[int, bytes] = {}
        self._wrong: list[str] = []
        self._read: dict[int, bytes | None] = {}
        self._first = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()
        self._first.wait(PATIENCE_S)

    def _write(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 1}
        producer = Producer(settings | {"batch.num.messages": 8} | _QUICK)  # segments are small
        number = 0
        while not self._ended.is_set():
            key, value = LIVE_KEYS[number % len(LIVE_KEYS)].encode(), f"{number} ".encode() * 60
            producer.produce(self._topic, value, key, partition=0, on_delivery=self._delivered)
            self._sent[key] = value
            producer.poll(0.005)
            number += 1
        if left := producer.flush(PATIENCE_S):
            self._wrong.append(f"{left} of {number} records were never acknowledged")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._wrong.append(f"a record was refused: {error}")
            return
        offset, value = message.offset(), message.value()
        assert offset is not None and value is not None
        self._acknowledged[offset] = value
        self._first.set()

    def _consume(self) -> None:
        self._first.wait(PATIENCE_S)
        start = min(self._acknowledged, default=0)
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "reader", "enable.auto.commit": False}
        consumer = Consumer(settings | {"auto.offset.reset": "error"} | _QUICK)
        consumer.assign([TopicPartition(self._topic, 0, start)])
        last, patient_until = start - 1, None
        while True:
            message = consumer.poll(0.2)
            if not self._threads[0].is_alive():
                patient_until = patient_until or time.monotonic() + 60
                if last >= max(self._acknowledged, default=-1) or time.monotonic() > patient_until:
                    break
            if message is None or message.error() is not None:
                continue
            offset = message.offset()
            assert offset is not None
            if offset <= last or (offset != last + 1 and not self._compacted):
                self._wrong.append(f"a reader came from offset {last} to {offset}")
            last = offset
            self._read[offset] = message.value()
        consumer.close()

    def finish(self) -> list[str]:
        """Write no more, read to the end; what was not as it must be."""
        self._ended.set()
        for thread in self._threads:
            thread.join()
        owed = dict(sorted(self._acknowledged.items()))
        if self._compacted:
            newest = set(self._sent.values())
            owed = {offset: value for offset, value in owed.items() if value in newest}
        missing = [offset for offset, value in owed.items() if self._read.get(offset) != value]
        if missing:
            self._wrong.append(f"{len(missing)} acknowledged records were not read: {missing[:5]}")
        if not self._acknowledged:
            self._wrong.append("nothing was written")
        return self._wrong

    @property
    def count(self) -> int:
        """Records that were acknowledged."""
        return len(self._acknowledged)

    def newest(self, before: Values) -> Values:
        """Return the values that a consumer of the whole topic must end with."""
        return before | self._sent


def values_of(bootstrap: str, topic: str = "t") -> Values:
    """Return the values that a new consumer of the whole topic ends with."""
    from ..support.clients.steps import read_messages

    latest: Values = {}
    for message in read_messages(bootstrap, [(topic, 0)]):
        latest[message.key()] = message.value()
    return {key: value for key, value in latest.items() if value is not None}
