"""Records of whole groups."""

from __future__ import annotations

from collections.abc import Iterator

from ...coordination.jobs import Steps
from ...coordination.records import Pair
from ..records import Change, ReadyChange, write_record
from . import records
from .group import ConsumerGroup


def whole_group(group: ConsumerGroup) -> Iterator[Steps[Pair]]:
    """All that there is to know of a group, for one that came into being otherwise than by heartbeats; each record in pieces."""
    group_id, members = group.group_id, group.members.values()
    yield from (_pair_of(records.writing_member(group_id, member)) for member in members)
    yield _made(records.group_epoch(group_id, group.epoch, group.metadata_hash))
    yield from (
        _pair_of(records.writing_target(group_id, member.member_id, group.targets.get(member.member_id, {})))
        for member in members
    )
    yield _made(records.target_metadata(group_id, group.assignment_epoch, group.assignment_ms))
    yield from (_pair_of(records.writing_current(group_id, member)) for member in members)


def _pair_of(writing: Steps[ReadyChange]) -> Steps[Pair]:
    return (yield from writing).pair


def _made(change: Change) -> Steps[Pair]:
    yield
    return write_record(*change)
