"""The target assignment of a streams group: it makes the assignor's view of the group, and the records of its result.

For a group of few members and tasks, the heartbeat that brings it to its next epoch makes the target. For a larger one a job
makes it, from the members at its start, which keep their earlier targets until then. Members that joined during the job get
tasks with the next target.
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
from .group import NO_OFFSETS, StreamsGroup, TaskOffsets
from .member import NO_TASKS, StreamsMember, StreamsTasks

TASKS_AT_ONCE = 1_000
"""Limit for active and standby tasks; assigning that many takes some milliseconds."""
OFFSETS_AT_ONCE = 5_000
"""Limit for offsets that members have reported; reading that many takes some milliseconds."""

STANDBYS, RACK_TAGS = "num.standby.replicas", "rack.aware.assignment.tags"
"""Options for targets, as in the records of groups. Like Apache Kafka's, the assignor does not use the tags. A member that lacks
one of them gets a status."""


def are_many(
    members: int, task_offsets: Mapping[str, TaskOffsets], configured: Configured, configs: Mapping[str, str]
) -> bool:
    """Whether it takes long to assign tasks to this many members, which have reported these offsets."""
    if members > MEMBERS_A_PIECE:
        return True
    if configured.problem is not None:  # No member gets tasks.
        return False
    if sum(map(len, map(attrgetter("offsets"), task_offsets.values()))) > OFFSETS_AT_ONCE:
        return True
    tasks: int = sum(map(attrgetter("tasks"), (configured.subtopologies or {}).values()))
    return tasks * (1 + int(configs.get(STANDBYS, "0"))) > TASKS_AT_ONCE


def new_targets(
    members: Mapping[str, StreamsMember],
    task_offsets: Mapping[str, TaskOffsets],
    configured: Configured,
    configs: Mapping[str, str],
) -> Steps[dict[str, StreamsTasks]]:
    """Return the target of each of `members`, given the tasks that they have and the offsets that they have reported. All targets
    are empty while topics are missing or wrong."""
    if configured.problem is not None or configured.subtopologies is None:
        return dict.fromkeys(members, NO_TASKS)
    assigned = {}
    for number, (member_id, member) in enumerate(members.items(), 1):
        offsets = task_offsets.get(member_id, NO_OFFSETS).offsets
        assigned[member_id] = AssignedMember(member.process_id, member.assigned, offsets)
        if number % A_PIECE == 0:
            yield
    return (yield from sticky(assigned, configured.subtopologies, int(configs.get(STANDBYS, "0"))))


class StreamsWholeTarget(NamedTuple):
    """A new target assignment that is not written yet."""

    records: Records
    """Records of the members whose targets change."""
    given: dict[str, StreamsTasks]
    """Targets of these members, as a table."""


def target_records(
    group: StreamsGroup, targets: Mapping[str, StreamsTasks], max_bytes: int
) -> Steps[StreamsWholeTarget]:
    """Return the records of a new target assignment. `amended` adds those of members that leave or are replaced during the job.

    Raises:
        KafkaError: UNKNOWN_SERVER_ERROR: the batch is too large.
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


def amended(
    group: StreamsGroup,
    whole: StreamsWholeTarget,
    targets: Mapping[str, StreamsTasks],
    members: Mapping[str, StreamsMember],
) -> None:
    """Change `whole` so that it has the targets of the group's present members only.

    Args:
        members: Members that `targets` were made for. A member that was replaced by another with its instance id passes its
            target to that one.
    """
    for member_id in members.keys() - group.members.keys():
        heir = group.static_member(members[member_id].instance_id)
        if whole.given.pop(member_id, None) is not None:
            whole.records.add(write_record(*records.target_tombstone(group.group_id, member_id)))
        if heir is not None and heir.member_id not in members:
            tasks = whole.given[heir.member_id] = targets[member_id]
            whole.records.add(write_record(*records.target(group.group_id, heir.member_id, tasks)))


def changes(
    group_id: str, before: Mapping[str, StreamsTasks], targets: Mapping[str, StreamsTasks], epoch: int, now_ms: int
) -> list[Change]:
    """Return the records of a new target assignment, without those of members whose targets stay the same."""
    changed = [
        records.target(group_id, member_id, tasks)
        for member_id, tasks in targets.items()
        if before.get(member_id) != tasks
    ]
    return [*changed, records.target_metadata(group_id, epoch, now_ms)]
