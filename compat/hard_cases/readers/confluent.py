"""confluent-kafka (librdkafka): it is at the end when it gets that event, as `position` counts only records."""

from __future__ import annotations

from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from .frame import Read, answer_reads


def read(bootstrap: str, wanted: Read) -> None:
    options: dict[str, Any] = {"group.protocol": "consumer"} if wanted.group else {}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": wanted.group or "none",
            "isolation.level": wanted.level,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 100,
            **options,
        }
    )
    try:
        partition = TopicPartition(wanted.topic, 0, wanted.offset)
        if wanted.group:
            consumer.subscribe([wanted.topic])
        else:
            consumer.assign([partition])
        while not wanted.is_idle:
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is None:
                wanted.add(message.offset(), message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                wanted.stands_at(message.offset())
                wanted.at_end = True
                return
            else:
                raise KafkaException(error)
            (found,) = consumer.position([partition])
            if found.offset != OFFSET_INVALID:
                wanted.stands_at(found.offset)
    finally:
        consumer.close()


if __name__ == "__main__":
    answer_reads(read)
