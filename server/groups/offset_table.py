"""Committed offsets of the groups of one partition of `__consumer_offsets`, plain and transactional.

Called by `groups.shard` while loading and by `groups.coordinator` for every commit, fetch and expiry. An offset that was committed
inside a transaction stays pending, unseen, until the transaction's marker makes it real or throws it away (KIP-98); a
reader that requires stable offsets (KIP-447) is told to come back while one is pending.

A transaction may have committed offsets of thousands of groups, hundreds of thousands of places. Its end is noted at once,
and carried out group by group, before anybody sees anything of that group: by the next who asks, or by a job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..coordination.jobs import Job
from .kinds import Group
from .records import CommittedOffset
from .settings import ENDED_AT_ONCE

Place = tuple[str, int]
"""Topic name and partition index."""

TopicId = tuple[str, bytes]
"""Name and id of a topic that offsets were committed in; the id is zero where none was kept."""


class _Ended(NamedTuple):
    """A transaction that has ended, and what it did in the groups in which that is to be carried out."""

    producer_id: int
    groups: dict[str, dict[Place, CommittedOffset]]
    is_committed: bool


class GroupOffsets:
    """Group id -> (topic, partition) -> committed offset. What is put later was written later."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}
        """By producer."""
        self._unstable: dict[str, dict[Place, dict[int, bool]]] = {}
        """The producers whose transactions commit there, in the order in which they did last, and whether nothing has been
        committed there since."""
        self._ended: deque[_Ended] = deque()
        """In the order in which they ended; none at the front that is carried out everywhere."""

    def of_group(self, group_id: str) -> dict[Place, CommittedOffset]:
        """All that the group has committed, not to be changed."""
        self._settle(group_id)
        return self._committed.get(group_id, {})

    def put(self, group_id: str, committed: Mapping[Place, CommittedOffset]) -> None:
        """Make these the group's offsets there. Thousands take a millisecond."""
        self._settle(group_id)
        group = self._committed.get(group_id)
        if group is None:
            group = self._committed[group_id] = {}
        group.update(committed)
        unstable = self._unstable.get(group_id)
        if unstable is not None:
            for place in unstable.keys() & committed.keys():
                _supersede(unstable[place])

    def remove(self, group_id: str, place: Place) -> None:
        """Forget what the group committed there, pending commits included."""
        self._settle(group_id)
        group = self._committed.get(group_id)
        if group is not None:
            group.pop(place, None)
            if not group:
                del self._committed[group_id]
        for producer_id in self._unstable.get(group_id, {}).pop(place, ()):
            del self._pending[producer_id][group_id][place]
        self._drop_if_empty(group_id)

    def put_pending(self, producer_id: int, group_id: str, committed: Mapping[Place, CommittedOffset]) -> None:
        """Keep `committed` until `end_transaction` of that producer."""
        self._settle(group_id)
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {}).update(committed)
        unstable = self._unstable.setdefault(group_id, {})
        for place in committed:
            producers = unstable.setdefault(place, {})
            producers.pop(producer_id, None)
            producers[producer_id] = True

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Make the producer's pending offsets real, or drop them. What is left of that after ENDED_AT_ONCE places is done
        when somebody asks for the group, or by `settle_some`.

        What was committed there after the transactional commit, plain or by a transaction that ended before, stays: the
        later record wins, whichever order transactions end in.
        """
        if groups := self._pending.pop(producer_id, None):
            self._ended.append(_Ended(producer_id, groups, commit))
            self.settle_some()

    @property
    def is_settled(self) -> bool:
        """Nothing is left to be done of transactions that have ended."""
        return not self._ended

    def settle_some(self) -> None:
        """Carry out what transactions that have ended did in one group, and in more up to ENDED_AT_ONCE places."""
        left = ENDED_AT_ONCE
        while self._ended:
            groups = self._ended[0].groups
            # The last, as a dictionary that loses its first ones is slow to find the next.
            group_id = next(reversed(groups))
            left -= len(groups[group_id]) or 1
            self._settle(group_id)
            if left <= 0:
                return

    def _settle(self, group_id: str) -> None:
        """Carry out what transactions that have ended did in the group."""
        if not self._ended:
            return
        for producer_id, groups, is_committed in self._ended:
            if places := groups.pop(group_id, None):
                self._end_in(group_id, producer_id, places, is_committed=is_committed)
        while self._ended and not self._ended[0].groups:
            self._ended.popleft()

    def _end_in(
        self, group_id: str, producer_id: int, places: dict[Place, CommittedOffset], *, is_committed: bool
    ) -> None:
        unstable = self._unstable[group_id]
        for place in [*places]:
            producers = unstable[place]
            if is_committed and not producers[producer_id]:
                del places[place]
            if len(producers) == 1:
                del unstable[place]
                continue
            if is_committed and producers[producer_id]:
                _supersede(producers, up_to=producer_id)
            del producers[producer_id]
        self._drop_if_empty(group_id)
        if is_committed and places:
            self._committed.setdefault(group_id, {}).update(places)

    def is_unstable(self, group_id: str, place: Place) -> bool:
        """Whether a transaction that has not ended yet commits there."""
        self._settle(group_id)
        return place in self._unstable.get(group_id, {})

    def unstable_places(self, group_id: str) -> list[Place]:
        """Where transactions that have not ended yet commit."""
        self._settle(group_id)
        return list(self._unstable.get(group_id, ()))

    def has_unstable(self, group_id: str) -> bool:
        self._settle(group_id)
        return group_id in self._unstable

    def places(self, group_id: str) -> list[Place]:
        """Where the group has committed anything, pending or not."""
        self._settle(group_id)
        return list(dict.fromkeys([*self._committed.get(group_id, {}), *self._unstable.get(group_id, {})]))

    def each_place(self, group_id: str) -> Iterator[Place]:
        """`places`, one after the other, while nothing changes."""
        committed = self.of_group(group_id)
        yield from committed
        yield from (place for place in self._unstable.get(group_id, {}) if place not in committed)

    def places_gone(self, group_id: str, places: Iterable[Place], topics: Container[TopicId]) -> list[Place]:
        """Those of `places` where the group has committed something, pending or not, and all of it in these topics."""
        committed, unstable = self.of_group(group_id), self._unstable.get(group_id, {})
        found = []
        for place in places:
            known = [self._pending[producer_id][group_id][place] for producer_id in unstable.get(place, ())]
            if place in committed:
                known.append(committed[place])
            if known and all((place[0], one.topic_id) in topics for one in known):
                found.append(place)
        return found

    def has_other_places(self, group_id: str, places: Sequence[Place]) -> bool:
        """Whether the group has committed anything, pending or not, but at these places, where it has."""
        return len(self.of_group(group_id)) > len(places) or self.has_unstable(group_id)

    def groups(self) -> Iterator[str]:
        """Every group that has committed anything, pending or not."""
        return iter(dict.fromkeys([*self._committed, *self._unstable]))

    def drop(self) -> Job:
        """Forget everything, a group a piece. Not to be used any more."""
        tables: list[dict[Any, Any]] = [self._committed, self._unstable, *self._pending.values()]
        tables += [ended.groups for ended in self._ended]
        for table in tables:
            while table:
                table.popitem()
                yield

    def _drop_if_empty(self, group_id: str) -> None:
        if not self._unstable.get(group_id, True):
            del self._unstable[group_id]

    def expired(self, group: Group, places: Iterable[Place], now_ms: int, retention_ms: int) -> list[Place]:
        """Those of `places` where the group's offsets have passed their time (KIP-211); those of subscribed topics have
        none."""
        age_from = group.offsets_age_from()
        if age_from is None:
            return []
        group_id = group.group_id
        committed = self.of_group(group_id)
        return [
            place
            for place in places
            if (one := committed.get(place)) is not None
            and not group.subscribes_to(place[0])
            and not self.is_unstable(group_id, place)
            and _is_expired(one, age_from(one), now_ms, retention_ms)
        ]


def _is_expired(committed: CommittedOffset, from_ms: int, now_ms: int, retention_ms: int) -> bool:
    if committed.expire_ms != -1:
        return now_ms >= committed.expire_ms
    return now_ms - from_ms >= retention_ms


def _supersede(producers: dict[int, bool], up_to: int | None = None) -> None:
    """Something was committed there after what these producers did, or after those did that come before `up_to`."""
    for producer_id in producers:
        if producer_id == up_to:
            return
        producers[producer_id] = False
