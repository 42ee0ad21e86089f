"""Reads the topic from the beginning with real consumers and compares with the model."""

from contextlib import suppress
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from ..support.clients.steps import read_messages
from ..support.logs.segment_files import base_offset, cleaner_checkpoint, segments
from ..support.suite import Suite
from .model import Model, Reading


def read_and_judge(
    suite: Suite,
    when: str,
    bootstrap: str,
    topic: str,
    model: Model,
    data_dir: Path | None = None,
    *,
    second_client: bool = False,
) -> Reading:
    """Check that the consumer saw the model's final state in order, at the acknowledged offsets, unchanged."""
    reading = Reading(model)
    before = _files(data_dir / f"{topic}-0") if data_dir else {}
    for message in read_messages(bootstrap, [(topic, 0)]):
        reading.see(message.offset(), message.timestamp()[1], message.key(), message.value())
    # Read after consuming: the cleaner may advance during it, never go back.
    first_dirty = cleaner_checkpoint(data_dir, topic) if data_dir else None
    reading.finish(first_dirty, [*before] or [0], are_as_read=_are_still(before, data_dir, topic))
    _judge(suite, f"{when}: confluent-kafka sees the model's final state", reading)
    if second_client:
        second = Reading(model)
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, fetch_max_bytes=50_000_000)
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        while consumer.position(partition) < end:
            for records in consumer.poll(1000, max_records=10_000).values():
                for record in records:
                    second.see(record.offset, record.timestamp, record.key, record.value)
        consumer.close()
        second.finish(first_dirty, [*before] or [0], are_as_read=_are_still(before, data_dir, topic))
        _judge(suite, f"{when}: kafka-python sees the model's final state", second)
    return reading


def _files(partition_dir: Path) -> dict[int, tuple[int, int]]:
    """Return base offset -> inode and size of each segment, in order, without segments that are deleted during the listing."""
    found = {}
    for segment in segments(partition_dir):
        with suppress(FileNotFoundError):
            at = segment.stat()
            found[base_offset(segment)] = at.st_ino, at.st_size
    return found


def _are_still(before: dict[int, tuple[int, int]], data_dir: Path | None, topic: str) -> bool:
    return data_dir is not None and before == _files(data_dir / f"{topic}-0")


def _judge(suite: Suite, what: str, reading: Reading) -> None:
    faults = reading.faults
    first = "; ".join(faults[:3])
    detail = f"{len(faults)} faults: {first}" if faults else f"{len(reading.offsets)} records"
    suite.check(what, not faults, detail)


def judge_compaction(suite: Suite, reading: Reading, partition_dir: Path) -> None:
    """Judge how much the cleaner left, against the bounds of its dirty ratio."""
    active_base = base_offset(segments(partition_dir)[-1])
    below = sum(1 for offset in reading.offsets if offset < active_base)
    per_key = below / reading.live_keys()
    suite.check("fewer than 2.2 records per live key below the active segment", per_key < 2.2, f"{per_key:.2f}")
    left = below / active_base
    suite.check("less than 15 % of the records written below the active segment are left", left < 0.15, f"{left:.1%}")
    suite.note(f"{len(segments(partition_dir))} segments, {reading.live_keys()} live keys")
