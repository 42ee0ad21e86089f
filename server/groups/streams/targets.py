"""What all members of a group should have: the group as the assignor sees it, and what comes back as records.

A group of few members and tasks is given its target in the turn of the heartbeat that brings it to its next epoch. In a larger
one a job makes it, from the members as they were at its beginning, while they go on with the target before. Who came meanwhile
gets something with the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import NamedTuple

from ....protocol.errors import ErrorCode, KafkaError
from ...coordination.jobs import A_PIECE, Steps
from ...coordination.records import Records
from ..records import Change, write_record
from ..settings import MEMBERS_A_PIECE
from . import records
from .assignor import AssignedMember, sticky
from .configured import Configured
from .group import StreamsGroup
from .member import NO_TASKS, StreamsMember, StreamsTasks

TASKS_AT_ONCE = 1_000
"""Active and standby ones: some milliseconds."""

STANDBYS = "num.standby.replicas"


def are_many(members: int, configured: Configured, configs: Mapping[str, str]) -> bool:
    """Whether it takes long to give so many members their tasks."""
    if members > MEMBERS_A_PIECE:
        return True
    if configured.problem is not None:  # Nobody gets any.
        return False
    tasks: int = sum(map(attrgetter("tasks"), (configured.subtopologies or {}).values()))
    return tasks * (1 + int(configs.get(STANDBYS, "0"))) > TASKS_AT_ONCE


def new_targets(
    members: Mapping[str, StreamsMember],
    before: Mapping[str, StreamsTasks],
    configured: Configured,
    configs: Mapping[str, str],
) -> Steps[dict[str, StreamsTasks]]:
    """What each of `members` should have; `before` is what they should have had until now. Nothing while topics are missing
    or wrong."""
    if configured.problem is not None or configured.subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    assigned = {}
    for number, (member_id, member) in enumerate(members.items(), 1):
        assigned[member_id] = AssignedMember(member.process_id, before.get(member_id, NO_TASKS))
        if number % A_PIECE == 0:
            yield
    return (yield from sticky(assigned, configured.subtopologies, int(configs.get(STANDBYS, "0"))))


class StreamsWholeTarget(NamedTuple):
    """A new target assignment on its way into a group."""

    records: Records
    """What is to be written of the members for whom it is another."""
    given: dict[str, StreamsTasks]
    """The same as a table."""


def written(group: StreamsGroup, targets: Mapping[str, StreamsTasks], max_bytes: int) -> Steps[StreamsWholeTarget]:
    """The records of a new target assignment, but for what has to be said of members who go meanwhile (`amended`).

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR, as for any batch that is too large.
    """
    whole = StreamsWholeTarget(Records(), {})
    for member_id, tasks in targets.items():
        if member_id in group.members and group.targets.get(member_id) != tasks:
            whole.records.add(write_record(*records.target(group.group_id, member_id, tasks)))
            whole.given[member_id] = tasks
            if whole.records.batch_bytes > max_bytes:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"assignment of {len(targets)} members is too large (limit {max_bytes} bytes in one batch)",
                )
        yield
    return whole


def amended(group: StreamsGroup, whole: StreamsWholeTarget) -> None:
    """Let `whole` say of the group's present members alone what they should have."""
    for member_id in whole.given.keys() - group.members.keys():
        del whole.given[member_id]
        whole.records.add(write_record(*records.target_tombstone(group.group_id, member_id)))


def changes(group: StreamsGroup, targets: Mapping[str, StreamsTasks], epoch: int, now_ms: int) -> list[Change]:
    """The records of a new target assignment; members for whom nothing changes have none."""
    changed = [
        records.target(group.group_id, member_id, tasks)
        for member_id, tasks in targets.items()
        if group.targets.get(member_id) != tasks
    ]
    return [*changed, records.target_metadata(group.group_id, epoch, now_ms)]
