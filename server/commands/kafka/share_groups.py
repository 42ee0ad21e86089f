"""Positions of a share group in each of its partitions, and changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ....protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ...client.configs import configs
from ...client.nodes import check
from ...client.reading import EARLIEST
from .asking import ClusterViews

Place: TypeAlias = tuple[str, int]
"""Topic and partition."""
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
_NOT_SHOWN = frozenset(
    {
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TOPIC_EXCEPTION,  # the option may have any name
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)


class SharePosition(NamedTuple):
    """Position of a share group in one partition.

    Attributes:
        start: The first unfinished record; None: no member has fetched yet.
        lag: Number of unfinished records, some of which may be before finished ones; None if unknown.
    """

    start: int | None
    lag: int | None


class DeadLetterTopic(NamedTuple):
    """Dead letter topic of a share group.

    Attributes:
        records: Number of its records, with those of other groups; None: the topic does not exist, or is not shown to this
            client.
    """

    topic: str
    records: int | None


def dead_letters_of(cluster: ClusterViews, group_id: str) -> DeadLetterTopic | None:
    """Return the group's dead letter topic; None if it has none, or if this client may not read the group's options."""
    topic: str | None = None
    try:
        options = {each.name: each.value for each in configs(cluster.nodes, "group", group_id)}
        if topic := options.get(_DEAD_LETTERS):
            ends = cluster.ends(topic)
            records = sum(ends.values()) - sum(cluster.offsets_at(topic, EARLIEST).values()) if ends else None
            return DeadLetterTopic(topic, records)
    except KafkaError as error:
        if error.code not in _NOT_SHOWN:
            raise
    return DeadLetterTopic(topic, None) if topic else None


def positions(cluster: ClusterViews, group_id: str) -> dict[Place, SharePosition]:
    """Return the positions in all partitions that the group has used. KafkaError as the coordinator's."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=(asked,))
    (found,) = cluster.nodes.retrying(partial(cluster.nodes.ask_coordinator, request, group_id)).groups
    check(found.error_code, found.error_message)
    return {
        (topic.topic_name, row.partition_index): SharePosition(
            row.start_offset if row.start_offset >= 0 else None, row.lag if row.lag >= 0 else None
        )
        for topic in found.topics
        for row in topic.partitions
    }


def move(cluster: ClusterViews, group_id: str, offsets: Mapping[Place, int]) -> None:
    """Set the start offsets of a group without members.

    Raises:
        KafkaError: NON_EMPTY_GROUP; if one partition is refused, others may have been set.
    """
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for (topic, index), offset in offsets.items():
        row = AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
        topics.setdefault(topic, []).append(row)
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=tuple(
            AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=tuple(rows)) for name, rows in topics.items()
        ),
    )

    def attempt() -> None:
        answer = cluster.nodes.ask_coordinator(request, group_id)
        check(answer.error_code, answer.error_message or f"group {group_id!r}")
        for topic in answer.responses:
            for row in topic.partitions:
                where = f"group {group_id!r}, topic {topic.topic_name!r}, partition {row.partition_index}"
                check(row.error_code, f"{where}: {row.error_message}" if row.error_message else where)

    cluster.nodes.retrying(attempt)
