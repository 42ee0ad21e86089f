"""Committed offsets: who may commit, how long they are kept, and every error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition
from ottla.protocol.records import RecordBatch
from ottla.protocol.wire import ZERO_UUID
from ottla.server.coordination.jobs import to_the_end
from ottla.server.coordination.records import Pair, Producer, Records
from ottla.server.groups.offset_commits import TopicCommit
from ottla.server.groups.records import CommittedOffset, offset_key, offset_value
from support.calls import calls_of
from support.groups.groups import TOPIC_IDS, FakeTopics, Groups, MemoryStore, error_of, subscription
from support.noted import each_case

P0, P1, BILL = ("orders", 0), ("orders", 1), ("bills", 0)
DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS

# Commit and fetch


def test_a_commit_is_fetched_with_all_its_fields() -> None:
    groups = Groups()
    groups.commit({P0: 42}, metadata="note", leader_epoch=7)

    (found,) = groups.fetch("orders", 0)

    assert found.committed is not None
    assert found.error == ErrorCode.NONE
    assert found.committed.offset == 42
    assert (found.committed.leader_epoch, found.committed.metadata) == (7, "note")
    assert found.committed.topic_id == TOPIC_IDS["orders"]


def test_an_uncommitted_partition_has_no_offset() -> None:
    groups = Groups()
    groups.commit({P0: 42})
    assert [(one.partition, one.committed, one.error) for one in groups.fetch("orders", 1, 99)] == [
        (1, None, ErrorCode.NONE),
        (99, None, ErrorCode.NONE),
    ]
    assert groups.fetch("orders", 0, group="other")[0].committed is None
    assert groups.committed(group="other") == {}


def test_the_last_commit_counts() -> None:
    groups = Groups()
    groups.commit({P0: 10, P1: 5, BILL: 1})
    groups.commit({P0: 3})
    assert groups.committed() == groups.restarted().committed() == {P0: 3, P1: 5, BILL: 1}


def test_null_metadata_is_empty_metadata() -> None:
    groups = Groups()
    groups.commit({P0: 1}, metadata=None)
    (found,) = groups.fetch("orders", 0)
    assert found.committed is not None
    assert found.committed.metadata == ""


def test_all_offsets_of_a_request_are_one_batch() -> None:
    groups = Groups()
    groups.commit({P0: 1, P1: 2, BILL: 3})
    (batch,) = groups.store.batches(groups.coordinator.partition_for("g"))
    assert batch.record_count == 3


def test_a_fetch_by_id_does_not_return_an_earlier_topics_offset() -> None:
    groups = Groups()
    groups.commit({P0: 42})
    for topic_id, is_found in ((TOPIC_IDS["orders"], True), (bytes(16), True), (rb"\9" * 16, False)):
        (found,) = groups.fetch_by_id("g", "orders", topic_id, [0], stable=False)
        assert (found.committed is not None) == is_found


METADATA = [
    ("x" * 10, 0),
    ("x" * 11, ErrorCode.OFFSET_METADATA_TOO_LARGE),
    ("é" * 10, 0),
    ("😀" * 5, 0),
    ("😀" * 6, ErrorCode.OFFSET_METADATA_TOO_LARGE),
]


@pytest.mark.parametrize(("metadata", "error"), METADATA)
def test_metadata_is_limited_in_utf_16_units_as_in_kafka(metadata: str, error: int) -> None:
    groups = Groups(offset_metadata_max_bytes=10)
    assert groups.commit({P0: 1, P1: 2}, metadata=metadata) == ({P0: error, P1: error} if error else {})
    assert groups.committed() == ({} if error else {P0: 1, P1: 2})


# Rights to commit

STATES = ("Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
WHO = ("member", "old generation", "stranger", "by hand", "by hand with an id")
UNKNOWN, ILLEGAL = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
ALLOWED = {
    ("Empty", "member"): UNKNOWN,
    ("Empty", "old generation"): UNKNOWN,
    ("Empty", "stranger"): UNKNOWN,
    ("Empty", "by hand"): 0,
    ("Empty", "by hand with an id"): 0,
    ("PreparingRebalance", "member"): 0,
    ("PreparingRebalance", "old generation"): ILLEGAL,
    ("PreparingRebalance", "stranger"): UNKNOWN,
    ("PreparingRebalance", "by hand"): UNKNOWN,
    ("PreparingRebalance", "by hand with an id"): UNKNOWN,
    ("CompletingRebalance", "member"): ErrorCode.REBALANCE_IN_PROGRESS,
    ("CompletingRebalance", "old generation"): ILLEGAL,
    ("CompletingRebalance", "stranger"): UNKNOWN,
    ("CompletingRebalance", "by hand"): UNKNOWN,
    ("CompletingRebalance", "by hand with an id"): UNKNOWN,
    ("Stable", "member"): 0,
    ("Stable", "old generation"): ILLEGAL,
    ("Stable", "stranger"): UNKNOWN,
    ("Stable", "by hand"): UNKNOWN,
    ("Stable", "by hand with an id"): UNKNOWN,
}


@each_case("state", STATES)
@each_case("who", WHO)
def test_permission_to_commit_depends_on_the_groups_state(state: str, who: str) -> None:
    groups = Groups()
    (first, second), generation = groups.stable(2)
    if state == "Empty":
        groups.leave(first, second)
    elif state != "Stable":
        groups.join(member=first)
        if state == "CompletingRebalance":
            groups.join(member=second)
            generation += 1
    assert groups.state() == state
    member, claimed = {
        "member": (first, generation),
        "old generation": (first, generation - 1),
        "stranger": ("stranger", generation),
        "by hand": ("", -1),
        "by hand with an id": ("stranger", -1),
    }[who]

    error = error_of(lambda: groups.commit({P0: 1}, member=member, generation=claimed))

    assert error == ALLOWED[state, who]
    assert groups.committed() == ({} if error else {P0: 1})


def test_a_fenced_static_member_cannot_commit() -> None:
    groups = Groups()
    old = groups.join(instance="i", version=5)
    groups.advance(0)
    groups.sync_all([old.answer.member_id], 1)
    new = groups.join(instance="i", version=5).answer.member_id
    for member, instance, error in (
        (old.answer.member_id, "i", ErrorCode.FENCED_INSTANCE_ID),
        (new, "other", UNKNOWN),
        (new, "i", 0),
        (new, None, 0),
    ):
        commit = partial(groups.commit, {P0: 1}, member=member, generation=1, instance=instance)
        assert error_of(commit) == error


@pytest.mark.parametrize(
    ("generation", "version", "error"),
    [(-1, 8, 0), (-1, 10, 0), (0, 8, ILLEGAL), (5, 2, ILLEGAL), (5, 9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_only_manual_commits_create_a_group(generation: int, version: int, error: int) -> None:
    groups = Groups()
    assert error_of(lambda: groups.commit({P0: 1}, generation=generation, member="m", version=version)) == error
    assert [one.group_id for one in groups.list_groups(range(4), (), ())] == ([] if error else ["g"])


def test_a_commit_that_cannot_be_recorded_has_no_effect() -> None:
    groups = Groups()
    groups.commit({P0: 1})
    groups.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_of(lambda: groups.commit({P0: 2})) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert error_of(lambda: groups.commit({P0: 2}, group="new")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert groups.committed() == {P0: 1}
    assert [one.group_id for one in groups.list_groups(range(4), (), ())] == ["g"]


def test_the_empty_group_id_may_commit() -> None:
    """Kafka allows it for old clients without a group; joining under it is not allowed."""
    groups = Groups()
    assert groups.commit({P0: 1}, group="") == {}
    assert groups.committed(group="") == {P0: 1}


# Deleting


def working_consumers(*topics: str) -> tuple[Groups, str, int]:
    """Return a stable consumer group of one member subscribed to `topics`."""
    groups = Groups()
    (member,), generation = groups.stable(1, protocols=[("range", subscription(*topics))])
    groups.commit({P0: 1, P1: 2, BILL: 3}, member=member, generation=generation)
    return groups, member, generation


def test_offsets_of_unsubscribed_topics_are_deleted() -> None:
    groups, _, _ = working_consumers("orders")
    errors = groups.delete_offsets("g", [P0, BILL, ("bills", 9)], groups.now_ms)
    assert errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
    assert groups.committed() == groups.restarted().committed() == {P0: 1, P1: 2}


def test_a_group_with_unreadable_subscriptions_keeps_its_offsets() -> None:
    groups = Groups()
    (member,), generation = groups.stable(1, protocols=[("range", b"?")])
    groups.commit({P0: 1}, member=member, generation=generation)
    assert groups.delete_offsets("g", [P0], groups.now_ms) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_an_empty_group_returns_all_its_offsets() -> None:
    groups, member, _ = working_consumers("orders")
    groups.leave(member)
    assert groups.delete_offsets("g", [P0, P0, BILL], groups.now_ms) == [ErrorCode.NONE] * 3
    assert groups.committed() == {P1: 2}


def test_deletion_is_refused_for_unknown_and_foreign_active_groups() -> None:
    groups = Groups()
    groups.stable(1, group="connect", protocol_type="connect")
    for group, error in (("none", ErrorCode.GROUP_ID_NOT_FOUND), ("connect", ErrorCode.NON_EMPTY_GROUP)):
        assert error_of(partial(groups.delete_offsets, group, [P0], groups.now_ms)) == error


def test_offsets_of_a_deleted_topic_are_deleted_but_not_its_successors() -> None:
    groups = Groups()
    groups.commit({P0: 1, BILL: 3}, group="a")
    groups.commit({P1: 2}, group="b")
    groups.coordinator.topic_deleted("orders", b"\7" * 16, groups.now_ms)
    groups.advance(0)
    assert groups.committed(group="a") == {P0: 1, BILL: 3}

    groups.coordinator.topic_deleted("orders", TOPIC_IDS["orders"], groups.now_ms)
    groups.advance(0)

    again = groups.restarted()
    assert groups.committed(group="a") == again.committed(group="a") == {BILL: 3}
    assert groups.committed(group="b") == again.committed(group="b") == {}


def test_offsets_of_a_deleted_topic_stay_where_they_cannot_be_removed() -> None:
    """The remaining offsets have no use, but the topic is deleted either way."""
    groups = Groups()
    groups.commit({P0: 1})
    groups.store.failure = ErrorCode.NOT_COORDINATOR
    groups.coordinator.topic_deleted("orders", TOPIC_IDS["orders"], groups.now_ms)
    groups.advance(0)
    assert groups.committed() == {P0: 1}


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("is_pending", [False, True])
def test_a_restart_forgets_offsets_of_topics_deleted_before_it(is_made_anew: bool, is_pending: bool) -> None:
    """The process died between deleting the topic and writing that down here."""
    groups = Groups()
    groups.commit({P0: 1, BILL: 3}, group="a")
    groups.commit({P0: 1, BILL: 3}, group="b")
    if is_pending:
        request = TxnOffsetCommitRequest(transactional_id="x", group_id="a", producer_id=7, producer_epoch=0)
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9)
        topics = [TopicCommit("orders", TOPIC_IDS["orders"], [row])]
        groups.commit_in_transaction(request, 5, topics, groups.now_ms)
    groups.topics.delete("orders")
    if is_made_anew:
        groups.topics.put("orders", 1)
        assert groups.committed(group="b") == {BILL: 3}, "nor does anybody find them before"

    again = groups.restarted()

    for each in (again, again.restarted()):
        for group in "ab":
            assert each.committed(group=group) == {BILL: 3}
            assert each.coordinator.shard_of(group).offsets.places(group) == [BILL]
    if is_made_anew:
        again.commit({P0: 2}, group="a")
        assert again.committed(group="a") == again.restarted().committed(group="a") == {P0: 2, BILL: 3}


def test_a_restart_keeps_offsets_of_grown_topics_and_those_without_id() -> None:
    store = MemoryStore()
    before = Groups(store)
    before.commit({P0: 1})
    old = CommittedOffset(4, -1, "", before.now_ms, -1, ZERO_UUID)
    store.append(before.coordinator.partition_for("g"), [(offset_key("g", "bills", 0), offset_value(old))], 0)
    before.topics.put("orders", 99)
    assert before.restarted().committed() == {P0: 1, BILL: 4}
    before.topics.delete("bills")
    assert before.restarted().committed() == {P0: 1}


def test_offsets_a_restart_cannot_forget_are_hidden_from_a_recreated_topic() -> None:
    groups = Groups()
    groups.commit({P0: 1})
    groups.topics.delete("orders")
    groups.topics.put("orders", 1)
    groups.store.failure = ErrorCode.NOT_COORDINATOR
    again = groups.restarted()
    assert again.committed() == {}
    (by_name,) = again.fetch_by_id("g", "orders", ZERO_UUID, [0], stable=False)
    assert by_name.committed is None


# Expiry (KIP-211); checked every ten minutes


def test_offsets_of_a_simple_group_expire_by_their_commit() -> None:
    groups = Groups()
    groups.commit({P0: 1})
    groups.advance(DAY_MS)
    groups.commit({P1: 2})
    groups.advance(WEEK_MS - DAY_MS + 600_000)
    assert groups.committed() == {P1: 2}
    groups.advance(DAY_MS)
    assert groups.committed() == {}
    assert groups.list_groups(range(4), (), ()) == []
    assert groups.store.table(groups.coordinator.partition_for("g")) == {}


def test_offsets_of_an_empty_group_expire_by_when_it_became_empty() -> None:
    groups = Groups()
    (member,), generation = groups.stable(1, session_ms=1_800_000)
    groups.commit({P0: 1}, member=member, generation=generation)
    for _ in range(10 * 48):
        groups.advance(1_800_000 - 1)
        groups.heartbeat(member, generation)
    groups.leave(member)
    left_ms = groups.now_ms
    groups.advance(WEEK_MS - 600_000)
    assert groups.committed() == {P0: 1}
    groups.advance(1_200_000)
    assert groups.committed() == {}
    assert groups.now_ms - left_ms < WEEK_MS + 1_200_000


def test_offsets_of_an_active_group_expire_only_for_unsubscribed_topics() -> None:
    groups, member, generation = working_consumers("orders")
    for _ in range(WEEK_MS // 9_000 + 100):
        groups.advance(9_000)
        groups.heartbeat(member, generation)
    assert groups.committed() == {P0: 1, P1: 2}


def test_offsets_of_other_active_group_types_do_not_expire() -> None:
    groups = Groups()
    (member,), generation = groups.stable(1, protocol_type="connect", session_ms=1_800_000)
    groups.commit({P0: 1}, member=member, generation=generation)
    for _ in range(8 * 48):
        groups.advance(1_800_000 - 1)
        groups.heartbeat(member, generation)
    assert groups.committed() == {P0: 1}


def test_a_retention_set_by_an_old_client_is_respected() -> None:
    groups = Groups()
    groups.commit({P0: 1}, retention_ms=3_600_000, version=4)
    groups.commit({P1: 2}, retention_ms=2 * WEEK_MS, version=4)
    again = groups.restarted()
    for one in (groups, again):
        one.advance(3_000_000)
        assert one.committed() == {P0: 1, P1: 2}
        one.advance(1_200_000)
        assert one.committed() == {P1: 2}
    again.advance(2 * WEEK_MS)
    assert again.committed() == {}


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 2_000_000])
def test_an_overflowing_retention_is_unlimited(retention_ms: int) -> None:
    """In Apache Kafka the sum overflows, and its next check deletes the offset."""
    groups = Groups()
    assert groups.commit({P0: 1}, retention_ms=retention_ms, version=4) == {}
    groups = groups.restarted()
    groups.advance(3 * WEEK_MS)
    assert groups.committed() == {P0: 1}


@pytest.mark.parametrize("retention_ms", [0, -2, -(2**63)])
def test_an_expired_offset_stays_until_the_next_check(retention_ms: int) -> None:
    groups = Groups()
    assert groups.commit({P0: 1}, retention_ms=retention_ms, version=4) == {}
    groups.advance(600_000)
    assert groups.committed() == {}


def test_expiry_continues_when_the_partition_is_writable_again() -> None:
    groups = Groups()
    groups.commit({P0: 1})
    groups.store.failure = ErrorCode.NOT_COORDINATOR
    groups.advance(WEEK_MS + 600_000)
    assert groups.committed() == {P0: 1}
    groups.store.failure = None
    groups.advance(600_000)
    assert groups.committed() == {}
    assert offset_key("g", "orders", 0) not in groups.store.table(groups.coordinator.partition_for("g"))


# Errors of one group


class NarrowStore(MemoryStore):
    """A store that refuses batches larger than the default `max.message.bytes`, and every batch of one group."""

    def __init__(self) -> None:
        super().__init__(partition_count=1)
        self.refused_group = "none"

    def append(
        self, partition: int, records: Records | Sequence[Pair], now_ms: int, *, producer: Producer | None = None
    ) -> int:
        made = records if isinstance(records, Records) else Records(records)
        keys = [record.key or b"" for record in RecordBatch(memoryview(made.sealed(now_ms))).records()]
        if made.batch_bytes > 1_048_588 or any(self.refused_group.encode() in key for key in keys):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{made.batch_bytes} bytes")
        return super().append(partition, records, now_ms, producer=producer)


def group_with_a_long_name() -> tuple[Groups, str]:
    """Return 40 offsets of a group whose id has almost the maximum length: their tombstones exceed the size of a batch."""
    groups, name = Groups(NarrowStore(), topics=FakeTopics(orders=40, bills=8)), "g" * 32_000
    for partition in range(40):
        groups.commit({("orders", partition): 1}, group=name)
    return groups, name


def test_a_group_with_a_long_name_can_be_deleted() -> None:
    groups, name = group_with_a_long_name()
    groups.delete_group(name, groups.now_ms)
    assert groups.restarted().list_groups([0], (), ()) == []


def test_offsets_of_a_group_with_a_long_name_expire() -> None:
    groups, name = group_with_a_long_name()
    groups.advance(WEEK_MS + 600_000)
    assert groups.committed(group=name) == groups.restarted().committed(group=name) == {}


def expiry(groups: Groups) -> None:
    groups.advance(WEEK_MS + 600_000)


def deletion_of_the_topic(groups: Groups) -> None:
    groups.topics.delete("orders")
    groups.coordinator.topic_deleted("orders", TOPIC_IDS["orders"], groups.now_ms)
    groups.advance(0)


def load_after_the_deletion(groups: Groups) -> None:
    groups.topics.delete("orders")
    groups.load()


@pytest.mark.parametrize("happens", [expiry, deletion_of_the_topic, load_after_the_deletion])
@pytest.mark.parametrize("refused", GROUPS := ["one", "two", "three"])
def test_a_group_whose_tombstones_are_refused_delays_no_other_groups(
    happens: Callable[[Groups], None], refused: str
) -> None:
    store = NarrowStore()
    groups = Groups(store)
    for name in GROUPS:
        groups.commit({P0: 1}, group=name)
    store.refused_group = refused
    happens(groups)
    assert [name for name in GROUPS if groups.coordinator.shards[0].offsets.places(name)] == [refused]


# Large commits


def calls_of_a_commit(count: int) -> int:
    """Return the number of calls in the time slice in which a commit of `count` offsets is written."""
    groups = Groups(topics=FakeTopics(orders=count))
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1)
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(count)]
    topics = [TopicCommit("orders", TOPIC_IDS["orders"], partitions)]
    prepared = to_the_end(groups.coordinator.prepare(groups.coordinator.shard_for("g"), request, topics, groups.now_ms))
    calls = calls_of(
        lambda: groups.coordinator.commit(groups.coordinator.shard_for("g"), request, 8, prepared, groups.now_ms)
    )
    assert len(groups.committed()) == len(groups.restarted().committed()) == count
    return calls


def test_a_large_commit_is_written_in_one_short_step() -> None:
    assert calls_of_a_commit(2_000) == calls_of_a_commit(20)
