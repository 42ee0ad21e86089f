"""The target assignment of a group: it makes the assignors' view of the group, and the records of their result.

For a group of few members and partitions, the heartbeat that brings it to its next epoch makes the target. For a larger one a
job makes it, from the members at its start, which keep their earlier targets until then, as planned for Apache Kafka
(KIP-1263). Members that joined during the job get partitions with the next target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ...coordination.jobs import A_PIECE, Steps
from ...coordination.records import Records
from ..assigning.assignment import Assignment, Assignor, GroupSpec, MemberSubscription
from ..assigning.assignors import ASSIGNORS
from ..assigning.topics import TopicView, ids_of
from ..records import Change, write_record
from ..settings import MEMBERS_A_PIECE, OWNED_MAX
from . import records
from .group import ConsumerGroup
from .member import ConsumerMember, ResolvedRegex

ASSIGNED_AT_ONCE = 4_000
"""Limit for partitions, and for members times topics; assigning that many takes some milliseconds."""
TOPICS_AT_ONCE = 500
"""Limit for topics whose target is made in one piece. Each is a row in the target, the partitions and the answer."""


def preferred_assignor(votes: Mapping[str, int], default: str) -> str:
    """Return the assignor that most members ask for; `default` if no member asks for one. A log of another broker may have votes
    for assignors that do not exist here.

    Of assignors with as many votes it is the last in the alphabet, so `uniform`. Apache Kafka describes the same, but computes
    targets, and whether the group needs a new epoch, by the order of another hash table.
    """
    return max(votes.keys() & ASSIGNORS.keys(), key=lambda name: (votes[name], name), default=default)


def preferred_with(group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember, default: str) -> str:
    """Return the assignor that most members ask for once `old` is `new`; a new member has no vote in `old`."""
    votes = Counter(group.assignor_votes)
    votes.subtract([] if old.assignor is None else [old.assignor])
    votes.update([] if new.assignor is None else [new.assignor])
    return preferred_assignor(+votes, default)


def names_of(member: ConsumerMember, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Return all topics that the member subscribes to. A regular expression counts once it has been resolved."""
    resolved = regexes.get(member.topic_regex or "")
    return member.topic_names if resolved is None else member.topic_names | resolved.topics


def subscribing(
    member: ConsumerMember, regexes: Mapping[str, ResolvedRegex], topics: TopicView
) -> Callable[[bytes], bool]:
    """Return a test whether the member subscribes to the topic with some id; it sees topics that are created or deleted
    later."""
    names, name_of = names_of(member, regexes), topics.name_of
    return lambda topic_id: name_of(topic_id) in names


def are_many(members: int, names: Collection[str], topics: TopicView) -> bool:
    """Whether it takes long to assign the partitions of these topics to this many members."""
    if members > MEMBERS_A_PIECE or len(names) > TOPICS_AT_ONCE or members * len(names) > ASSIGNED_AT_ONCE:
        return True
    ids = filter(None, map(topics.id_of, names))
    return sum(map(topics.partition_count, ids)) > ASSIGNED_AT_ONCE


def new_targets(
    regexes: Mapping[str, ResolvedRegex],
    members: Mapping[str, ConsumerMember],
    before: Mapping[str, Assignment],
    assignor: Assignor,
    topics: TopicView,
) -> Steps[dict[str, Assignment]]:
    """Return the target of each of `members`, where `before` has the targets until now. The arguments must not change during
    the job, except the topics."""
    # Most members subscribe to the same topics, so each set of names is resolved only once.
    known: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}
    subscribing = {}
    for number, (member_id, member) in enumerate(members.items(), 1):
        key = member.topic_names, member.topic_regex or None
        if key not in known:
            known[key] = yield from ids_of(names_of(member, regexes), topics)
        subscribing[member_id] = MemberSubscription(
            member_id,
            member.instance_id,
            member.rack_id,
            known[key],
            before.get(member_id, {}),
        )
        if number % A_PIECE == 0:
            yield
    # All members subscribe to the same topics by name, or all to one regular expression and to no names.
    is_homogeneous = len(known) <= 1 and not any(map(all, known))
    spec = GroupSpec(subscribing, is_homogeneous)
    assigned = yield from assignor(spec, topics.partition_count)
    return {member_id: assigned.get(member_id, {}) for member_id in members}


class ConsumerWholeTarget(NamedTuple):
    """A new target assignment that is not written yet."""

    records: Records
    """Records of the members whose targets change."""
    given: dict[str, Assignment]
    """Targets of these members, as a table."""


def target_records(
    group: ConsumerGroup, targets: Mapping[str, Assignment], max_bytes: int
) -> Steps[ConsumerWholeTarget]:
    """Return the records of a new target assignment. `amended` adds those of members that leave or join during the job.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR: the batch is too large, or a member would get too many topics and partitions.
    """
    whole = ConsumerWholeTarget(Records(), {})
    for member_id, assignment in targets.items():
        if member_id in group.members and group.targets.get(member_id) != assignment:
            whole.records.add((yield from records.writing_target(group.group_id, member_id, assignment)).pair)
            whole.given[member_id] = assignment
            count = len(assignment) + sum(map(len, assignment.values()))
            if count > OWNED_MAX:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"too many topics and partitions for member {member_id} ({count}, limit {OWNED_MAX}); start more"
                    " members",
                )
            if whole.records.batch_bytes > max_bytes:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"assignment of {len(targets)} members is too large (limit {max_bytes} bytes in one batch)",
                )
        yield
    return whole


def amended(
    group: ConsumerGroup,
    whole: ConsumerWholeTarget,
    targets: Mapping[str, Assignment],
    members: Mapping[str, ConsumerMember],
) -> None:
    """Change `whole` so that it has the targets of the group's present members only.

    Args:
        members: Members that `targets` were made for. A member that was replaced by another with its instance id passes its
            target to that one.
    """
    for member_id in members.keys() - group.members.keys():
        instance_id = members[member_id].instance_id
        heir = group.static_member(instance_id)
        if whole.given.pop(member_id, None) is not None:
            whole.records.add(write_record(*records.target_tombstone(group.group_id, member_id)))
        if heir is not None and heir.member_id not in members:
            assignment = whole.given[heir.member_id] = targets[member_id]
            whole.records.add(write_record(*records.target(group.group_id, heir.member_id, assignment)))


def changes(
    group_id: str, before: Mapping[str, Assignment], targets: Mapping[str, Assignment], epoch: int, now_ms: int
) -> list[Change]:
    """Return the records of a new target assignment, without those of members whose targets stay the same."""
    changed = [
        records.target(group_id, member_id, assignment)
        for member_id, assignment in targets.items()
        if before.get(member_id) != assignment
    ]
    return [*changed, records.target_metadata(group_id, epoch, now_ms)]
