"""Cleaning continues where Apache Kafka's cleaner stopped: at its checkpoint, not earlier, not from the start."""

import time

from confluent_kafka import Producer

from ..support.brokers.cleaning import wait_until_cleaned
from ..support.brokers.process import BrokerProcess
from ..support.clients.steps import ReadRecord, read_partitions, set_topic_configs
from ..support.logs.segment_files import base_offset, cleaner_checkpoint, segments
from ..support.suite import Suite
from . import fill


def judge_cleaning(suite: Suite, when: str, broker: BrokerProcess) -> None:
    """Judge one pass over the dirty part.

    The checkpoint is first moved after the `twice` records. A pass that starts there must leave both versions of each of them,
    as they are below the first dirty offset and none of these keys is written again. A cleaner that started earlier would
    remove the first versions.
    """
    checkpoint = cleaner_checkpoint(broker.data, fill.COMPACTED)
    suite.check(f"{when}: Kafka's checkpoint was kept", (checkpoint or 0) > 0, checkpoint)
    before = read_compacted(broker)
    moved = first_segment_of_later(broker, next(r.offset for r in before if (r.value or b"").startswith(b"later")))
    broker.stop()
    write_checkpoint(broker, moved)
    broker.start()
    newest = newest_values(read_compacted(broker))
    set_topic_configs(broker.bootstrap, fill.COMPACTED, min_compaction_lag_ms="0")
    fill_a_segment(broker.bootstrap)
    wait_until_cleaned(broker, fill.COMPACTED)
    after = read_compacted(broker)
    kept = {r.offset for r in after}
    twice = [r.offset for r in before if (r.key or b"").startswith(b"twice-") and r.offset < moved]
    lost = [offset for offset in twice if offset not in kept]
    suite.equal(f"{when}: nothing is deduplicated below the checkpoint {moved}", [], lost[:5])
    suite.check(f"{when}: there were versions to keep", len(twice) > fill.TWICE, len(twice))
    older = [r.offset for r in before if r.offset < (checkpoint or 0) and (r.key or b"").startswith(b"key-")]
    superseded = [offset for offset in older if offset in kept]
    suite.check(f"{when}: older values below it gave way to newer ones above", len(superseded) < len(older), len(older))
    seen = newest_values(after)
    suite.equal(f"{when}: the newest value of every key is as before", newest, {k: seen.get(k) for k in newest})
    advanced = cleaner_checkpoint(broker.data, fill.COMPACTED) or 0
    suite.check(f"{when}: the checkpoint advanced", advanced > moved, f"{checkpoint}, moved to {moved}, now {advanced}")


def first_segment_of_later(broker: BrokerProcess, offset: int) -> int:
    """Return the base offset of the first segment that is wholly at or above `offset`."""
    return min(base for base in map(base_offset, segments(broker.partition_dir(fill.COMPACTED))) if base >= offset)


def write_checkpoint(broker: BrokerProcess, offset: int) -> None:
    path = broker.data / "cleaner-offset-checkpoint"
    version, count, *lines = path.read_text().splitlines()
    entry = f"{fill.COMPACTED} 0 "
    lines = [line for line in lines if not line.startswith(entry)] + [f"{entry}{offset}"]
    path.write_text("\n".join([version, count, *lines]) + "\n")


def fill_a_segment(bootstrap: str) -> None:
    """Write more than a megabyte of fresh keys, so that the segment that was active can be cleaned."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    for n in range(800):
        producer.produce(fill.COMPACTED, bytes(2_000), b"fresh-%d" % n, partition=0)
    assert producer.flush(30) == 0
    time.sleep(0.5)


def read_compacted(broker: BrokerProcess) -> list[ReadRecord]:
    return read_partitions(broker.bootstrap, [(fill.COMPACTED, 0)])[fill.COMPACTED, 0]


def newest_values(records: list[ReadRecord]) -> dict[bytes | None, bytes | None]:
    """Return key -> its newest value; keys whose newest record is a tombstone map to None."""
    return {record.key: record.value for record in records if not (record.key or b"").startswith(b"fresh-")}
