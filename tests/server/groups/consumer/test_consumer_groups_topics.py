"""Consumer groups when topics are created, grown and deleted, and when members subscribe by regular expression."""

from __future__ import annotations

from typing import Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.coordination.jobs import AT_ONCE
from support.groups.consumer_groups import SESSION_MS, ConsumerGroups
from support.groups.groups import FakeTopics, MemoryStore


def test_added_partitions_are_assigned_by_the_next_heartbeat() -> None:
    groups = ConsumerGroups(orders=1)
    groups.enter("a")
    groups.grow_topic("orders", 3)
    assert groups.table().epoch == 2, "nobody has asked yet"
    answer = groups.beat("a", 2)
    assert (answer.member_epoch, groups.given(answer)) == (3, {"orders": {0, 1, 2}})


def test_the_epoch_of_a_member_that_leaves_is_also_that_of_changed_topics() -> None:
    groups = ConsumerGroups(orders=1)
    groups.enter("a")
    groups.enter("b")
    groups.grow_topic("orders", 3)
    groups.beat("b", -1)
    answer = groups.beat("a", 2)
    assert (answer.member_epoch, groups.given(answer)) == (4, {"orders": {0, 1, 2}})


def test_changed_topics_of_a_member_that_fails_are_not_looked_up_by_the_thousand() -> None:
    groups = ConsumerGroups(topics=FakeTopics(orders=1, **{f"t{number}": 1 for number in range(AT_ONCE)}))
    for member in "ab":
        groups.enter(member, *groups.topics.names())
    groups.advance(SESSION_MS - 1)
    groups.beat("a", 1)
    hashes = groups.coordinator._consumer._hashes
    hashes.forget()
    groups.grow_topic("orders", 3)
    groups.advance(1)
    assert groups.table().members.keys() == {"a"}
    assert not hashes._numbers
    for _ in range(2):
        answer = groups.beat("a", groups.table().members["a"].epoch)
    assert (groups.given(answer) or {})["orders"] == {0, 1, 2}


def test_a_topic_created_later_is_assigned() -> None:
    groups = ConsumerGroups()
    assert groups.given(groups.enter("a")) == {}
    groups.create_topic("bills", 1)
    assert groups.beat("a", 2).assignment is None, "nobody subscribes to that one"
    groups.create_topic("orders", 1)
    assert groups.given(groups.beat("a", 2)) == {"orders": {0}}


def test_a_deleted_topic_is_revoked() -> None:
    groups = ConsumerGroups(orders=1, bills=1)
    groups.enter("a", "orders", "bills")
    gone = groups.topics.id_of("bills")
    groups.delete_topic("bills")
    answer = groups.beat("a", 2)
    assert (answer.member_epoch, groups.given(answer)) == (2, {"orders": {0}})
    assert answer.assignment is not None
    assert gone not in {one.topic_id for one in answer.assignment.topic_partitions}
    assert groups.beat("a", 2, owns={"orders": [0]}).member_epoch == 3


def test_a_recreated_topic_is_another_topic() -> None:
    groups = ConsumerGroups(orders=1)
    groups.enter("a")
    before = groups.topics.id_of("orders")
    groups.delete_topic("orders")
    groups.create_topic("orders", 1)
    told = groups.beat("a", 2)
    assert (told.member_epoch, groups.given(told)) == (2, {}), "first the old one is given up"
    answer = groups.beat("a", 2, owns={})
    assert groups.given(answer) == {"orders": {0}}
    assert answer.assignment is not None
    assert answer.assignment.topic_partitions[0].topic_id != before


def test_changes_of_topics_without_a_coordinator_are_noticed_later() -> None:
    groups = ConsumerGroups(orders=1)
    groups.enter("a")
    groups.topics.put("orders", 2)
    groups = groups.restarted()
    assert groups.given(groups.beat("a", 2)) == {"orders": {0, 1}}
    assert groups.restarted().beat("a", 3).member_epoch == 3, "nothing has changed since"


def test_a_change_of_replicas_racks_causes_another_assignment() -> None:
    groups = ConsumerGroups(orders=1)
    groups.enter("a")
    groups.topics.rack_of_all = ["north"]
    groups = groups.restarted()
    assert groups.beat("a", 2).member_epoch == 3


class StoreThatFails(MemoryStore):
    """A store that refuses one append, counted from 1."""

    def __init__(self, at_append: int) -> None:
        super().__init__()
        self.left = at_append

    def append(self, *arguments: Any, **keywords: Any) -> int:
        self.left -= 1
        if self.left == 0:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "told to fail")
        return super().append(*arguments, **keywords)


