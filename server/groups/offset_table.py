"""Committed offsets of the groups of one partition of `__consumer_offsets`, plain and transactional.

`groups.shard` calls it while loading, and `groups.coordinator` for every commit, fetch and expiry. An offset that was committed
in a transaction stays pending and invisible until the transaction's marker applies or drops it (KIP-98). While one is pending,
a reader that requires stable offsets (KIP-447) gets a retriable error.

A transaction may have committed offsets in thousands of groups and hundreds of thousands of places. Its end is noted at once,
and applied group by group: by the next call for that group, before it reads anything, or by a job.
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
"""Name and id of a topic with committed offsets; the id is zero if none was stored."""


class _Ended(NamedTuple):
    """An ended transaction, and its pending offsets in the groups to which the end is not applied yet."""

    producer_id: int
    groups: dict[str, dict[Place, CommittedOffset]]
    is_committed: bool


class GroupOffsets:
    """Committed offsets: group id -> (topic, partition) -> offset. Offsets must be put in the order in which they were
    written."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Place, CommittedOffset]] = {}
        self._pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}
        """Pending offsets by producer id and group id."""
        self._unstable: dict[str, dict[Place, dict[int, bool]]] = {}
        """Producers with pending commits at a place, in the order of their last commits. The value is whether no commit there
        has superseded the producer's since."""
        self._ended: deque[_Ended] = deque()
        """Ended transactions in the order of their ends. The first is never one that is applied in all groups."""

    def of_group(self, group_id: str) -> dict[Place, CommittedOffset]:
        """Return all committed offsets of the group; the caller must not change them."""
        self._settle(group_id)
        return self._committed.get(group_id, {})

    def put(self, group_id: str, committed: Mapping[Place, CommittedOffset]) -> None:
        """Set the group's offsets at these places. Thousands take a millisecond."""
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
        """Forget the group's commits at this place, pending ones included."""
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
        """Keep `committed` as pending until `end_transaction` of that producer."""
        self._settle(group_id)
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {}).update(committed)
        unstable = self._unstable.setdefault(group_id, {})
        for place in committed:
            producers = unstable.setdefault(place, {})
            producers.pop(producer_id, None)
            producers[producer_id] = True

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Apply the producer's pending offsets, or drop them. After ENDED_AT_ONCE places, the rest is done when a group is
        used, or by `settle_some`.

        An offset that was committed at the same place after the transactional commit stays, whether plain or by a transaction
        that ended before: the later record wins, in whatever order transactions end.
        """
        if groups := self._pending.pop(producer_id, None):
            self._ended.append(_Ended(producer_id, groups, commit))
            self.settle_some()

    @property
    def is_settled(self) -> bool:
        """Whether all ended transactions are applied."""
        return not self._ended

    def settle_some(self) -> None:
        """Apply ended transactions to one group, and to further groups up to ENDED_AT_ONCE places."""
        left = ENDED_AT_ONCE
        while self._ended:
            groups = self._ended[0].groups
            # The last key: finding the first key of a dictionary is slow after many first keys were removed.
            group_id = next(reversed(groups))
            left -= len(groups[group_id]) or 1
            self._settle(group_id)
            if left <= 0:
                return

    def _settle(self, group_id: str) -> None:
        """Apply all ended transactions to the group."""
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
        """Whether a transaction that has not ended has a pending commit there."""
        self._settle(group_id)
        return place in self._unstable.get(group_id, {})

    def unstable_places(self, group_id: str) -> list[Place]:
        """Return the places with pending commits of transactions that have not ended."""
        self._settle(group_id)
        return list(self._unstable.get(group_id, ()))

    def has_unstable(self, group_id: str) -> bool:
        self._settle(group_id)
        return group_id in self._unstable

    def places(self, group_id: str) -> list[Place]:
        """Return the places where the group has committed offsets, pending or not."""
        self._settle(group_id)
        return list(dict.fromkeys([*self._committed.get(group_id, {}), *self._unstable.get(group_id, {})]))

    def each_place(self, group_id: str) -> Iterator[Place]:
        """Return `places` as an iterator; the offsets must not change while it is used."""
        committed = self.of_group(group_id)
        yield from committed
        yield from (place for place in self._unstable.get(group_id, {}) if place not in committed)

    def places_gone(self, group_id: str, places: Iterable[Place], topics: Container[TopicId]) -> list[Place]:
        """Return the places, of these, where the group has commits, pending or not, and all of them in these topics."""
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
        """Whether the group has commits, pending or not, at other places than these. It must have commits at all of these."""
        return len(self.of_group(group_id)) > len(places) or self.has_unstable(group_id)

    def groups(self) -> Iterator[str]:
        """Return every group that has commits, pending or not."""
        return iter(dict.fromkeys([*self._committed, *self._unstable]))

    def drop(self) -> Job:
        """Forget everything, a group a piece. The object must not be used afterwards."""
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
        """Return the places, of these, where the group's offsets have expired (KIP-211); offsets of subscribed topics do not
        expire."""
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
    """Note that a commit at the place supersedes those of these producers, or of the producers before `up_to`."""
    for producer_id in producers:
        if producer_id == up_to:
            return
        producers[producer_id] = False
