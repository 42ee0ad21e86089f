"""Effects of each record of a streams group on its table, at a load and right after the record was written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import attrgetter
from typing import Any

from ....protocol.messages.streams_group_heartbeat import TaskIds
from ....protocol.messages.streams_group_log import (
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from ..reconciled import target_metadata
from .group import StreamsGroup
from .member import LEAVE_EPOCH, NOTHING, Epochs, Owned, Places, StreamsMember, StreamsMemberState, StreamsTasks
from .records import DescriptionEpochs
from .topology import topology_from_record

_KEY_AND_VALUE = attrgetter("key", "value")


def _group_epoch(group: StreamsGroup, _: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue) -> None:
    group.epoch = value.epoch
    group.metadata_hash = value.metadata_hash
    group.validated_epoch = value.validated_topology_epoch
    group.assignment_configs = dict(map(_KEY_AND_VALUE, value.last_assignment_configs or ()))
    group.described = DescriptionEpochs(
        value.stored_description_topology_epoch, value.failed_description_topology_epoch
    )
    if group.bell:
        group.bell.ring()


def _topology(group: StreamsGroup, _: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None) -> None:
    group.set_topology(None if value is None else topology_from_record(value))


def _member(
    group: StreamsGroup, key: StreamsGroupMemberMetadataKey, value: StreamsGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.remove(key.member_id)
        return
    group.put(
        replace(
            group.members.get(key.member_id) or StreamsMember(key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=value.user_endpoint,
            client_tags=dict(map(_KEY_AND_VALUE, value.client_tags)),
        )
    )


def _target(
    group: StreamsGroup,
    key: StreamsGroupTargetAssignmentMemberKey,
    value: StreamsGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = StreamsTasks(
            *_places(value.active_tasks, value.standby_tasks, value.warmup_tasks)
        )


def _current_assignment(
    group: StreamsGroup,
    key: StreamsGroupCurrentMemberAssignmentKey,
    value: StreamsGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            gone = replace(member, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned=NOTHING, revoking=NOTHING)
            group.put(gone)
        return
    states = StreamsMemberState.__members__.values()
    active, active_left = _epochs(value.member_epoch, value.active_tasks, value.active_tasks_pending_revocation)
    standby, warmup, standby_left, warmup_left = _places(
        value.standby_tasks,
        value.warmup_tasks,
        value.standby_tasks_pending_revocation,
        value.warmup_tasks_pending_revocation,
    )
    group.put(
        replace(
            member or StreamsMember(key.member_id),
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=StreamsMemberState(value.state) if value.state in states else StreamsMemberState.UNKNOWN,
            assigned=Owned(active, standby, warmup),
            revoking=Owned(active_left, standby_left, warmup_left),
        )
    )


def _places(*roles: Iterable[TaskIds | OwnedTaskIds]) -> list[Places]:
    found = list[Places]()
    for rows in roles:
        places = {}
        for one in rows:
            if one.partitions:
                places[one.subtopology_id] = frozenset(one.partitions)
        found.append(places)
    return found


def _epochs(member_epoch: int, *roles: Iterable[OwnedTaskIds]) -> list[Epochs]:
    """Return the epochs of active tasks by subtopology. Early brokers left the epochs out."""
    found = list[Epochs]()
    for rows in roles:
        places = {}
        for one in rows:
            epochs = one.assignment_epochs or ()
            if len(epochs) != len(one.partitions):
                epochs = (member_epoch,) * len(one.partitions)
            if one.partitions:
                places[one.subtopology_id] = dict(zip(one.partitions, epochs, strict=True))
        found.append(places)
    return found


APPLY: dict[type, Callable[[StreamsGroup, Any, Any], None]] = {
    StreamsGroupMetadataKey: _group_epoch,
    StreamsGroupTopologyKey: _topology,
    StreamsGroupMemberMetadataKey: _member,
    StreamsGroupTargetAssignmentMetadataKey: target_metadata,
    StreamsGroupTargetAssignmentMemberKey: _target,
    StreamsGroupCurrentMemberAssignmentKey: _current_assignment,
}
"""Functions that change the table as the record says. A value of None deletes what the key names, except the whole group: the
shard deletes that."""

TAKE: dict[type, Callable[[StreamsGroup, Any, Any], None]] = {
    StreamsGroupTopologyKey: lambda group, _, topology: group.set_topology(topology),
}
"""Functions that apply the object that a record was made of in pieces, so the record is not decoded again."""
