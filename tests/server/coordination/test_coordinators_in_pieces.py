"""Events that concern thousands of objects are handled in pieces: between any two pieces other tasks may run.

Tests count pieces and measure no time: whatever the number of objects, a piece appends little and looks at few topics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.join_group import JoinGroupResponse
from ottla.protocol.messages.leave_group import MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupResponse
from ottla.protocol.wire import ZERO_UUID
from ottla.server.coordination.jobs import Job, Jobs, Steps, never, to_the_end
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.classic.protocol import Caller
from ottla.server.groups.classic.records import group_value
from ottla.server.groups.settings import MEMBERS_A_PIECE, PLACES_A_PIECE
from ottla.server.groups.subscription import write_assignment
from ottla.server.transactions.listing import TransactionFilter
from ottla.server.transactions.metadata import CLOSED
from ottla.server.transactions.settings import IDS_A_PIECE, MARKERS_A_PIECE
from ottla.storage.disk.paths import TopicPartition
from support.calls import calls_of
from support.groups.consumer_groups import SESSION_MS, ConsumerGroups
from support.groups.groups import FakeTopics, Groups, MemoryStore, Reply, error_of, subscription
from support.sizes import size
from support.transactions.transactions import SWEEP_MS, Transactions
from support.transactions.txn_commits import commit_in_transaction, end_transaction

E = ErrorCode

MANY = size(600, 1_100)
MEMBERS = size(300, 1_100)
"""Number of members of a large group. Each walk over all of them costs a proportional number of steps."""
RECORDS_A_PIECE = max(PLACES_A_PIECE, IDS_A_PIECE, MARKERS_A_PIECE) + 1
WEEK_MS = 7 * 86_400_000


class Done:
    """The work of the pieces."""

    def __init__(self) -> None:
        self.pieces = 0
        self.most_records = 0
        self.most_appends = 0
        self.most_markers = 0


def pursue(it: Groups | Transactions, each: Callable[[], object] = lambda: None) -> Done:
    """Do all work that is due, one piece per time slice; `each` is called after every piece."""
    done = Done()
    while (due_ms := it.coordinator.next_deadline_ms()) is not None and due_ms <= it.elapsed_ms:
        before = counts(it)
        it.coordinator.run_due(it.now_ms, lambda: True)
        appends, records, markers = (after - was for after, was in zip(counts(it), before, strict=True))
        done.pieces += 1
        done.most_appends = max(done.most_appends, appends)
        done.most_records = max(done.most_records, records)
        done.most_markers = max(done.most_markers, markers)
        each()
    return done


def counts(it: Groups | Transactions) -> tuple[int, int, int]:
    markers = it.markers if isinstance(it, Transactions) else None
    return it.store.appends, sum(it.store.end_offsets), 0 if markers is None else len(markers.written)


Prepared = tuple[Groups | Transactions, Callable[[], object], Callable[[], bool]]
"""A coordinator with many objects, an event for them, and whether the event has reached all of them."""


def groups_that_committed() -> Groups:
    groups = Groups(topics=FakeTopics(orders=1, bills=1))
    for number in range(MANY):
        groups.commit({("orders", 0): number}, group=f"g{number}")
    return groups


def offset_count(groups: Groups) -> int:
    shards = groups.coordinator.shards
    return sum(len(shard.offsets.places(group)) for shard in shards for group in shard.offsets.groups())


def offset_of(groups: Groups, place: tuple[str, int]) -> int | None:
    committed = groups.fetch_by_id("g", place[0], ZERO_UUID, [place[1]], stable=False)[0].committed
    return None if committed is None else committed.offset


def group_count(groups: Groups) -> int:
    return sum(len(shard.groups) for shard in groups.coordinator.shards)


def delete_topic(groups: Groups) -> None:
    topic_id = groups.topics.id_of("orders")
    assert topic_id is not None
    groups.topics.delete("orders")
    groups.coordinator.topic_deleted("orders", topic_id, groups.now_ms)


def a_topic_that_many_groups_committed_is_deleted() -> Prepared:
    groups = groups_that_committed()
    return groups, lambda: delete_topic(groups), lambda: not offset_count(groups)


def a_group_with_many_offsets() -> Groups:
    groups = Groups(topics=FakeTopics(orders=MANY, bills=1))
    groups.commit({("orders", number): number for number in range(MANY)})
    return groups


def a_topic_with_many_offsets_is_deleted() -> Prepared:
    groups = a_group_with_many_offsets()
    return groups, lambda: delete_topic(groups), lambda: not offset_count(groups)


def a_topic_was_deleted_before_the_load() -> Prepared:
    groups = groups_that_committed()
    groups.topics.delete("orders")
    again = Groups(groups.store, topics=groups.topics, loads=False)
    return again, again.load_only, lambda: not offset_count(again)


def many_groups_expire() -> Prepared:
    groups = groups_that_committed()
    return groups, lambda: pass_time(groups, 8 * 86_400_000), lambda: not group_count(groups)


def a_group_with_many_offsets_expires() -> Prepared:
    groups = a_group_with_many_offsets()
    return groups, lambda: pass_time(groups, 8 * 86_400_000), lambda: not group_count(groups)


def member_count(groups: Groups) -> int:
    return sum(len(group.members) for shard in groups.coordinator.shards for group in shard.groups.values())


def pass_time(it: Groups | Transactions, by_ms: int) -> None:
    """Let the time pass at once: everything that is due by then is due together."""
    it.elapsed_ms += by_ms


def members_of_a_consumer_group() -> ConsumerGroups:
    groups = ConsumerGroups(orders=1, settings={"group_consumer_assignment_interval_ms": 3_600_000})
    for number in range(MANY):
        groups.enter(f"m{number:04}")
    return groups.restarted()


def the_sessions_of_many_members_end() -> Prepared:
    groups = members_of_a_consumer_group()
    return groups, lambda: pass_time(groups, SESSION_MS + 1), lambda: not groups.table().members


def many_members_of_classic_groups_fail() -> Prepared:
    groups = Groups()
    for number in range(MANY):
        groups.join(f"g{number}", session_ms=10_000)
    groups.advance(0)
    assert member_count(groups) == MANY
    # No member sends SyncGroup.
    return groups, lambda: pass_time(groups, 3_600_000), lambda: not member_count(groups)


def transactions_with(partitions: int = 1, count: int = MANY) -> Transactions:
    transactions = Transactions()
    for number in range(count):
        producer = transactions.init(f"x{number}", timeout_ms=5_000)
        transactions.add(f"x{number}", producer, *(TopicPartition("a", index) for index in range(partitions)))
    return transactions


def is_open(transactions: Transactions) -> bool:
    return any(shard.open for shard in transactions.coordinator.shards)


def many_transactions_time_out() -> Prepared:
    transactions = transactions_with()
    return transactions, lambda: pass_time(transactions, SWEEP_MS), lambda: not is_open(transactions)


def a_transaction_of_many_partitions_times_out() -> Prepared:
    transactions = transactions_with(partitions=MANY, count=1)
    return transactions, lambda: pass_time(transactions, SWEEP_MS), lambda: not is_open(transactions)


def a_transaction_of_many_partitions_ends() -> Prepared:
    transactions = transactions_with(partitions=MANY, count=1)

    def end() -> None:
        transactions.end("x0", transactions.producer("x0"), commit=True)
        assert len(transactions.markers.written) <= MARKERS_A_PIECE

    return transactions, end, lambda: not is_open(transactions)


def many_decided() -> Transactions:
    transactions = transactions_with()
    transactions.markers.refusing.add(TopicPartition("a", 0))
    for number in range(MANY):
        transactions.end(f"x{number}", transactions.producer(f"x{number}"), commit=True)
    transactions.markers.refusing.clear()
    return transactions


def many_markers_are_tried_again() -> Prepared:
    transactions = many_decided()
    return transactions, lambda: pass_time(transactions, 500), lambda: not is_open(transactions)


def many_that_are_decided_are_loaded() -> Prepared:
    transactions = Transactions(after=many_decided(), loads=False)
    return transactions, transactions.load_all, lambda: not is_open(transactions)


def many_transactional_ids_expire() -> Prepared:
    transactions = Transactions()
    for number in range(MANY):
        transactions.init(f"x{number}")
    return transactions, lambda: pass_time(transactions, 2 * WEEK_MS), lambda: not transactions_known(transactions)


def transactions_known(transactions: Transactions) -> int:
    return sum(len(shard.transactions) for shard in transactions.coordinator.shards)


def many_members_are_loaded() -> Prepared:
    groups = members_of_a_consumer_group()
    again = ConsumerGroups(groups.store, topics=groups.topics, loads=False)
    return again, again.load_only, lambda: len(again.table().sessions) == MANY


def many_topics_are_matched() -> Prepared:
    groups = ConsumerGroups(topics=FakeTopics(**{f"t{number}": 1 for number in range(MANY)}))
    groups.works_at_once = False

    def enter() -> None:
        groups.enter("a", subscribed_topic_regex="t.*")

    return groups, enter, lambda: len(groups.table().subscribed_topics) == MANY


def many_groups_are_given_up() -> Prepared:
    groups = Groups(MemoryStore(1), topics=FakeTopics(orders=1))
    for number in range(MANY):
        groups.commit({("orders", 0): number}, group=f"g{number}")
    shard = groups.coordinator.shards[0]

    def give_up() -> None:
        groups.coordinator.unload(0, ErrorCode.NOT_COORDINATOR, groups.now_ms)

    return groups, give_up, lambda: not shard.groups and not any(shard.offsets.groups())


def many_transactional_ids_are_given_up() -> Prepared:
    transactions = Transactions()
    for number in range(4 * MANY):
        transactions.init(f"x{number}")
    shard = transactions.coordinator.shards[0]

    def give_up() -> None:
        transactions.coordinator.unload(0, ErrorCode.NOT_COORDINATOR, transactions.now_ms)

    return transactions, give_up, lambda: not shard.transactions


def offsets_of_many_groups_in_a_transaction() -> Groups:
    groups = Groups(MemoryStore(1), topics=FakeTopics(orders=8))
    for number in range(MANY):
        commit_in_transaction(groups, {("orders", index): number for index in range(8)}, group=f"g{number}")
    return groups


def a_transaction_with_offsets_of_many_groups_ends() -> Prepared:
    groups = offsets_of_many_groups_in_a_transaction()
    shard = groups.coordinator.shards[0]

    def is_done() -> bool:
        return shard.offsets.is_settled and offset_count(groups) == 8 * MANY

    return groups, lambda: end_transaction(groups, commit=True), is_done


MANY_AT_ONCE = [
    many_groups_are_given_up,
    many_transactional_ids_are_given_up,
    a_transaction_with_offsets_of_many_groups_ends,
    a_topic_that_many_groups_committed_is_deleted,
    a_topic_with_many_offsets_is_deleted,
    a_topic_was_deleted_before_the_load,
    many_groups_expire,
    a_group_with_many_offsets_expires,
    the_sessions_of_many_members_end,
    many_members_of_classic_groups_fail,
    many_transactions_time_out,
    a_transaction_of_many_partitions_times_out,
    a_transaction_of_many_partitions_ends,
    many_markers_are_tried_again,
    many_that_are_decided_are_loaded,
    many_transactional_ids_expire,
    many_members_are_loaded,
    many_topics_are_matched,
]


@pytest.mark.parametrize("prepare", MANY_AT_ONCE, ids=lambda prepare: prepare.__name__)
def test_an_event_that_concerns_many_is_handled_in_pieces(prepare: Callable[[], Prepared]) -> None:
    it, happen, is_done = prepare()
    happen()
    assert not is_done()

    done = pursue(it)

    assert is_done()
    # One group or transaction per piece, or some hundred offsets or ids of one; deciding and then closing one is two appends.
    assert done.most_appends <= 4
    assert done.most_records <= RECORDS_A_PIECE
    assert done.most_markers <= MARKERS_A_PIECE
    assert done.pieces >= MANY // max(PLACES_A_PIECE, IDS_A_PIECE)


def test_remaining_work_of_a_transactions_end_is_done_on_access() -> None:
    groups = offsets_of_many_groups_in_a_transaction()

    end_transaction(groups, commit=True)

    offsets = groups.coordinator.shards[0].offsets
    assert not offsets.is_settled
    for number in range(0, MANY, 50):
        assert set(groups.committed(group=f"g{number}").values()) == {number}
        assert not offsets.has_unstable(f"g{number}")
    assert groups.commit({("orders", 0): 5_000}, group="g1") == {}
    pursue(groups)
    assert groups.committed(group="g1")["orders", 0] == 5_000
    assert groups.restarted().committed(group="g1") == groups.committed(group="g1")


@pytest.mark.parametrize("becomes", ["nobody's", "another node's"])
def test_a_due_event_of_an_unloaded_group_has_no_effect(becomes: str) -> None:
    groups = ConsumerGroups(MemoryStore(1), orders=1)
    for number in range(MANY):
        groups.commit({("orders", 0): number}, group=f"old{number}")
    groups.join("classic", session_ms=10_000)
    groups.advance(0)
    groups.enter("m", group="consumer")
    waiting = groups.join("classic", session_ms=10_000)
    # The newest are reached first.
    for number in range(MANY):
        groups.commit({("orders", 0): number}, group=f"new{number}")
    if becomes == "nobody's":
        groups.coordinator.unload(0, ErrorCode.NOT_COORDINATOR, groups.now_ms)
    else:
        shard = groups.coordinator.reload(0, ErrorCode.NOT_COORDINATOR, groups.now_ms)
        shard.replay(groups.store.read(0, 0).read())
    appends = groups.store.appends
    assert waiting.is_parked

    pass_time(groups, 3_600_000)
    pursue(groups)

    assert groups.store.appends == appends
    assert waiting.answer.error_code == E.NOT_COORDINATOR
    assert groups.coordinator.next_deadline_ms() is None


def test_a_leaving_member_causes_no_scan_of_other_members_topics() -> None:
    """Otherwise members that leave one after the other would cost the square of their number."""
    groups = members_of_a_consumer_group()
    looks = []
    racks = groups.topics.racks
    groups.topics.racks = lambda topic_id: looks.append(topic_id) or racks(topic_id)  # type: ignore[method-assign,func-returns-value]

    groups.advance(SESSION_MS + 1)

    assert not groups.table().members
    assert len(looks) <= 2, "for the hash of the only topic, and for whether it has racks"


def test_an_offset_committed_during_expiry_stays() -> None:
    groups = a_group_with_many_offsets()
    pass_time(groups, 8 * 86_400_000)
    last = ("orders", MANY - 1)

    def commit_once() -> None:
        if offset_of(groups, last) == MANY - 1:
            groups.commit({last: 77})

    done = pursue(groups, commit_once)

    assert done.pieces > 1
    assert offset_of(groups, last) == 77
    assert offset_count(groups) == 1
    assert offset_of(groups.restarted(), last) == 77


def test_offsets_of_a_recreated_topic_stay_while_the_deleted_ones_are_forgotten() -> None:
    groups = a_group_with_many_offsets()
    delete_topic(groups)
    groups.topics.put("orders", MANY)
    places = [("orders", 0), ("orders", MANY - 1)]

    pursue(groups, lambda: groups.commit(dict.fromkeys(places, 5)))

    assert offset_count(groups) == 2
    assert [offset_of(groups.restarted(), place) for place in places] == [5, 5]


def test_topics_deleted_during_a_round_are_handled_in_one_more_round() -> None:
    groups = Groups(topics=FakeTopics(orders=1, bills=1))
    for number in range(100):
        groups.commit({("orders", 0): 1, ("bills", 0): 1}, group=f"g{number}")
    delete_topic(groups)
    groups.coordinator.run_due(groups.now_ms, lambda: True)
    for _ in range(50):
        groups.coordinator.topic_deleted("bills", groups.topics.id_of("bills") or b"", groups.now_ms)

    done = pursue(groups)

    assert not offset_count(groups)
    assert done.pieces < 1_000


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_joins_are_refused_between_the_pieces_of_a_groups_deletion(protocol: str) -> None:
    groups = ConsumerGroups(orders=MANY)
    groups.commit(dict.fromkeys([("orders", index) for index in range(MANY)], 1))
    deletion = groups.coordinator.delete_group("g", groups.now_ms)
    next(deletion)

    with pytest.raises(KafkaError) as refused:
        groups.join("g") if protocol == "classic" else groups.enter("a")

    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    for _ in deletion:
        pass
    assert not offset_count(groups)
    assert not group_count(groups)
    groups.join("g")
    assert group_count(groups) == 1


@pytest.mark.parametrize("ends", ["given up", "failed"])
def test_a_group_whose_deletion_was_interrupted_can_be_joined_and_deleted(ends: str) -> None:
    groups = Groups(topics=FakeTopics(orders=MANY))
    groups.commit(dict.fromkeys([("orders", index) for index in range(MANY)], 1))
    deletion = groups.coordinator.delete_group("g", groups.now_ms)
    next(deletion)
    if ends == "given up":
        deletion.close()
    else:
        groups.store.failure = ErrorCode.NOT_COORDINATOR
        with pytest.raises(KafkaError):
            next(deletion)
        groups.store.failure = None

    one = groups.join("g")
    groups.advance(0)
    groups.leave(one.answer.member_id)
    groups.delete_group("g", groups.now_ms)

    assert not offset_count(groups)


def test_a_transaction_started_during_expiry_of_ids_is_not_forgotten() -> None:
    transactions = Transactions()
    for number in range(4 * MANY):
        transactions.init(f"x{number}")
    last = f"x{4 * MANY - 1}"
    pass_time(transactions, 2 * WEEK_MS)

    def begin() -> None:
        if transactions.knows(last) and not is_open(transactions):
            transactions.add(last, transactions.producer(last), TopicPartition("a", 0))

    pursue(transactions, begin)

    assert is_open(transactions)
    assert Transactions(after=transactions).knows(last)


def test_pieces_for_an_unloaded_shard_are_not_done() -> None:
    groups = groups_that_committed()
    delete_topic(groups)
    groups.coordinator.run_due(groups.now_ms, lambda: True)
    appends = groups.store.appends
    for partition in range(len(groups.coordinator.shards)):
        groups.coordinator.unload(partition, ErrorCode.NOT_COORDINATOR, groups.now_ms)

    pursue(groups)

    assert groups.store.appends == appends


def test_a_failing_job_does_not_affect_other_jobs() -> None:
    done: list[str] = []

    def failing() -> Job:
        yield
        raise ZeroDivisionError

    def other() -> Job:
        yield
        done.append("other")

    jobs = Jobs()
    jobs.start(failing())
    jobs.start(other())
    with pytest.raises(ZeroDivisionError):
        jobs.run(never)
    jobs.run(never)

    assert done == ["other"]
    assert not jobs


def test_pending_markers_are_not_written_for_a_reloaded_shard() -> None:
    transactions = Transactions()
    producer = transactions.init("x")
    transactions.add("x", producer, *(TopicPartition("a", index) for index in range(2 * MARKERS_A_PIECE)))
    transactions.end("x", producer, commit=True)
    partition = transactions.coordinator.partition_for("x")
    transactions.coordinator.reload(partition, ErrorCode.NOT_COORDINATOR, transactions.now_ms)

    transactions.load(partition)
    pursue(transactions)

    assert transactions.state("x") in CLOSED
    assert len(transactions.markers.written) == 2 * MARKERS_A_PIECE


@pytest.mark.parametrize("kind", ["groups", "transactions"])
def test_a_list_request_for_a_partition_unloaded_concurrently_is_retriable(kind: str) -> None:
    it: Groups | Transactions
    steps: Steps[Any]
    if kind == "groups":
        it = groups_that_committed()
        steps = it.coordinator.list_groups(range(4), (), ())
    else:
        it = Transactions()
        for number in range(40):
            it.init(f"x{number}")
        steps = it.coordinator.list_transactions(range(4), TransactionFilter(), it.now_ms)
    next(steps)
    for partition in range(4):
        it.coordinator.unload(partition, ErrorCode.NOT_COORDINATOR, it.now_ms)

    with pytest.raises(KafkaError) as refused:
        to_the_end(steps)

    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def a_classic_group_that_cannot_be_taken_up(groups: ConsumerGroups) -> None:
    group = groups.coordinator.shard_of("g").groups["g"]
    assert isinstance(group, ClassicGroup)
    del next(iter(group.members.values())).session


def a_consumer_group_that_cannot_be_taken_up(groups: ConsumerGroups) -> None:
    group = groups.table("g")
    group.assignment_ms = "soon"  # type: ignore[assignment]


@pytest.mark.parametrize("damage", [a_classic_group_that_cannot_be_taken_up, a_consumer_group_that_cannot_be_taken_up])
def test_a_group_that_cannot_be_loaded_does_not_stop_its_partition(
    damage: Callable[[ConsumerGroups], None], caplog: pytest.LogCaptureFixture
) -> None:
    before = ConsumerGroups(MemoryStore(1), orders=1)
    for name in ("g", "h", "i"):
        if damage is a_classic_group_that_cannot_be_taken_up:
            before.stable(1, group=name)
        else:
            before.enter("m", group=name)
    groups = ConsumerGroups(before.store, topics=before.topics, loads=False)
    groups.load_only()
    damage(groups)

    groups.advance(SESSION_MS + 1)

    assert [len(group.members) for group in groups.coordinator.shards[0].groups.values()] == [1, 0, 0]
    assert "(1 of 3 failed)" in caplog.text


def test_a_transaction_that_cannot_be_loaded_does_not_stop_its_partition() -> None:
    before = Transactions()
    names = [name for name in map(str, range(20)) if not before.coordinator.partition_for(name)]
    for name in names:
        before.add(name, before.init(name, timeout_ms=5_000), TopicPartition("a", 0))
    transactions = Transactions(after=before, loads=False)
    transactions.load_all()
    shard = transactions.coordinator.shards[0]
    shard.transactions[names[0]] = replace(shard.transactions[names[0]], timeout_ms="long")  # type: ignore[arg-type]

    transactions.advance(2 * SWEEP_MS)

    assert len(names) > 1
    assert list(shard.open) == names[:1]


def members_of_both_protocols(count: int) -> tuple[ConsumerGroups, list[MemberIdentity]]:
    """Return a consumer group with `count` classic members, and one of the consumer protocol."""
    groups = ConsumerGroups(orders=1, settings={"group_consumer_assignment_interval_ms": 3_600_000})
    groups.enter("consumer")
    ids = [groups.join(protocols=[("range", subscription("orders"))]).answer.member_id for _ in range(count)]
    return groups, [MemberIdentity(member_id=one) for one in ids]


def test_members_that_cannot_leave_after_earlier_ones_get_individual_errors() -> None:
    groups, leaving = members_of_both_protocols(2 * MEMBERS_A_PIECE + 1)
    steps = groups.coordinator.leave(groups.coordinator.shard_for("g"), "g", leaving, groups.now_ms)
    next(steps)
    groups.store.failure = ErrorCode.NOT_COORDINATOR
    next(steps)
    groups.store.failure = None

    answers = to_the_end(steps)

    errors = [E.NONE] * MEMBERS_A_PIECE + [E.NOT_COORDINATOR] * MEMBERS_A_PIECE + [E.NONE]
    assert [(one.member_id, one.error_code) for one in answers] == [
        (one.member_id, error) for one, error in zip(leaving, errors, strict=True)
    ]
    stay = {"consumer", *(one.member_id for one in leaving[MEMBERS_A_PIECE : 2 * MEMBERS_A_PIECE])}
    assert groups.table().members.keys() == stay == groups.restarted().table().members.keys()


def test_members_get_one_common_error_if_none_can_leave() -> None:
    groups, leaving = members_of_both_protocols(MEMBERS_A_PIECE + 1)
    groups.store.failure = ErrorCode.NOT_COORDINATOR

    assert (
        error_of(
            lambda: to_the_end(groups.coordinator.leave(groups.coordinator.shard_for("g"), "g", leaving, groups.now_ms))
        )
        == E.NOT_COORDINATOR
    )
    assert len(groups.table().members) == len(leaving) + 1


LONG_MS = 1_000_000


def joins_of_a_large_group() -> tuple[Groups, list[Reply[JoinGroupResponse]]]:
    groups = Groups()
    arguments = {"protocols": [("range", subscription("orders"))], "session_ms": LONG_MS, "rebalance_ms": 60_000}
    return groups, [groups.join(client=f"c{number}", **arguments) for number in range(MEMBERS)]  # type: ignore[arg-type]


def syncs_of_a_large_group() -> tuple[Groups, list[Reply[SyncGroupResponse]]]:
    """Return the syncs of all members except the leader, which comes first."""
    groups, joins = joins_of_a_large_group()
    groups.advance(0)
    members = [join.answer for join in joins]
    return groups, [groups.sync(one.member_id, one.generation_id) for one in members[1:]]


def is_answered(replies: Sequence[Reply[Any]]) -> bool:
    return not any(reply.is_parked for reply in replies)


def all_members_of_a_large_group_have_joined() -> Prepared:
    groups, joins = joins_of_a_large_group()
    return groups, lambda: pass_time(groups, 1), lambda: is_answered(joins)


def the_leader_of_a_large_group_assigns() -> Prepared:
    groups, syncs = syncs_of_a_large_group()
    leader, *_ = ids = groups.members()
    assignments = {member: member.encode() for member in ids}

    def is_done() -> bool:
        return is_answered(syncs) and [sync.answer.assignment.decode() for sync in syncs] == ids[1:]

    return groups, lambda: groups.sync(leader, 1, assignments), is_done


def a_large_group_is_joined_while_it_waits_for_its_leader() -> Prepared:
    groups, syncs = syncs_of_a_large_group()

    def is_done() -> bool:
        return is_answered(syncs) and {sync.answer.error_code for sync in syncs} == {E.REBALANCE_IN_PROGRESS}

    return groups, lambda: groups.join(), is_done


def members_of_a_large_group_do_not_rejoin() -> Prepared:
    groups, _ = joins_of_a_large_group()
    groups.advance(0)
    groups.join(session_ms=LONG_MS)
    return groups, lambda: pass_time(groups, 60_000), lambda: member_count(groups) == 1


def members_of_a_large_group_do_not_sync() -> Prepared:
    groups, _ = joins_of_a_large_group()
    groups.advance(0)
    return groups, lambda: pass_time(groups, 60_000), lambda: groups.state() == "Empty"


def the_leader_of_a_large_group_joins_again() -> Prepared:
    groups, joins = joins_of_a_large_group()
    groups.advance(0)
    again: list[Reply[JoinGroupResponse]] = []

    def ask() -> None:
        protocols = [("range", subscription("orders"))]
        again.append(groups.join(member=joins[0].answer.member_id, protocols=protocols))

    return groups, ask, lambda: is_answered(again) and len(again[0].answer.members) == MEMBERS


OF_LARGE_GROUPS = [
    all_members_of_a_large_group_have_joined,
    the_leader_of_a_large_group_assigns,
    a_large_group_is_joined_while_it_waits_for_its_leader,
    members_of_a_large_group_do_not_rejoin,
    members_of_a_large_group_do_not_sync,
    the_leader_of_a_large_group_joins_again,
]


@pytest.mark.parametrize("prepare", OF_LARGE_GROUPS, ids=lambda prepare: prepare.__name__)
def test_other_tasks_run_between_any_two_members_of_a_large_group(prepare: Callable[[], Prepared]) -> None:
    it, happen, is_done = prepare()
    happen()
    assert not is_done()

    done = pursue(it)

    assert is_done()
    assert done.pieces >= MEMBERS - 1


def a_large_stable_group(**settings: int) -> ConsumerGroups:
    """Return a classic group in which each member has a partition."""
    interval = {"group_consumer_assignment_interval_ms": 3_600_000}
    groups = ConsumerGroups(MemoryStore(1), orders=MEMBERS, settings={**interval, **settings})
    groups.works_at_once = False
    wanted = subscription("orders")
    for number in range(MEMBERS):
        groups.join(client=f"c{number}", protocols=[("range", wanted)], session_ms=LONG_MS)
    groups.advance(0)
    ids = groups.members()
    assignments = {one: write_assignment(wanted, {"orders": [number]}) for number, one in enumerate(ids)}
    groups.sync(ids[0], 1, assignments)
    groups.advance(0)
    assert groups.state() == "Stable"
    return groups


CALLER = Caller("c", "/host", 1)


def a_member_that_comes() -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="new",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )


def coming(groups: ConsumerGroups) -> Steps[ConsumerGroupHeartbeatResponse]:
    shard = groups.coordinator.shard_for("g")
    return groups.coordinator.consumer_heartbeat(shard, a_member_that_comes(), CALLER, lambda: groups.now_ms)


def same_after_a_restart(groups: ConsumerGroups) -> bool:
    here, there = groups.table(), groups.restarted().table()
    return (here.members, here.targets, here.epoch) == (there.members, there.targets, there.epoch)


def test_a_large_classic_group_becomes_a_consumer_group_in_pieces() -> None:
    pieces = sum(1 for _ in coming(a_large_stable_group()))
    assert pieces >= 6 * MEMBERS
    groups = a_large_stable_group()
    steps, appends = coming(groups), groups.store.appends
    for _ in range(pieces):
        next(steps)
    assert groups.state() == "Stable"
    assert groups.store.appends == appends
    assert calls_of(lambda: to_the_end(steps)) < 10 * MEMBERS
    assert groups.store.appends == appends + 1
    done = pursue(groups)

    table = groups.table()
    assert done.pieces >= 2 * MEMBERS
    assert len(table.members) == len(table.sessions) == MEMBERS + 1
    owners = [name for row in table.owners.table.values() for name in row.values()]
    assert owners == [*table.members][:MEMBERS]
    assert same_after_a_restart(groups)


def test_a_classic_group_that_changes_during_its_conversion_is_examined_again() -> None:
    groups = a_large_stable_group()
    gone, stays = groups.members()[7], groups.members()[0]
    steps = coming(groups)
    for _ in range(5 * MEMBERS):
        next(steps)
    assert groups.leave(gone) == [E.NONE]

    to_the_end(steps)
    pursue(groups)

    assert gone not in groups.table().members
    assert stays in groups.table().members
    assert len(groups.table().members) == MEMBERS
    assert same_after_a_restart(groups)


def test_a_join_to_a_constantly_changing_large_classic_group_is_retriable() -> None:
    groups = a_large_stable_group()
    leaving = iter(groups.members())

    def pursue_steps() -> None:
        for number, _ in enumerate(coming(groups)):
            if not number % MEMBERS:
                groups.leave(next(leaving))

    assert error_of(pursue_steps) is E.COORDINATOR_LOAD_IN_PROGRESS
    # Nor is it converted at once if nothing has been prepared.
    shard = groups.coordinator.shard_of("g")
    with pytest.raises(KafkaError) as refused:
        groups.coordinator._consumer.heartbeat(shard, a_member_that_comes(), CALLER, groups.now_ms)
    assert refused.value.code is E.COORDINATOR_LOAD_IN_PROGRESS
    assert groups.enter_error("new") is E.NONE


def a_large_group_with_a_consumer_protocol_member(**fields: Any) -> ConsumerGroups:
    groups = a_large_stable_group()
    groups.enter("new", **fields)
    groups.advance(0)
    assert len(groups.table().members) == MEMBERS + 1
    return groups


def the_last_member_of_the_consumer_protocol_leaves() -> Prepared:
    groups = a_large_group_with_a_consumer_protocol_member()
    return groups, lambda: groups.beat("new", -1), lambda: is_classic(groups) and len(groups.members()) == MEMBERS


def the_last_consumer_protocol_member_returns_with_the_classic() -> Prepared:
    groups = a_large_group_with_a_consumer_protocol_member(instance_id="i")
    groups.beat("new", -2, instance_id="i")

    def come_back() -> None:
        protocols = [("range", subscription("orders"))]
        answer = groups.join(instance="i", protocols=protocols, session_ms=LONG_MS, version=5).answer
        assert not answer.error_code

    return groups, come_back, lambda: is_classic(groups) and len(groups.members()) == MEMBERS + 1


def is_classic(groups: ConsumerGroups) -> bool:
    return isinstance(groups.coordinator.shard_of("g").groups["g"], ClassicGroup)


@pytest.mark.parametrize(
    "prepare",
    [
        the_last_member_of_the_consumer_protocol_leaves,
        the_last_consumer_protocol_member_returns_with_the_classic,
    ],
    ids=lambda prepare: prepare.__name__,
)
def test_a_large_consumer_group_becomes_a_classic_group_in_pieces(prepare: Callable[[], Prepared]) -> None:
    groups, happen, is_done = prepare()
    assert isinstance(groups, ConsumerGroups)
    happen()
    assert not is_done()

    done = pursue(groups)

    assert is_done()
    assert done.pieces >= 5 * MEMBERS
    assert done.most_appends <= 1
    again = groups.restarted()
    assert is_classic(again)
    assert sorted(again.members()) == sorted(groups.members())


def test_a_large_group_whose_conversion_to_classic_fails_is_unchanged() -> None:
    groups = a_large_group_with_a_consumer_protocol_member()
    groups.beat("new", -1)
    groups.store.failure = E.NOT_COORDINATOR
    pursue(groups)
    groups.store.failure = None
    assert not is_classic(groups)
    classic = next(iter(groups.table().members.values()))
    assert (
        groups.coordinator.heartbeat(groups.coordinator.shard_for("g"), "g", classic.member_id, None, classic.epoch)
        is E.REBALANCE_IN_PROGRESS
    )

    groups.leave(classic.member_id)
    pursue(groups)

    assert is_classic(groups)
    assert len(groups.members()) == MEMBERS - 1


def test_a_large_group_that_changes_during_its_downgrade_is_converted_later() -> None:
    groups = a_large_group_with_a_consumer_protocol_member()
    table = groups.table()
    leaving = iter(list(table.members))
    groups.beat("new", -1)
    pieces = 0
    while table.is_downgrading:
        groups.coordinator.run_due(groups.now_ms, lambda: True)
        pieces += 1
        if not pieces % MEMBERS:
            groups.leave(next(leaving))
    assert groups.table() is table

    groups.join(protocols=[("range", subscription("orders"))], session_ms=LONG_MS)
    pursue(groups)

    assert is_classic(groups)
    assert sorted(groups.restarted().members()) == sorted(groups.members())


def test_a_large_group_gets_no_rejoin_request_during_its_downgrade() -> None:
    groups = a_large_stable_group()
    groups.enter("new")
    classic = groups.table().members[next(iter(groups.table().members))]
    groups.beat("new", -1)
    assert groups.table().epoch > groups.table().assignment_epoch == classic.epoch

    assert (
        groups.coordinator.heartbeat(groups.coordinator.shard_for("g"), "g", classic.member_id, None, classic.epoch)
        is E.NONE
    )


def test_members_that_leave_during_a_large_downgrade_are_not_in_the_result() -> None:
    groups = a_large_group_with_a_consumer_protocol_member()
    groups.beat("new", -1)
    for _ in range(4 * MEMBERS):
        groups.coordinator.run_due(groups.now_ms, lambda: True)
    gone = next(iter(groups.table().members))
    groups.leave(gone)

    pursue(groups)

    assert is_classic(groups)
    assert gone not in groups.members()
    assert len(groups.members()) == MEMBERS - 1
    assert sorted(groups.restarted().members()) == sorted(groups.members())


def test_a_large_classic_group_is_described_in_its_initial_state_in_pieces() -> None:
    groups = a_large_stable_group()
    ids = groups.members()
    steps = groups.coordinator.describe_group("g", 6)
    for _ in range(MEMBERS // 2):
        next(steps)
    groups.leave(ids[-1])

    described = to_the_end(steps)

    assert described.group_state == "Stable"
    assert [one.member_id for one in described.members] == ids
    assert all(one.member_assignment for one in described.members)


def test_a_large_group_is_not_encoded_again_for_the_write() -> None:
    """The group is one record, which is written in a single step."""
    groups, _ = syncs_of_a_large_group()
    group = groups.coordinator.shard_of("g").groups["g"]
    assert isinstance(group, ClassicGroup)

    assert calls_of(lambda: group_value(group, {})) < 5 * MEMBERS


def test_an_oversized_group_is_refused_without_building_its_record() -> None:
    groups, _ = syncs_of_a_large_group()
    groups.store.max_batch_bytes = lambda partition: 20 * MEMBERS  # type: ignore[method-assign]
    leader = groups.members()[0]
    assert calls_of(lambda: groups.sync(leader, 1, {})) < 10 * MEMBERS
    assert groups.state() == "PreparingRebalance"
