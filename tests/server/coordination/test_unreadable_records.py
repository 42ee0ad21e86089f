"""Invalid records in the topics of the coordinators: each costs only itself, whatever its type and version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.messages.consumer_group_log import RECORD_TYPES
from ottla.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ottla.protocol.messages.share_group_log import RECORD_TYPES as SHARE_RECORD_TYPES
from ottla.protocol.messages.transaction_log import PartitionsSchema, TransactionLogKey, TransactionLogValue
from ottla.protocol.records import RecordBatch
from ottla.protocol.wire import codec
from ottla.server.coordination.jobs import to_the_end
from ottla.server.coordination.records import Pair, write_blob
from ottla.server.coordination.shard import ShardState
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.consumer.group import ConsumerGroup
from ottla.server.groups.records import CommittedOffset, offset_key, offset_value
from ottla.server.groups.share.group import ShareGroup
from ottla.storage.produce.txn_markers import build_marker
from support.groups.consumer_groups import ConsumerGroups
from support.groups.groups import Groups, MemoryStore, subscription
from support.groups.share_groups import ShareGroups
from support.sizes import size
from support.transactions.transactions import A0, Transactions

FIRST_FLEXIBLE = {OffsetCommitValue: 4, GroupMetadataValue: 4, TransactionLogValue: 1}
NEWEST = {OffsetCommitValue: 4, GroupMetadataValue: 4, TransactionLogValue: 1}


def blob(number: int, message: Any, *, flexible: bool = False, version: int = 0) -> bytes:
    return write_blob(number, codec(type(message), version, flexible), message)


def values(message: Any) -> Iterator[bytes]:
    """Yield the message in all its versions."""
    for version in range(NEWEST[type(message)] + 1):
        yield blob(version, message, version=version, flexible=version >= FIRST_FLEXIBLE[type(message)])


def offsets_and_groups() -> Iterator[tuple[bytes, bytes]]:
    for key_type in (0, 1):
        key = blob(key_type, OffsetCommitKey(group="g", topic="orders", partition=1))
        for value in values(OffsetCommitValue(offset=5, metadata="note", commit_timestamp=7, topic_id=b"\7" * 16)):
            yield key, value
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=9, subscription=subscription("orders")
    )
    group = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m", members=(member, member)
    )
    for value in values(group):
        yield blob(2, GroupMetadataKey(group="g")), value


def consumer_groups() -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a group with a static member and a regular expression."""
    groups = ConsumerGroups(orders=2)
    groups.enter("a", instance_id="i", rack_id="north", client="app")
    groups.enter("b", subscribed_topic_regex="ord.*")
    groups.beat("a", groups.table().members["a"].epoch, owns={"orders": {0, 1}})
    records = groups.store.table(groups.coordinator.partition_for("g"))
    assert {int.from_bytes(key[:2], "big") for key in records} == set(RECORD_TYPES) - {4}
    yield from records.items()


def share_groups() -> Iterator[tuple[bytes, bytes]]:
    """Yield the records of a group with a member, states and a topic that is being deleted."""
    groups = ShareGroups(orders=2, bills=1)
    groups.enter("a", "orders", "bills", rack_id="north")
    groups.settled("a")
    groups.put_topic("late", 1)
    groups.grants = False
    groups.beat("a", 0, topics=["orders", "bills", "late"])
    records = groups.store.table(groups.coordinator.partition_for("g"))
    assert {int.from_bytes(key[:2], "big") for key in records} == set(SHARE_RECORD_TYPES)
    yield from records.items()


def transactions() -> Iterator[tuple[bytes, bytes]]:
    key = blob(0, TransactionLogKey(transactional_id="g"))
    open_one = TransactionLogValue(
        producer_id=7,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=(PartitionsSchema(topic="a", partition_ids=(0, 1)),),
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=5,
    )
    for value in values(open_one):
        yield key, value


