"""Metrics of the broker: they have Apache Kafka's names, and the values of what happened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.server.broker.metrics import mbean
from ottla.server.cleaning.advice import LastPass
from ottla.server.runtime.clock import wall_time_ms
from support.broker.background_jobs import eventually
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient
from support.broker.served import serving
from support.disk.gated_files import GatedFiles

# Apache Kafka's names, as its guides write them: several in braces, tags without their values, with the node's tag (a process
# of Kafka has one node). Connections by address, and the bounds
# of numbers of records, are Ottla's own. Kafka's meters and timers are marked so.
NAMES = """
kafka.log:type=LogCleaner,name={cleaner-recopy-percent,max-clean-time-secs,max-buffer-utilization-percent,max-compaction-delay-secs,DeadThreadCount}
kafka.log:type=LogCleanerManager,name={max-dirty-percent,time-since-last-run-ms}
kafka.log:type=LogCleanerManager,name={uncleanable-partitions-count,uncleanable-bytes},logDirectory=
kafka.utils:type=Throttler,name=cleaner-io METER
kafka.log:type=Log,name={Size,NumLogSegments,LogStartOffset,LogEndOffset},topic=,partition=
kafka.log:type=Log,name={Records,LiveKeys,Tombstones},topic=,partition= BOUNDS
kafka.server:type=BrokerTopicMetrics,name=NoKeyCompactedTopicRecordsPerSec METER
kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs TIMER
kafka.log:type=LogManager,name=OfflineLogDirectoryCount
kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory=
kafka.log:type=LogManager,name=remainingLogsToRecover,dir=
kafka.log:type=LogManager,name=remainingSegmentsToRecover,dir=,threadNum=
kafka.server:type=socket-server-metrics,name={connection-count,connection-creation-total,connection-close-total,connection-accept-rate},listener=,node=
kafka.server:type=socket-server-metrics,name={connection-accept-throttle-time,ip-connection-accept-throttle-time},listener=,node=
kafka.server:type=socket-server-metrics,name=broker-connection-accept-rate,node=
kafka.server:type=socket-server-metrics,name=ip-connection-count,ip=,node=
"""

ATTRIBUTES = {
    "": [""],
    "BOUNDS": ["#Min", "#Max"],
    "METER": ["#Count", "#OneMinuteRate"],
    "TIMER": ["#Count", "#Mean", "#Max"],
}


def expected(table: str) -> Iterator[str]:
    """Yield every name of such a table, with the attributes of its kind."""
    for shape, kind in re.findall(r"^(\S+) ?(\w*)$", table, re.MULTILINE):
        before, names, after = re.findall(r"(.*name=)\{?([^{}=]*?)\}?((?:,\w+=)*)$", shape)[0]
        yield from (f"{before}{name}{after}{end}" for name in names.split(",") for end in ATTRIBUTES[kind])


def without_values(name: str) -> str:
    """Return a name without the values of its tags, as the table has it."""
    path, hash, attribute = name.partition("#")
    type_and_name, *tags = re.split(r",(?=(?:logDirectory|dir|threadNum|topic|partition|listener|ip|node)=)", path)
    return ",".join([type_and_name, *(f"{tag.partition('=')[0]}=" for tag in tags)]) + hash + attribute


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(tmp_path), overrides={"log.cleaner.backoff.ms": "1"}) as running:
        yield running


def test_metric_names_are_exactly_those_of_kafka(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", 2, cleanup_policy="compact")
    found = broker.metrics()
    assert {without_values(name) for name in found} == set(expected(NAMES))
    assert all(type(value) in (int, float) for value in found.values())


def test_tags_are_quoted_as_jmx_requires() -> None:
    assert mbean("g", "T", "n") == "g:type=T,name=n"
    assert mbean("g", "T", "n", topic="a.b_c-d", partition=7) == "g:type=T,name=n,topic=a.b_c-d,partition=7"
    assert mbean("g", "T", "n", dir="/a b") == 'g:type=T,name=n,dir="/a b"'
    assert mbean("g", "T", "n", dir='/"*?\\\n') == 'g:type=T,name=n,dir="/\\"\\*\\?\\\\\\n"'


def value(broker: ottla.Broker, name: str, **tags: object) -> int | float:
    """Return the metric GROUP:TYPE:NAME, or GROUP:TYPE:NAME#ATTRIBUTE."""
    path, hash, attribute = name.partition("#")
    group, type, short = path.split(":")
    return broker.metrics()[mbean(group, type, short, **tags) + hash + attribute]


