"""A table whose rows are in a compacted topic: the newest value of each key, and no row for a deleted key."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

QUICK = {"retry.backoff.ms": 10, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100}
"""Short waits, as the broker is on this machine and needs no protection."""
PARTITION = 0
TIMEOUT_S = 20.0
IDLE_S = 0.5
"""A log may end in a gap where records were compacted away.

librdkafka reports no end there, so silence also counts as the end.
"""


class Table:
    """The rows of one topic of one partition.

    Writes wait for the broker's answer. Reads begin at the start of the log each time, and end where it ends. A table that is
    `idempotent` writes each row once, even if an answer is lost; it begins half a second later.
    """

    def __init__(self, bootstrap: str, topic: str, *, idempotent: bool = False) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": idempotent, "linger.ms": 0}
        self._producer = Producer(settings | QUICK)

    def put(self, key: str, value: str | None) -> None:
        """Set a row. Raises KafkaException."""
        self.put_all([(key, value)])

    def delete(self, key: str) -> None:
        """Delete a row; its tombstone informs other readers."""
        self.put(key, None)

    def put_all(self, rows: list[tuple[str, str | None]]) -> None:
        """Set many rows, in order. Raises KafkaException for the first that is refused."""
        errors: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                errors.append(error)

        for key, value in rows:
            self._producer.produce(self._topic, value, key, PARTITION, delivered)
        if self._producer.flush(TIMEOUT_S):
            raise TimeoutError(f"no answer within {TIMEOUT_S:g} s")
        if errors:
            raise KafkaException(errors[0])

    def rows(self) -> dict[str, str]:
        """Return the table as it is now."""
        found: dict[str, str] = {}

        def apply(message: Message) -> None:
            key, value = (message.key() or b"").decode(), message.value()
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value.decode()

        self._read(apply)
        return found

    def history(self) -> list[tuple[str, str | None]]:
        """Return all records that are left in the log."""
        found: list[tuple[str, str | None]] = []

        def note(message: Message) -> None:
            key, value = (message.key() or b"").decode(), message.value()
            found.append((key, None if value is None else value.decode()))

        self._read(note)
        return found

    def _read(self, take: Callable[[Message], None]) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
                "fetch.error.backoff.ms": 10,
                **QUICK,
            }
        )
        try:
            consumer.list_topics(
                self._topic, TIMEOUT_S
            )  # or half a second passes before it looks for the partition's leader
            consumer.assign([TopicPartition(self._topic, PARTITION, OFFSET_BEGINNING)])
            wait_s = TIMEOUT_S
            while True:
                message = consumer.poll(wait_s)
                if message is None:
                    if wait_s == IDLE_S:
                        return
                    raise TimeoutError(f"nothing of {self._topic} came within {TIMEOUT_S:g} s")
                error = message.error()
                if error is None:
                    take(message)
                    wait_s = IDLE_S
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                elif not error.retriable():
                    raise KafkaException(error)
        finally:
            consumer.close()
