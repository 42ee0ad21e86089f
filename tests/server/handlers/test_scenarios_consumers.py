"""Consumers of a topic that is compacted while they read it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.server.runtime.clock import wall_time_ms
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce.validation import AppendOrigin
from support.broker.admin import delete_records
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
from support.broker.conversation import address, create_topic, fetch, list_offset, produce
from support.broker.raw_client import RawClient
from support.logs.batches import ABORT, COMMIT, batch, marker

HOUR_MS = 3_600_000
EARLIEST, LATEST = -2, -1


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(tmp_path), overrides=QUICK) as running:
        yield running


def write(client: RawClient, keys: str, topic: str = "t", **options: Any) -> None:
    """Write one segment per key."""
    for key in keys:
        assert produce(client, topic, (key, VALUE), **options).error_code == ErrorCode.NONE


# Positions


@pytest.mark.scenario(201, 203)
def test_a_consumer_continues_from_a_compacted_position(broker: ottla.Broker, client: RawClient) -> None:
    create_compacted(client, "t", min_compaction_lag_ms=HOUR_MS)
    write(client, "abcabcabc")
    half = [record.offset for record, _ in zip(consume(client, "t"), range(4), strict=False)]
    assert half == [0, 1, 2, 3]
    alter(client, "t", min_compaction_lag_ms=0)
    write(client, "d")
    let_clean(broker)
    assert offsets(client, "t", 4) == [6, 7, 8, 9]
    assert offsets(client, "t", 0) == [6, 7, 8, 9]
    assert (list_offset(client, "t", EARLIEST)[1], list_offset(client, "t", LATEST)[1]) == (0, 10)
    assert fetch(client, "t", 10).error_code == ErrorCode.NONE


@pytest.mark.scenario(202)
def test_a_consumer_passes_a_batch_that_has_only_a_header(broker: ottla.Broker, client: RawClient) -> None:
    create_compacted(client, "t")
    write(client, "a", producer_id=7)
    write(client, "a")
    write(client, "a", producer_id=8)
    write(client, "b")
    let_clean(broker)
    # Producer 7's batch is empty; `consume` fails if it cannot make progress.
    assert (offsets(client, "t"), offsets(client, "t", 1)) == ([2, 3], [2, 3])


@pytest.mark.scenario(202)
def test_a_consumer_reaches_the_end_after_an_empty_last_batch(broker: ottla.Broker, client: RawClient) -> None:
    """The last cleaned segment ends with it, and no record follows."""
    create_compacted(client, "t", cleanup_policy="delete")
    write(client, "a")
    assert produce(client, "t", (None, VALUE)).error_code == ErrorCode.NONE
    broker.run(_roll, broker)
    alter(client, "t", cleanup_policy="compact")
    let_clean(broker)
    assert (offsets(client, "t"), offsets(client, "t", 1)) == ([0], [])
    assert list_offset(client, "t", LATEST) == (ErrorCode.NONE, 2)
    assert produce(client, "t", ("b", "v")).base_offset == 2
    assert offsets(client, "t", 1) == [2]


async def _roll(broker: ottla.Broker) -> None:
    inner = broker.inner
    inner.services.logs.logs[TopicPartition("t", 0)].roll(inner.clock.now_ms())


def commit(client: RawClient, topic: str, offset: int) -> None:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name=topic, partitions=(row,)),))
    assert client.ask(request, 7).topics[0].partitions[0].error_code == ErrorCode.NONE


def committed(client: RawClient, topic: str) -> int:
    request = OffsetFetchRequest(group_id="g", topics=(OffsetFetchRequestTopic(name=topic, partition_indexes=(0,)),))
    while (answer := client.ask(request, 7)).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        pass
    row = answer.topics[0].partitions[0]
    assert row.error_code == ErrorCode.NONE
    offset: int = row.committed_offset
    return offset


@pytest.mark.scenario(204)
def test_a_committed_offset_of_a_removed_record_stays_valid(broker: ottla.Broker, client: RawClient) -> None:
    create_compacted(client, "t", min_compaction_lag_ms=HOUR_MS)
    write(client, "aaaa")
    commit(client, "t", 1)
    alter(client, "t", min_compaction_lag_ms=0)
    write(client, "b")
    let_clean(broker)
    assert committed(client, "t") == 1
    assert offsets(client, "t", committed(client, "t")) == [3, 4]


@pytest.mark.scenario(217)
def test_group_offsets_survive_the_compaction_of_their_topic_and_a_restart(tmp_path: Path) -> None:
    overrides = QUICK | {
        "offsets.topic.num.partitions": "1",
        "log.roll.ms": str(HOUR_MS),
        "log.cleaner.min.cleanable.ratio": "0",
    }
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t")
        create_topic(client, "u")
        commit(client, "u", 5)
        for offset in range(100):
            commit(client, "t", offset)
        before = log_bytes(tmp_path / "__consumer_offsets-0")
        broker.advance_clock(2 * HOUR_MS)
        commit(client, "t", 100)
        let_clean(broker)
        assert log_bytes(tmp_path / "__consumer_offsets-0") < before / 10
    with ottla.Broker(str(tmp_path), overrides=overrides) as broker, RawClient(*address(broker)) as client:
        assert (committed(client, "t"), committed(client, "u")) == (100, 5)


# Records


@pytest.mark.scenario(205)
def test_surviving_records_are_unchanged(broker: ottla.Broker, client: RawClient) -> None:
    create_compacted(client, "t", min_compaction_lag_ms=10**15)  # their timestamps are years old
    now_ms = 1_700_000_000_000
    pairs = [("again", VALUE), ("", "empty key"), ("empty value", ""), ("\0\xff", "\n"), ("again", "x"), ("last", "y")]
    times = [now_ms + 1_000 * at for at in (0, 3, 1, 2, 9, 4)]
    headers = (("h", b"\0\1"), ("null", None), ("empty", b""), ("h", b"again"))
    for codec in range(5):
        produce(client, "t", *pairs, codec=codec, timestamp=times, headers=headers)
        write(client, "b", timestamp=now_ms)
    before = {record.offset: record for record in consume(client, "t")}
    alter(client, "t", min_compaction_lag_ms=0)
    for _ in range(2):
        write(client, "c")
        let_clean(broker)
    left = [record for record in consume(client, "t") if record.offset in before]
    assert len(before) == 35 and [record.key for record in left] == [
        *(b"", b"empty value", "\0\xff".encode(), b"again", b"last", b"b")
    ]
    assert [before[record.offset] for record in left] == left


@pytest.mark.scenario(207)
def test_the_brokers_timestamps_survive_a_pass(broker: ottla.Broker, client: RawClient) -> None:
    create_compacted(client, "t", min_compaction_lag_ms=HOUR_MS, message_timestamp_type="LogAppendTime")
    produce(client, "t", ("a", VALUE), ("b", "v"), ("c", "v"), timestamp=[1, 2, 3])
    broker.advance_clock(5 * HOUR_MS)
    write(client, "a")
    before = {record.offset: record.timestamp for record in consume(client, "t")}
    assert before[0] == before[1] == before[2] and before[3] - before[2] >= 5 * HOUR_MS
    alter(client, "t", min_compaction_lag_ms=0)
    write(client, "d")
    let_clean(broker)
    assert {record.offset: record.timestamp for record in consume(client, "t") if record.offset < 4} == {
        offset: before[offset] for offset in (1, 2, 3)
    }


@pytest.mark.scenario(208)
def test_a_tombstone_may_have_headers_and_an_empty_value_is_no_tombstone(
    broker: ottla.Broker, client: RawClient
) -> None:
    create_compacted(client, "t", delete_retention_ms=HOUR_MS)
    write(client, "a")
    answer = produce(client, "t", ("a", None), ("b", ""), headers=(("why", VALUE[:400].encode()),))
    assert answer.error_code == ErrorCode.NONE
    write(client, "c")
    let_clean(broker)
    assert [(record.key, record.value) for record in consume(client, "t")][:2] == [(b"a", None), (b"b", b"")]
    broker.advance_clock(HOUR_MS)
    write(client, "c")
    let_clean(broker)
    assert [(record.offset, record.value) for record in consume(client, "t")][:1] == [(2, b"")]
    assert offsets(client, "t") == [2, 3, 4]


# Producers and transactions


@pytest.mark.scenario(212)
def test_a_duplicate_is_recognised_after_its_batch_is_emptied_and_a_restart(tmp_path: Path) -> None:
    with ottla.Broker(str(tmp_path), overrides=QUICK) as broker, RawClient(*address(broker)) as client:
        create_compacted(client, "t")
        write(client, "a", producer_id=7, base_sequence=0)
        write(client, "b", producer_id=7, base_sequence=1)
        sent: dict[str, Any] = {"producer_id": 7, "base_sequence": 2, "timestamp": wall_time_ms()}
        assert produce(client, "t", ("a", "1"), ("b", VALUE), **sent).base_offset == 2
        write(client, "abc")
        let_clean(broker)
        assert offsets(client, "t") == [4, 5, 6]
    with ottla.Broker(str(tmp_path), overrides=QUICK) as broker, RawClient(*address(broker)) as client:
        again = produce(client, "t", ("a", "1"), ("b", VALUE), **sent)
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 2)
        assert list_offset(client, "t", LATEST)[1] == 7


@pytest.mark.scenario(211)
def test_readers_of_committed_records_see_the_same_before_and_after(broker: ottla.Broker, client: RawClient) -> None:
    create_compacted(client, "t", min_compaction_lag_ms=100 * HOUR_MS, delete_retention_ms=HOUR_MS)

    async def append(made: bytearray) -> None:
        """Append a batch that the coordinator allows."""
        inner = broker.inner
        log = inner.services.logs.logs[TopicPartition("t", 0)]
        log.append(memoryview(made), now_ms=inner.clock.now_ms(), origin=AppendOrigin.COORDINATOR)

    sequences = {1: 0, 2: 0}
    for number in range(6):
        for producer_id, key in product((1, 2), "abc"[: 1 + number % 3]):
            fields: dict[str, Any] = {"producer_id": producer_id, "base_sequence": sequences[producer_id]}
            pair = (f"{key}{producer_id}", f"{number}{VALUE}")
            broker.run(append, batch(pair, transactional=True, timestamp=wall_time_ms(), **fields))
            sequences[producer_id] += 1
        for producer_id in (1, 2):
            kind = ABORT if (number + producer_id) % 2 else COMMIT
            broker.run(append, marker(kind, producer_id=producer_id, timestamp=wall_time_ms()))
    wanted = last_values(client, "t", committed=True)
    assert {key: value and value[:1] for key, value in wanted.items()} == {
        b"a1": b"5",
        b"b1": b"5",
        b"c1": b"5",
        b"a2": b"4",
        b"b2": b"4",
        b"c2": b"2",
    }
    assert last_values(client, "t") != wanted
    alter(client, "t", min_compaction_lag_ms=0)
    for _ in range(5):
        write(client, "s")
        let_clean(broker)
        left = [record for record in consume(client, "t", committed=True) if record.key != b"s"]
        assert {record.key: record.value for record in left} == wanted
        assert len(left) == len(wanted)
        broker.advance_clock(2 * HOUR_MS)
    assert [record for record in consume(client, "t") if record.key != b"s"] == left, "aborted ones are gone for all"


# Deleted records


@pytest.mark.scenario(198)
def test_clients_do_not_see_deleted_records(tmp_path: Path) -> None:
    first_ms = 1_700_000_000_000
    with ottla.Broker(str(tmp_path), overrides=QUICK) as broker, RawClient(*address(broker)) as client:
        create_topic(client, "t", retention_ms=-1)
        for number in range(10):
            produce(client, "t", (f"k{number}", "v"), timestamp=first_ms + number)
        assert delete_records(client, "t", 11) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert delete_records(client, "t", 5) == (ErrorCode.NONE, 5)
    for _ in range(2):
        with ottla.Broker(str(tmp_path), overrides=QUICK) as broker, RawClient(*address(broker)) as client:
            assert list_offset(client, "t", EARLIEST) == (ErrorCode.NONE, 5)
            assert fetch(client, "t", 4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert offsets(client, "t", 5) == [5, 6, 7, 8, 9]
            assert [list_offset(client, "t", first_ms + number)[1] for number in (0, 4, 5, 7, 10)] == [5, 5, 5, 7, -1]
