"""The target assignment of a share group: it makes the assignor's view of the group, and the records of its result.

For a small group, the heartbeat that brings it to its next epoch makes the target. For a larger one a job makes it, from the
members at its start, which keep their earlier targets until then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ....protocol.errors import ErrorCode, KafkaError
from ...coordination.jobs import A_PIECE, Steps
from ...coordination.records import Records
from ..assigning.assignment import Assignment, GroupSpec, MemberSubscription
from ..assigning.assignors import simple_assignor
from ..assigning.topics import TopicView, ids_of
from ..records import Change
from ..settings import MEMBERS_A_PIECE
from . import records
from .group import ShareGroup
from .member import ShareMember
from .states import TopicStates

ASSIGNED_AT_ONCE = 2_000
"""Limit for partitions, and for members times topics; assigning that many takes some milliseconds."""
_PARTITION_BYTES = 4


def are_many(members: int, names: Collection[str], initialized: Mapping[bytes, TopicStates]) -> bool:
    """Whether it takes long to assign these partitions to this many members, which subscribe to these topics."""
    if members > MEMBERS_A_PIECE or members * len(names) > ASSIGNED_AT_ONCE:
        return True
    return sum([len(one.partitions) for one in initialized.values()]) > ASSIGNED_AT_ONCE


def new_targets(
    members: Mapping[str, ShareMember],
    before: Mapping[str, Assignment],
    initialized: Mapping[bytes, TopicStates],
    topics: TopicView,
    max_bytes: int,
) -> Steps[dict[str, Assignment]]:
    """Return the target of each of `members`, made of the initialized partitions; `before` has the targets until now. The
    arguments must not change during the job, except the topics.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR: the targets would not fit into a batch of `max_bytes`.
    """
    ids: dict[frozenset[str], frozenset[bytes]] = {}
    counts: dict[frozenset[str], int] = {}
    subscribing = {}
    for number, (member_id, member) in enumerate(members.items(), 1):
        names = member.topic_names
        if names not in ids:
            ids[names] = yield from ids_of(names, topics)
        counts[names] = counts.get(names, 0) + 1
        subscribing[member_id] = MemberSubscription(
            member_id, None, member.rack_id, ids[names], before.get(member_id, {})
        )
        if number % A_PIECE == 0:
            yield
    assignable = {topic_id: one.partitions for topic_id, one in initialized.items()}
    if len(ids) > 1:
        # Each subscriber of a topic gets a part of it, so this is the least number of assigned partitions.
        subscribers: dict[bytes, int] = {}
        for names, count in counts.items():
            for topic_id in ids[names]:
                subscribers[topic_id] = subscribers.get(topic_id, 0) + count
            yield
        least = sum(
            max(count, len(assignable[topic_id])) for topic_id, count in subscribers.items() if topic_id in assignable
        )
        if least * _PARTITION_BYTES > max_bytes:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"assignment of {len(members)} members is too large (limit {max_bytes} bytes in one batch)",
            )
    return (yield from simple_assignor(GroupSpec(subscribing, len(ids) <= 1), assignable))


def changes(group: ShareGroup, targets: Mapping[str, Assignment], epoch: int, now_ms: int) -> list[Change]:
    """Return the records of a new target assignment, without those of members whose targets stay the same."""
    changed = [
        records.target(group.group_id, member_id, assignment)
        for member_id, assignment in targets.items()
        if group.targets.get(member_id) != assignment
    ]
    return [*changed, records.target_metadata(group.group_id, epoch, now_ms)]


def target_records(group: ShareGroup, targets: Mapping[str, Assignment], max_bytes: int) -> Steps[Records]:
    """Return the records of a new target assignment, for the members whose targets change.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR: the batch is too large.
    """
    made = Records()
    for member_id, assignment in targets.items():
        if group.targets.get(member_id) != assignment:
            made.add((yield from records.writing_target(group.group_id, member_id, assignment)))
            if made.batch_bytes > max_bytes:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"assignment of {len(targets)} members is too large (limit {max_bytes} bytes in one batch)",
                )
        yield
    return made
