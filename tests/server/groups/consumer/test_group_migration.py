"""Groups that change between the classic and the consumer protocol, empty or with members of both (KIP-848)."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.groups.classic import rebalance
from ottla.server.groups.classic.group import ClassicGroup
from ottla.server.groups.consumer import migration, targets
from ottla.server.groups.shard import AnyGroup
from ottla.server.groups.subscription import read_assignment
from support.groups.classic_members import REBALANCE_MS, SESSION_MS, ClassicMember, subscription_of
from support.groups.consumer_groups import ConsumerGroups, ConsumerMember, raised
from support.groups.groups import Reply
from support.noted import each_case
from support.sizes import size

E = ErrorCode


def group_of(groups: ConsumerGroups) -> AnyGroup:
    return groups.coordinator.shard_of("g").groups["g"]


def kind(groups: ConsumerGroups) -> str:
    return group_of(groups).type_name


def classic_group(groups: ConsumerGroups, *members: ClassicMember) -> None:
    """Form a stable classic group of these members."""
    for _ in range(8):
        for member in members:
            member.act(groups)
        groups.advance(0)
    assert kind(groups) == "classic"
    assert groups.state() == "Stable"


def settle(groups: ConsumerGroups, *members: ClassicMember | ConsumerMember) -> None:
    """Let all members send heartbeats, and follow the answers, until nothing changes any more."""
    for _ in range(20):
        for member in members:
            member.act(groups)
        groups.advance(100)


def owned(groups: ConsumerGroups, member: ClassicMember | ConsumerMember) -> set[tuple[str, int]]:
    if isinstance(member, ClassicMember):
        return member.owned
    return {(groups.topics.name_of(topic_id) or "", index) for topic_id, index in member.owned}


def all_partitions(groups: ConsumerGroups, *members: ClassicMember | ConsumerMember) -> list[tuple[str, int]]:
    return sorted(place for member in members for place in owned(groups, member))


ORDERS_4 = [("orders", index) for index in range(4)]


# Upgrade


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_the_first_member_of_the_consumer_protocol_upgrades_a_classic_group(is_cooperative: bool) -> None:
    groups = ConsumerGroups(orders=4)
    one, two = (ClassicMember(name, is_cooperative=is_cooperative) for name in ("one", "two"))
    classic_group(groups, one, two)
    generation = one.generation
    before = {member.member_id: set(member.owned) for member in (one, two)}
    three = ConsumerMember("three")
    three.act(groups)
    assert kind(groups) == "consumer"
    group = groups.table()
    assert group.epoch == generation + 1
    for member in (one, two):
        assert group.members[member.member_id].epoch == generation
        assert set(member.owned) == before[member.member_id]
    settle(groups, one, two, three)
    assert all_partitions(groups, one, two, three) == ORDERS_4
    assert [len(owned(groups, member)) for member in (one, two, three)].count(0) == 0
    assert groups.described().group_state == "Stable"


def test_an_upgraded_group_survives_a_restart() -> None:
    groups = ConsumerGroups(orders=4)
    one, two, three = ClassicMember("one"), ClassicMember("two", instance_id="i"), ConsumerMember("three")
    classic_group(groups, one, two)
    three.act(groups)
    before = groups.table()
    groups = groups.restarted()
    after = groups.table()
    assert (after.members, after.targets, after.epoch, after.assignment_epoch, after.metadata_hash) == (
        before.members,
        before.targets,
        before.epoch,
        before.assignment_epoch,
        before.metadata_hash,
    )
    settle(groups, one, two, three)
    assert all_partitions(groups, one, two, three) == ORDERS_4


@pytest.mark.parametrize(
    ("settings", "join", "reason"),
    [
        ({"group_consumer_migration_policy": "disabled"}, {}, "online upgrade is disabled"),
        ({"group_consumer_migration_policy": "Downgrade"}, {}, "online upgrade is disabled"),
        ({}, {"protocol_type": "connect"}, "the group does not use the consumer embedded protocol"),
        ({"group_consumer_max_size": 1}, {}, "the group size exceeds the consumer group maximum size"),
        ({}, {"assignment": b"\0\0\0\0\0\0\0\0\0\1x"}, migration.CUSTOM_ASSIGNOR),
        ({}, {"assignment": b"\0"}, "the embedded consumer protocol is malformed"),
        ({}, {"protocols": [("range", b"\xff\xff")]}, "the embedded consumer protocol is malformed"),
    ],
)
def test_some_groups_cannot_be_upgraded(settings: dict[str, Any], join: dict[str, Any], reason: str) -> None:
    groups = ConsumerGroups(orders=4, settings=settings)
    assignment = join.pop("assignment", b"")
    arguments = {"protocols": [("range", subscription_of(["orders"]))]} | join
    joins = [groups.join(client=name, **arguments) for name in ("one", "two")]
    groups.advance(0)
    ids, generation = [one.answer.member_id for one in joins], joins[0].answer.generation_id
    for member in reversed(ids):
        groups.sync(member, generation, dict.fromkeys(ids, assignment))
    before = list(groups.store.records(groups.coordinator.partition_for("g")))
    code, message = groups.error("three", 0, owns={}, topics=["orders"], rebalance_timeout_ms=1_000)
    assert code is E.GROUP_ID_NOT_FOUND
    assert message.startswith("Cannot upgrade classic group g to consumer group because ")
    assert reason in message
    assert groups.store.records(groups.coordinator.partition_for("g")) == before
    assert [groups.heartbeat(member, generation) for member in ids] == [E.NONE, E.NONE]


def test_requests_parked_at_an_upgrade_are_answered() -> None:
    groups = ConsumerGroups(orders=4)
    one, two = ClassicMember("one"), ClassicMember("two")
    classic_group(groups, one, two)
    joining: Reply[Any] = groups.join(member=one.member_id, protocols=[("range", subscription_of(["orders", "more"]))])
    assert joining.is_parked
    groups.enter("three")
    assert joining.answer.error_code == E.REBALANCE_IN_PROGRESS
    assert kind(groups) == "consumer"
    assert groups.heartbeat(two.member_id, two.generation) == E.REBALANCE_IN_PROGRESS


def test_a_group_is_upgraded_during_its_first_rebalance() -> None:
    groups = ConsumerGroups(orders=4, settings={"group_initial_rebalance_delay_ms": 3_000})
    one, two = ClassicMember("one"), ConsumerMember("two")
    one.act(groups)
    one.act(groups)
    one.act(groups)
    assert groups.state() == "PreparingRebalance"
    two.act(groups)
    settle(groups, one, two)
    assert kind(groups) == "consumer"
    assert all_partitions(groups, one, two) == ORDERS_4


def test_a_classic_group_emptied_in_its_first_rebalance_is_upgraded_at_once() -> None:
    groups = ConsumerGroups(orders=4, settings={"group_initial_rebalance_delay_ms": 3_000})
    groups.join(protocols=[("range", subscription_of(["orders"]))])
    groups.leave(*groups.members())
    assert groups.state() == "PreparingRebalance"
    assert groups.given(groups.enter("a")) == {"orders": {0, 1, 2, 3}}
    assert groups.described().members == groups.restarted().described().members


def test_a_failed_write_leaves_the_classic_group_unchanged() -> None:
    groups = ConsumerGroups(orders=4)
    one = ClassicMember("one")
    classic_group(groups, one)
    groups.store.failure = E.NOT_COORDINATOR
    assert groups.enter_error("two") is E.NOT_COORDINATOR
    assert kind(groups) == "classic"
    assert groups.heartbeat(one.member_id, one.generation) == E.NONE


def test_offsets_stay_with_a_group_of_any_protocol() -> None:
    groups = ConsumerGroups(orders=4)
    one, two = ClassicMember("one"), ConsumerMember("two")
    classic_group(groups, one)
    groups.commit({("orders", 0): 7}, member=one.member_id, generation=one.generation)
    two.act(groups)
    assert groups.committed() == {("orders", 0): 7}
    one.leave(groups)
    two.leave(groups)
    one = ClassicMember("one")
    classic_group(groups, one)
    assert groups.restarted().committed() == {("orders", 0): 7}


# Downgrade


def mixed(groups: ConsumerGroups) -> tuple[ClassicMember, ClassicMember, ConsumerMember]:
    """Return a stable consumer group of two classic members and one of the consumer protocol."""
    one, two, three = ClassicMember("one"), ClassicMember("two"), ConsumerMember("three")
    three.act(groups)
    settle(groups, one, two, three)
    assert kind(groups) == "consumer"
    assert all_partitions(groups, one, two, three) == ORDERS_4
    return one, two, three


@pytest.mark.parametrize("how", ["it leaves", "its session ends", "an administrator removes it"])
def test_the_last_consumer_protocol_members_leave_downgrades_a_group(how: str) -> None:
    groups = ConsumerGroups(orders=4)
    one, two, three = mixed(groups)
    epoch = groups.table().epoch
    if how == "it leaves":
        three.leave(groups)
    elif how == "an administrator removes it":
        assert groups.leave("three") == [E.NONE]
    else:
        for _ in range(10):
            groups.advance(SESSION_MS // 2)
            one.act(groups)
            two.act(groups)
    group = group_of(groups)
    assert isinstance(group, ClassicGroup)
    assert group.generation >= epoch
    assert set(group.members) == {one.member_id, two.member_id}
    settle(groups, one, two)
    assert groups.state() == "Stable"
    assert all_partitions(groups, one, two) == ORDERS_4
    assert sorted(groups.restarted().members()) == sorted([one.member_id, two.member_id])


def test_a_downgraded_group_before_its_rebalance_survives_a_restart() -> None:
    groups = ConsumerGroups(orders=4)
    one, two, three = mixed(groups)
    had = {member.member_id: set(member.owned) for member in (one, two)}
    three.leave(groups)
    group = group_of(groups.restarted())
    assert isinstance(group, ClassicGroup)
    assert group.state.value == "Stable"
    for member_id, member in group.members.items():
        topics = read_assignment(member.assignment).assigned_partitions
        assert {(topic.topic, index) for topic in topics for index in topic.partitions} == had[member_id]


@pytest.mark.parametrize(
    "settings", [{"group_consumer_migration_policy": "upgrade"}, {"group_max_size": 1}], ids=["policy", "size"]
)
def test_some_groups_cannot_be_downgraded(settings: dict[str, Any]) -> None:
    groups = ConsumerGroups(orders=4, settings=settings)
    one, two, three = mixed(groups)
    three.leave(groups)
    settle(groups, one, two)
    assert kind(groups) == "consumer"
    assert all_partitions(groups, one, two) == ORDERS_4


@pytest.mark.parametrize("how", ["leaves", "fails"])
def test_the_last_consumer_protocol_member_leaves_even_if_no_downgrade_is_possible(how: str) -> None:
    """The broker parses only the first of the protocols that a member offers when it joins."""
    groups = ConsumerGroups(orders=4)
    groups.enter("a")
    readable = subscription_of(["orders"])
    for protocols in ([("range", readable), ("sticky", readable)], [("sticky", readable), ("range", b"?")]):
        assert not groups.join(protocols=protocols, session_ms=1_000_000).answer.error_code
    if how == "leaves":
        groups.beat("a", -1)
    else:
        groups.advance(50_000)
    group = groups.table()
    assert len(group.members) == 2
    assert "a" not in group.members and not any("a" in row.values() for row in group.owners.table.values())
    assert groups.restarted().table().members == group.members


def test_a_failed_write_leaves_the_consumer_group_unchanged() -> None:
    groups = ConsumerGroups(orders=4)
    one, two, three = mixed(groups)
    groups.store.failure = E.NOT_COORDINATOR
    assert groups.error("three", -1)[0] is E.NOT_COORDINATOR
    groups.store.failure = None
    settle(groups, one, two, three)
    assert kind(groups) == "consumer"
    assert all_partitions(groups, one, two, three) == ORDERS_4


def test_the_last_static_consumer_protocol_member_may_return_with_the_classic_one() -> None:
    groups = ConsumerGroups(orders=4)
    one, two = ClassicMember("one"), ConsumerMember("two", instance_id="i")
    two.act(groups)
    settle(groups, one, two)
    had = owned(groups, two)
    two.leave(groups, -2)
    again = ClassicMember("again", instance_id="i")
    again.settle(groups)
    assert kind(groups) == "classic"
    assert groups.state() == "Stable"
    assert again.owned == had
    one.act(groups)
    assert all_partitions(groups, one, again) == ORDERS_4


def test_a_static_member_may_change_to_the_consumer_protocol() -> None:
    groups = ConsumerGroups(orders=4)
    one, two = ClassicMember("one", instance_id="i"), ClassicMember("two", instance_id="j")
    classic_group(groups, one, two)
    had = set(one.owned)
    again = ConsumerMember("again", instance_id="i")
    again.act(groups)
    again.act(groups)
    assert kind(groups) == "consumer"
    assert set(groups.table().members) == {"again", two.member_id}
    settle(groups, again, two)
    assert owned(groups, again) == had
    assert raised(lambda: groups.heartbeat(one.member_id, one.generation, instance="i"))[0] is E.FENCED_INSTANCE_ID


# Empty groups


def test_an_empty_consumer_group_becomes_a_classic_one() -> None:
    groups = ConsumerGroups(orders=4)
    groups.enter("a", subscribed_topic_regex="or.*")
    groups.beat("a", -1)
    known = groups.join(member="b", protocols=[("range", subscription_of(["orders"]))])
    assert known.answer.error_code == E.UNKNOWN_MEMBER_ID
    assert kind(groups) == "consumer"
    one = ClassicMember("one")
    classic_group(groups, one)
    assert one.owned == set(ORDERS_4)
    assert groups.restarted().members() == [one.member_id]


def test_an_empty_classic_group_becomes_a_consumer_group_under_any_policy() -> None:
    groups = ConsumerGroups(orders=4, settings={"group_consumer_migration_policy": "disabled"})
    one = ClassicMember("one")
    classic_group(groups, one)
    one.leave(groups)
    groups.advance(0)
    assert groups.given(groups.enter("a")) == {"orders": {0, 1, 2, 3}}
    assert kind(groups) == kind(groups.restarted()) == "consumer"


# Classic members in a consumer group


def join_error(groups: ConsumerGroups, **arguments: Any) -> ErrorCode:
    answer = groups.join(**{"protocols": [("range", subscription_of(["orders"]))], **arguments}).answer
    return ErrorCode(answer.error_code)


@each_case(
    "settings, arguments, error",
    [
        ({}, {}, E.NONE),
        ({"group_consumer_migration_policy": "disabled"}, {}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_consumer_migration_policy": "upgrade"}, {}, E.NONE),
        ({"group_consumer_migration_policy": "downgrade"}, {}, E.NONE),
        ({"group_consumer_max_size": 1}, {}, E.GROUP_MAX_SIZE_REACHED),
        ({}, {"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({}, {"protocols": []}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({}, {"protocols": [("range", b"x")]}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({}, {"member": "m", "instance": "i"}, E.UNKNOWN_MEMBER_ID),
        ({}, {"member": "m"}, E.NONE),
    ],
)
def test_a_classic_member_joins_a_consumer_group(
    settings: dict[str, Any], arguments: dict[str, Any], error: ErrorCode
) -> None:
    groups = ConsumerGroups(orders=4, settings=settings)
    groups.enter("a")
    before = list(groups.store.records(groups.coordinator.partition_for("g")))
    assert join_error(groups, **arguments) is error
    assert (groups.store.records(groups.coordinator.partition_for("g")) == before) is bool(error)


def test_classic_members_must_have_a_protocol_in_common() -> None:
    groups = ConsumerGroups(orders=4)
    groups.enter("a")
    blob = subscription_of(["orders"])
    assert join_error(groups, protocols=[("range", blob), ("sticky", blob)]) is E.NONE
    assert join_error(groups, protocols=[("sticky", blob)]) is E.NONE
    assert join_error(groups, protocols=[("range", blob)]) is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_new_dynamic_member_receives_an_id_to_rejoin_with() -> None:
    groups = ConsumerGroups(orders=4)
    groups.enter("a")
    blob = subscription_of(["orders"])
    answer = groups.join(protocols=[("range", blob)], version=4).answer
    assert answer.error_code == E.MEMBER_ID_REQUIRED
    assert set(groups.table().members) == {"a"}
    answer = groups.join(member=answer.member_id, protocols=[("range", blob)], version=4).answer
    assert (answer.error_code, answer.protocol_type, answer.protocol_name) == (E.NONE, "consumer", "range")
    assert (answer.leader, answer.members) == ("", ())


def test_a_returning_static_member_fences_its_predecessor() -> None:
    groups = ConsumerGroups(orders=4)
    groups.enter("a")
    one = ClassicMember("one", instance_id="i")
    one.settle(groups)
    again = ClassicMember("again", instance_id="i")
    again.settle(groups)
    assert set(groups.table().members) == {"a", again.member_id}
    for request in (
        lambda: groups.heartbeat(one.member_id, one.generation, instance="i"),
        lambda: groups.sync(one.member_id, one.generation, instance="i"),
    ):
        assert raised(request)[0] is E.FENCED_INSTANCE_ID
    assert join_error(groups, member=one.member_id, instance="i") is E.FENCED_INSTANCE_ID
    assert groups.leave((one.member_id, "i")) == [E.FENCED_INSTANCE_ID]
    assert groups.leave(("", "i")) == [E.NONE]


def stable_member(groups: ConsumerGroups) -> ClassicMember:
    """Return the only classic member of a stable group, in addition to member "a" of the consumer protocol."""
    one, other = ClassicMember("one"), ConsumerMember("a")
    other.act(groups)
    settle(groups, one, other)
    return one


@pytest.mark.parametrize(
    ("member", "by", "fields", "error"),
    [
        (None, 0, {}, E.NONE),
        (None, 1, {}, E.ILLEGAL_GENERATION),
        (None, -1, {}, E.ILLEGAL_GENERATION),
        ("a", 0, {}, E.UNKNOWN_MEMBER_ID),
        ("b", 0, {}, E.UNKNOWN_MEMBER_ID),
        (None, 0, {"instance": "i"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_requests_must_come_from_a_classic_member_in_its_epoch(
    member: str | None, by: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    groups = ConsumerGroups(orders=4)
    one = stable_member(groups)
    sender, generation = member or one.member_id, one.generation + by
    assert raised(lambda: groups.heartbeat(sender, generation, **fields))[0] is error
    assert raised(lambda: groups.sync(sender, generation, **fields))[0] is error


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "error"),
    [
        ("consumer", "range", E.NONE),
        (None, None, E.NONE),
        ("connect", "range", E.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_must_name_the_chosen_protocol(
    protocol_type: str | None, protocol_name: str | None, error: ErrorCode
) -> None:
    groups = ConsumerGroups(orders=4)
    one = stable_member(groups)
    sync = partial(groups.sync, protocol_type=protocol_type, protocol_name=protocol_name)
    assert raised(lambda: sync(one.member_id, one.generation))[0] is error


@pytest.mark.parametrize("version", [0, 1, 3, 9])
def test_the_assignment_has_the_version_of_the_subscription(version: int) -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a", "bills")
    blob = version.to_bytes(2, "big") + subscription_of(["orders"])[2:]
    answer = groups.join(protocols=[("range", blob)]).answer
    assignment = groups.sync(answer.member_id, answer.generation_id).answer.assignment
    assert int.from_bytes(assignment[:2], "big") == min(version, 3)
    (topic,) = read_assignment(assignment).assigned_partitions
    assert (topic.topic, topic.partitions) == ("orders", (0, 1))


def test_a_member_that_must_rejoin_is_notified_until_it_does() -> None:
    groups = ConsumerGroups(orders=4)
    one = stable_member(groups)
    groups.enter("b")
    assert groups.heartbeat(one.member_id, one.generation) == E.REBALANCE_IN_PROGRESS
    assert raised(lambda: groups.sync(one.member_id, one.generation))[0] is E.REBALANCE_IN_PROGRESS
    one.act(groups)
    one.settle(groups)
    assert groups.heartbeat(one.member_id, one.generation) == E.NONE


@pytest.mark.parametrize("does", ["nothing", "heartbeats", "joins"])
def test_a_member_that_ignores_the_rebalance_is_removed(does: str) -> None:
    groups = ConsumerGroups(orders=4, settings={"group_consumer_session_timeout_ms": 10 * REBALANCE_MS})
    one = stable_member(groups)
    if does == "nothing":
        groups.heartbeat(one.member_id, one.generation)
        groups.advance(SESSION_MS - 2)
    else:
        groups.enter("b")
        if does == "heartbeats":
            groups.heartbeat(one.member_id, one.generation)
        else:
            blob = subscription_of(["orders"])
            joined = groups.join(
                member=one.member_id,
                protocols=[("range", blob)],
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
            ).answer
            assert joined.generation_id > one.generation
            one.generation = joined.generation_id
        for _ in range(2):
            groups.advance(REBALANCE_MS // 2 - 1)
            groups.heartbeat(one.member_id, one.generation)
    assert one.member_id in groups.table().members
    groups.advance(2)
    assert one.member_id not in groups.table().members


def test_a_member_keeps_its_own_session_timeout_after_a_restart() -> None:
    groups = ConsumerGroups(orders=4)
    one = stable_member(groups)
    groups = groups.restarted()
    groups.advance(SESSION_MS - 1)
    assert one.member_id in groups.table().members
    groups.advance(1)
    assert one.member_id not in groups.table().members


@pytest.mark.parametrize(
    ("by", "partition", "version", "error"),
    [
        (0, 0, 8, E.NONE),
        (1, 0, 8, E.ILLEGAL_GENERATION),
        (-9, 0, 8, E.ILLEGAL_GENERATION),
    ],
)
def test_a_classic_member_commits_as_before(by: int, partition: int, version: int, error: ErrorCode) -> None:
    groups = ConsumerGroups(orders=4)
    one = stable_member(groups)
    committing = {("orders", partition): 5}
    assert (
        raised(
            lambda: groups.commit(committing, member=one.member_id, generation=one.generation + by, version=version)
        )[0]
        is error
    )


def test_several_members_leave_at_once_each_with_its_own_answer() -> None:
    groups = ConsumerGroups(orders=4)
    one, two, _ = mixed(groups)
    epoch = groups.table().epoch
    assert groups.leave(one.member_id, "nobody", two.member_id, ("", "i")) == [
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
    ]
    assert set(groups.table().members) == {"three"}
    assert groups.table().epoch == epoch + 1


# All together


@pytest.mark.parametrize(
    ("seed", "is_large"),
    [*((seed, False) for seed in (*range(size(2, 20)), 102, 644, 918)), *((seed, True) for seed in range(size(2, 6)))],
)
def test_no_partition_has_two_owners_while_members_of_both_protocols_change(
    seed: int, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    if is_large:
        # Assignments, rebalances and changes of the protocol all run in pieces.
        monkeypatch.setattr(targets, "MEMBERS_A_PIECE", 0)
        monkeypatch.setattr(rebalance, "MEMBERS_A_PIECE", 0)
        monkeypatch.setattr(migration, "MEMBERS_A_PIECE", 0)
    groups = ConsumerGroups(orders=6, settings={"group_consumer_session_timeout_ms": SESSION_MS})
    members: list[ClassicMember | ConsumerMember] = []

    def check() -> None:
        for member in members:
            if isinstance(member, ClassicMember):
                # The broker cannot know that a member has not yet read which partitions it lost.
                member.receive()
        places = all_partitions(groups, *members)
        assert len(places) == len(set(places))

    for step in range(300):
        chance = rng.random()
        if chance < 0.04 and len(members) < 6:
            instance_id = f"i{step}" if rng.random() < 0.3 else None
            if rng.random() < 0.5:
                members.append(ConsumerMember(f"n{step}", instance_id=instance_id))
            else:
                is_cooperative = seed % 2 == 0
                members.append(ClassicMember(f"o{step}", instance_id=instance_id, is_cooperative=is_cooperative))
        elif chance < 0.06 and members:
            members.pop(rng.randrange(len(members))).leave(groups)
        elif chance < 0.07 and members:
            members.pop(rng.randrange(len(members)))  # It crashes.
        elif chance < 0.08:
            groups = groups.restarted()
            for member in members:
                if isinstance(member, ClassicMember):
                    member.disconnected()
        for member in rng.sample(members, len(members)):
            member.act(groups)
            check()
        groups.advance(rng.choice([0, 100, 1_000]))
    if not members:
        members.append(ConsumerMember("last"))
    for _ in range(40):
        for member in members:
            member.act(groups)
        groups.advance(1_000)
    check()
    assert all_partitions(groups, *members) == [("orders", index) for index in range(6)]