def test_a_partition_reports_its_size_and_its_offsets(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t", 2, internal_segment_bytes=200)
    for _ in range(3):
        produce(client, "t", ("k", "v" * 100), partition=1)
    sizes = [value(broker, "kafka.log:Log:Size", topic="t", partition=index) for index in (0, 1)]
    assert sizes[0] == 0 and sizes[1] == 3 * 171
    assert value(broker, "kafka.log:Log:NumLogSegments", topic="t", partition=1) == 3
    assert value(broker, "kafka.log:Log:LogStartOffset", topic="t", partition=1) == 0
    assert value(broker, "kafka.log:Log:LogEndOffset", topic="t", partition=1) == 3


def test_records_without_a_key_are_counted_where_they_are_refused(broker: ottla.Broker, client: RawClient) -> None:
    keyless = "kafka.server:BrokerTopicMetrics:NoKeyCompactedTopicRecordsPerSec"
    create_topic(client, "compacted", cleanup_policy="compact")
    create_topic(client, "plain")
    assert produce(client, "compacted", (None, "a"), ("k", "b"), (None, "c")).error_code == ErrorCode.INVALID_RECORD
    assert produce(client, "plain", (None, "a")).error_code == ErrorCode.NONE
    create_topic(client, "recent", cleanup_policy="compact", message_timestamp_before_max_ms=1)
    assert produce(client, "recent", ("k", "v"), timestamp=0).error_code == ErrorCode.INVALID_TIMESTAMP
    assert value(broker, f"{keyless}#Count") == 2


def test_syncs_are_counted_and_timed(broker: ottla.Broker, client: RawClient) -> None:
    flushes = "kafka.log:LogFlushStats:LogFlushRateAndTimeMs"
    before = value(broker, f"{flushes}#Count")
    create_topic(client, "t", flush_messages=1)
    for _ in range(3):
        produce(client, "t", ("k", "v"))
    assert value(broker, f"{flushes}#Count") >= before + 3
    assert 0 < value(broker, f"{flushes}#Mean") <= value(broker, f"{flushes}#Max")


def fill(client: RawClient, topic: str, *, keys: int = 1, **configs: Any) -> None:
    """Create a compacted topic with ten closed segments, each with the same keys, and one more."""
    create_topic(client, topic, **{"cleanup_policy": "compact", "internal_segment_bytes": 1000, **configs})
    for _ in range(11):
        produce(client, topic, ("k", "v" * 600), *[(f"k{number}", "v") for number in range(1, keys)])


def last_pass(broker: ottla.Broker) -> LastPass:
    """Return the last pass of the only partition, once one has cleaned up to the active segment."""
    (partition,) = broker.cleaner_status()

    def is_clean() -> bool:
        found = broker.cleaner_status()[partition].eligibility
        return found.first_dirty_offset == found.upper_offset > 0 and found.state == "not held"

    assert eventually(broker, is_clean)
    found = broker.cleaner_status()[partition].last_pass
    assert found is not None
    return found


def test_the_dirtiest_log_is_reported_even_if_it_is_not_cleaned(broker: ottla.Broker, client: RawClient) -> None:
    fill(client, "t", min_cleanable_dirty_ratio=1)
    assert eventually(broker, lambda: value(broker, "kafka.log:LogCleanerManager:max-dirty-percent") == 100)


def test_the_last_pass_of_a_thread_is_reported(broker: ottla.Broker, client: RawClient) -> None:
    fill(client, "t", min_cleanable_dirty_ratio=0)
    stats = last_pass(broker).stats
    recopied = value(broker, "kafka.log:LogCleaner:cleaner-recopy-percent")
    assert recopied == 100 * stats.bytes_written // stats.bytes_read < 100
    assert value(broker, "kafka.log:LogCleaner:max-clean-time-secs") == int(stats.seconds)
    assert value(broker, "kafka.utils:Throttler:cleaner-io#Count") >= stats.map_bytes_read + stats.bytes_read


def test_kafka_18597_a_partly_full_map_is_reported(tmp_path: Path) -> None:
    """In Kafka the metric was 0 until the map was full."""
    overrides = {"log.cleaner.backoff.ms": "1", "log.cleaner.dedupe.buffer.size": str((1 << 20) + 1)}
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        fill(client, "t", keys=2000, internal_segment_bytes=100_000, min_cleanable_dirty_ratio=0)
        percent = int(100 * last_pass(broker).stats.map_utilization)
        assert 0 < percent < 100
        assert value(broker, "kafka.log:LogCleaner:max-buffer-utilization-percent") == percent


async def test_the_waiting_time_of_the_oldest_record_is_reported(tmp_path: Path) -> None:
    files = GatedFiles()
    async with serving(tmp_path, files, log_cleaner_backoff_ms="1") as served:
        lag = {"max_compaction_lag_ms": 60_000, "min_cleanable_dirty_ratio": 1}
        await served.ask(create_topic, "t", cleanup_policy="compact", internal_segment_bytes=1000, **lag)
        for _ in range(3):
            await served.ask(produce, "t", ("k", "v" * 600), timestamp=wall_time_ms() - 3_660_000)
        await files.reached()
        delay_s = served.broker.metrics()[mbean("kafka.log", "LogCleaner", "max-compaction-delay-secs")]
        assert 3600 <= delay_s < 3700
        files.let_on()


def test_the_time_since_the_last_check_follows_the_clock(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), overrides={"log.cleaner.backoff.ms": str(10**12)}) as broker:
        name = "kafka.log:LogCleanerManager:time-since-last-run-ms"
        assert eventually(broker, lambda: broker.inner.services.cleaning.looked_at_ms is not None)
        broker.advance_clock(10**9)
        assert 10**9 <= value(broker, name) < 10**9 + 10**6


def test_a_directory_that_fails_is_offline(broker: ottla.Broker, client: RawClient, tmp_path: Path) -> None:
    create_topic(client, "t")
    assert value(broker, "kafka.log:LogManager:OfflineLogDirectoryCount") == 0

    async def fail() -> None:
        next(iter(broker.inner.services.logs.logs.values())).fail(OSError("the disk is gone"))

    broker.run(fail)
    assert value(broker, "kafka.log:LogManager:OfflineLogDirectoryCount") == 1
    assert value(broker, "kafka.log:LogManager:LogDirectoryOffline", logDirectory=tmp_path) == 1
