"""Static members of consumer groups: they leave temporarily without a rebalance, and no other member takes their place."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from support.groups.consumer_groups import SESSION_MS, ConsumerGroups

E = ErrorCode


def two_static() -> ConsumerGroups:
    """Return members "a" and "b" with instance ids "i" and "k", in epoch 3."""
    groups = ConsumerGroups(orders=2)
    groups.enter("a", instance_id="i")
    groups.enter("b", instance_id="k")
    groups.beat("a", 2, instance_id="i")
    groups.beat("a", 2, instance_id="i", owns={"orders": [0]})
    assert groups.given(groups.beat("b", 3, instance_id="k")) == {"orders": {1}}
    return groups


def test_a_static_member_returns_to_its_assignment_without_a_new_epoch() -> None:
    groups = two_static()
    left = groups.beat("b", -2, instance_id="k")
    assert (left.member_id, left.member_epoch) == ("b", -2)
    assert groups.table().members["b"].epoch == -2
    assert groups.beat("a", 3, instance_id="i").assignment is None

    back = groups.enter("c", instance_id="k")
    assert (back.member_id, back.member_epoch) == ("c", 3)
    assert groups.given(back) == {"orders": {1}}
    assert set(groups.table().members) == {"a", "c"}
    assert groups.table().epoch == 3
    groups.advance(SESSION_MS - 1)
    groups.beat("a", 3, instance_id="i")
    groups.advance(1)
    assert set(groups.table().members) == {"a"}, "the session of the one that came back is its own"


def test_a_static_member_may_return_under_its_old_id() -> None:
    groups = two_static()
    groups.beat("b", -2, instance_id="k")
    back = groups.enter("b", instance_id="k")
    assert (back.member_epoch, groups.given(back)) == (3, {"orders": {1}})
    assert set(groups.table().members) == {"a", "b"}


def test_an_absent_static_member_is_removed_after_its_session() -> None:
    groups = two_static()
    groups.beat("b", -2, instance_id="k")
    groups.advance(SESSION_MS - 1)
    groups.beat("a", 3, instance_id="i")
    groups.advance(1)
    assert set(groups.table().members) == {"a"}
    assert groups.given(groups.beat("a", 3, instance_id="i")) == {"orders": {0, 1}}


def test_an_instance_id_in_use_is_not_given_to_another() -> None:
    groups = two_static()
    code, message = groups.error("c", 0, owns={}, topics=["orders"], rebalance_timeout_ms=1, instance_id="k")
    assert code is E.UNRELEASED_INSTANCE_ID
    assert message == (
        "Static member c with instance id k cannot join the group because the instance id is owned by b member."
    )


def test_a_known_member_that_replaces_a_static_one_loses_what_it_does_not_subscribe_to() -> None:
    groups = ConsumerGroups(orders=1)
    groups.enter("a", instance_id="i")
    groups.enter("b", "bills")
    groups.beat("a", -2, instance_id="i")
    groups.enter("b", "bills", instance_id="i")
    assert groups.table().targets == {"b": {}}


def test_a_member_that_takes_another_instance_id_releases_its_own() -> None:
    groups = two_static()
    groups.enter("b", instance_id="l")
    assert groups.table().static_members == {"i": "a", "l": "b"}
    assert groups.enter("c", instance_id="k").member_id == "c"
    assert groups.restarted().table().static_members == {"i": "a", "l": "b", "k": "c"}


def test_a_replaced_member_is_fenced() -> None:
    groups = two_static()
    groups.beat("b", -2, instance_id="k")
    groups.enter("c", instance_id="k")
    fenced = (E.FENCED_INSTANCE_ID, "Static member b with instance id k was fenced by member c.")
    for epoch in (3, -1, -2):
        assert groups.error("b", epoch, instance_id="k") == fenced
    unknown = (E.UNKNOWN_MEMBER_ID, "Instance id z is unknown.")
    for epoch in (3, -1, -2):
        assert groups.error("b", epoch, instance_id="z") == unknown


def test_a_static_member_may_leave_permanently() -> None:
    groups = two_static()
    groups.beat("b", -1, instance_id="k")
    assert groups.table().static_members == {"i": "a"}
    assert groups.given(groups.beat("a", 3, instance_id="i")) == {"orders": {0, 1}}


def test_a_returning_static_member_may_change_its_subscription() -> None:
    groups = two_static()
    groups.topics.put("bills", 1)
    groups.beat("b", -2, instance_id="k")
    back = groups.enter("c", "bills", instance_id="k")
    assert (back.member_epoch, groups.given(back)) == (4, {"bills": {0}})
    assert groups.given(groups.beat("a", 3, instance_id="i")) == {"orders": {0, 1}}


def test_a_rebalance_timeout_is_suspended_while_a_static_member_is_absent() -> None:
    groups = ConsumerGroups(orders=2)
    groups.enter("a", instance_id="i")
    groups.enter("b", instance_id="k")
    groups.beat("a", 2, instance_id="i")
    groups.beat("a", -2, instance_id="i")
    groups.advance(20_000)
    assert set(groups.table().members) == {"a", "b"}
    assert groups.given(groups.enter("a2", instance_id="i")) == {"orders": {0}}
