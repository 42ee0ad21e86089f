"""Writes the rows of one partition into a topic, exactly once, with librdkafka.

A transaction has at most TRANSACTION_ROWS rows, or TRANSACTION_BYTES and a batch. It also commits the place in the rows that follows
them, as the offset of the topic's partition in a consumer group of the restore. So the rows and their place become visible
together, and a writer that begins again continues at the committed place. The transactional id belongs to the partition: a new
writer first ends the open transaction of the one before, which can write nothing any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ..errors import PipelineError, UsageError
from .stored_rows import StoredPart

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer

TIMEOUT_S = 300.0
"""Timeout of sent records and of a transaction, in seconds; longer than a broker's restart."""
ABORT_TIMEOUT_S = 10.0
TRANSACTION_ROWS, TRANSACTION_BYTES = 100_000, 64 << 20
_QUEUE_KBYTES = 64 << 10
"""Limit of the records that wait in the producer."""
_POLL_EVERY_ROWS = 1_000
_REBOOTSTRAPS_FROM = 0x020B00FF
"""Version of librdkafka that has the option `metadata.recovery.strategy`."""

SILENT = logging.getLogger("ottla.librdkafka")
"""librdkafka logs every attempt, many times a second: one line at the end is enough."""
SILENT.setLevel(logging.CRITICAL + 1)


def librdkafka() -> Any:
    """Return the module `confluent_kafka`. Raises UsageError if it is not installed."""
    try:
        import confluent_kafka
    except ImportError:
        raise UsageError("restore needs a producer: pip install confluent-kafka") from None
    return confluent_kafka


class Target(NamedTuple):
    """The topic that is written to. It can be sent to another process."""

    topic: str
    bootstrap_servers: str
    options: Mapping[str, str]
    """The user's options of the producer."""
    group: str
    """Consumer group of the restore, and the beginning of its transactional ids."""

    def producer(self, transactional_id: str) -> Producer:
        """Open a producer. Raises UsageError for options that librdkafka does not accept."""
        limits: dict[str, Any] = {
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            "queue.buffering.max.messages": 500_000,
            "linger.ms": 20,
        }
        times = dict.fromkeys(("message.timeout.ms", "transaction.timeout.ms"), round(TIMEOUT_S * 1000))
        own = {"bootstrap.servers": self.bootstrap_servers, "delivery.report.only.error": True}
        own["transactional.id"] = transactional_id
        client = librdkafka()
        if client.libversion()[1] >= _REBOOTSTRAPS_FROM:
            # Else a transaction hangs after all brokers were away: librdkafka issue 5511.
            limits["metadata.recovery.strategy"] = "none"
        try:
            return client.Producer({**limits, **times, **self.options, **own}, logger=SILENT)
        except client.KafkaException as error:
            raise UsageError(f"--producer-config: {error.args[0].str()}") from error

    def other_options(self) -> dict[str, Any]:
        """Return the options of a consumer and an admin client, which ignore those of producers alone."""
        known = {name: value for name, value in self.options.items() if name != "transactional.id"}
        return {**known, "bootstrap.servers": self.bootstrap_servers}

    def places(self, *, waits: bool) -> Consumer:
        """Open the consumer that reads and commits places.

        Args:
            waits: Wait for the end of a transaction that may change a place. One whose producer was killed ends at its timeout.
        """
        level = "read_committed" if waits else "read_uncommitted"
        own = {"group.id": self.group, "enable.auto.commit": False, "isolation.level": level}
        return librdkafka().Consumer({**self.other_options(), **own}, logger=SILENT)


@contextmanager
def refusals(what: str) -> Iterator[None]:
    """Raise PipelineError for an error of the broker during the block."""
    try:
        yield
    except librdkafka().KafkaException as error:
        raise PipelineError(f"{what}: {error.args[0].str()}") from error


def committed_rows(target: Target, consumer: Consumer, partitions: Iterable[int]) -> list[int]:
    """Return the committed place in the rows of each partition."""
    client = librdkafka()
    with refusals(f"{target.topic}: places of group {target.group}"):
        asked = [client.TopicPartition(target.topic, each) for each in partitions]
        found = consumer.committed(asked, timeout=TIMEOUT_S)
        for each in found:
            if each.error is not None:
                raise client.KafkaException(each.error)
    return [max(0, each.offset) for each in found]


def forget_places(target: Target, consumer: Consumer, partitions: Sequence[int]) -> None:
    """Commit the place 0 for each partition, for a restore that begins again."""
    client = librdkafka()
    with refusals(f"{target.topic}: places of group {target.group}"):
        places = [client.TopicPartition(target.topic, each, 0) for each in partitions]
        for each in consumer.commit(offsets=places, asynchronous=False):
            if each.error is not None:
                raise client.KafkaException(each.error)


