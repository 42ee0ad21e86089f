"""What all members of a group should have: the group as the assignors see it, and what comes back as records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from . import records
from .assignment import Assignment, Assignor, GroupSpec, MemberSubscription
from .group import ConsumerGroup, ResolvedRegex
from .member import Member
from .records import Change
from .topics import TopicView


def preferred_assignor(members: Iterable[Member], default: str) -> str:
    """The assignor that most members ask for; `default` if none asks."""
    votes: dict[str, int] = {}
    for member in members:
        if member.assignor is not None:
            votes[member.assignor] = votes.get(member.assignor, 0) + 1
    return max(votes, key=votes.__getitem__, default=default)


def is_homogeneous(members: Collection[Member]) -> bool:
    """All subscribe to the same topics by name, or all by one regular expression and to none by name."""
    by_name = {member.topic_names for member in members}
    by_regex = {member.topic_regex or None for member in members}
    if by_regex <= {None}:
        return len(by_name) <= 1
    return len(by_regex) == 1 and by_name == {frozenset()}


class Subscriptions:
    """Topic ids that members subscribe to; equal subscriptions are looked up once."""

    def __init__(self, topics: TopicView, regexes: Mapping[str, ResolvedRegex]) -> None:
        self._topics = topics
        self._regexes = regexes
        self._known: dict[tuple[frozenset[str], str | None], frozenset[bytes]] = {}

    def topic_ids(self, member: Member) -> frozenset[bytes]:
        """Of all topics that exist now."""
        key = member.topic_names, member.topic_regex
        if key not in self._known:
            resolved = self._regexes.get(member.topic_regex or "")
            names = member.topic_names | resolved.topics if resolved is not None else member.topic_names
            self._known[key] = frozenset(
                topic_id for name in names if (topic_id := self._topics.id_of(name)) is not None
            )
        return self._known[key]


def new_targets(
    group: ConsumerGroup,
    members: Mapping[str, Member],
    before: Mapping[str, Assignment],
    assignor: Assignor,
    topics: TopicView,
) -> dict[str, Assignment]:
    """What each of `members` should have; `before` is what they should have had until now."""
    subscriptions = Subscriptions(topics, group.regexes)
    spec = GroupSpec(
        {
            member_id: MemberSubscription(
                member_id,
                member.instance_id,
                member.rack_id,
                subscriptions.topic_ids(member),
                before.get(member_id, {}),
            )
            for member_id, member in members.items()
        },
        is_homogeneous(members.values()),
    )
    assigned = assignor(spec, topics.partition_count)
    return {member_id: assigned.get(member_id, {}) for member_id in members}


def changes(group: ConsumerGroup, targets: Mapping[str, Assignment], epoch: int, now_ms: int) -> list[Change]:
    """The records of a new target assignment; members for whom nothing changes have none."""
    return [
        *(
            records.target(group.group_id, member_id, assignment)
            for member_id, assignment in targets.items()
            if group.targets.get(member_id) != assignment
        ),
        records.target_metadata(group.group_id, epoch, now_ms),
    ]
