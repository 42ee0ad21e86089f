"""The largest and smallest numbers that options and requests accept: no sum or difference with them overflows.

option of a topic          in                                        what is done with it
delete.retention.ms        cleaner                                   + now: the delete horizon, 64 bits in the header
file.delete.delay.ms       log, log manager                          + now: when a file is removed
flush.messages, flush.ms   log, log manager                          LEO - recovery point; now - last flush
index.interval.bytes       segment indexes, kernel                   compared with bytes since the last entry
max.compaction.lag.ms      log (roll), dirtiness, eligibility        now - it - oldest record; oldest record + it
min.compaction.lag.ms      dirtiness, eligibility                    now - it; largest timestamp + it
message.timestamp.*.max.ms record checks, kernel                     now - it, now + it, limited to 64 bits
retention.bytes            retention                                 compared with bytes
retention.ms               retention                                 now - largest timestamp, compared with it
segment.bytes              log, preallocate                          it - bytes of the batch
segment.index.bytes        indexes                                   // bytes of an entry, one at least
segment.jitter.ms          log                                       a random number below it
segment.ms                 log (roll)                                it - jitter; timestamp - timestamp of the first

number of a request
timestamp of a record      record checks, kernel, indexes, cleaner   base + delta, modulo 2^64 as in a JVM
timestamp in ListOffsets   indexes                                   compared
offset in Fetch and others log                                       compared
retention_time_ms          offset commits                            + now: 64 bits in the record
committed offset           offset commits                            kept
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio

from ottla.protocol.batch_builder import append_records, seal_batch
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.records import RecordBatch
from ottla.server.broker.broker import Broker
from ottla.server.config.broker_config import BrokerConfig
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.topics.config import TOPIC_OPTIONS, ConfigError
from ottla.storage.topics.options import MAX_LONG, Option, OptionType, options_of
from support.broker.admin import delete_records
from support.broker.conversation import create_topic, fetch, list_offset, produce
from support.broker.raw_client import RawClient
from support.broker.served import Served, serving
from support.logs.make_log import append, contents, log_with_holes, reopen

MAX_INT = 2**31 - 1
MIN_LONG = -(2**63)
LARGEST = {OptionType.INT: MAX_INT, OptionType.LONG: MAX_LONG}
SMALLEST = {OptionType.INT: -(2**31), OptionType.LONG: MIN_LONG}
TIMESTAMPS = (0, -1, 1, MAX_LONG, MIN_LONG, MAX_LONG - 1, MIN_LONG + 1)
REFUSALS = {
    "max.message.bytes=0": ErrorCode.MESSAGE_TOO_LARGE,
    "internal.segment.bytes=1": ErrorCode.RECORD_LIST_TOO_LARGE,
    "message.timestamp.before.max.ms=0": ErrorCode.INVALID_TIMESTAMP,
    "message.timestamp.after.max.ms=0": ErrorCode.NONE,
}
PATIENCE_S = 60


def accepts(option: Option, value: int) -> bool:
    try:
        option.parse(str(value))
    except ConfigError:
        return False
    return True


def extremes(option: Option) -> list[int]:
    """Return the smallest and the largest value that an option accepts."""
    candidates = [SMALLEST[option.type], *range(-2, 13), 1 << 20, LARGEST[option.type]]
    taken = [value for value in candidates if accepts(option, value)]
    return [taken[0], taken[-1]]


OPTIONS = {
    f"{option.name}={value}": {option.name: str(value)}
    for option in TOPIC_OPTIONS.values()
    if option.type in LARGEST
    for value in extremes(option)
}


async def until_cleaned(broker: Broker, partitions: list[TopicPartition]) -> None:
    """Wait until every log that is due has had its pass."""
    with trio.fail_after(PATIENCE_S):
        while any(found.eligibility.eligible for found in broker.cleaner_status(partitions).values()):
            await trio.to_thread.run_sync(bool)


async def live(served: Served, *names: str, cleans: bool = True) -> None:
    """Run a broker for two days: its jobs, passes, and users' requests."""
    broker, partitions = served.broker, [TopicPartition(name, 0) for name in names]
    for _ in range(2):
        if cleans:
            await until_cleaned(broker, partitions)
        await broker.background_jobs.retain()
        await broker.services.cleaning.delete_from_compacted_logs()
        broker.clock.advance(86_400_000)
        for job in ("tick", "checkpoint_recovery_points", "checkpoint_log_starts", "expire_producers"):
            await getattr(broker.background_jobs, job)()
    broker.metrics()


async def ask_around(served: Served, name: str) -> None:
    for timestamp in (*TIMESTAMPS, -2, -3, -4):
        code, _ = await served.ask(list_offset, name, timestamp)
        assert code in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION), (timestamp, code)
    for offset in (MAX_LONG, MAX_LONG - 1, MIN_LONG):
        assert (await served.ask(fetch, name, offset)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        code, _ = await served.ask(delete_records, name, offset)
        assert code in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.POLICY_VIOLATION)


