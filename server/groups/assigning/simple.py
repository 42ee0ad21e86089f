"""The server-side assignor of share groups, `simple` (KIP-932): every member gets something, every partition somebody.

Members may share partitions. Where there are fewer partitions than members each partition has as many members as it takes, and all
equally many or fewer; where there are more, each has one. How many partitions a member gets is as in Apache Kafka; which ones
differs, as Kafka breaks ties by the order of its hash tables. What a member had it keeps, as far as the numbers allow it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from math import ceil
from typing import TypeVar

from ...coordination.jobs import A_PIECE, Job, Steps, in_order
from .assignment import Assignment, GroupSpec, MemberSubscription, by_topic

SIMPLE = "simple"

_PLACES_A_PIECE = 1_000

Place = TypeVar("Place", int, tuple[bytes, int])
Assignable = Mapping[bytes, Collection[int]]


def simple_assignor(spec: GroupSpec, assignable: Assignable) -> Steps[dict[str, Assignment]]:
    """Where members subscribe to different topics each topic is shared out for itself among its subscribers, so who
    subscribes to a topic gets a part of it.

    Args:
        assignable: Topic id -> the partitions that may be given out.
    """
    members = tuple(spec.members.values())
    if not members or not assignable:
        return {member_id: {} for member_id in spec.members}
    assigned = yield from (_all_alike if spec.is_homogeneous else _by_topic)(members, assignable)
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
    yield from _share_out(places, has)
    assigned: list[Assignment] = []
    for mine in has:
        if assigned:
            yield
        assigned.append((yield from by_topic(mine)))
    return assigned


def _by_topic(members: Sequence[MemberSubscription], assignable: Assignable) -> Steps[list[Assignment]]:
    subscribers: dict[bytes, list[int]] = {}
    for number, member in enumerate(members):
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(number)
        yield
    assigned: list[dict[bytes, frozenset[int]]] = [{} for _ in members]
    for topic_id in sorted(subscribers):
        numbers = subscribers[topic_id]
        has = [set(members[number].target.get(topic_id, ())) for number in numbers]
        yield from _share_out(sorted(assignable.get(topic_id, ())), has)
        for number, mine in zip(numbers, has, strict=True):
            if mine:
                assigned[number][topic_id] = frozenset(mine)
        yield
    return list(assigned)


def _share_out(places: Sequence[Place], has: list[set[Place]]) -> Job:
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
