"""Timers of the group, share and transaction coordinators: how each is started, how long it takes, how a test sees its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.protocol.errors import ErrorCode
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.consumer.targets import ASSIGNED_AT_ONCE
from ottla.server.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.server.groups.streams.targets import TASKS_AT_ONCE
from ottla.server.transactions.metadata import TransactionState
from ottla.server.transactions.settings import MARKER_RETRY_MS
from support.groups.consumer_groups import REBALANCE_MS, SESSION_MS, ConsumerGroups
from support.groups.groups import Groups
from support.groups.share_groups import ShareGroups
from support.groups.streams_groups import StreamsGroups
from support.sharing.states import States, key
from support.transactions.transactions import A0, SWEEP_MS, Transactions

World = Groups | States | Transactions
Begun = tuple[World, Callable[[], bool]]
"""A world in which something waits, and whether it has happened."""

ID = "x"
UNLIMITED = {"group_consumer_session_timeout_ms": 10**12}


class Timer(NamedTuple):
    where: str
    """The function that starts it: file below server/, and name."""
    delay_ms: int
    begin: Callable[[], Begun]


def _initial_delay() -> Begun:
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    reply = groups.join()
    return groups, lambda: not reply.is_parked


def _extended_initial_delay() -> Begun:
    groups = Groups(group_initial_rebalance_delay_ms=3_000)
    reply = groups.join()
    groups.advance(1_000)
    groups.join(client="d")
    return groups, lambda: not reply.is_parked


def _rejoin() -> Begun:
    groups = Groups()
    groups.stable(2, rebalance_ms=5_000)
    reply = groups.join(client="new", rebalance_ms=5_000)
    return groups, lambda: not reply.is_parked


def _absent_static_members() -> Begun:
    """A rebalance that only a guest joined, who left again: the remaining static member keeps its session, and the group
    checks again at its own interval.
    """
    groups = Groups()
    replies = [groups.join(instance=name, rebalance_ms=1_000, session_ms=1_800_000) for name in ("i", "j")]
    groups.advance(0)
    groups.sync_all([reply.answer.member_id for reply in replies], replies[0].answer.generation_id)
    guest = groups.join(client="guest", rebalance_ms=1_000)
    groups.advance(500)
    groups.leave(groups.members()[-1])
    assert not guest.is_parked
    groups.advance(500)
    first_due_ms = groups.coordinator.next_deadline_ms() or 0
    return groups, lambda: (groups.coordinator.next_deadline_ms() or 0) > first_due_ms


def _sync() -> Begun:
    groups = Groups()
    groups.join(rebalance_ms=5_000)
    groups.advance(0)
    return groups, lambda: not groups.members()


def _session() -> Begun:
    groups = Groups()
    groups.stable(1)
    return groups, lambda: not groups.members()


def _unused_member_id() -> Begun:
    groups = Groups()
    groups.join(version=4)
    group = groups.coordinator.shard_of("g").groups["g"]
    assert isinstance(group, ClassicGroup)
    return groups, lambda: not group.pending


def _new_member() -> Begun:
    groups = Groups()
    groups.stable(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    reply = groups.join(client="new", rebalance_ms=1_800_000)
    return groups, lambda: not reply.is_parked


def _offsets_look() -> Begun:
    groups = Groups()
    first_due_ms = groups.coordinator.next_deadline_ms() or 0
    return groups, lambda: (groups.coordinator.next_deadline_ms() or 0) > first_due_ms


def _consumer_session() -> Begun:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    return groups, lambda: not groups.table().members


def _consumer_session_after_a_load() -> Begun:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups = groups.restarted()
    return groups, lambda: not groups.table().members


def _revocation() -> Begun:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    return groups, lambda: set(groups.table().members) == {"b"}


def _removal_again() -> Begun:
    groups = ConsumerGroups(orders=2)
    groups.enter("a")
    groups.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.advance(SESSION_MS)
    groups.store.failure = None
    assert groups.table().members
    return groups, lambda: not groups.table().members


def _refresh() -> Begun:
    groups = ConsumerGroups(orders=2, settings=UNLIMITED)
    groups.enter("a")
    groups.topics.put("orders", 3)  # without a notification

    def is_over() -> bool:
        groups.beat("a", groups.table().members["a"].epoch)
        return groups.table().epoch > 2

    return groups, is_over


def _two_members(interval_ms: int, partition_count: int = 2) -> ConsumerGroups:
    groups = ConsumerGroups(
        orders=partition_count, settings={**UNLIMITED, "group_consumer_assignment_interval_ms": interval_ms}
    )
    groups.enter("a")
    groups.enter("b")
    return groups


def _assignment_of(groups: ConsumerGroups) -> Callable[[], bool]:
    def is_over() -> bool:
        groups.beat("b", groups.table().members["b"].epoch)
        return groups.table().assignment_epoch == groups.table().epoch

    return is_over


def _assignment() -> Begun:
    groups = _two_members(5_000)
    return groups, _assignment_of(groups)


def _assignment_of_many_partitions() -> Begun:
    groups = _two_members(5_000, ASSIGNED_AT_ONCE + 1)
    return groups, _assignment_of(groups)


def _assignment_after_a_load() -> Begun:
    groups = _two_members(5_000)
    groups.advance(2_000)
    groups = groups.restarted()
    return groups, _assignment_of(groups)


def _resolved() -> ConsumerGroups:
    groups = ConsumerGroups(orders_a=1, settings=UNLIMITED)
    groups.enter("a", subscribed_topic_regex="orders_.")
    groups.beat("a", 1)
    return groups


def _finds_new_topic(groups: ConsumerGroups) -> Callable[[], bool]:
    def is_over() -> bool:
        groups.beat("a", groups.table().members["a"].epoch)
        return set(groups.table().subscribed_topics) == {"orders_a", "orders_b"}

    return is_over


def _new_topic() -> Begun:
    groups = _resolved()
    groups.create_topic("orders_b", 1)
    return groups, _finds_new_topic(groups)


def _unannounced_topic() -> Begun:
    groups = _resolved()
    groups.topics.put("orders_b", 1)
    return groups, _finds_new_topic(groups)


def _new_topic_after_a_load() -> Begun:
    groups = _resolved()
    groups.advance(4_000)
    groups = groups.restarted()
    groups.create_topic("orders_b", 1)
    return groups, _finds_new_topic(groups)


SHARE_UNLIMITED = {"group_share_session_timeout_ms": 10**12}


def _share_session() -> Begun:
    groups = ShareGroups(orders=2)
    groups.enter("a")
    return groups, lambda: not groups.table().members


def _share_session_after_a_load() -> Begun:
    groups = ShareGroups(orders=2)
    groups.enter("a")
    groups = groups.restarted()
    return groups, lambda: not groups.table().members


def _share_removal_again() -> Begun:
    groups = ShareGroups(orders=2)
    groups.enter("a")
    groups.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.advance(SESSION_MS)
    groups.store.failure = None
    assert groups.table().members
    return groups, lambda: not groups.table().members


def _share_refresh() -> Begun:
    groups = ShareGroups(orders=2, settings=SHARE_UNLIMITED)
    groups.enter("a")
    groups.settled("a")
    epoch = groups.table().epoch
    groups.topics.put("orders", 3)  # without a notification

    def is_over() -> bool:
        groups.stay("a")
        return groups.table().epoch > epoch

    return groups, is_over


def _share_assignment(partition_count: int = 2) -> Begun:
    groups = ShareGroups(
        orders=partition_count, settings={**SHARE_UNLIMITED, "group_share_assignment_interval_ms": 5_000}
    )
    groups.enter("a")
    return groups, _shares_of(groups)


def _shares_of(groups: ShareGroups) -> Callable[[], bool]:
    def is_over() -> bool:
        groups.stay("a")
        return groups.table().assignment_epoch == groups.table().epoch

    return is_over


def _share_assignment_of_many_partitions() -> Begun:
    groups = ShareGroups(
        orders=ASSIGNED_AT_ONCE + 1, settings={**SHARE_UNLIMITED, "group_share_assignment_interval_ms": 5_000}
    )
    groups.enter("a")
    groups.advance(5_000)
    groups.stay("a")
    groups.enter("b")
    return groups, _shares_of(groups)


def _share_assignment_after_a_load() -> Begun:
    groups, _ = _share_assignment()
    assert isinstance(groups, ShareGroups)
    groups.advance(2_000)
    groups = groups.restarted()
    return groups, _shares_of(groups)


def _streams_session() -> Begun:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    return groups, lambda: not groups.table().members


def _streams_session_after_a_load() -> Begun:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups = groups.restarted()
    return groups, lambda: not groups.table().members


def _streams_revocation() -> Begun:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.enter("b")
    groups.beat("a", 2)
    return groups, lambda: set(groups.table().members) == {"b"}


def _streams_removal_again() -> Begun:
    groups = StreamsGroups(orders=2)
    groups.enter("a")
    groups.store.failure = ErrorCode.COORDINATOR_NOT_AVAILABLE
    groups.advance(SESSION_MS)
    groups.store.failure = None
    assert groups.table().members
    return groups, lambda: not groups.table().members


def _streams_initial_delay() -> Begun:
    groups = StreamsGroups(orders=2, settings={"group_streams_initial_rebalance_delay_ms": 3_000})
    groups.enter("a")

    def is_over() -> bool:
        groups.advance(0)
        return bool(groups.table().targets)

    return groups, is_over


def _streams_refresh() -> Begun:
    groups = StreamsGroups(orders=2, settings={"group_streams_session_timeout_ms": 10**12})
    groups.enter("a")
    groups.topics.put("orders", 3)  # without a notification

    def is_over() -> bool:
        groups.beat("a", groups.table().members["a"].epoch)
        return groups.table().epoch > 2

    return groups, is_over


def _two_instances(partition_count: int = 2) -> StreamsGroups:
    groups = StreamsGroups(orders=partition_count, settings={"group_streams_assignment_interval_ms": 5_000})
    groups.enter("a")
    groups.enter("b")
    return groups


def _streams_assignment_of(groups: StreamsGroups) -> Callable[[], bool]:
    def is_over() -> bool:
        groups.beat("b", groups.table().members["b"].epoch)
        return groups.table().assignment_epoch == groups.table().epoch

    return is_over


def _streams_assignment() -> Begun:
    groups = _two_instances()
    return groups, _streams_assignment_of(groups)


def _streams_assignment_of_many_tasks() -> Begun:
    groups = _two_instances(TASKS_AT_ONCE + 1)
    return groups, _streams_assignment_of(groups)


def _streams_assignment_after_a_load() -> Begun:
    groups = _two_instances()
    groups.advance(2_000)
    groups = groups.restarted()
    return groups, _streams_assignment_of(groups)


def _open_transaction() -> Transactions:
    transactions = Transactions()
    transactions.add(ID, transactions.init(ID, timeout_ms=25_000), A0)
    return transactions


def _time_out() -> Begun:
    transactions = _open_transaction()
    return transactions, lambda: transactions.state(ID) is TransactionState.COMPLETE_ABORT


def _time_out_after_a_load() -> Begun:
    transactions = _open_transaction()
    transactions.advance(6_000)
    later = Transactions(after=transactions)
    return later, lambda: later.state(ID) is TransactionState.COMPLETE_ABORT


def _marker_again() -> Begun:
    transactions = Transactions()
    producer = transactions.init(ID)
    transactions.add(ID, producer, A0)
    transactions.markers.refusing = {A0}
    transactions.end(ID, producer, commit=True)
    transactions.markers.refusing = set()
    return transactions, lambda: transactions.state(ID) is TransactionState.COMPLETE_COMMIT


def _ids_look() -> Begun:
    transactions = Transactions()
    first_due_ms = transactions.coordinator.next_deadline_ms() or 0
    return transactions, lambda: (transactions.coordinator.next_deadline_ms() or 0) > first_due_ms


def _pruning() -> Begun:
    states = States()
    for _ in range(2):
        states.begin(key())
    return states, lambda: max(states.store.starts) == 1


def _look_for_cold_states() -> Begun:
    states = States(prune_interval_ms=10**9)
    first_due_ms = states.coordinator.next_deadline_ms() or 0
    return states, lambda: (states.coordinator.next_deadline_ms() or 0) > first_due_ms


CLASSIC, REBALANCE = "groups/classic/protocol.py", "groups/classic/rebalance.py"
RECONCILED, PROTOCOL = "groups/reconciled_protocol.py", "groups/consumer/protocol.py"
SHARE, STREAMS = "groups/share/protocol.py", "groups/streams/protocol.py"
STREAMS_JOBS = "groups/streams/target_jobs.py"
STATES = "sharing/state_coordinator.py"
ENDINGS = "transactions/completer.py"

COORDINATOR_TIMERS = {
    "initial delay of a group": Timer(f"{REBALANCE} start", 3_000, _initial_delay),
    "extended initial delay": Timer(f"{REBALANCE} rejoin_time_is_over", 5_000, _extended_initial_delay),
    "rebalance time-out": Timer(f"{REBALANCE} start", 5_000, _rejoin),
    "absent static members": Timer(f"{REBALANCE} _complete", 1_000, _absent_static_members),
    "SyncGroup": Timer(f"{REBALANCE} _complete", 5_000, _sync),
    "session of a classic member": Timer(f"{REBALANCE} keep_alive", 10_000, _session),
    "member id that nobody uses": Timer(f"{CLASSIC} join", 10_000, _unused_member_id),
    "new member that is not answered": Timer(f"{CLASSIC} _add", NEW_MEMBER_JOIN_TIMEOUT_MS, _new_member),
    "look for expired offsets": Timer("groups/maintenance.py repeat_expiry", 600_000, _offsets_look),
    "session of a member": Timer(f"{RECONCILED} keep_alive", SESSION_MS, _consumer_session),
    "session of a loaded member": Timer(f"{RECONCILED} keep_alive", SESSION_MS, _consumer_session_after_a_load),
    "revocation": Timer(f"{RECONCILED} limit", REBALANCE_MS, _revocation),
    "removal that failed": Timer(f"{RECONCILED} _try_to_remove", 500, _removal_again),
    "another look at topics": Timer(f"{PROTOCOL} advance", 2**31 - 1, _refresh),
    "next assignment": Timer(f"{PROTOCOL} advance", 5_000, _assignment),
    "next assignment of many partitions": Timer(f"{PROTOCOL} _assign", 5_000, _assignment_of_many_partitions),
    "next assignment after a load": Timer(f"{RECONCILED} loaded", 3_000, _assignment_after_a_load),
    "expressions and a new topic": Timer(f"{PROTOCOL} _resolve_regexes", 10_001, _new_topic),
    "expressions and a new topic after a load": Timer(f"{PROTOCOL} loaded", 6_001, _new_topic_after_a_load),
    "expressions matched again": Timer(f"{PROTOCOL} _resolve_regexes", 600_001, _unannounced_topic),
    "session of a share group's member": Timer(f"{RECONCILED} keep_alive", SESSION_MS, _share_session),
    "session of its loaded member": Timer(f"{RECONCILED} keep_alive", SESSION_MS, _share_session_after_a_load),
    "removal from a share group that failed": Timer(f"{RECONCILED} _try_to_remove", 500, _share_removal_again),
    "a share group's look at topics": Timer(f"{SHARE} heartbeat", 2**31 - 1, _share_refresh),
    "a share group's next assignment": Timer(f"{SHARE} heartbeat", 5_000, _share_assignment),
    "that of many partitions": Timer(f"{SHARE} _assign", 5_000, _share_assignment_of_many_partitions),
    "that after a load": Timer(f"{RECONCILED} loaded", 3_000, _share_assignment_after_a_load),
    "session of an instance": Timer(f"{RECONCILED} keep_alive", SESSION_MS, _streams_session),
    "session of a loaded instance": Timer(f"{RECONCILED} keep_alive", SESSION_MS, _streams_session_after_a_load),
    "revocation of tasks": Timer(f"{RECONCILED} limit", REBALANCE_MS, _streams_revocation),
    "removal of an instance that failed": Timer(f"{RECONCILED} _try_to_remove", 500, _streams_removal_again),
    "initial delay of a streams group": Timer(f"{STREAMS_JOBS} await_members", 3_000, _streams_initial_delay),
    "another look at topics of a topology": Timer(f"{STREAMS} _keep", 3_600_000, _streams_refresh),
    "next assignment of tasks": Timer(f"{STREAMS} _keep", 5_000, _streams_assignment),
    "next assignment of many tasks": Timer(f"{STREAMS_JOBS} _assign", 5_000, _streams_assignment_of_many_tasks),
    "next assignment of tasks after a load": Timer(f"{RECONCILED} loaded", 3_000, _streams_assignment_after_a_load),
    "pruning of share states": Timer(f"{STATES} _repeat_pruning", 10_000, _pruning),
    "look for cold share states": Timer(f"{STATES} _repeat_refreshing", 60_000, _look_for_cold_states),
    # The coordinator looks every 10 s; at 25 s it has not taken longer than that.
    "time-out of a transaction": Timer(f"{ENDINGS} watch", 3 * SWEEP_MS, _time_out),
    "time-out of a loaded transaction": Timer(f"{ENDINGS} watch", 2 * SWEEP_MS, _time_out_after_a_load),
    "marker that was not taken": Timer(f"{ENDINGS} _retry_later", MARKER_RETRY_MS, _marker_again),
    "look for unused transactional ids": Timer("transactions/coordinator.py _repeat_expiry", 3_600_000, _ids_look),
}
