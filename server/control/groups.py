"""State of groups: members, committed offsets (or a share group's start offsets), and lag.

Also creates what a group may have without members: committed offsets, and an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import trio

from ...protocol.errors import KafkaError
from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ...storage.disk.paths import TopicPartition
from ..broker.broker import Broker
from ..groups.share.states import UNKNOWN_OFFSET
from ..partitions.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC
from ..runtime.errors import ControlError, Kind, did_you_mean, refusal
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..services.share_persister import SharePersister
from ..sharing.loading import present_group_config
from .operation import Name, operation

if TYPE_CHECKING:
    from ...protocol.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
    from ..coordination.jobs import Steps
    from ..groups.coordinator import GroupCoordinator
    from ..groups.service import GroupService

_OFFSET_COMMIT_KEY, _OFFSET_COMMIT_VERSION = 8, 9


@dataclass(frozen=True, slots=True)
class Position:
    """Committed offset of a group in a partition."""

    offset: int
    metadata: str = ""


async def commit_offsets(broker: Broker, group_id: str, positions: Mapping[TopicPartition, Position]) -> None:
    """Commit offsets like an administrator: for a group without members, which is created if it does not exist.

    Raises:
        KafkaError: A topic or partition does not exist, the group has members, its coordinator is not available, or metadata is
            too long: nothing is committed then. Also errors of the disk or the append.
    """
    services, time_slice = broker.services, TimeSlice()
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)  # in a thread, what groups need
    from ..groups.offset_commits import TopicCommit

    groups = services.coordinators.groups
    await groups.ensure_topic()
    coordinator = groups.coordinator
    request = OffsetCommitRequest(group_id=group_id, topics=())
    while True:
        by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
        async for (name, index), position in time_slice.each(positions.items()):
            services.topics.partition(name, index)
            by_topic.setdefault(name, []).append(
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=position.offset,
                    committed_leader_epoch=-1,
                    committed_metadata=position.metadata,
                )
            )
        found = {name: services.topics.get(name) for name in by_topic}
        commits = [TopicCommit(name, topic.id, by_topic[name]) for name, topic in found.items() if topic is not None]
        now_ms = services.clock.now_ms()
        shard = coordinator.shard_for(group_id)
        prepared = await run_cooperatively(coordinator.prepare(shard, request, commits, now_ms), time_slice)
        for place, code in prepared.refused.items():
            raise KafkaError(code, f"commit of group {group_id} in {TopicPartition(*place)} failed: {code.name}")
        if coordinator.is_current(prepared):
            break
    refused = coordinator.commit(shard, request, _OFFSET_COMMIT_VERSION, prepared, now_ms)
    for place, code in refused.items():
        raise KafkaError(code, f"commit of group {group_id} in {TopicPartition(*place)} failed: {code.name}")
    await groups.settle(groups.coordinator.shard_for(group_id))


async def begin_group_at(broker: Broker, group_id: str, epoch: int) -> None:
    """Create an empty consumer group (KIP-848) with this epoch.

    Raises:
        KafkaError: NON_EMPTY_GROUP (a group of that name exists), UNSUPPORTED_VERSION (the broker does not serve such groups), its
            coordinator is not available, or an error of the append.
    """
    services = broker.services
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)
    groups = services.coordinators.groups
    groups.check_consumer_protocol()
    await groups.ensure_topic()
    groups.coordinator.begin_at(group_id, epoch, services.clock.now_ms())
    try:
        await groups.settle(groups.coordinator.shard_for(group_id))
    except BaseException:
        with trio.CancelScope(shield=True), suppress(KafkaError):
            await remove_group(broker, group_id)
        raise


async def remove_group(broker: Broker, group_id: str) -> None:
    """Delete a group without members, and its offsets. KafkaError as in the response of DeleteGroups."""
    services = broker.services
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)
    groups = services.coordinators.groups
    await run_cooperatively(groups.coordinator.delete_group(group_id, services.clock.now_ms()), TimeSlice())
    await groups.settle(groups.coordinator.shard_for(group_id))


async def group_exists(broker: Broker, group_id: str) -> bool:
    """Return whether a group of this name exists. KafkaError: its coordinator is not available."""
    if broker.services.topics.get(OFFSETS_TOPIC) is None:
        return False
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)
    groups = broker.services.coordinators.groups
    await groups.ensure_topic()
    return group_id in groups.coordinator.shard_of(group_id).groups


Place: TypeAlias = tuple[str, int]
SHARE = "share"
_DESCRIBE_GROUPS_VERSION = 5
"""Version of DescribeGroups in which an unknown group is Dead, without an error; `_described` has checked that it exists."""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group."""

    group_id: str
    kind: str
    """`classic`, `consumer` (KIP-848), `share` (KIP-932) or `streams` (KIP-1071)."""
    state: str
    """State as named by Apache Kafka's tools, e.g. "Stable"."""
    lag: int
    """Offsets not committed yet, summed over all partitions with a committed offset; for a share group, unacknowledged records."""
    partitions: int
    """Number of members."""


