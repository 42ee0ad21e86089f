"""The server-side assignors of consumer groups, `uniform` and `range` (KIP-848).

Called by `consumer.targets` whenever a group needs a new target assignment. They depend on what they are given alone; ties are
broken by the order of the members and by topic id, so the same group gets the same assignment again.

`range` gives the very assignment that Apache Kafka gives. `uniform` gives as many members as many partitions and moves
as few (with mixed subscriptions in nearly all cases); which ones differs, as Kafka breaks ties by the order of its hash
tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import chain, islice

from ...coordination.jobs import A_PIECE, Steps, in_order
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