def write_partition(
    target: Target, part: StoredPart, written: Callable[[int], object], goes_on: Callable[[], bool]
) -> int:
    """Write the rows of a partition from its committed place on; returns the number of records.

    Args:
        written: Receives the place after each transaction, and the first one.
        goes_on: Returns False to stop soon.

    Raises:
        PipelineError: The broker did not accept a record.
    """
    name = f"{target.topic}-{part.partition}"
    producer = target.producer(f"{target.group}-{part.partition}")
    consumer = target.places(waits=True)
    try:
        with refusals(name):
            producer.init_transactions(TIMEOUT_S)
            (place,) = committed_rows(target, consumer, [part.partition])
            written(place)
            writer = _Writer(target, part.partition, producer, consumer, goes_on)
            return writer.write(place, part.batches(place), written)
    finally:
        consumer.close()


class _Writer:
    """The transactions of one partition."""

    def __init__(
        self, target: Target, partition: int, producer: Producer, consumer: Consumer, goes_on: Callable[[], bool]
    ) -> None:
        self._client = librdkafka()
        self._goes_on = goes_on
        self._target = target
        self._partition = partition
        self._producer = producer
        self._consumer = consumer
        self._error = ""
        """Error of the first record that was not stored."""

    def write(
        self, committed: int, batches: Iterable[tuple[int, pa.RecordBatch]], written: Callable[[int], object]
    ) -> int:
        """Write the batches that follow a committed place."""
        place = committed
        rows = size_bytes = records = 0
        self._producer.begin_transaction()
        try:
            for place, batch in batches:
                self._send(batch)
                rows += batch.num_rows
                size_bytes += batch.nbytes
                # Also rows that do not count take time to read, while the transaction is open.
                if place - committed >= TRANSACTION_ROWS or size_bytes >= TRANSACTION_BYTES:
                    self._commit(place)
                    written(place)
                    records += rows
                    committed = place
                    rows = size_bytes = 0
                    self._producer.begin_transaction()
            if place > committed:
                self._commit(place)
                written(place)
            else:
                self._producer.abort_transaction(ABORT_TIMEOUT_S)
        except BaseException:
            # Else the topic's readers wait for the transaction's timeout.
            with suppress(self._client.KafkaException):
                self._producer.abort_transaction(ABORT_TIMEOUT_S)
            raise
        return records + rows

    def _send(self, batch: pa.RecordBatch) -> None:
        produce, topic, partition = self._producer.produce, self._target.topic, self._partition
        keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
        headers = batch["headers"].to_pylist() if "headers" in batch.schema.names else [None] * len(keys)
        for row, (key, value, time_ms, pairs) in enumerate(
            zip(keys, values, timestamps_ms(batch), headers, strict=True)
        ):
            own = [(each["key"], each["value"]) for each in pairs] if pairs else None
            while True:
                try:
                    produce(topic, value, key, partition, self._delivered, timestamp=time_ms, headers=own)
                    break
                except BufferError:
                    self._producer.poll(1.0)
                    self._check()
                except self._client.KafkaException as error:
                    raise PipelineError(
                        f"{topic}-{partition}: the record of offset {batch['offset'][row]}: {error.args[0].str()}"
                    ) from error
            if row % _POLL_EVERY_ROWS == 0:
                self._producer.poll(0)
                self._check()

    def _commit(self, place: int) -> None:
        """Commit the transaction with the place after its rows."""
        places = [self._client.TopicPartition(self._target.topic, self._partition, place)]
        try:
            self._producer.flush(TIMEOUT_S)  # whose errors say more than those of a commit
            self._check()
            self._producer.send_offsets_to_transaction(places, self._consumer.consumer_group_metadata(), TIMEOUT_S)
            self._producer.commit_transaction(TIMEOUT_S)
        except self._client.KafkaException:
            self._check()
            raise

    def _delivered(self, error: Any, _message: object) -> None:
        self._error = self._error or error.str()

    def _check(self) -> None:
        if self._error:
            raise PipelineError(f"{self._target.topic}-{self._partition}: {self._error}")
        if not self._goes_on():
            raise PipelineError(f"{self._target.topic}-{self._partition}: stopped")


def timestamps_ms(batch: pa.RecordBatch) -> list[int]:
    """Return the time of each row in Unix milliseconds; 0 if it has none, for which librdkafka takes the current time."""
    if "timestampMs" in batch.schema.names:
        times = batch["timestampMs"]
    else:
        times = batch["timestamp"].cast(pa.timestamp("ms", batch["timestamp"].type.tz), safe=False).cast(pa.int64())
    return [0 if time is None or time < 0 else time for time in times.to_pylist()]
