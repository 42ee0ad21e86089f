"""kafka-python: at the end when `position` is."""

from __future__ import annotations

from kafka import KafkaConsumer, TopicPartition

from .frame import Read, answer_reads


def read(bootstrap: str, wanted: Read) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=wanted.level,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=100,
    )
    try:
        partition = TopicPartition(wanted.topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, wanted.offset)
        while not wanted.is_idle:
            for records in consumer.poll(timeout_ms=100).values():
                for each in records:
                    wanted.add(each.offset, each.key, each.value)
            wanted.stands_at(consumer.position(partition))
            if wanted.position is not None and wanted.position >= wanted.end:
                wanted.at_end = True
                return
    finally:
        consumer.close()


if __name__ == "__main__":
    answer_reads(read)