@dataclass(frozen=True, slots=True)
class GroupList:
    """Groups in the order of their ids."""

    groups: tuple[GroupState, ...]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    assigned: tuple[str, ...] | None
    """TOPIC-PARTITION of each; for a `streams` group, those of active tasks. Null for a `classic` group, whose members decide."""


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Committed offset of a group in one partition; for a share group, its start offset: the first unfinished record."""

    topic: str
    partition: int
    committed_offset: int
    log_end_offset: int | None
    """Null: the partition was deleted."""
    lag: int
    metadata: str


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """A group without its offsets."""

    kind: str
    state: str
    """State as in `GroupState`."""
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class DeadLetterState:
    """Dead letter topic of a share group."""

    topic: str
    records: int | None
    """Number of its records, with those of other groups. Null: the topic does not exist."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """One group with members and offsets."""

    group: GroupState
    members: tuple[GroupMember, ...]
    offsets: tuple[GroupOffset, ...]
    """In the order of topic and partition."""
    dead_letters: DeadLetterState | None
    """Null: it is not a share group, or has no dead letter topic."""


@operation("GET", "/v1/groups", statuses=(503,), only_waits=True)
async def list_groups(broker: Broker) -> GroupList:
    """List all groups, with their lag.

    Raises:
        ControlError: UNAVAILABLE: some groups are being loaded.
    """
    groups, time_slice = await _groups(broker), TimeSlice()
    if groups is None:
        return GroupList(())
    try:
        listed = await run_cooperatively(
            groups.coordinator.list_groups(_partitions(broker, groups), (), ()), time_slice
        )
        found = {each.group_id: each for each in listed}
        states = []
        for group_id in await time_slice.sorted(found):
            each = found[group_id]
            offsets, lag = await _offsets(broker, groups, group_id, each.group_type, time_slice)
            states.append(GroupState(group_id, each.group_type, each.group_state, lag, len(offsets)))
            await time_slice.empty(offsets)
    except KafkaError as error:
        raise refusal(error) from error
    return GroupList(tuple(states))


@operation("GET", "/v1/groups/{group}", statuses=(404, 503), only_waits=True)
async def describe_group(broker: Broker, group: Name) -> GroupDescription:
    """Show the members and committed offsets of one group.

    Raises:
        ControlError: NOT_FOUND; UNAVAILABLE: groups are being loaded.
    """
    members, time_slice = await group_members(broker, group), TimeSlice()
    offsets, lag = await _offsets_of(broker, group, members.kind, time_slice)
    state = GroupState(group, members.kind, members.state, lag, len(offsets))
    dead_letters = await _dead_letters(broker, group, time_slice) if members.kind == SHARE else None
    return GroupDescription(state, members.members, tuple(offsets), dead_letters)


async def group_members(broker: Broker, group: str) -> GroupMembers:
    """Return the kind, state and members of one group.

    Raises:
        ControlError: NOT_FOUND; UNAVAILABLE: groups are being loaded.
    """
    groups, time_slice = await _groups(broker), TimeSlice()
    try:
        found = None if groups is None else groups.coordinator.shard_of(group).groups.get(group)
        if groups is None or found is None:
            shards = () if groups is None else groups.coordinator.shards
            known = (name for shard in shards for name in shard.groups)
            raise ControlError(Kind.NOT_FOUND, f"group {group[:249]!r} not found{did_you_mean(group, known)}")
        kind = found.type_name
        shown = KINDS[kind]
        described = await run_cooperatively(shown.describe(groups.coordinator, group), time_slice)
        members = list[GroupMember]()
        async for each in time_slice.each(described.members):
            has = shown.assigned(broker, described, each)
            assigned = None if has is None else tuple(await time_slice.map(_partition, has))
            members.append(
                GroupMember(each.member_id, shown.instance_id(each), each.client_id, each.client_host, assigned)
            )
        return GroupMembers(kind, described.group_state, tuple(members))
    except KafkaError as error:
        raise refusal(error) from error


async def group_offsets(broker: Broker, group: str) -> list[GroupOffset]:
    """Return the committed offsets of a group, or the start offsets of a share group. ControlError as `group_members`."""
    members = await group_members(broker, group)
    offsets, _ = await _offsets_of(broker, group, members.kind, TimeSlice())
    return offsets


async def _offsets_of(broker: Broker, group: str, kind: str, time_slice: TimeSlice) -> tuple[list[GroupOffset], int]:
    groups = await _groups(broker)
    try:
        return ([], 0) if groups is None else await _offsets(broker, groups, group, kind, time_slice)
    except KafkaError as error:
        raise refusal(error) from error


async def _dead_letters(broker: Broker, group_id: str, time_slice: TimeSlice) -> DeadLetterState | None:
    name = present_group_config(broker.config, group_id).dead_letter_topic
    if not name:
        return None
    topic = broker.services.topics.get(name)
    if topic is None:
        return DeadLetterState(name, None)
    records = 0
    async for partition in time_slice.each(topic.partitions):
        records += partition.log.high_watermark - partition.log.log_start_offset
    return DeadLetterState(name, records)


async def _groups(broker: Broker) -> GroupService | None:
    """Return the service, None if no group has been used yet."""
    if broker.services.topics.get(OFFSETS_TOPIC) is None:
        return None
    await broker.handlers.loaded(_OFFSET_COMMIT_KEY)  # in a thread, what groups need
    return broker.services.coordinators.groups


def _partitions(broker: Broker, groups: GroupService) -> list[int]:
    return sorted({each for node in broker.nodes if node.is_alive for each in groups.partitions_led_by(node)})


def _partitions_of(member: Any) -> Iterator[Place]:
    return ((one.topic_name, index) for one in member.assignment.topic_partitions for index in one.partitions)


def _read_by_tasks(broker: Broker, described: DescribedStreamsGroup, member: Any) -> Iterator[Place]:
    """Return the partitions that a member's tasks read.

    Task N of a subtopology reads partition N of each topic that has one.
    """
    subtopologies = () if described.topology is None else described.topology.subtopologies or ()
    reads = {
        one.subtopology_id: (*one.source_topics, *(topic.name for topic in one.repartition_source_topics))
        for one in subtopologies
    }
    return (
        (name, index)
        for task in member.assignment.active_tasks
        for name in reads.get(task.subtopology_id, ())
        for index in task.partitions
        if _end(broker, name, index) is not None
    )


class ShownKind(NamedTuple):
    """How to describe the groups of one kind."""

    describe: Callable[[GroupCoordinator, str], Steps[Any]]
    """Describe the group: the result has `group_state` and `members`."""
    assigned: Callable[[Broker, Any, Any], Iterable[Place] | None]
    """(broker, group, member) -> topic and partition of each that the member reads; None if the broker cannot know."""
    instance_id: Callable[[Any], str | None]


KINDS: dict[str, ShownKind] = {
    "classic": ShownKind(
        lambda groups, group_id: groups.describe_group(group_id, _DESCRIBE_GROUPS_VERSION),
        lambda _broker, _group, _member: None,
        lambda member: member.group_instance_id,
    ),
    "consumer": ShownKind(
        lambda groups, group_id: groups.describe_consumer_group(group_id),
        lambda _broker, _group, member: _partitions_of(member),
        lambda member: member.instance_id,
    ),
    SHARE: ShownKind(
        lambda groups, group_id: groups.describe_share_group(group_id),
        lambda _broker, _group, member: _partitions_of(member),
        lambda _member: None,
    ),
    "streams": ShownKind(
        lambda groups, group_id: groups.describe_streams_group(group_id),
        _read_by_tasks,
        lambda member: member.instance_id,
    ),
}
"""Kinds by `Group.type_name`."""


def _partition(of: Place) -> str:
    return f"{of[0]}-{of[1]}"


async def _offsets(
    broker: Broker, groups: GroupService, group_id: str, kind: str, time_slice: TimeSlice
) -> tuple[list[GroupOffset], int]:
    """Return the offsets by topic and partition, and the total lag."""
    if kind == SHARE:
        return await _share_offsets(broker, groups, group_id, time_slice)
    positions = groups.coordinator.positions(groups.coordinator.shard_of(group_id), group_id, stable=False)
    found = await run_cooperatively(groups.coordinator.fetch_all(positions), time_slice)
    offsets, lag = list[GroupOffset](), 0
    for topic in await time_slice.sorted(found):
        committed = {each.partition: each.committed for each in found[topic] if each.committed is not None}
        async for partition in time_slice.each(await time_slice.sorted(committed)):
            at, end = committed[partition], _end(broker, topic, partition)
            behind = 0 if end is None else max(0, end - at.offset)
            offsets.append(GroupOffset(topic, partition, at.offset, end, behind, at.metadata))
            lag += behind
    return offsets, lag


async def _share_offsets(
    broker: Broker, groups: GroupService, group_id: str, time_slice: TimeSlice
) -> tuple[list[GroupOffset], int]:
    """Return the start offsets where members have fetched: in other partitions the group's start is not known yet."""
    offsets, lag = list[GroupOffset](), 0
    if broker.services.topics.get(SHARE_STATE_TOPIC) is None:
        return offsets, lag
    states = groups.coordinator.initialized_share_partitions(group_id)
    persister = SharePersister(broker.services.coordinators.share_states)
    found = await persister.summaries(group_id, {topic_id: one.partitions for topic_id, one in states.items()})
    names = {
        topic.name: topic_id for topic_id in states if (topic := broker.services.topics.by_id(topic_id)) is not None
    }
    for name in await time_slice.sorted(names):
        topic_id = names[name]
        async for partition in time_slice.each(sorted(states[topic_id].partitions)):
            summary = found[topic_id, partition]
            if summary.start_offset != UNKNOWN_OFFSET:
                end = _end(broker, name, partition)
                done = max(0, summary.delivery_complete_count)
                behind = 0 if end is None else max(0, end - summary.start_offset - done)
                offsets.append(GroupOffset(name, partition, summary.start_offset, end, behind, ""))
                lag += behind
    return offsets, lag


def _end(broker: Broker, topic: str, partition: int) -> int | None:
    found = broker.services.topics.get(topic)
    if found is None or not 0 <= partition < len(found.partitions):
        return None
    return found.partitions[partition].log.log_end_offset
