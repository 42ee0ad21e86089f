"""Records of whole groups, and of members who take another's place."""

from __future__ import annotations

from collections.abc import Iterator

from . import records
from .group import ConsumerGroup
from .member import Member
from .records import Change


def replacement(group: ConsumerGroup, replaced: Member, member: Member) -> list[Change]:
    """A static member has come back as `member`, which takes over what it had."""
    group_id = group.group_id
    return [
        *records.member_tombstones(group_id, replaced.member_id),
        records.member_metadata(group_id, member),
        records.target(group_id, member.member_id, group.targets.get(replaced.member_id, {})),
        records.current_assignment(group_id, member),
    ]


def whole_group(group: ConsumerGroup) -> Iterator[Change]:
    """All that there is to know of a group, for one that came into being otherwise than by heartbeats."""
    group_id, members = group.group_id, group.members.values()
    yield from (records.member_metadata(group_id, member) for member in members)
    yield records.group_epoch(group_id, group.epoch, group.metadata_hash)
    yield from (
        records.target(group_id, member.member_id, group.targets.get(member.member_id, {})) for member in members
    )
    yield records.target_metadata(group_id, group.assignment_epoch, group.assignment_ms)
    yield from (records.current_assignment(group_id, member) for member in members)
