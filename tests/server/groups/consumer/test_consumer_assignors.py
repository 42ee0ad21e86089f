"""The server-side assignors: every partition once and to a subscriber, evenly, with as few moves as possible."""

import json
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.server.coordination.jobs import Steps, to_the_end
from ottla.server.groups.assigning import balancing
from ottla.server.groups.assigning.assignment import Assignment, GroupSpec, MemberSubscription, frozen
from ottla.server.groups.assigning.assignors import ASSIGNORS, range_assignor, uniform_assignor
from support.noted import each_case
from support.sizes import size

FROM_KAFKA = json.loads((Path(__file__).parent / "data" / "assignors.json").read_text())
"""Groups with random subscriptions and earlier assignments, and the results of Apache Kafka 4.3.1's own classes."""


def topic_id(number: int | str) -> bytes:
    return int(number).to_bytes(16, "big")


def member(
    member_id: str, topics: set[int] | frozenset[int], target: Assignment | None = None, instance_id: str | None = None
) -> MemberSubscription:
    return MemberSubscription(member_id, instance_id, None, frozenset(map(topic_id, topics)), target or {})


def group(*members: MemberSubscription) -> GroupSpec:
    return GroupSpec({one.member_id: one for one in members}, len({one.topic_ids for one in members}) <= 1)


def assign(assignor: str, spec: GroupSpec, partitions: dict[int, int]) -> dict[str, Assignment]:
    """Return the assignment, after checking every promise of the interface; members without partitions have an empty one."""
    counts = {topic_id(number): count for number, count in partitions.items()}
    assigned = dict(to_the_end(ASSIGNORS[assignor](spec, counts.__getitem__)))
    owners = Counter(place for mine in assigned.values() for place in places(mine))
    subscribed = {one for subscription in spec.members.values() for one in subscription.topic_ids}
    assert owners == Counter((one, index) for one in subscribed for index in range(counts[one]))
    for member_id, mine in assigned.items():
        assert mine.keys() <= spec.members[member_id].topic_ids
        assert all(mine.values())
    return {member_id: assigned.get(member_id, {}) for member_id in spec.members}


def places(assignment: Assignment) -> list[tuple[bytes, int]]:
    return [(one, index) for one, indexes in assignment.items() for index in indexes]


def loads(assigned: dict[str, Assignment]) -> list[int]:
    return sorted(len(places(mine)) for mine in assigned.values())


def kept(spec: GroupSpec, assigned: dict[str, Assignment]) -> int:
    """Return how many partitions stay where they were."""
    return sum(len({*places(one.target)} & {*places(assigned[one.member_id])}) for one in spec.members.values())


def again(spec: GroupSpec, assigned: dict[str, Assignment]) -> GroupSpec:
    """Return the same group with `assigned` as its target."""
    return group(*(one._replace(target=assigned[one.member_id]) for one in spec.members.values()))


@st.composite
def groups(draw: st.DrawFn, *, same_topics: bool = False) -> tuple[GroupSpec, dict[int, int]]:
    """Draw members with individual or equal subscriptions, and targets that may be outdated in any way."""
    partitions = dict(enumerate(draw(st.lists(st.integers(0, 9), min_size=1, max_size=6))))
    subscription = st.frozensets(st.sampled_from([*partitions]))
    member_ids = [f"m{number}" for number in range(draw(st.integers(1, 8)))]
    instance_ids = draw(st.lists(st.none() | st.text(), min_size=len(member_ids), max_size=len(member_ids)))
    targets: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in member_ids}
    for number, count in partitions.items():
        # Some partitions are new, some were deleted.
        for index in range(draw(st.integers(0, count + 2))):
            owner = draw(st.sampled_from([*member_ids, None]))
            if owner is not None:
                targets[owner].setdefault(topic_id(number), set()).add(index)
    shared = draw(subscription)
    return group(
        *(
            member(
                member_id,
                shared if same_topics else draw(subscription),
                {one: frozenset(indexes) for one, indexes in targets[member_id].items()},
                None if instance_id is None else f"{instance_id} of {member_id}",
            )
            for member_id, instance_id in zip(member_ids, instance_ids, strict=True)
        )
    ), partitions


