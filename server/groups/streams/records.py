"""The records of streams groups, made from the tables, in the order in which Apache Kafka writes them.

A change is a key and a value as messages. It is written, and then applied to the tables (`replay`), as at a load.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.consumer_offsets import GroupMetadataKey
from ....protocol.messages.streams_group_heartbeat import KeyValue, TaskIds
from ....protocol.messages.streams_group_log import (
    LastAssignmentConfig,
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
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
)
from ..records import Change
from .member import Epochs, StreamsMember, StreamsTasks
from .topology import Topology

EPOCH_MAX = 2**31 - 1

Row = TypeVar("Row")


class DescriptionEpochs(NamedTuple):
    """Topology epochs of a group's last stored and last refused description; negative for none."""

    stored: int = -1
    failed: int = -1


def group_epoch(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_epoch: int,
    configs: Mapping[str, str],
    described: DescriptionEpochs,
) -> Change:
    """Return the record of a group epoch. Raises KafkaError UNKNOWN_SERVER_ERROR after the last epoch: if epochs started again,
    old members would be accepted."""
    if epoch > EPOCH_MAX:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group_id} has reached the maximum epoch {EPOCH_MAX}")
    return StreamsGroupMetadataKey(group_id=group_id), StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_epoch,
        last_assignment_configs=tuple(
            [LastAssignmentConfig(key=key, value=value) for key, value in sorted(configs.items())]
        ),
        stored_description_topology_epoch=described.stored,
        failed_description_topology_epoch=described.failed,
    )


def classic_tombstone(group_id: str) -> Change:
    """Return the record that deletes the classic group of that name."""
    return GroupMetadataKey(group=group_id), None


def topology(group_id: str, value: Topology) -> Change:
    return StreamsGroupTopologyKey(group_id=group_id), value.message


def member_metadata(group_id: str, member: StreamsMember) -> Change:
    return StreamsGroupMemberMetadataKey(
        group_id=group_id, member_id=member.member_id
    ), StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=member.user_endpoint,
        client_tags=tuple(KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())),
    )


def target_metadata(group_id: str, epoch: int, now_ms: int) -> Change:
    return StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=now_ms
    )


def target(group_id: str, member_id: str, tasks: StreamsTasks) -> Change:
    active, standby, warmup = rows_of(TaskIds, tasks)
    return StreamsGroupTargetAssignmentMemberKey(
        group_id=group_id, member_id=member_id
    ), StreamsGroupTargetAssignmentMemberValue(active_tasks=active, standby_tasks=standby, warmup_tasks=warmup)


def target_tombstone(group_id: str, member_id: str) -> Change:
    return StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None


def current_assignment(group_id: str, member: StreamsMember) -> Change:
    assigned, revoking = member.assigned, member.revoking
    active, active_left = _with_epochs(assigned.active, revoking.active)
    standby, warmup, standby_left, warmup_left = rows_of(OwnedTaskIds, (*assigned[1:], *revoking[1:]))
    return StreamsGroupCurrentMemberAssignmentKey(
        group_id=group_id, member_id=member.member_id
    ), StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        active_tasks=active,
        standby_tasks=standby,
        warmup_tasks=warmup,
        active_tasks_pending_revocation=active_left,
        standby_tasks_pending_revocation=standby_left,
        warmup_tasks_pending_revocation=warmup_left,
    )


def member_tombstones(group_id: str, member_id: str) -> list[Change]:
    return [
        (StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        target_tombstone(group_id, member_id),
        (StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def tombstones(group_id: str, member_ids: Collection[str]) -> Iterator[Change]:
    """Return the records that delete a group with all its members."""
    for member_id in member_ids:
        yield StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None
    yield from (target_tombstone(group_id, member_id) for member_id in member_ids)
    yield StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), None
    for member_id in member_ids:
        yield StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None
    yield StreamsGroupMetadataKey(group_id=group_id), None
    yield StreamsGroupTopologyKey(group_id=group_id), None


def rows_of(row: Callable[..., Row], roles: Iterable[Mapping[str, Collection[int]]]) -> list[tuple[Row, ...]]:
    """Return rows of subtopologies and partitions for each role, in order."""
    found = []
    for places in roles:
        rows = []
        for key, partitions in sorted(places.items()):
            rows.append(row(subtopology_id=key, partitions=tuple(sorted(partitions))))
        found.append(tuple(rows))
    return found


def _with_epochs(*roles: Epochs) -> list[tuple[OwnedTaskIds, ...]]:
    found = []
    for epochs in roles:
        rows = []
        for key, since in sorted(epochs.items()):
            partitions = tuple(sorted(since))
            of_each = tuple(map(since.__getitem__, partitions))
            rows.append(OwnedTaskIds(subtopology_id=key, partitions=partitions, assignment_epochs=of_each))
        found.append(tuple(rows))
    return found