class TestRegularExpressions:
    def test_a_first_expression_is_matched_after_the_first_heartbeat(self) -> None:
        groups = ConsumerGroups(orders=1, bills=1, other=1)
        joined = groups.enter("a", subscribed_topic_regex="orders|bills")
        assert (joined.member_epoch, groups.given(joined)) == (1, {})
        answer = groups.beat("a", 1)
        assert (answer.member_epoch, groups.given(answer)) == (2, {"orders": {0}, "bills": {0}})

    def test_a_known_expression_is_effective_at_once(self) -> None:
        groups = ConsumerGroups(orders=2)
        groups.enter("a", subscribed_topic_regex="ord.*")
        groups.beat("a", 1)
        groups.enter("b", subscribed_topic_regex="ord.*")
        assert groups.table().epoch == 3
        assert groups.given(groups.beat("a", 2)) == {"orders": {0}}

    def test_names_and_an_expression_are_combined(self) -> None:
        groups = ConsumerGroups(orders=1, bills=1)
        groups.enter("a", topics=["bills"], subscribed_topic_regex="ord.*")
        assert groups.given(groups.beat("a", 2)) == {"orders": {0}, "bills": {0}}

    def test_a_new_matching_topic_is_found_with_a_delay(self) -> None:
        groups = ConsumerGroups(orders_a=1)
        groups.enter("a", subscribed_topic_regex="orders_.")
        groups.beat("a", 1)
        groups.create_topic("orders_b", 1)
        groups.advance(10_000)
        assert groups.beat("a", 2).assignment is None, "expressions are matched every ten seconds at most"
        assert set(groups.table().subscribed_topics) == {"orders_a"}
        groups.advance(1)
        groups.beat("a", 2)
        assert groups.given(groups.beat("a", 2)) == {"orders_a": {0}, "orders_b": {0}}

    def test_a_new_topic_is_found_although_the_coordinator_was_absent(self) -> None:
        groups = ConsumerGroups(orders_a=1)
        groups.enter("a", subscribed_topic_regex="orders_.")
        groups.beat("a", 1)
        groups.topics.put("orders_b", 1)
        groups.advance(11_000)
        groups = groups.restarted()
        groups.beat("a", 2)
        assert groups.given(groups.beat("a", 2)) == {"orders_a": {0}, "orders_b": {0}}

    def test_expressions_are_matched_again_periodically_without_new_topics(self) -> None:
        groups = ConsumerGroups(orders=1, settings={"group_consumer_session_timeout_ms": 10**9})
        groups.enter("a", subscribed_topic_regex="ord.*")
        before = groups.table().regexes["ord.*"].resolved_ms
        groups.advance(600_000)
        groups.beat("a", 1)
        assert groups.table().regexes["ord.*"].resolved_ms == before
        groups.advance(1)
        groups.beat("a", 2)
        assert groups.table().regexes["ord.*"].resolved_ms == groups.now_ms

    def test_an_unused_expression_is_forgotten(self) -> None:
        groups = ConsumerGroups(orders=1, bills=1)
        groups.enter("a", subscribed_topic_regex="ord.*")
        groups.beat("a", 1)
        groups.beat("a", 2, topics=["bills"], subscribed_topic_regex="", owns={"orders": [0]})
        assert groups.table().regexes == {}
        assert groups.table().subscribed_topics == {"bills"}
        assert groups.given(groups.beat("a", 2, owns={})) == {"bills": {0}}

    def test_a_leaving_members_expression_is_removed(self) -> None:
        groups = ConsumerGroups(orders=1, bills=1)
        groups.enter("a", subscribed_topic_regex="ord.*")
        groups.enter("b", "bills")
        groups.beat("a", -1)
        assert groups.table().regexes == {}
        assert groups.restarted().table().regexes == {}

    def test_an_expression_may_be_replaced(self) -> None:
        groups = ConsumerGroups(orders=1, bills=1)
        groups.enter("a", subscribed_topic_regex="ord.*")
        groups.beat("a", 1)
        groups.advance(10_001)
        told = groups.beat("a", 2, subscribed_topic_regex="bil.*", owns={"orders": [0]})
        assert groups.given(told) == {}
        assert groups.given(groups.beat("a", 2, owns={})) == {"bills": {0}}

    def test_an_expression_that_cannot_be_recorded_is_matched_again(self) -> None:
        groups = ConsumerGroups(StoreThatFails(at_append=2), orders=1)
        groups.enter("a", subscribed_topic_regex="ord.*")
        assert groups.table().regexes == {}
        groups.beat("a", 1)
        assert groups.given(groups.beat("a", 1)) == {"orders": {0}}