@each_case("case", FROM_KAFKA, ids=[f"{one['assignor']}-{at}" for at, one in enumerate(FROM_KAFKA)])
def test_assignments_equal_apache_kafkas(case: dict) -> None:  # type: ignore[type-arg]
    spec = group(
        *(
            member(
                member_id,
                set(one["topics"]),
                {topic_id(number): frozenset(indexes) for number, indexes in one["had"].items()},
                one["instance"],
            )
            for member_id, one in case["members"].items()
        )
    )
    kafka: dict[str, Assignment] = {
        member_id: {topic_id(number): frozenset(indexes) for number, indexes in mine.items()}
        for member_id, mine in case["kafka"].items()
    }
    assigned = assign(case["assignor"], spec, {int(number): count for number, count in case["partitions"].items()})
    if case["assignor"] == "range":
        assert assigned == kafka
    else:  # The order of hash tables breaks its ties.
        assert (loads(assigned), kept(spec, assigned)) == (loads(kafka), kept(spec, kafka))


@pytest.mark.parametrize("assignor", ASSIGNORS)
@settings(max_examples=size(12, 100))
@given(drawn=groups() | groups(same_topics=True))
def test_assigning_again_moves_nothing(assignor: str, drawn: tuple[GroupSpec, dict[int, int]]) -> None:
    spec, partitions = drawn
    assigned = assign(assignor, spec, partitions)
    assert assign(assignor, again(spec, assigned), partitions) == assigned


@given(groups(same_topics=True))
def test_uniform_is_even_and_moves_only_excess_partitions(drawn: tuple[GroupSpec, dict[int, int]]) -> None:
    spec, partitions = drawn
    assigned = assign("uniform", spec, partitions)
    spread = loads(assigned)
    assert spread[-1] - spread[0] <= 1
    valid = {place for mine in assigned.values() for place in places(mine)}
    had = sorted((len({*places(one.target)} & valid) for one in spec.members.values()), reverse=True)
    shares = spread[::-1]
    assert kept(spec, assigned) == sum(map(min, had, shares))


@settings(max_examples=size(12, 100))
@given(groups())
def test_uniform_levels_the_subscribers_of_every_topic(drawn: tuple[GroupSpec, dict[int, int]]) -> None:
    """No member could give a partition to another subscriber that has two fewer."""
    spec, partitions = drawn
    assigned = assign("uniform", spec, partitions)
    for one in spec.members.values():
        for given_topic in assigned[one.member_id]:
            for other in spec.members.values():
                if given_topic in other.topic_ids:
                    difference = len(places(assigned[one.member_id])) - len(places(assigned[other.member_id]))
                    assert difference <= 1


def test_uniform_keeps_remaining_members_partitions_when_one_leaves() -> None:
    members = [member(f"m{number}", {0, 1}) for number in range(5)]
    before = assign("uniform", group(*members), {0: 10, 1: 10})
    spec = again(group(*members[1:]), before)
    after = assign("uniform", spec, {0: 10, 1: 10})
    assert kept(spec, after) == 16
    assert loads(after) == [5, 5, 5, 5]


def test_range_cuts_topics_alike_and_puts_static_members_first() -> None:
    spec = group(
        member("b", {0, 1}), member("z", {0, 1}, instance_id="2"), member("a", {0, 1}), member("y", {0, 1}, None, "1")
    )
    assigned = assign("range", spec, {0: 6, 1: 6})
    runs = {"y": {0, 1}, "z": {2, 3}, "a": {4}, "b": {5}}
    assert assigned == {
        member_id: {topic_id(0): frozenset(run), topic_id(1): frozenset(run)} for member_id, run in runs.items()
    }


def test_instance_ids_are_ordered_as_java_orders_them() -> None:
    """Java compares UTF-16 units, so a character beyond the basic plane comes before the last ones of it."""
    spec = group(member("a", {0}, None, "\uffff"), member("b", {0}, None, "\U00010000"))
    assigned = to_the_end(range_assignor(spec, lambda _: 2))
    assert assigned["b"] == {topic_id(0): frozenset({0})}


def test_a_group_without_members_gets_nothing() -> None:
    assert to_the_end(uniform_assignor(group(), lambda _: 1)) == {}
    assert to_the_end(range_assignor(group(), lambda _: 1)) == {}


def test_an_assignment_with_different_subscriptions_is_built_in_one_piece_per_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = list[Assignment]()

    def noted(by_topic: Mapping[bytes, AbstractSet[int]]) -> Steps[Assignment]:
        made.append((yield from frozen(by_topic)))
        return made[-1]

    monkeypatch.setattr(balancing, "frozen", noted)
    members = [member(f"m{number}", {1, 2} if number else {1}) for number in range(9)]
    counts = [len(made) for _ in uniform_assignor(group(*members), lambda _: 9)]
    assert counts[-9:] == list(range(1, 10))
