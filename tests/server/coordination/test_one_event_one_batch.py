"""Events of a group: each is one batch in the log, so a process that dies leaves the group before it or after it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.protocol.errors import ErrorCode
from support.groups.classic_members import ClassicMember
from support.groups.consumer_groups import ConsumerGroups, ConsumerMember, raised
from support.groups.groups import MemoryStore
from support.noted import each_case


def batch_count(store: MemoryStore) -> int:
    return sum(len(store.batches(partition)) for partition in range(len(store.partitions)))


def settled(groups: ConsumerGroups, *members: ClassicMember | ConsumerMember) -> None:
    for _ in range(20):
        for member in members:
            member.act(groups)
        groups.advance(100)


def empty_consumer_group(groups: ConsumerGroups) -> None:
    groups.enter("a", subscribed_topic_regex="or.*")
    groups.beat("a", -1)


def empty_classic_group(groups: ConsumerGroups) -> None:
    one = ClassicMember("one")
    settled(groups, one)
    one.leave(groups)
    groups.advance(0)


def classic_group(groups: ConsumerGroups) -> None:
    settled(groups, ClassicMember("one"), ClassicMember("two"))


def static_classic_group(groups: ConsumerGroups) -> None:
    join = groups.join(instance="i")
    groups.advance(0)
    groups.sync(join.answer.member_id, join.answer.generation_id, {join.answer.member_id: b""}, instance="i")


def waiting_leader(groups: ConsumerGroups) -> None:
    groups.join()
    groups.advance(0)


def consumer_group(groups: ConsumerGroups) -> None:
    settled(groups, ConsumerMember("a", instance_id="i"), ConsumerMember("b"))


def mixed_group(groups: ConsumerGroups) -> None:
    settled(groups, ClassicMember("one"), member := ConsumerMember("b"))
    assert member.owned


def simple_group(groups: ConsumerGroups) -> None:
    groups.commit({("orders", 0): 1, ("orders", 1): 2, ("bills", 0): 3})


def leader_syncs(groups: ConsumerGroups) -> None:
    (member,) = groups.members()
    groups.sync(member, 1, {member: b"x"})


def last_member_leaves(groups: ConsumerGroups) -> None:
    groups.leave(*groups.members())
    groups.advance(0)


EVENTS: dict[str, tuple[Callable[[ConsumerGroups], None], Callable[[ConsumerGroups], object]]] = {
    "classic member joins nobody": (lambda groups: None, lambda groups: groups.join()),
    "classic member joins an empty consumer group": (empty_consumer_group, lambda groups: groups.join()),
    "consumer joins nobody": (lambda groups: None, lambda groups: groups.enter("a")),
    "consumer joins an empty classic group": (empty_classic_group, lambda groups: groups.enter("a")),
    "consumer joins classic members": (classic_group, lambda groups: groups.enter("a")),
    "consumer joins consumers": (consumer_group, lambda groups: groups.enter("c")),
    "static consumer comes back": (
        consumer_group,
        lambda groups: (groups.beat("a", -2, instance_id="i"), groups.enter("z", instance_id="i"))[1],
    ),
    "static classic member comes back": (static_classic_group, lambda groups: groups.join(instance="i")),
    "consumer leaves classic members": (mixed_group, lambda groups: groups.beat("b", -1)),
    "consumer leaves consumers": (consumer_group, lambda groups: groups.beat("b", -1)),
    "leader syncs": (waiting_leader, leader_syncs),
    "last classic member leaves": (static_classic_group, last_member_leaves),
    "commit": (lambda groups: None, simple_group),
    "group with offsets is deleted": (
        simple_group,
        lambda groups: groups.delete_group("g", groups.now_ms),
    ),
    "offsets expire with their group": (
        simple_group,
        lambda groups: groups.advance(8 * 86_400_000),
    ),
    "offsets are deleted": (
        simple_group,
        lambda groups: groups.delete_offsets("g", [("orders", 0), ("bills", 0)], groups.now_ms),
    ),
    "topic is deleted": (simple_group, lambda groups: groups.delete_topic("orders")),
}
APPENDS = {"static consumer comes back": 2}  # leaving temporarily, and coming back


@each_case("name", EVENTS)
def test_one_event_is_one_batch(name: str) -> None:
    prepare, happen = EVENTS[name]
    groups = ConsumerGroups(orders=4, bills=1)
    prepare(groups)
    before = batch_count(groups.store)
    happen(groups)
    assert batch_count(groups.store) == before + APPENDS.get(name, 1)


@each_case("name", sorted(EVENTS.keys() - {"topic is deleted"}))  # the topic is deleted either way
def test_an_event_that_cannot_be_written_changes_nothing(name: str) -> None:
    """Neither the tables, which are compared with those of a restart, nor the log change."""
    prepare, happen = EVENTS[name]
    groups = ConsumerGroups(orders=4, bills=1)
    prepare(groups)
    before = [bytes(one) for one in groups.store.partitions]
    groups.store.failure = ErrorCode.NOT_COORDINATOR
    raised(partial(happen, groups))
    groups.store.failure = None
    assert [bytes(one) for one in groups.store.partitions] == before
    found = groups.restarted()
    assert groups.committed() == found.committed()
    listed = [
        {(one.group_id, one.group_type) for one in each.list_groups(range(4), (), ())} for each in (groups, found)
    ]
    assert listed[0] == listed[1]
