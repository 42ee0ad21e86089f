"""The server-side assignors: of consumer groups, `uniform` and `range` (KIP-848), and of share groups, `simple` (KIP-932).

Called by `consumer.targets` and `share.targets` whenever a group needs a new target assignment. They depend on what they are given alone; ties are
broken by the order of the members and by topic id, so the same group gets the same assignment again.

`range` gives the very assignment that Apache Kafka gives. `uniform` gives as many members as many partitions and moves
as few (with mixed subscriptions in nearly all cases); which ones differs, as Kafka breaks ties by the order of its hash
tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, islice
from math import ceil
from typing import TypeVar

from ...coordination.jobs import A_PIECE, Job, Steps, in_order
from .assignment import Assignment, Assignor, GroupSpec, MemberSubscription, by_topic
from .balancing import balance

UNIFORM = "uniform"
RANGE = "range"

PartitionCount = Callable[[bytes], int]


def range_assignor(spec: GroupSpec, partition_count: PartitionCount) -> Steps[Mapping[str, Assignment]]:
    """Give every subscriber of a topic one run of its partitions, the first ones one more where it does not come out
    even; topics with equally many partitions and the same subscribers are cut alike, so they can be joined.

    Static members come first, by instance id: they keep their runs while dynamic members come and go.
    """
    ordered = sorted(spec.members.values(), key=_range_order)
    subscriber_counts: dict[bytes, int] = {}
    # Most members subscribe to the same topics.
    sorted_ids: dict[frozenset[bytes], list[bytes]] = {}
    for member in ordered:
        if member.topic_ids not in sorted_ids:
            sorted_ids[member.topic_ids] = sorted(member.topic_ids)
        for topic_id in member.topic_ids:
            subscriber_counts[topic_id] = subscriber_counts.get(topic_id, 0) + 1
            yield
    next_rank = dict.fromkeys(subscriber_counts, 0)
    counts: dict[bytes, int] = {}
    for topic_id in subscriber_counts:
        counts[topic_id] = partition_count(topic_id)
        yield
    assignments: dict[str, Assignment] = {}
    for member in ordered:
        mine: dict[bytes, frozenset[int]] = {}
        for topic_id in sorted_ids[member.topic_ids]:
            yield
            rank = next_rank[topic_id]
            next_rank[topic_id] = rank + 1
            quota, extra = divmod(counts[topic_id], subscriber_counts[topic_id])
            start = rank * quota + min(rank, extra)
            if run := frozenset(range(start, start + quota + (rank < extra))):
                mine[topic_id] = run
        assignments[member.member_id] = mine
    return assignments


def _range_order(member: MemberSubscription) -> tuple[bool, bytes]:
    # Java compares UTF-16 units.
    name = member.member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")


def uniform_assignor(spec: GroupSpec, partition_count: PartitionCount) -> Steps[Mapping[str, Assignment]]:
    """Give all members equally many partitions, and move as few as that needs.

    If all subscribe to the same topics, counts differ by one at most, and only what exceeds a member's share moves.
    """
    if not spec.members:
        return {}
    if spec.is_homogeneous:
        return (yield from _share_out(spec, partition_count))
    return (yield from balance(spec, partition_count))


def _share_out(spec: GroupSpec, partition_count: PartitionCount) -> Steps[Mapping[str, Assignment]]:
    members = spec.members
    unassigned: dict[bytes, set[int]] = {}
    for number, topic_id in enumerate(next(iter(members.values())).topic_ids, 1):
        unassigned[topic_id] = set(range(partition_count(topic_id)))
        if number % A_PIECE == 0:
            yield
    quota, extra = divmod(sum(map(len, unassigned.values())), len(members))
    kept: dict[str, list[tuple[bytes, int]]] = {}
    for member_id, member in members.items():
        kept[member_id] = []
        for topic_id in (yield from in_order(member.target)):
            if topic_id in unassigned:
                mine = unassigned[topic_id] & member.target[topic_id]
                unassigned[topic_id] -= mine
                kept[member_id] += [(topic_id, index) for index in sorted(mine)]
            yield
    # Whoever has more than the even share already keeps one more.
    by_excess = sorted(members, key=lambda member_id: len(kept[member_id]) <= quota)
    shares = dict.fromkeys(members, quota) | dict.fromkeys(by_excess[:extra], quota + 1)
    for member_id, share in shares.items():
        for topic_id, index in kept[member_id][share:]:
            unassigned[topic_id].add(index)
        del kept[member_id][share:]
        yield
    topic_ids = yield from in_order(unassigned)
    rest = ((topic_id, index) for topic_id in topic_ids for index in sorted(unassigned[topic_id]))
    assignments: dict[str, Assignment] = {}
    for member_id, share in shares.items():
        assignments[member_id] = yield from by_topic(chain(kept[member_id], islice(rest, share - len(kept[member_id]))))
        yield
    return assignments


ASSIGNORS: dict[str, Assignor] = {UNIFORM: uniform_assignor, RANGE: range_assignor}
"""By the names that clients and `group.consumer.assignors` use."""

SIMPLE = "simple"

_PLACES_A_PIECE = 1_000

Place = TypeVar("Place", int, tuple[bytes, int])
Assignable = Mapping[bytes, Collection[int]]


def simple_assignor(spec: GroupSpec, assignable: Assignable) -> Steps[dict[str, Assignment]]:
    """Give every member of a share group something, and every partition to somebody.

    Members may share partitions. Where there are fewer partitions than members each partition has as many members as it takes, and all
    equally many or fewer; where there are more, each has one. How many partitions a member gets is as in Apache Kafka; which ones
    differs, as Kafka breaks ties by the order of its hash tables. What a member had it keeps, as far as the numbers allow it.

    Where members subscribe to different topics each topic is shared out for itself among its subscribers, so who subscribes to a
    topic gets a part of it.

    Args:
        assignable: Topic id -> the partitions that may be given out.
    """
    members = tuple(spec.members.values())
    if not members or not assignable:
        return {member_id: {} for member_id in spec.members}
    assigned = yield from (_all_alike if spec.is_homogeneous else _each_topic)(members, assignable)
    return {member.member_id: mine for member, mine in zip(members, assigned, strict=True)}


def _all_alike(members: Sequence[MemberSubscription], assignable: Assignable) -> Steps[list[Assignment]]:
    places: list[tuple[bytes, int]] = []
    for topic_id in sorted(members[0].topic_ids):
        places += [(topic_id, index) for index in sorted(assignable.get(topic_id, ()))]
        if len(places) > _PLACES_A_PIECE:
            yield
    has = list[set[tuple[bytes, int]]]()
    for member in members:
        if has:
            yield
        has.append({(topic_id, index) for topic_id, indexes in member.target.items() for index in indexes})
    yield from _share_places(places, has)
    assigned: list[Assignment] = []
    for mine in has:
        if assigned:
            yield
        assigned.append((yield from by_topic(mine)))
    return assigned


def _each_topic(members: Sequence[MemberSubscription], assignable: Assignable) -> Steps[list[Assignment]]:
    subscribers: dict[bytes, list[int]] = {}
    for number, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(number)
        yield
    assigned: list[dict[bytes, frozenset[int]]] = [{} for _ in members]
    for topic_id in sorted(subscribers):
        numbers = subscribers[topic_id]
        has = [set(members[number].target.get(topic_id, ())) for number in numbers]
        yield from _share_places(sorted(assignable.get(topic_id, ())), has)
        for number, mine in zip(numbers, has, strict=True):
            if mine:
                assigned[number][topic_id] = frozenset(mine)
        yield
    return list(assigned)


def _share_places(places: Sequence[Place], has: list[set[Place]]) -> Job:
    """Change what each member has until all have their numbers of these places, and of no others."""
    sharing = ceil(len(has) / len(places)) if places else 0
    # In floating point, as in Apache Kafka, where a number rounded up may tell.
    share = sharing * len(places) / len(has)
    quotas = [ceil(share * (number + 1)) - ceil(share * number) for number in range(len(has))]
    holders: dict[Place, list[int]] = {}
    for at in range(0, len(places), _PLACES_A_PIECE):
        holders |= {place: [] for place in places[at : at + _PLACES_A_PIECE]}
        if len(places) > _PLACES_A_PIECE:
            yield
    for number, mine in enumerate(has):
        if number:
            yield
        kept, left = list[Place](), iter(mine)
        while some := tuple(islice(left, _PLACES_A_PIECE)):
            kept += filter(holders.__contains__, some)
            if len(mine) > _PLACES_A_PIECE:
                yield
        if len(kept) > quotas[number]:
            kept = (yield from in_order(kept))[: quotas[number]]
        has[number] = set(kept)
        for place in kept:
            holders[place].append(number)
    for at, (place, numbers) in enumerate(holders.items(), 1):
        if len(numbers) > sharing:
            for number in numbers[sharing:]:
                has[number].discard(place)
            del numbers[sharing:]
            yield
        elif at % A_PIECE == 0:
            yield
    unfilled = deque([number for number, mine in enumerate(has) if len(mine) < quotas[number]])
    for at, place in enumerate(places, 1):
        missing = sharing - len(holders[place])
        for _ in range(len(unfilled)):
            if not missing:
                break
            number = unfilled.popleft()
            if place not in has[number]:
                has[number].add(place)
                missing -= 1
            if len(has[number]) < quotas[number]:
                unfilled.append(number)
        if at % A_PIECE == 0 or len(unfilled) > A_PIECE:
            yield
