"""Small steps with confluent-kafka that several suites take: create a topic, change it, read a partition whole."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
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
    return AdminClient({"bootstrap.servers": bootstrap})


def create_topic(bootstrap: str, topic: str, *, partitions: int = 1, replicas: int = 1, **configs: str) -> None:
    """Create a topic and wait for the broker's answer; config names with `_` for `.`."""
    config = {name.replace("_", "."): value for name, value in configs.items()}
    client = admin(bootstrap)  # kept: its answers never come once it is collected
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


def read_partition(
    bootstrap: str, topic: str, partition: int = 0, *, isolation: str = "read_uncommitted", timeout_s: float = 60.0
) -> Iterator[ReadRecord]:
    """Every record from the beginning to the end of the partition, as librdkafka delivers them.

    Raises:
        TimeoutError: nothing came for `timeout_s` and the end was not reached.
    """
    for message in read_messages(bootstrap, topic, partition, isolation=isolation, timeout_s=timeout_s):
        headers = tuple((name, value) for name, value in message.headers() or ())
        yield ReadRecord(message.offset(), message.timestamp(), message.key(), message.value(), headers)


def read_messages(
    bootstrap: str, topic: str, partition: int = 0, *, isolation: str = "read_uncommitted", timeout_s: float = 60.0
) -> Iterator[Message]:
    """As `read_partition`, but the client's own message objects: cheaper for millions of records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "compat-read",  # needed by the client, never used: no subscription, no commit
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.message.max.bytes": 10_000_000,
            "queued.max.messages.kbytes": 100_000,
        }
    )
    deadline_s = time.monotonic() + timeout_s
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            batch = consumer.consume(10_000, 0.1)  # waits that long even when the end was reached at once
            if batch:
                deadline_s = time.monotonic() + timeout_s
            elif time.monotonic() > deadline_s:
                raise TimeoutError(f"the end of {topic}-{partition} was not reached")
            for message in batch:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def watermarks(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """Log start offset and high watermark."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "compat-read", "enable.auto.commit": False})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
        return int(low), int(high)
    finally:
        consumer.close()
