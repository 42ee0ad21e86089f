"""Uniform assignment for groups whose members subscribe to different topics; `assignors` calls it.

The assignment takes three steps:

1. Members keep the partitions that they had.
2. Each partition without owner goes to the subscriber with the fewest partitions. Topics with many partitions for few
   subscribers come first.
3. Topics are balanced in turn: partitions move from the member with the most to the member with the fewest. This ends when no
   topic has two subscribers that differ by more than one, or the fuller one owns no partition of that topic.

Members that have only some topics in common may still differ, as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heapreplace

from ...coordination.jobs import Job, Steps, in_order
from .assignment import Assignment, GroupSpec, frozen

MAX_ROUNDS = 16
"""Maximum number of rounds over all topics. Each round about halves the remaining difference (Apache Kafka's limit)."""

_NOBODY = -1


def balance(spec: GroupSpec, partition_count: Callable[[bytes], int]) -> Steps[Mapping[str, Assignment]]:
    """Return an assignment of every subscribed partition, by member id."""
    return (yield from _Balancing(spec).run(partition_count))


class _Balancing:
    """One run of the assignor. Members are numbered in the order of joining."""

    def __init__(self, spec: GroupSpec) -> None:
        self.members = tuple(spec.members.values())
        self.loads = [0] * len(self.members)
        """Number of partitions by member number."""
        self.subscribers: dict[bytes, list[int]] = {}
        self.owners: dict[bytes, list[int]] = {}
        """Member number by partition, by topic id."""

    def run(self, partition_count: Callable[[bytes], int]) -> Steps[Mapping[str, Assignment]]:
        for number, member in enumerate(self.members):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(number)
                yield
        for topic_id in self.subscribers:
            self.owners[topic_id] = [_NOBODY] * partition_count(topic_id)
            yield
        yield from self._keep()
        shared = list[bytes]()
        for *_, topic_id in (yield from in_order(map(self._order, self.subscribers))):
            yield from self._give_out(topic_id)
            if len(self.subscribers[topic_id]) > 1:
                shared.append(topic_id)
        for _ in range(MAX_ROUNDS):
            moves = 0
            for topic_id in shared:
                moves += yield from self._level(topic_id)
            if not moves:
                break
        return (yield from self._assignments())

    def _order(self, topic_id: bytes) -> tuple[float, int, bytes]:
        subscribers = len(self.subscribers[topic_id])
        return -len(self.owners[topic_id]) / subscribers, subscribers, topic_id

    def _keep(self) -> Job:
        for number, member in enumerate(self.members):
            for topic_id, indexes in member.target.items():
                if topic_id in member.topic_ids:
                    owners = self.owners[topic_id]
                    for index in indexes:
                        if index < len(owners) and owners[index] == _NOBODY:
                            owners[index] = number
                            self.loads[number] += 1
                yield

    def _give_out(self, topic_id: bytes) -> Job:
        """Assign the partitions that have no owner."""
        loads = self.loads
        least = [(loads[number], number) for number in self.subscribers[topic_id]]
        heapify(least)
        owners = self.owners[topic_id]
        for index, owner in enumerate(owners):
            if owner == _NOBODY:
                number = owners[index] = least[0][1]
                loads[number] += 1
                heapreplace(least, (loads[number], number))
            yield

    def _level(self, topic_id: bytes) -> Steps[int]:
        """Move partitions of one topic until its subscribers differ by one at most, and return the number of moves."""
        yield
        loads, owners = self.loads, self.owners[topic_id]
        has_most = {owner: loads[owner] for owner in owners}
        fewest = min(loads[number] for number in self.subscribers[topic_id])
        if max(has_most.values(), default=0) - fewest <= 1:
            return 0
        indexes: dict[int, list[int]] = {number: [] for number in has_most}
        for index, owner in enumerate(owners):
            indexes[owner].append(index)
        most = [(-load, -number) for number, load in has_most.items()]
        least = [(loads[number], number) for number in self.subscribers[topic_id]]
        heapify(most)
        heapify(least)
        moves = 0
        while most and -most[0][0] - least[0][0] > 1:
            giver, taker = -most[0][1], least[0][1]
            owners[indexes[giver].pop()] = taker
            loads[giver] -= 1
            loads[taker] += 1
            moves += 1
            yield
            heapreplace(least, (loads[taker], taker))
            if indexes[giver]:
                heapreplace(most, (-loads[giver], -giver))
            else:
                heappop(most)
        return moves

    def _assignments(self) -> Steps[Mapping[str, Assignment]]:
        places: list[dict[bytes, set[int]]] = [{} for _ in self.members]
        for topic_id, owners in self.owners.items():
            for index, owner in enumerate(owners):
                places[owner].setdefault(topic_id, set()).add(index)
            yield
        assignments: dict[str, Assignment] = {}
        for member, mine in zip(self.members, places, strict=True):
            assignments[member.member_id] = yield from frozen(mine)
            yield
        return assignments
