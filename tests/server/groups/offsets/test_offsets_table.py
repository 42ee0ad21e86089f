"""The table of committed offsets, compared with one that knows the log position of each."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import NamedTuple

import pytest

from ottla.server.groups import offset_table
from ottla.server.groups.offset_table import GroupOffsets, Place
from ottla.server.groups.records import CommittedOffset
from support.sizes import size

PLACES = [("a", 0), ("a", 1), ("b", 0)]
GROUPS = ["g", "h", "i"]
PRODUCERS = [1, 2, 3]


def offset(number: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 0, -1, bytes(16))


class Pending(NamedTuple):
    producer_id: int
    group_id: str
    place: Place
    number: int


class Plain:
    """A plain table: each place has the number of its record; of two records the later one counts."""

    def __init__(self) -> None:
        self.committed: dict[tuple[str, Place], int] = {}
        self.pending: list[Pending] = []

    def put(self, group_id: str, place: Place, number: int) -> None:
        self.committed[group_id, place] = max(number, self.committed.get((group_id, place), -1))

    def put_pending(self, producer_id: int, group_id: str, place: Place, number: int) -> None:
        self.pending = [one for one in self.pending if one[:3] != (producer_id, group_id, place)]
        self.pending.append(Pending(producer_id, group_id, place, number))

    def remove(self, group_id: str, place: Place) -> None:
        self.committed.pop((group_id, place), None)
        self.pending = [one for one in self.pending if one[1:3] != (group_id, place)]

    def end(self, producer_id: int, commit: bool) -> None:
        for one in self.pending:
            if commit and one.producer_id == producer_id:
                self.put(one.group_id, one.place, one.number)
        self.pending = [one for one in self.pending if one.producer_id != producer_id]


@pytest.mark.parametrize(("seed", "ends_at_once"), [*product(range(size(3, 20)), (True, False))])
def test_the_later_of_two_commits_counts_in_any_order_of_transaction_ends(
    seed: int, ends_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not ends_at_once:
        # One group of each transaction is changed at its end, the others when they are read, which is not each time.
        monkeypatch.setattr(offset_table, "ENDED_AT_ONCE", 0)
    rng, offsets, plain = Random(seed), GroupOffsets(), Plain()
    for number in range(500):
        group_id, producer_id = rng.choice(GROUPS), rng.choice(PRODUCERS)
        places = rng.sample(PLACES, rng.randint(1, 3))
        match rng.randrange(5):
            case 0:
                offsets.put(group_id, dict.fromkeys(places, offset(number)))
                for place in places:
                    plain.put(group_id, place, number)
            case 1 | 2:
                offsets.put_pending(producer_id, group_id, dict.fromkeys(places, offset(number)))
                for place in places:
                    plain.put_pending(producer_id, group_id, place, number)
            case 3:
                commit = rng.random() < 0.7
                offsets.end_transaction(producer_id, commit=commit)
                plain.end(producer_id, commit)
            case _:
                offsets.remove(group_id, places[0])
                plain.remove(group_id, places[0])
        for name in GROUPS if ends_at_once else rng.sample(GROUPS, rng.randrange(2)):
            assert {place: one.offset for place, one in offsets.of_group(name).items()} == {
                place: one for (group, place), one in plain.committed.items() if group == name
            }
            unstable = {one.place for one in plain.pending if one.group_id == name}
            assert set(offsets.unstable_places(name)) == unstable
            assert offsets.has_unstable(name) == bool(unstable)
    for producer_id in PRODUCERS:
        offsets.end_transaction(producer_id, commit=False)
    while not offsets.is_settled:
        offsets.settle_some()
    assert not offsets._unstable
    assert not offsets._pending
