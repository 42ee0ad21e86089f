"""The assignor of share groups: the number of members per partition and of partitions per member, as in Apache Kafka."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from math import ceil

import pytest

from ottla.server.coordination.jobs import Steps, to_the_end
from ottla.server.groups.assigning import assignors
from ottla.server.groups.assigning.assignment import Assignment, GroupSpec, MemberSubscription, by_topic
from ottla.server.groups.assigning.assignors import simple_assignor
from support.noted import each_case
from support.sizes import size

IDS = {name: name.encode() * 16 for name in "abcdefgh"}

Subscriptions = Mapping[str, str]
"""Member id -> topics, a letter each."""


def assign(
    subscriptions: Subscriptions, counts: Mapping[str, int], before: Mapping[str, Assignment] | None = None
) -> dict[str, Assignment]:
    members = {
        member: MemberSubscription(
            member, None, None, frozenset(IDS[name] for name in names), (before or {}).get(member, {})
        )
        for member, names in subscriptions.items()
    }
    assignable = {IDS[name]: range(count) for name, count in counts.items()}
    spec = GroupSpec(members, len(set(subscriptions.values())) <= 1)
    return to_the_end(simple_assignor(spec, assignable))


def shown(assigned: Mapping[str, Assignment]) -> dict[str, dict[str, list[int]]]:
    names = {topic_id: name for name, topic_id in IDS.items()}
    return {
        member: {names[topic_id]: sorted(indexes) for topic_id, indexes in sorted(one.items())}
        for member, one in assigned.items()
    }


CASES: dict[str, tuple[Subscriptions, Mapping[str, int], dict[str, dict[str, list[int]]]]] = {
    "nobody": ({}, {"a": 2}, {}),
    "nothing to give": ({"m": "a", "n": "a"}, {}, {"m": {}, "n": {}}),
    "one for all": ({"m": "ab"}, {"a": 2, "b": 1}, {"m": {"a": [0, 1], "b": [0]}}),
    "as many as members": ({"m": "a", "n": "a"}, {"a": 2}, {"m": {"a": [0]}, "n": {"a": [1]}}),
    "more than members": ({"m": "a", "n": "a"}, {"a": 5}, {"m": {"a": [0, 2, 4]}, "n": {"a": [1, 3]}}),
    "fewer than members": (
        {"m": "a", "n": "a", "o": "a"},
        {"a": 2},
        {"m": {"a": [0, 1]}, "n": {"a": [0]}, "o": {"a": [1]}},
    ),
    "one partition": ({"m": "a", "n": "a"}, {"a": 1}, {"m": {"a": [0]}, "n": {"a": [0]}}),
    "each topic for its subscribers": (
        {"m": "a", "n": "ab", "o": "b"},
        {"a": 2, "b": 1},
        {"m": {"a": [0]}, "n": {"a": [1], "b": [0]}, "o": {"b": [0]}},
    ),
    "a topic that is not there": ({"m": "a", "n": "ac"}, {"a": 2}, {"m": {"a": [0]}, "n": {"a": [1]}}),
}


@pytest.mark.parametrize("subscriptions, counts, expected", CASES.values(), ids=CASES)
def test_assignments_equal_the_expected_ones(
    subscriptions: Subscriptions, counts: Mapping[str, int], expected: dict[str, dict[str, list[int]]]
) -> None:
    assert shown(assign(subscriptions, counts)) == expected


def test_members_keep_their_partitions_up_to_a_fair_share() -> None:
    first = assign({"m": "a"}, {"a": 4})
    second = assign({"m": "a", "n": "a"}, {"a": 4}, first)
    assert shown(second) == {"m": {"a": [0, 1]}, "n": {"a": [2, 3]}}
    grown = assign({"m": "a", "n": "a"}, {"a": 6}, second)
    assert all(second[member][IDS["a"]] <= grown[member][IDS["a"]] for member in "mn")
    alone = assign({"n": "a"}, {"a": 6}, grown)
    assert shown(alone) == {"n": {"a": [0, 1, 2, 3, 4, 5]}}
    assert shown(assign({"n": "a"}, {"a": 1}, alone)) == {"n": {"a": [0]}}


def quotas(members: int, places: int) -> list[int]:
    """Return the number of partitions of each member, by Apache Kafka's rule."""
    share = ceil(members / places) * places / members if places else 0
    return sorted(ceil(share * (number + 1)) - ceil(share * number) for number in range(members))


@each_case("seed", range(size(20, 60)))
def test_numbers_are_fair_after_any_earlier_assignment(seed: int) -> None:
    rng = random.Random(seed)
    before: dict[str, Assignment] = {}
    for _ in range(6):
        members = rng.sample("mnopqrstuvw", rng.randint(1, 8))
        choices = ["".join(sorted(rng.sample(sorted(IDS), rng.randint(1, 4)))) for _ in range(rng.choice([1, 1, 3]))]
        subscriptions = {member: rng.choice(choices) for member in members}
        counts = {name: rng.randint(0, 7) for name in IDS}
        after = assign(subscriptions, counts, before)
        assert after == assign(subscriptions, counts, before)
        groups = [("".join(IDS), members)]
        if len(set(subscriptions.values())) > 1:
            groups = [(name, [one for one in members if name in subscriptions[one]]) for name in IDS]
        for names, subscribers in groups:
            places = [
                (name, i) for name in names if name in "".join(subscriptions.values()) for i in range(counts[name])
            ]
            has = [[one for one in places if one[1] in after[member].get(IDS[one[0]], ())] for member in subscribers]
            if subscribers:
                assert sorted(map(len, has)) == quotas(len(subscribers), len(places))
                holders = [sum(place in one for one in has) for place in places]
                assert all(1 <= count <= ceil(len(subscribers) / len(places)) for count in holders)
        for member, names in subscriptions.items():
            assert after[member].keys() <= {IDS[name] for name in names}
            assert all(max(indexes) < counts[chr(topic_id[0])] for topic_id, indexes in after[member].items())
        before = after


def test_each_members_assignment_is_built_in_its_own_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Assignment]()

    def noted(places: Iterable[tuple[bytes, int]]) -> Steps[Assignment]:
        made.append((yield from by_topic(places)))
        return made[-1]

    monkeypatch.setattr(assignors, "by_topic", noted)
    alike = {
        f"m{number}": MemberSubscription(f"m{number}", None, None, frozenset([IDS["a"]]), {}) for number in range(9)
    }
    counts = [len(made) for _ in simple_assignor(GroupSpec(alike, True), {IDS["a"]: range(9)})]
    assert counts[-8:] == list(range(1, 9))
