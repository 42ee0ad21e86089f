"""States of share partitions that are moved and deleted while the share coordinator, or the log, refuses."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.server.groups.share import states
from ottla.server.groups.share.states import Offsets, Refusals
from support.groups.consumer_groups import raised
from support.groups.groups import FakeTopics
from support.groups.share_groups import ShareGroups, done

E = ErrorCode


def emptied(**partition_counts: int) -> ShareGroups:
    """Return a group without members that has states of all these topics."""
    groups = ShareGroups(topics=FakeTopics(**partition_counts))
    groups.enter("a", *partition_counts)
    groups.settled("a")
    groups.beat("a", -1)
    return groups


def ids(groups: ShareGroups, *names: str) -> list[bytes]:
    return [topic_id for name in names if (topic_id := groups.topics.id_of(name)) is not None]


def test_a_group_is_made_where_somebody_says_where_it_begins() -> None:
    groups = ShareGroups(orders=2)
    (orders,) = ids(groups, "orders")
    assert done(groups.flows.move("g", {orders: {0: 5, 1: 7}})) == {}
    assert groups.persister.states == {("g", orders, 0): (1, 5), ("g", orders, 1): (1, 7)}
    assert groups.states() == ({}, {"orders": {0, 1}}, set())
    assert groups.restarted().copy_of_tables() == groups.copy_of_tables()
    groups.enter("a")
    assert groups.settled("a") == {"orders": {0, 1}}
    assert groups.persister.states["g", orders, 1] == (1, 7)


def test_nothing_to_move_makes_no_group() -> None:
    groups = ShareGroups(orders=2)
    assert done(groups.flows.move("g", {})) == {}
    assert groups.copy_of_tables() == {}


def test_states_that_are_refused_are_neither_there_nor_lost() -> None:
    groups = emptied(orders=2)
    (orders,) = ids(groups, "orders")
    groups.persister.refuses, groups.persister.refused = E.NOT_COORDINATOR, {1}
    refusals = done(groups.flows.move("g", {orders: {0: 5, 1: 7}}))
    assert {place: error.code for place, error in refusals.items()} == {(orders, 1): E.NOT_COORDINATOR}
    assert groups.states() == ({}, {"orders": {0, 1}}, set())


@pytest.mark.parametrize("is_new", [False, True], ids=["a group that has states", "a new group"])
@pytest.mark.parametrize("how", ["refuses", "fails"])
def test_states_that_are_refused_as_a_whole_are_not_begun_and_whoever_joins_has_them_begun(
    how: str, is_new: bool
) -> None:
    groups = ShareGroups(orders=2) if is_new else emptied(orders=2)
    (orders,) = ids(groups, "orders")
    setattr(groups.persister, how, E.NOT_COORDINATOR)
    move = groups.flows.move("g", {orders: {0: 5, 1: 7}})
    if how == "fails":
        assert raised(lambda: done(move))[0] is E.NOT_COORDINATOR
    else:
        assert done(move).keys() == {(orders, 0), (orders, 1)}
    had = {} if is_new else {"orders": {0, 1}}
    assert groups.states() == ({}, had, set())
    assert groups.restarted().copy_of_tables() == groups.copy_of_tables()
    setattr(groups.persister, how, None)
    groups.enter("a")
    assert groups.settled("a") == {"orders": {0, 1}}
    assert groups.states() == ({}, {"orders": {0, 1}}, set())


def test_what_was_refused_is_asked_for_again_though_nobody_could_write_that_down() -> None:
    groups = ShareGroups(orders=2)
    (orders,) = ids(groups, "orders")
    groups.persister.refuses = E.NOT_COORDINATOR
    refuse = groups.persister.initialize

    async def initialize(group_id: str, state_epoch: int, offsets: Offsets) -> Refusals:
        groups.store.failure = E.KAFKA_STORAGE_ERROR
        return await refuse(group_id, state_epoch, offsets)

    groups.persister.initialize = initialize  # type: ignore[method-assign]
    assert done(groups.flows.move("g", {orders: {0: 5, 1: 7}})).keys() == {(orders, 0), (orders, 1)}
    assert groups.states() == ({"orders": {0, 1}}, {}, set())
    groups.persister.refuses = groups.store.failure = None
    groups.persister.initialize = refuse  # type: ignore[method-assign]
    groups.enter("a")
    assert groups.settled("a") == {"orders": {0, 1}}


@pytest.mark.parametrize("is_new", [False, True], ids=["a group that has states", "a new group"])
@pytest.mark.parametrize("how", ["refuses", "fails"])
def test_what_was_moved_stays_there_though_another_call_for_it_was_refused_meanwhile(how: str, is_new: bool) -> None:
    groups = ShareGroups(orders=3) if is_new else emptied(orders=3)
    (orders,) = ids(groups, "orders")
    begin = groups.persister.initialize

    async def initialize(group_id: str, state_epoch: int, offsets: Offsets) -> Refusals:
        groups.persister.initialize = begin  # type: ignore[method-assign]
        setattr(groups.persister, how, E.NOT_COORDINATOR)
        other = groups.flows.move("g", {orders: {1: 3, 2: 4}})
        if how == "fails":
            assert raised(lambda: done(other))[0] is E.NOT_COORDINATOR
        else:
            assert done(other).keys() == {(orders, 1), (orders, 2)}
        setattr(groups.persister, how, None)
        return await begin(group_id, state_epoch, offsets)

    groups.persister.initialize = initialize  # type: ignore[method-assign]
    assert done(groups.flows.move("g", {orders: {0: 5, 1: 7}})) == {}
    assert groups.states() == ({}, {"orders": {0, 1} if is_new else {0, 1, 2}}, set())
    groups.enter("a")
    assert groups.settled("a") == {"orders": {0, 1, 2}}
    assert [groups.persister.states["g", orders, index][1] for index in (0, 1)] == [5, 7]


def test_what_was_moved_stays_where_it_was_moved_to_whatever_was_refused_beside_it() -> None:
    groups = ShareGroups(orders=2)
    (orders,) = ids(groups, "orders")
    groups.persister.refuses, groups.persister.refused = E.NOT_COORDINATOR, {1}
    assert done(groups.flows.move("g", {orders: {0: 5, 1: 7}})).keys() == {(orders, 1)}
    groups.persister.refuses = None
    groups.enter("a")
    assert groups.settled("a") == {"orders": {0, 1}}
    assert groups.persister.states["g", orders, 0] == (1, 5)


def test_what_is_forgotten_begins_anew() -> None:
    groups = emptied(orders=2, bills=1)
    orders, bills = ids(groups, "orders", "bills")
    had, refusals = done(groups.flows.forget("g", [orders, b"?" * 16]))
    assert (had, refusals) == ({orders: frozenset({0, 1})}, {})
    assert groups.states() == ({}, {"bills": {0}}, set())
    assert {topic_id for _, topic_id, _ in groups.persister.states} == {bills}
    groups.enter("a", "orders")
    assert groups.settled("a") == {"orders": {0, 1}}


def test_a_deletion_that_failed_is_done_by_the_next_request() -> None:
    groups = emptied(orders=2, bills=1)
    (orders,) = ids(groups, "orders")
    groups.persister.refuses = E.NOT_COORDINATOR
    _, refusals = done(groups.flows.forget("g", [orders]))
    assert {error.code for error in refusals.values()} == {E.NOT_COORDINATOR}
    assert groups.states() == ({}, {"bills": {0}}, {"orders"})
    groups.persister.refuses = None
    had, refusals = done(groups.flows.forget("g", [orders]))
    assert (had, refusals) == ({orders: frozenset({0, 1})}, {})
    assert groups.states() == ({}, {"bills": {0}}, set())


def test_who_joins_a_topic_whose_states_are_being_deleted_has_them_begun_anew() -> None:
    groups = emptied(orders=2)
    groups.persister.refuses = E.NOT_COORDINATOR
    done(groups.flows.forget("g", ids(groups, "orders")))
    groups.persister.refuses = None
    groups.enter("a")
    assert groups.settled("a") == {"orders": {0, 1}}
    assert groups.states() == ({}, {"orders": {0, 1}}, set())


def test_a_group_goes_with_all_its_states() -> None:
    groups = emptied(orders=2, bills=1)
    groups.persister.refuses = E.NOT_COORDINATOR
    assert raised(lambda: done(groups.flows.forget_all("g")))[0] is E.NOT_COORDINATOR
    assert groups.states() == ({}, {}, {"orders", "bills"})
    groups.persister.refuses = None
    done(groups.flows.forget_all("g"))
    groups.delete_group("g", groups.now_ms)
    assert (groups.persister.states, groups.copy_of_tables(), groups.restarted().copy_of_tables()) == ({}, {}, {})
    done(groups.flows.forget_all("g"))  # without a group, nothing to do


@pytest.mark.parametrize("ask", ["move", "forget", "forget_all"])
def test_a_group_with_members_keeps_its_states(ask: str) -> None:
    groups = ShareGroups(orders=2)
    groups.enter("a")
    before = groups.copy_of_tables(), dict(groups.persister.states)
    (orders,) = ids(groups, "orders")
    calls: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
        "move": lambda: groups.flows.move("g", {orders: {0: 1}}),
        "forget": lambda: groups.flows.forget("g", [orders]),
        "forget_all": lambda: groups.flows.forget_all("g"),
    }
    assert raised(lambda: done(calls[ask]())) == (E.NON_EMPTY_GROUP, "The group is not empty.")
    assert (groups.copy_of_tables(), groups.persister.states) == before


def test_nobody_joins_a_group_whose_states_are_being_deleted() -> None:
    groups = emptied(orders=1)
    with groups.coordinator.deleting_group("g"):
        assert groups.error("b", 0, topics=["orders"])[0] is E.COORDINATOR_LOAD_IN_PROGRESS
        assert raised(lambda: done(groups.flows.forget_all("g")))[0] is E.COORDINATOR_LOAD_IN_PROGRESS
    groups.enter("b")


def test_a_group_has_states_of_so_many_partitions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.server.groups.share.transition.PARTITIONS_MAX", 3)
    monkeypatch.setattr(states, "PARTITIONS_MAX", 3)
    groups = ShareGroups(bills=2, orders=2)
    groups.enter("a", "bills", "orders")
    assert groups.settled("a") == {"bills": {0, 1}}
    groups.beat("a", -1)
    (orders,) = ids(groups, "orders")
    assert raised(lambda: done(groups.flows.move("g", {orders: {0: 1, 1: 1}})))[0] is E.UNKNOWN_SERVER_ERROR
    assert done(groups.flows.move("g", {orders: {0: 1}})) == {}