async def test_every_number_of_a_topic_works_at_its_options_limits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = {text: f"t{number}" for number, text in enumerate(OPTIONS)}
    limits = {"log_cleaner_backoff_ms": "1", "log_initial_task_delay_ms": str(10**9)}
    async with serving(tmp_path, OsFiles(), **limits) as served:
        for text, configs in OPTIONS.items():
            common = {
                "cleanup_policy": "compact,delete",
                "internal_segment_bytes": 150,
                "min_cleanable_dirty_ratio": 0,
                "message_timestamp_after_max_ms": MAX_LONG,
            }
            own = {name.replace(".", "_"): value for name, value in configs.items()}
            await served.ask(create_topic, names[text], **{**common, **own})
            now_ms = served.broker.clock.now_ms()
            for value in ("1", None, "2", None):
                answer = await served.ask(produce, names[text], ("k", value), timestamp=now_ms - 10)
                assert answer.error_code == REFUSALS.get(text, ErrorCode.NONE), (text, answer)
        await live(served, *names.values())
        assert served.broker.services.cleaning.manager.uncleanable == {}
        for text in ("delete.retention.ms=0", f"delete.retention.ms={MAX_LONG}"):
            await ask_around(served, names[text])
        kept = f"delete.retention.ms={MAX_LONG}"
        (log,) = [
            each for each in served.broker.services.logs.logs.values() if each.topic_partition.topic == names[kept]
        ]
        horizons = [batch.delete_horizon_ms for segment in log.segments for _, batch in segment.headers()]
        assert MAX_LONG in horizons
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
    async with serving(tmp_path, OsFiles(), **limits) as served:
        await live(served, *names.values())
        for name in names.values():
            found = served.broker.services.topics.get(name)
            assert found is not None
            await served.broker.services.topic_admin.delete(found)
        await served.broker.background_jobs.tick()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("policy", ["compact", "delete"])
async def test_records_of_any_timestamp_can_be_kept_cleaned_and_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    options = {
        "cleanup_policy": policy,
        "internal_segment_bytes": 150,
        "min_cleanable_dirty_ratio": 0,
        "message_timestamp_after_max_ms": MAX_LONG,
        "delete_retention_ms": MAX_LONG,
        "retention_ms": -1,
    }
    limits = {"log_cleaner_backoff_ms": "1", "log_initial_task_delay_ms": str(10**9)}
    async with serving(tmp_path, OsFiles(), **limits) as served:
        await served.ask(create_topic, "t", **options)
        taken = []
        for timestamp in TIMESTAMPS:
            for value in ("v", None):
                answer = await served.ask(produce, "t", (f"k{timestamp}", value), timestamp=timestamp)
                if answer.error_code == ErrorCode.NONE:
                    taken.append(timestamp)
        assert MAX_LONG in taken and 0 in taken
        await live(served, "t")
        await ask_around(served, "t")
        code, offset = await served.ask(list_offset, "t", MAX_LONG)
        assert (code, taken[offset]) == (ErrorCode.NONE, MAX_LONG)
        data = await served.ask(fetch, "t", 0)
        assert data.error_code == ErrorCode.NONE
        assert served.broker.services.cleaning.manager.uncleanable == {}
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_an_overflowing_timestamp_sum_equals_the_jvms() -> None:
    payload = bytearray()
    append_records(payload, [(0, MAX_LONG, b"k", b"v", ())])
    sealed = seal_batch(
        payload,
        record_count=1,
        base_offset=0,
        last_offset_delta=0,
        attributes=0,
        base_timestamp=MAX_LONG,
        max_timestamp=-2,
    )
    (record,) = RecordBatch(sealed).records()
    assert record.timestamp == -2


async def test_offset_retention_may_be_the_largest_number(tmp_path: Path) -> None:
    async with serving(tmp_path, OsFiles()) as served:
        await served.ask(create_topic, "t")
        for retention_ms in (MAX_LONG, MIN_LONG, 0):
            for offset in (0, MAX_LONG):
                partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
                request = OffsetCommitRequest(
                    group_id="g",
                    retention_time_ms=retention_ms,
                    topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
                )
                answer = await served.ask(RawClient.ask, request, version=2)
                assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def test_the_last_offsets_are_assigned_and_later_records_are_refused() -> None:
    log = log_with_holes((MAX_LONG - 2, []))
    assert append(log, ("a", "1"), ("b", "2")) == MAX_LONG - 2
    with pytest.raises(KafkaError, match="batch needs 1"):
        append(log, ("c", "3"))
    assert log.log_end_offset == MAX_LONG
    for clean in (True, False):
        log = reopen(log, clean=clean)
        assert [offset for offset, _, _ in contents(log)] == [MAX_LONG - 2, MAX_LONG - 1]
        assert log.log_end_offset == MAX_LONG


TIMES = {
    option.name: extremes(option)
    for option in options_of(BrokerConfig).values()
    # Groups' times bound each other; the last one ends the client's connection.
    if option.type in LARGEST and option.name.endswith(".ms") and not option.name.startswith(("group.", "connections."))
}


@pytest.mark.parametrize("end", [0, 1], ids=["smallest", "largest"])
async def test_every_duration_of_the_broker_works_at_its_options_limits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, end: int
) -> None:
    times = {name: str(ends[end]) for name, ends in TIMES.items()}
    async with serving(tmp_path, OsFiles(), **times) as served:
        for policy in ("compact", "delete"):
            await served.ask(create_topic, policy, cleanup_policy=policy, internal_segment_bytes=150)
            for value in ("1", None, "2"):
                await served.ask(produce, policy, ("k", value), timestamp=served.broker.clock.now_ms())
        await live(served, "compact", "delete", cleans=int(times["log.cleaner.backoff.ms"]) < PATIENCE_S)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