def spoilt(key: bytes, value: bytes) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yield damaged copies of a record: cut at every byte, with every byte changed, of unknown versions, with extra bytes, or
    without key or value.
    """
    for at in range(len(key)):
        yield key[:at], value
        yield key[:at] + b"\xff" + key[at + 1 :], value
    for at in range(len(value)):
        changed = (value[:at], *(value[:at] + byte + value[at + 1 :] for byte in (b"\xff", b"\x7f")))
        for each in size(changed[at % 3 :][:1], changed):
            yield key, each
    for version in (-1, 5, 77, 32_767):
        yield key, version.to_bytes(2, "big", signed=True) + value[2:]
    yield key + b"!", value
    yield key, value + b"!"
    yield None, value
    yield key, None


def all_spoilt(records: Iterator[tuple[bytes, bytes]]) -> list[tuple[bytes | None, bytes | None]]:
    return [one for record in records for one in spoilt(*record)]


def commit(offset: int, partition: int = 0) -> Pair:
    committed = CommittedOffset(offset, -1, "", 1_000, -1, bytes(16))
    return offset_key("whole", "orders", partition), offset_value(committed)


def store_of(*records: tuple[bytes | None, bytes | None], partition_count: int = 1) -> MemoryStore:
    """Return a store with one batch for each record."""
    store = MemoryStore(partition_count)
    for key, value in records:
        store.append_batch(0, build_batch([(0, 0, key, value, ())]))
    return store


@pytest.mark.parametrize("records", [offsets_and_groups, consumer_groups, share_groups], ids=lambda one: one.__name__)
def test_groups_are_loaded_despite_any_invalid_record(records: Any) -> None:
    groups = Groups(store_of(commit(1), *all_spoilt(records()), commit(2, 1)))
    assert groups.coordinator.shards[0].state is ShardState.ACTIVE
    assert groups.committed(group="whole") == {("orders", 0): 1, ("orders", 1): 2}
    for listed in groups.list_groups([0], (), ()):
        describe: dict[type[Any], Callable[[str], Any]] = {
            ClassicGroup: lambda name: groups.describe_group(name, 6),
            ConsumerGroup: lambda name: to_the_end(groups.coordinator.describe_consumer_group(name)),
            ShareGroup: lambda name: to_the_end(groups.coordinator.describe_share_group(name)),
        }
        describe[type(groups.coordinator.shards[0].groups[listed.group_id])](listed.group_id)
    groups.advance(86_400_000)
    assert groups.restarted().coordinator.shards[0].state is ShardState.ACTIVE


def test_transactional_ids_are_loaded_despite_any_invalid_record() -> None:
    before = Transactions()
    producer = before.init("whole")
    before.add("whole", producer, A0)
    (written,) = [partition for partition in range(4) if before.store.records(partition)]
    for key, value in all_spoilt(transactions()):
        before.store.append_batch(written, build_batch([(0, 0, key, value, ())]))
    after = Transactions(after=before)
    assert after.coordinator.shards[written].state is ShardState.ACTIVE
    assert after.metadata("whole").partitions == {A0}
    after.end("whole", producer, commit=True)
    after.advance(86_400_000)
    assert Transactions(after=after).coordinator.shards[written].state is ShardState.ACTIVE


@pytest.mark.parametrize("commit_it", [True, False])
def test_a_marker_among_transactional_ids_is_skipped(commit_it: bool, caplog: pytest.LogCaptureFixture) -> None:
    before = Transactions()
    before.init("x")
    partition = before.coordinator.partition_for("x")
    marker = build_marker(producer_id=7, producer_epoch=0, coordinator_epoch=0, commit=commit_it, now_ms=0)
    before.store.append_batch(partition, marker)
    after = Transactions(after=before)
    assert after.coordinator.shards[partition].state is ShardState.ACTIVE
    assert after.init("x").producer_epoch == 1
    assert f"__transaction_state-{partition}: ignored an unexpected marker at offset 1" in caplog.text


def test_the_commit_before_an_invalid_one_counts() -> None:
    key, _ = commit(0)
    assert Groups(store_of(commit(1), commit(7, 1), (key, b"\0\4\0"))).committed(group="whole") == {
        ("orders", 0): 1,
        ("orders", 1): 7,
    }
    assert Groups(store_of(commit(1), (key, None), (key, b"\0\4\0"))).committed(group="whole") == {}


def test_a_batch_with_overlapping_records_costs_only_the_later_ones() -> None:
    batch = build_batch([(at, 0, *commit(at, at), ()) for at in range(3)])
    second = batch.index(commit(1, 1)[0])
    batch[second - 5] ^= 2  # the length of the record
    batch[17:21] = RecordBatch(batch).computed_crc().to_bytes(4, "big")
    store = MemoryStore(1)
    store.append_batch(0, batch)
    groups = Groups(store)
    assert groups.coordinator.shards[0].state is ShardState.ACTIVE
    assert groups.committed(group="whole").get(("orders", 0)) == 0
