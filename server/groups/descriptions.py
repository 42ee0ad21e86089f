"""Descriptions and lists of groups for administrators. No function changes a group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages import consumer_group_describe as message
from ...protocol.messages import share_group_describe as share_message
from ...protocol.messages.consumer_group_describe import TopicPartitions
from ...protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from ...protocol.messages.list_groups import ListedGroup
from ...protocol.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from ..coordination.jobs import Steps
from .assigning.assignment import Assignment
from .assigning.assignors import SIMPLE
from .assigning.topics import TopicView
from .classic.group import ClassicGroup, ClassicState
from .consumer.group import ConsumerGroup
from .consumer.member import ConsumerMember
from .consumer.targets import preferred_assignor
from .kinds import Group
from .share.group import ShareGroup
from .streams.describing import describe_streams as streams_description
from .streams.group import StreamsGroup

# From this version of DescribeGroups on, a group that does not exist is an error (KIP-1043).
_GROUP_ID_NOT_FOUND_VERSION = 6
# An id may be as long as a string can be, and the message needs room for its other words.
_ID_CHARS_IN_MESSAGE = 1024
# Member types of ConsumerGroupDescribe.
_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1
KINDS = (ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup)
_STATES = frozenset(name.lower() for kind in KINDS for name in kind.state_names)
_TYPES = frozenset(kind.type_name for kind in KINDS)


def describe_classic(group_id: str, group: Group | None, version: int) -> Steps[DescribedGroup]:
    """Return state and members of a classic group as of the first piece; metadata and assignments only while it is stable.

    A group that does not exist, or is of another kind, is Dead; from version 6 of DescribeGroups on also with
    GROUP_ID_NOT_FOUND.
    """
    if not isinstance(group, ClassicGroup):
        is_error = version >= _GROUP_ID_NOT_FOUND_VERSION
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
            error_message=_not_found(group_id, group, "classic") if is_error else None,
            group_id=group_id,
            group_state=ClassicState.DEAD.value,
        )
    protocol_name = group.protocol_name if group.state is ClassicState.STABLE else None
    rows = [(one, one.member_id, one.metadata(protocol_name), one.assignment) for one in group.members.values()]
    described = DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name or "",
    )
    members = []
    for member, member_id, metadata, assignment in rows:
        yield
        members.append(
            DescribedGroupMember(
                member_id=member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=metadata,
                member_assignment=assignment,
            )
        )
    return replace(described, members=tuple(members))


def describe_consumer(
    group_id: str, group: Group | None, topics: TopicView, default_assignor: str
) -> Steps[message.DescribedGroup]:
    """Return state, epochs and members of a consumer group as of the first piece; deleted topics are left out.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND if it does not exist or is of another kind.
    """
    if not isinstance(group, ConsumerGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, _not_found(group_id, group, "consumer"))
    # Members and targets are values, so these references keep the group's present state.
    members = [(member, group.targets.get(member.member_id, {})) for member in group.members.values()]
    # Most members name the same topics, perhaps thousands.
    names: dict[frozenset[str], tuple[str, ...]] = {}
    described = message.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.assignor_votes, default_assignor),
    )
    yield
    found = []
    for member, target in members:
        if member.topic_names not in names:
            names[member.topic_names] = tuple(sorted(member.topic_names))
        found.append((yield from _described_member(member, names[member.topic_names], target, topics)))
        yield
    return replace(described, members=tuple(found))


def describe_streams(group_id: str, group: Group | None, *, with_description: bool) -> Steps[DescribedStreamsGroup]:
    """Describe a streams group (`streams.describing`).

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND if it does not exist or is of another kind.
    """
    if not isinstance(group, StreamsGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, _not_found(group_id, group, "streams"))
    return (yield from streams_description(group, with_description=with_description))


def _described_member(
    member: ConsumerMember, names: tuple[str, ...], target: Assignment, topics: TopicView
) -> Steps[message.Member]:
    has = {
        topic_id: member.assigned.get(topic_id, {}).keys() | member.revoking.get(topic_id, {}).keys()
        for topic_id in member.assigned.keys() | member.revoking.keys()
    }
    return message.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=names,
        subscribed_topic_regex=member.topic_regex,
        assignment=(yield from _assignment(has, topics)),
        target_assignment=(yield from _assignment(target, topics)),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[bytes, AbstractSet[int]], topics: TopicView) -> Steps[message.Assignment]:
    found = []
    for topic_id in sorted(partitions):
        if (name := topics.name_of(topic_id)) is not None:
            indexes = tuple(sorted(partitions[topic_id]))
            found.append(message.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes))
        yield
    return message.Assignment(topic_partitions=tuple(found))


def describe_share(group_id: str, group: Group | None, topics: TopicView) -> Steps[share_message.DescribedGroup]:
    """Return state, epochs and members of a share group as of the first piece; deleted topics are left out.

    Raises:
        KafkaError: GROUP_ID_NOT_FOUND if it does not exist or is of another kind.
    """
    if not isinstance(group, ShareGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, _not_found(group_id, group, "share"))
    members = tuple(group.members.values())
    names: dict[frozenset[str], tuple[str, ...]] = {}
    described = share_message.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=SIMPLE,
    )
    yield
    found = []
    for member in members:
        if member.topic_names not in names:
            names[member.topic_names] = tuple(sorted(member.topic_names))
        has = []
        for topic_id in sorted(member.assigned):
            if (name := topics.name_of(topic_id)) is not None:
                indexes = tuple(sorted(member.assigned[topic_id]))
                has.append(TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes))
            yield
        found.append(
            share_message.Member(
                member_id=member.member_id,
                rack_id=member.rack_id,
                member_epoch=member.epoch,
                client_id=member.client_id,
                client_host=member.client_host,
                subscribed_topic_names=names[member.topic_names],
                assignment=share_message.Assignment(topic_partitions=tuple(has)),
            )
        )
        yield
    return replace(described, members=tuple(found))


def list_groups(groups: Iterable[Group], states: Collection[str], types: Collection[str]) -> Steps[list[ListedGroup]]:
    """List the groups in the given states and of the given types, ignoring case; none means all. Each group is shown as it is
    when its piece runs."""
    wanted_states = yield from _known_names((state.strip() for state in states), _STATES)
    wanted_types = yield from _known_names(types, _TYPES)
    found = []
    for group in groups:
        if not types or group.type_name in wanted_types:
            state = group.state_name
            if not states or state.lower() in wanted_states:
                found.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type or "",
                        group_state=state,
                        group_type=group.type_name,
                    )
                )
        yield
    return found


def _known_names(names: Iterable[str], known: AbstractSet[str]) -> Steps[set[str]]:
    """Return the known names among these. A request may contain a hundred thousand others."""
    found = set()
    for name in names:
        if (lower := name.lower()) in known:
            found.add(lower)
        yield
    return found


def _not_found(group_id: str, group: Group | None, kind: str) -> str:
    shown = group_id[:_ID_CHARS_IN_MESSAGE]
    return f"Group {shown} not found." if group is None else f"Group {shown} is not a {kind} group."
