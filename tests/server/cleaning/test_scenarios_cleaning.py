"""The cleaner of a running broker, on a clock that the tests move: lags, damage, retention, changes of policy and config."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.server.broker.broker import Broker
from ottla.server.cleaning.throttler import Throttler
from ottla.server.config.resources import ConfigResourceType
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.topics.catalog_file import CLUSTER_DEFAULT
from support.broker.admin import delete
from support.broker.background_jobs import eventually, files, retain, segment_names
from support.broker.compacting import (
    QUICK,
    VALUE,
    alter,
    consume,
    create_compacted,
    last_values,
    let_clean,
    log_bytes,
    offsets,
)
from support.broker.conversation import address, create_topic, list_offset, produce
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.disk.gated_files import GatedFiles
from support.logs.make_log import append, clean, make_log

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOISE = random.Random(0).randbytes(20_000)
"""Random bytes, which no codec makes smaller."""
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(tmp_path), overrides=QUICK) as running:
        yield running


def write(client: RawClient, topic: str, keys: str, *, first: int = 0, codec: int = 0) -> None:
    """Write one segment per key; the values count from `first`, and have the same size in any codec."""
    for number, key in enumerate(keys, first):
        value = b"%d %s" % (number, NOISE[:600])
        assert produce(client, topic, (key, value), codec=codec).error_code == ErrorCode.NONE


def checkpoint(data_dir: Path) -> dict[str, int]:
    """Return the cleaner's checkpoint, by topic."""
    lines = (data_dir / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    return {topic: int(offset) for topic, _, offset in map(str.split, lines)}


def metric(broker: ottla.Broker, name: str) -> float:
    """Return the one metric whose JMX name contains `name`."""
    (value,) = (value for known, value in broker.metrics().items() if f"name={name}" in known)
    return value


# Lags


@pytest.mark.scenario(83)
def test_at_ratio_one_only_the_maximum_lag_causes_a_pass_per_block(broker: ottla.Broker, client: RawClient) -> None:
    lags = {"min_compaction_lag_ms": HOUR_MS, "max_compaction_lag_ms": 6 * HOUR_MS}
    stamped = {"message_timestamp_type": "LogAppendTime"}
    create_compacted(client, "t", min_cleanable_dirty_ratio=1.0, **lags, **stamped)
    write(client, "t", "abcabcabc")
    for hours in (3, 3):
        let_clean(broker)
        assert offsets(client, "t") == list(range(9))
        broker.advance_clock(hours * HOUR_MS)
    write(client, "t", "abcabcabc")
    broker.advance_clock(MINUTE_MS)
    let_clean(broker)
    assert offsets(client, "t") == [6, 7, 8, *range(9, 18)]
    broker.advance_clock(6 * HOUR_MS)
    write(client, "t", "d")
    let_clean(broker)
    assert offsets(client, "t") == [15, 16, 17, 18]


@pytest.mark.scenario(85)
def test_a_block_is_compacted_only_after_the_minimum_lag(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    for topic, codec in CODECS.items():
        create_compacted(client, topic, min_compaction_lag_ms=HOUR_MS, message_timestamp_type="LogAppendTime")
        write(client, topic, "abcabcabc", codec=codec)
    wanted = {topic: last_values(client, topic) for topic in CODECS}
    broker.advance_clock(HOUR_MS // 2)
    let_clean(broker)
    assert {topic: offsets(client, topic) for topic in CODECS} == {topic: list(range(9)) for topic in CODECS}
    broker.advance_clock(HOUR_MS // 2 + MINUTE_MS)
    for topic, codec in CODECS.items():
        write(client, topic, "de", first=9, codec=codec)
    let_clean(broker)
    for topic in CODECS:
        assert offsets(client, topic) == [6, 7, 8, 9, 10]
        assert last_values(client, topic).items() >= wanted[topic].items()
        assert checkpoint(tmp_path)[topic] == 9, "the first segment that is still young"


# Content


@pytest.mark.scenario(86)
def test_keys_keep_their_last_values_through_several_passes_and_a_large_message(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    for topic, codec in CODECS.items():
        create_compacted(client, topic, internal_segment_bytes=20_000)
        directory = tmp_path / f"{topic}-0"
        larges: dict[bytes | None, bytes | None] = {}
        for block in range(2):
            alter(client, topic, min_cleanable_dirty_ratio=1.0)
            before_bytes = log_bytes(directory)
            for first in range(0, 300, 6):
                pairs = [(f"key{number % 100}", NOISE[number : number + 60]) for number in range(first, first + 6)]
                assert produce(client, topic, *pairs, codec=codec).error_code == ErrorCode.NONE
            block_bytes = log_bytes(directory) - before_bytes
            wanted = last_values(client, topic)
            # A segment of its own, and another one that seals it.
            key, value = b"large %d" % block, NOISE[block : block + 19_000]
            for _ in range(2):
                assert produce(client, topic, (key, value), codec=codec).error_code == ErrorCode.NONE
            alter(client, topic, min_cleanable_dirty_ratio=0)
            let_clean(broker)
            larges[key] = value
            assert last_values(client, topic) == wanted | larges
            assert len(offsets(client, topic)) == 100 + len(larges) + 1
            assert log_bytes(directory) < block_bytes / 2 + (len(larges) + 1) * 20_000
        assert checkpoint(tmp_path)[topic] >= 600
        delete(client, topic)
        assert topic not in checkpoint(tmp_path)


@pytest.mark.scenario(87)
def test_a_log_with_both_policies_is_compacted_then_deleted_by_age(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    create_compacted(client, "t", cleanup_policy="compact,delete", message_timestamp_before_max_ms=2**62)
    for key in "abcabcabcd":
        produce(client, "t", (key, VALUE), timestamp=-1)
    let_clean(broker)
    assert offsets(client, "t") == [6, 7, 8, 9]
    for path in (tmp_path / "t-0").glob("*.log"):
        os.utime(path, (1, 1))
    retain(broker)
    assert list_offset(client, "t", -2) == (ErrorCode.NONE, 10)
    assert files(tmp_path / "t-0", "*.log") == segment_names([10])
    write(client, "t", "ababc")
    let_clean(broker)
    assert offsets(client, "t", 10) == [12, 13, 14]


@pytest.mark.scenario(213)
def test_a_policy_that_changes_during_appends_harms_no_records(broker: ottla.Broker, client: RawClient) -> None:
    create_compacted(client, "t")
    for number in range(12):
        write(client, "t", "abcd"[: 1 + number % 4], first=10 * number)
        alter(client, "t", cleanup_policy=("compact", "delete", "compact,delete")[number % 3])
    alter(client, "t", cleanup_policy="compact")
    write(client, "t", "z")
    let_clean(broker)
    newest = {key: (value or b"").split()[0] for key, value in last_values(client, "t").items()}
    assert newest == {b"a": b"110", b"b": b"111", b"c": b"112", b"d": b"113", b"z": b"0"}
    assert len(list(consume(client, "t"))) == len(newest)


# Damage


def damage(path: Path) -> None:
    """Change the magic of a segment's first batch."""
    data = bytearray(path.read_bytes())
    data[16] = 77
    path.write_bytes(data)


@pytest.mark.scenario(82, 214)
def test_kafka_7215_damaged_partitions_are_skipped_and_counted_while_others_are_cleaned(
    broker: ottla.Broker, client: RawClient, tmp_path: Path
) -> None:
    topics = ("bad", "worse", "good")
    for topic in topics:
        create_compacted(client, topic, min_cleanable_dirty_ratio=1.0)
        write(client, topic, "ababc")
    for topic in ("bad", "worse"):
        damage(tmp_path / f"{topic}-0" / segment_names([2])[0])
    batch_bytes = {topic: (tmp_path / f"{topic}-0" / segment_names([0])[0]).stat().st_size for topic in topics}
    for topic in topics:
        alter(client, topic, min_cleanable_dirty_ratio=0)
    let_clean(broker)
    assert offsets(client, "good") == [2, 3, 4]
    assert metric(broker, "uncleanable-partitions-count") == 2
    assert metric(broker, "uncleanable-bytes") == 4 * (batch_bytes["bad"] + batch_bytes["worse"])
    assert files(tmp_path / "bad-0", "*.log") == segment_names(range(5)), "nothing was replaced"
    write(client, "good", "ab")
    let_clean(broker)
    assert offsets(client, "good") == [3, 4, 5, 6]
    delete(client, "worse")
    assert eventually(broker, lambda: metric(broker, "uncleanable-partitions-count") == 1)
    assert metric(broker, "uncleanable-bytes") == 4 * batch_bytes["bad"]


@pytest.mark.parametrize("mended", [True, False])
def test_kafka_19895_a_partition_is_retried_when_its_topics_config_changes(
    broker: ottla.Broker, client: RawClient, tmp_path: Path, mended: bool
) -> None:
    create_compacted(client, "t", min_cleanable_dirty_ratio=1.0)
    write(client, "t", "ababc")
    path = tmp_path / "t-0" / segment_names([2])[0]
    sound = path.read_bytes()
    damage(path)
    alter(client, "t", min_cleanable_dirty_ratio=0)
    let_clean(broker)
    assert metric(broker, "uncleanable-partitions-count") == 1
    if mended:
        path.write_bytes(sound)
    alter(client, "t", delete_retention_ms=5)
    let_clean(broker)
    assert metric(broker, "uncleanable-partitions-count") == (0 if mended else 1)
    if mended:
        assert offsets(client, "t") == [2, 3, 4]


# Speed


@pytest.mark.scenario(215)
@pytest.mark.parametrize("limit_bytes_per_s", [1_000_000, 2_000_000])
def test_the_duration_of_a_pass_follows_the_byte_limit(limit_bytes_per_s: int) -> None:
    """Bytes allowed in the last period are not delayed. The disk moves 5 MB/s, by a clock of its own."""
    log = make_log()
    for number in range(120):
        append(log, (f"{number % 20}", "v" * 100_000))
    log.roll(1_000)
    throttler, now_s, moved_bytes = Throttler(limit_bytes_per_s), 0.0, 0

    def move(count_bytes: int) -> None:
        nonlocal now_s, moved_bytes
        moved_bytes += count_bytes
        now_s += count_bytes / 5_000_000
        now_s += throttler.observe(count_bytes, now_s)

    _, stats = clean(log, checkpoint=move)
    assert moved_bytes >= stats.map_bytes_read + stats.bytes_read + stats.bytes_written > 20_000_000
    assert 0.8 * moved_bytes < now_s * limit_bytes_per_s <= moved_bytes


# Changes


@pytest.mark.scenario(2, 188)
def test_all_cleaner_settings_change_together_under_load_and_survive_a_restart(tmp_path: Path) -> None:
    changed = {
        "log.cleaner.threads": "2",
        "log.cleaner.dedupe.buffer.size": "20000000",
        "log.cleaner.io.buffer.load.factor": "0.8",
        "log.cleaner.io.buffer.size": "300000",
        "message.max.bytes": "40000",
        "log.cleaner.io.max.bytes.per.second": "5.0E7",
        "log.cleaner.backoff.ms": "6",
    }
    answers: list[int] = []
    with ottla.Broker(str(tmp_path), overrides=QUICK) as broker, RawClient(*address(broker)) as client:
        create_compacted(client, "t")
        names = set(broker.metrics())
        done = threading.Event()

        def produce_on() -> None:
            with RawClient(*address(broker)) as producer:
                while not done.is_set() or len(answers) < 10:
                    answers.append(produce(producer, "t", (f"k{len(answers) % 3}", VALUE)).error_code)

        load = threading.Thread(target=produce_on)
        load.start()
        change_cleaner(client, changed)
        change_cleaner(client, {"log.cleaner.backoff.ms": "8"})
        done.set()
        load.join()
        let_clean(broker)
        assert set(answers) == {ErrorCode.NONE}
        assert set(broker.metrics()) == names
        assert len(offsets(client, "t")) < len(answers)
    for _ in range(2):
        with ottla.Broker(str(tmp_path), overrides=QUICK) as broker:
            config = broker.inner.config.current
            found = (
                *(config.log_cleaner_threads, config.log_cleaner_dedupe_buffer_size, config.log_cleaner_backoff_ms),
                *(config.log_cleaner_io_buffer_load_factor, config.log_cleaner_io_buffer_size),
                *(config.message_max_bytes, config.log_cleaner_io_max_bytes_per_second),
            )
            assert found == (2, 20_000_000, 8, 0.8, 300_000, 40_000, 50_000_000)
            assert eventually(broker, lambda: len(broker.inner.services.cleaning.threads) == 2)


def change_cleaner(client: RawClient, changed: dict[str, str]) -> None:
    """Change dynamic options of all nodes, and leave the others as they are."""
    changes = tuple(AlterableConfig(name=name, value=value) for name, value in changed.items())
    resource = AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name="", configs=changes)
    (row,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert row.error_code == ErrorCode.NONE, row.error_message


@pytest.mark.scenario(48)
def test_without_cleaner_threads_their_gauges_are_0(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), overrides=QUICK | {"log.cleaner.enable": "false"}) as broker:
        with RawClient(*address(broker)) as client:
            create_compacted(client, "t")
            write(client, "t", "aab")
        found = {name: value for name, value in broker.metrics().items() if "type=LogCleaner," in name}
        assert set(found.values()) == {0} and len(found) == 5


@pytest.mark.scenario(174)
async def test_a_change_that_keeps_the_policy_does_not_stop_the_pass(tmp_path: Path) -> None:
    gated = GatedFiles()
    async with serving(tmp_path, gated, log_cleaner_backoff_ms="1") as served:
        await served.ask(create_compacted, "t")
        for key in "ababc":
            await served.ask(produce, "t", (key, VALUE))
        await gated.reached()
        await served.ask(alter, "t", delete_retention_ms=5)
        await served.ask(alter, "t", cleanup_policy="compact,delete")
        manager, tp = served.broker.services.cleaning.manager, TopicPartition("t", 0)
        assert manager.is_busy(tp) and not manager.is_aborting(tp)
        gated.let_on()
        while manager.is_busy(tp):
            await trio.lowlevel.checkpoint()
        assert served.broker.cleaner_status([tp])[tp].passes >= 1


@pytest.mark.scenario(175)
async def test_a_changed_default_reaches_a_topic_under_creation(tmp_path: Path) -> None:
    """The topic is planned with the old value, and must wait until the new one is persisted."""
    gated = GatedFiles("nothing is held up yet")
    async with serving(tmp_path, gated) as served, trio.open_nursery() as nursery:
        broker = served.broker
        await served.ask(create_topic, "before")
        gated.at = "ottla.json.tmp"
        nursery.start_soon(_alter_retention, broker)
        await gated.reached()
        nursery.start_soon(_create, served)
        while broker.services.cluster.change_lock.statistics().tasks_waiting == 0:
            await trio.lowlevel.checkpoint()
        gated.let_on()
        while broker.services.topics.get("t") is None:
            await trio.lowlevel.checkpoint()
        logs = broker.services.logs.logs
        assert [logs[TopicPartition(name, 0)].config.retention_ms for name in ("before", "t")] == [12345, 12345]


async def _alter_retention(broker: Broker) -> None:
    async with broker.services.cluster.change_lock:
        await broker.services.config_changes.alter_broker(CLUSTER_DEFAULT, {"log.retention.ms": "12345"})


async def _create(served: Served) -> None:
    await served.ask(create_topic, "t")
