"""Descriptions of a streams group for administrators, and for members that ask which member serves which partitions
(interactive queries). Nothing is changed except the cache of the last answer."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter

from ....protocol.messages import streams_group_describe as message
from ....protocol.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    KeyValue,
    Subtopology,
    TaskIds,
    TopicInfo,
    TopicPartition,
)
from ...coordination.jobs import Steps
from ..assigning.topics import TopicView
from .configured import Configured, ConfiguredSubtopology, InternalTopic
from .group import NO_OFFSETS, EndpointRow, StreamsGroup, TaskOffsets
from .member import NO_TASKS, Owned, StreamsMember, StreamsTasks
from .topology import Topology

NOT_REQUESTED, NOT_STORED, AVAILABLE = 0, 1, 3
"""Status of the description of a topology."""


def describe_streams(group: StreamsGroup, *, with_description: bool) -> Steps[message.DescribedGroup]:
    """Return state, epochs, topology and members, as of the first piece. `with_description` adds the description of the topology, if
    one is stored.

    While all topics exist, the topology contains the computed partition counts of internal topics, else only the counts that
    the application has set.
    """
    # Members and targets are values, so these references keep the group's present state.
    members = [
        (member, group.targets.get(name, NO_TASKS), group.task_offsets.get(name, NO_OFFSETS))
        for name, member in group.members.items()
    ]
    topology, configured = group.topology, group.configured
    is_stored = topology is not None and group.described.stored == topology.epoch
    description = group.description if with_description and is_stored else None
    status = NOT_REQUESTED if not with_description else NOT_STORED if description is None else AVAILABLE
    described = message.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology_description=description,
        topology_description_status=status,
    )
    yield
    found = []
    for member, target, offsets in members:
        found.append(_member(member, target, offsets))
        yield
    shown = None if topology is None else (yield from _topology(topology, configured))
    return replace(described, topology=shown, members=tuple(found))


def _topology(topology: Topology, configured: Configured | None) -> Steps[message.Topology]:
    rows = []
    if configured is not None and configured.problem is None and configured.subtopologies is not None:
        for key, ready in configured.subtopologies.items():
            rows.append(_configured(key, ready))
            yield
    else:
        for key, asked in topology.subtopologies.items():
            rows.append(_describe_requested(key, asked))
            yield
    return message.Topology(epoch=topology.epoch, subtopologies=tuple(rows))


def _configured(key: str, one: ConfiguredSubtopology) -> message.Subtopology:
    return message.Subtopology(
        subtopology_id=key,
        source_topics=one.source_topics,
        repartition_sink_topics=one.repartition_sinks,
        state_changelog_topics=tuple(map(_internal, one.changelogs)),
        repartition_source_topics=tuple(map(_internal, one.repartition_sources)),
    )


def _internal(topic: InternalTopic) -> TopicInfo:
    return TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=tuple(KeyValue(key=key, value=value) for key, value in topic.configs.items()),
    )


def _describe_requested(key: str, one: Subtopology) -> message.Subtopology:
    return message.Subtopology(
        subtopology_id=key,
        source_topics=tuple(sorted(one.source_topics)),
        repartition_sink_topics=tuple(sorted(one.repartition_sink_topics)),
        state_changelog_topics=_infos(one.state_changelog_topics),
        repartition_source_topics=_infos(one.repartition_source_topics),
    )


def _infos(topics: Collection[TopicInfo]) -> tuple[TopicInfo, ...]:
    return tuple(sorted(topics, key=attrgetter("name")))


def _member(member: StreamsMember, target: StreamsTasks, offsets: TaskOffsets) -> message.Member:
    return message.Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=member.user_endpoint,
        client_tags=tuple(KeyValue(key=key, value=value) for key, value in member.client_tags.items()),
        task_offsets=offsets.offsets,
        task_end_offsets=offsets.ends,
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(target),
    )


def _assignment(tasks: Owned | StreamsTasks) -> message.Assignment:
    return message.Assignment(
        active_tasks=_rows(tasks.active), standby_tasks=_rows(tasks.standby), warmup_tasks=_rows(tasks.warmup)
    )


def _rows(places: Mapping[str, Collection[int]]) -> tuple[TaskIds, ...]:
    return tuple(
        TaskIds(subtopology_id=key, partitions=tuple(sorted(partitions))) for key, partitions in sorted(places.items())
    )


def endpoints(group: StreamsGroup, member_id: str, topics: TopicView) -> Steps[tuple[EndpointToPartitions, ...]]:
    """Return the endpoints of all members that have one, that of the requesting member last; a member a piece."""
    rows = []
    others = [other for other in group.members if other != member_id]
    for one in (*others, member_id):
        member = group.members.get(one)
        if member is not None and member.user_endpoint is not None:
            rows.append(_row(group, member, member.user_endpoint, topics))
        yield
    return tuple(rows)


def _row(group: StreamsGroup, member: StreamsMember, endpoint: Endpoint, topics: TopicView) -> EndpointToPartitions:
    known = group.endpoints.get(member.member_id)
    if known is not None and known.member is member and known.configured is group.configured:
        return known.row
    subtopologies = (group.configured.subtopologies if group.configured is not None else None) or {}
    standby, warmup = member.assigned.standby, member.assigned.warmup
    replicas = {key: standby.get(key, frozenset()) | warmup.get(key, frozenset()) for key in {*standby, *warmup}}
    row = EndpointToPartitions(
        user_endpoint=endpoint,
        active_partitions=tuple(_partitions(member.assigned.active, subtopologies, topics)),
        standby_partitions=tuple(_partitions(replicas, subtopologies, topics)),
    )
    group.endpoints[member.member_id] = EndpointRow(member, group.configured, row)
    return row


def _partitions(
    tasks: Mapping[str, Collection[int]],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    topics: TopicView,
) -> Iterator[TopicPartition]:
    """Yield the topic partitions of these tasks, without topics that were deleted, or have fewer partitions than each task."""
    for key, partitions in sorted(tasks.items()):
        if (one := subtopologies.get(key)) is None:
            continue
        indexes = sorted(partitions)
        for name in sorted({*one.source_topics, *(topic.name for topic in one.repartition_sources)}):
            if (topic_id := topics.id_of(name)) is not None:
                read = indexes[: bisect_left(indexes, topics.partition_count(topic_id))]
                if read:
                    yield TopicPartition(topic=name, partitions=tuple(read))
