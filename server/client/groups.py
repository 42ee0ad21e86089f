"""Groups: lists, committed offsets, and commits from outside."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.delete_groups import DeleteGroupsRequest
from ...protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from .nodes import NodeConnections, check
from .values import Group, expect


def groups(nodes: NodeConnections) -> list[Group]:
    """Return all groups, by id; one that is deleted during the call is left out."""
    listed: dict[str, ListedGroup] = {}
    for node in nodes.retrying(nodes.node_ids):
        answer = nodes.retrying(partial(nodes.ask, ListGroupsRequest(), node))
        check(answer.error_code, f"groups of node {node}")
        listed.update((row.group_id, row) for row in answer.groups)
    found = []
    for name, row in sorted(listed.items()):
        try:
            committed = nodes.retrying(partial(_committed, nodes, name))
        except KafkaError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
        else:
            found.append(Group(name, row.group_state, row.group_type, row.protocol_type, committed))
    return found


def _committed(nodes: NodeConnections, group_id: str) -> dict[tuple[str, int], int]:
    request = OffsetFetchRequest(
        group_id=group_id, topics=None, groups=(OffsetFetchRequestGroup(group_id=group_id, topics=None),)
    )
    answer = nodes.ask_coordinator(request, group_id)
    if answer.groups:
        answer = answer.groups[0]
    check(answer.error_code, f"group {group_id!r}")
    found = {}
    for topic in answer.topics:
        for row in topic.partitions:
            check(row.error_code, f"group {group_id!r}, topic {topic.name!r}, partition {row.partition_index}")
            found[topic.name, row.partition_index] = row.committed_offset
    return found


def commit(nodes: NodeConnections, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit for a group without members, as `kafka-consumer-groups --reset-offsets` does.

    Raises:
        ValueError: An offset is negative.
        KafkaError: UNKNOWN_MEMBER_ID when the group has members; if one partition is refused the others may be committed.
    """
    expect("group ID", group_id, str)
    expect("offsets", offsets, Mapping)
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for place, offset in offsets.items():
        if not isinstance(place, tuple) or len(place) != 2:
            raise TypeError(f"offsets must be {{(topic, partition): offset}}, not {place!r:.60}")
        topic, partition = place
        expect("topic name", topic, str)
        expect("partition", partition, int)
        expect("offset", offset, int)
        if offset < 0:
            raise ValueError(f"offset {offset} for topic {topic!r}, partition {partition} is negative")
        row = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics.setdefault(topic, []).append(row)
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=tuple(OffsetCommitRequestTopic(name=name, partitions=tuple(rows)) for name, rows in topics.items()),
    )

    def attempt() -> None:
        for topic in nodes.ask_coordinator(request, group_id).topics:
            for row in topic.partitions:
                where = f"group {group_id!r}, topic {topic.name!r}, partition {row.partition_index}"
                has_members = row.error_code == ErrorCode.UNKNOWN_MEMBER_ID
                check(
                    row.error_code,
                    f"{where}; the group has members, and only they can commit" if has_members else where,
                )

    nodes.retrying(attempt)


def delete_group(nodes: NodeConnections, group_id: str) -> None:
    """Delete a group with its committed offsets. Raises KafkaError: NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, …"""

    def attempt() -> None:
        (row,) = nodes.ask_coordinator(DeleteGroupsRequest(groups_names=(group_id,)), group_id).results
        check(row.error_code, f"group {group_id!r}")

    nodes.retrying(attempt, repeatable=False)
