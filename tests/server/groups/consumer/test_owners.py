"""Random histories of partition owners, noted in pieces: the table always equals that of the members."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest

from ottla.server.groups.consumer import group as tables
from ottla.server.groups.consumer.group import PartitionOwners
from ottla.server.groups.consumer.member import ConsumerMember

TOPICS = [bytes([number]) * 16 for number in range(4)]
STEPS = 60


def owned(chance: Random, free: set[tuple[bytes, int]]) -> Mapping[bytes, Mapping[int, int]]:
    """Take some of the free partitions."""
    found: dict[bytes, dict[int, int]] = {}
    for topic_id, index in chance.sample(sorted(free), chance.randint(0, len(free))):
        found.setdefault(topic_id, {})[index] = 1
        free.discard((topic_id, index))
    return found


def expected(members: Mapping[str, ConsumerMember]) -> dict[bytes, dict[int, str]]:
    table: dict[bytes, dict[int, str]] = {}
    for member in members.values():
        for one in (member.assigned, member.revoking):
            for topic_id, partitions in one.items():
                table.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))
    return table


@pytest.mark.parametrize("at_once", [0, 1, 100])
@pytest.mark.parametrize("seed", range(10))
def test_the_table_is_that_of_the_members(seed: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "AT_ONCE", at_once)
    chance, table, members = Random(seed), PartitionOwners(), {name: ConsumerMember(name) for name in "abc"}
    everything = {(topic_id, index) for topic_id in TOPICS for index in range(3)}
    under_way = [table.apply_waiting()]
    for _ in range(STEPS):
        before = members[chance.choice("abc")]
        others = {name: one for name, one in members.items() if name != before.member_id}
        taken = {(topic_id, index) for topic_id, row in expected(others).items() for index in row}
        free = everything - taken
        after = ConsumerMember(before.member_id, assigned=owned(chance, free), revoking=owned(chance, free))
        members[before.member_id] = after
        table.note(before, after)
        for _ in range(chance.randint(0, 6)):
            next(chance.choice(under_way), None)
        if chance.random() < 0.3:
            under_way = [table.apply_waiting(), table.apply_waiting()]
        if chance.random() < 0.3:
            assert table.table == expected(members)
    assert table.table == expected(members)


@pytest.mark.parametrize("leave", [False, True], ids=["come", "go"])
def test_no_change_waits_for_more_than_one_other(leave: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "AT_ONCE", 0)
    members = [
        ConsumerMember(f"m{number}", assigned={topic_id: {number: 1} for topic_id in TOPICS})
        for number in range(3 * tables.UNSETTLED_MAX)
    ]

    def pieces_left(noted: int) -> int:
        table = PartitionOwners()
        for member in members if leave else ():
            table.note(ConsumerMember(member.member_id), member)
        assert leave == bool(table.table)
        for member in members[:noted]:
            table.note(
                *((member, ConsumerMember(member.member_id)) if leave else (ConsumerMember(member.member_id), member))
            )
        return sum(1 for _ in table.apply_waiting())

    one = pieces_left(1)
    left = [pieces_left(noted) for noted in range(len(members) + 1)]
    assert left[tables.UNSETTLED_MAX :] == [one * tables.UNSETTLED_MAX] * (len(members) + 1 - tables.UNSETTLED_MAX)
