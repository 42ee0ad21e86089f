"""Small steps with confluent-kafka that several suites take: create a topic, change it, read a partition whole."""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """A record as a consumer saw it; `timestamp` is (kind, Unix ms) with kind 1 CreateTime, 2 LogAppendTime."""

    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})


def create_topic(
    bootstrap: str,
    topic: str,
    *,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str] = MappingProxyType({}),
    **more: str,
) -> None:
    """Create a topic with `configs` and `more` of them, and wait for the broker's answer; config names with `_` for `.`."""
    config = {name.replace("_", "."): value for name, value in {**configs, **more}.items()}
    client = admin(bootstrap)  # kept: a collected client never delivers its answers
    for done in client.create_topics([NewTopic(topic, partitions, replicas, config=config)]).values():
        done.result(30)


def set_topic_configs(bootstrap: str, topic: str, **configs: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    client = admin(bootstrap)
    for done in client.incremental_alter_configs([resource]).values():
        done.result(30)


def produce_all(bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
    """Produce each of these, as arguments of `Producer.produce`, idempotently; all are acknowledged on return."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for record in records:
        while True:
            try:
                producer.produce(topic, **record)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def read_partitions(
    bootstrap: str, partitions: list[tuple[str, int]], *, isolation: str = "read_uncommitted", timeout_s: float = 60.0
) -> dict[tuple[str, int], list[ReadRecord]]:
    """Return every record of each partition from its beginning to its end, as librdkafka delivers them."""
    found: dict[tuple[str, int], list[ReadRecord]] = {tp: [] for tp in partitions}
    for message in read_messages(bootstrap, partitions, isolation=isolation, timeout_s=timeout_s):
        headers = tuple((name, value) for name, value in message.headers() or ())
        record = ReadRecord(message.offset(), message.timestamp(), message.key(), message.value(), headers)
        found[message.topic(), message.partition()].append(record)
    return found


def read_messages(
    bootstrap: str, partitions: list[tuple[str, int]], *, isolation: str = "read_uncommitted", timeout_s: float = 60.0
) -> Iterator[Message]:
    """Yield the client's own message objects of all partitions, until each partition's end was reached.

    Raises:
        TimeoutError: No message arrived for `timeout_s` and some end was not reached.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "compat-read",  # needed by the client, never used: no subscription, no commit
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.wait.max.ms": 10,  # a fetch without records reports the end
            "fetch.message.max.bytes": 10_000_000,
            "queued.max.messages.kbytes": 100_000,
        }
    )
    open_ends = set(partitions)
    deadline_s = time.monotonic() + timeout_s
    try:
        consumer.assign([TopicPartition(*tp, OFFSET_BEGINNING) for tp in partitions])
        while open_ends:
            batch = consumer.consume(10_000, 0.1)  # waits that long even when the end was reached at once
            if batch:
                deadline_s = time.monotonic() + timeout_s
            elif time.monotonic() > deadline_s:
                raise TimeoutError(f"the end of {sorted(open_ends)} was not reached")
            for message in batch:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard((message.topic(), message.partition()))
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def watermarks(bootstrap: str, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (topic, partition) -> log start offset and high watermark."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "compat-read", "enable.auto.commit": False})
    try:
        return {tp: consumer.get_watermark_offsets(TopicPartition(*tp), 30) for tp in partitions}
    finally:
        consumer.close()
