"""What all members of a share group should have: the group as the assignor sees it, and what comes back as records.

A small group is given its target in the turn of the heartbeat that brings it to its next epoch; for a larger one a job makes it, from
the members as they were at its beginning, while they go on with the target before.
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
"""Partitions, and members times topics: some milliseconds."""
_PARTITION_BYTES = 4


def are_many(members: int, names: Collection[str], initialized: Mapping[bytes, TopicStates]) -> bool:
    """Whether it takes long to assign these partitions to so many members that subscribe to so many topics."""
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
    """What each of `members` should have of the partitions that are initialized; `before` is what they should have had until
    now. All are to stay as they are meanwhile, but for the topics.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR: it could not be written into a batch of so many bytes.
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
        # Each subscriber of a topic gets a part of it.
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
    """The records of a new target assignment; members for whom nothing changes have none."""
    changed = [
        records.target(group.group_id, member_id, assignment)
        for member_id, assignment in targets.items()
        if group.targets.get(member_id) != assignment
    ]
    return [*changed, records.target_metadata(group.group_id, epoch, now_ms)]


def written(group: ShareGroup, targets: Mapping[str, Assignment], max_bytes: int) -> Steps[Records]:
    """The records of those in a new target assignment who have another one than before, and are members still.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR, as for any batch that is too large.
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
