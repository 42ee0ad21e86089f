"""Committed offsets in a log that a cleaner may have changed in any way: random commits, transactions, deletions and
expiry.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.batch_builder import assign_in_place, build_batch
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from ottla.protocol.records import RecordBatch
from ottla.server.groups.offset_commits import TopicCommit
from ottla.server.groups.offset_table import Place
from ottla.server.groups.records import CommittedOffset
from ottla.server.groups.shard import GroupShard
from ottla.storage.produce.txn_markers import build_marker
from support.groups.groups import FakeTopics, Groups, MemoryStore
from support.sizes import size

GROUPS, TOPICS, PRODUCERS = ("g", "h", "i"), ("orders", "bills"), (100, 101, 102)
_COMMIT = b"\0\0\0\1"


class World:
    """Three groups that commit, three producers whose transactions commit for them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.store = MemoryStore(1)
        self.groups = Groups(
            self.store,
            topics=FakeTopics(orders=2, bills=2),
            offsets_retention_minutes=rng.choice([1, 10_080]),
            offsets_retention_check_interval_ms=20_000,
        )

    def act(self) -> None:
        """Do one event; a refused one does not count."""
        rng, groups = self.rng, self.groups
        group, topic, index, producer = rng.choice(GROUPS), rng.choice(TOPICS), rng.randrange(2), rng.choice(PRODUCERS)
        topic_id = groups.topics.id_of(topic)
        event = rng.choice(
            [
                "commit",
                "commit",
                "commit",
                "in_transaction",
                "in_transaction",
                "end",
                "end",
                "time",
                "delete",
                "forget",
                "topic",
            ]
        )
        try:
            match event:
                case "commit" if topic_id is not None:
                    retention_ms = rng.choice([-1, -1, 5_000])
                    groups.commit({(topic, index): rng.randrange(1_000)}, group=group, retention_ms=retention_ms)
                case "in_transaction" if topic_id is not None:
                    request = TxnOffsetCommitRequest(group_id=group, producer_id=producer)
                    one = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=rng.randrange(1_000))
                    commit = TopicCommit(topic, topic_id, [one])
                    groups.commit_in_transaction(request, 3, [commit], groups.now_ms)
                case "end":
                    self.end(producer, commit=rng.random() < 0.6)
                case "time":
                    groups.advance(rng.choice([1_000, 30_000]))
                case "delete":
                    groups.delete_group(group, groups.now_ms)
                case "forget":
                    groups.delete_offsets(group, [(topic, index)], groups.now_ms)
                case "topic" if topic_id is None:
                    groups.topics.put(topic, 2)
                case "topic" if rng.random() < 0.3 and topic_id is not None:
                    groups.topics.delete(topic)
                    groups.coordinator.topic_deleted(topic, topic_id, groups.now_ms)
                    groups.advance(0)
        except KafkaError:
            pass

    def end(self, producer: int, *, commit: bool) -> None:
        marker = build_marker(
            producer_id=producer, producer_epoch=0, coordinator_epoch=0, commit=commit, now_ms=self.groups.now_ms
        )
        self.store.append_batch(0, marker)
        self.groups.coordinator.transaction_ended(0, producer, commit=commit)

    def loaded(self, log: bytes) -> GroupShard:
        """Return what a coordinator reads from `log` before it becomes active."""
        shard = self.groups.coordinator._new_shard(0)
        shard.replay(log)
        return shard


def cleaned(batches: list[RecordBatch], end_offset: int, rng: random.Random) -> bytes:
    """Return the log after passes up to any offset below the first open transaction, with or without the tombstones and
    markers that they may remove.
    """
    is_aborted: dict[int, bool] = {}
    open_since: dict[int, list[int]] = {}
    for batch in batches:
        if batch.is_control:
            is_commit = next(iter(batch.records())).key == _COMMIT
            is_aborted |= dict.fromkeys(open_since.pop(batch.producer_id, []), not is_commit)
        elif batch.is_transactional:
            open_since.setdefault(batch.producer_id, []).append(batch.base_offset)
    last_stable = min((offsets[0] for offsets in open_since.values()), default=end_offset)
    up_to = rng.choice([one.base_offset for one in batches if one.base_offset <= last_stable] + [last_stable])
    with_old = rng.random() < 0.5
    last = {
        record.key: record.offset
        for batch in batches
        if batch.next_offset <= up_to and not batch.is_control and not is_aborted.get(batch.base_offset)
        for record in batch.records()
    }
    return b"".join(_cleaned(batches, up_to, last, is_aborted, with_old=with_old))


def _cleaned(
    batches: list[RecordBatch], up_to: int, last: dict[Any, int], is_aborted: dict[int, bool], *, with_old: bool
) -> Iterator[bytes]:
    has_data: set[int] = set()
    for batch in batches:
        if batch.base_offset >= up_to:
            yield bytes(batch.view)
        elif batch.is_control:
            if with_old or batch.producer_id in has_data:
                yield bytes(batch.view)
            has_data.discard(batch.producer_id)
        else:
            kept = [
                (record.offset - batch.base_offset, 0, record.key, record.value, ())
                for record in batch.records()
                if last.get(record.key) == record.offset
                and not is_aborted.get(batch.base_offset)
                and (with_old or record.value is not None)
            ]
            if kept:
                has_data.add(batch.producer_id)
                rewritten = build_batch(
                    kept,
                    producer_id=batch.producer_id,
                    producer_epoch=batch.producer_epoch,
                    transactional=batch.is_transactional,
                )
                assign_in_place(rewritten, batch.base_offset, 0)
                yield bytes(rewritten)


def said(shard: GroupShard) -> dict[str, Any]:
    """Return each offset, committed and pending. Offsets with an expiry time of their own have no topic id in their
    records.
    """
    offsets = shard.offsets
    return {
        "committed": {group: _offsets_of(each) for group, each in offsets._committed.items()},
        "pending": {
            (producer_id, group): _offsets_of(each)
            for producer_id, groups in offsets._pending.items()
            for group, each in groups.items()
            if each
        },
        "unstable": offsets._unstable,
    }


def _offsets_of(places: dict[Place, CommittedOffset]) -> dict[Place, int]:
    return {place: one.offset for place, one in places.items()}


@pytest.mark.parametrize("seed", range(size(1, 6)))
def test_a_cleaned_log_has_the_same_offsets(seed: int) -> None:
    rng = random.Random(seed)
    world = World(rng)
    for _ in range(90):
        world.act()
        shard, store = world.groups.coordinator.shards[0], world.store
        assert said(world.loaded(bytes(store.partitions[0]))) == said(shard)
        for _ in range(2):
            assert said(world.loaded(cleaned(store.batches(0), store.end_offset(0), rng))) == said(shard)
