"""Common parts of OffsetCommit and TxnOffsetCommit: the existing partitions, the preparation of the commit, and the rows of the response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from ..coordination.jobs import Steps
from ..groups.offset_commits import COMMITTED_AT_ONCE, PreparedCommit, TopicCommit
from ..groups.offset_table import Place
from ..groups.shard import GroupShard
from ..partitions.topics import Topic
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context

Asked = TypeVar("Asked", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic)
Row = TypeVar("Row")


class TopicAtRequest(NamedTuple):
    """One topic of a request, in its state when the request arrived."""

    topic: Topic | None
    partition_count: int
    may_read: bool
    """Whether the client may read the topic. Partitions that are added later were not committed, hence the count."""

    def error_of(self, index: int, group_error: ErrorCode, refused: dict[Place, ErrorCode]) -> ErrorCode:
        """Return the error of one partition: unknown, the group's error, or its own refusal."""
        if not self.may_read:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if self.topic is None or not 0 <= index < self.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return group_error or refused.get((self.topic.name, index), ErrorCode.NONE)


class Found(NamedTuple):
    """All topics of a request, and the offsets to commit: existing partitions of topics that the client may read."""

    topics: list[TopicAtRequest]
    commits: list[TopicCommit]


def found_of(ctx: Context, asked: Sequence[Asked], topic_of: Callable[[Asked], Topic | None]) -> Steps[Found]:
    """Look up the topics of a request."""
    found, in_one_step = Found([], []), COMMITTED_AT_ONCE
    for one in asked:
        if (in_one_step := in_one_step - 1) < 0:
            yield
        topic = topic_of(one)
        name = one.name if topic is None else topic.name
        # An unknown id reveals nothing.
        may_read = (topic is None and not name) or ctx.may(AclOperation.READ, ResourceType.TOPIC, name)
        count = 0 if topic is None else len(topic.partitions)
        found.topics.append(TopicAtRequest(topic, count, may_read))
        if topic is None or not may_read:
            continue
        partitions = []
        for partition in one.partitions:
            if (in_one_step := in_one_step - 1) < 0:
                yield
            if 0 <= partition.partition_index < count:
                partitions.append(partition)
        if partitions:
            found.commits.append(TopicCommit(topic.name, topic.id, partitions))
    return found


def prepared_commit(
    ctx: Context,
    shard: GroupShard,
    body: OffsetCommitRequest | TxnOffsetCommitRequest,
    commits: list[TopicCommit],
) -> Steps[PreparedCommit]:
    """Return the commit, prepared: all its topics exist if the caller writes it before any other task runs."""
    coordinator = ctx.services.coordinators.groups.coordinator
    while True:
        prepared = yield from coordinator.prepare(shard, body, commits, ctx.services.clock.now_ms())
        if coordinator.is_current(prepared):
            return prepared


def rows_of(
    asked: Sequence[Asked],
    found: Found,
    error_of: Callable[[TopicAtRequest, int], ErrorCode],
    topic_row: Callable[..., Row],
    partition_row: Callable[..., Any],
) -> Steps[tuple[Row, ...]]:
    """Return the rows of a response; `found` is emptied.

    Args:
        error_of: Returns the error of a partition, by index.
        topic_row: Class of a topic's row.
        partition_row: Class of a partition's row.
    """
    rows, in_one_step = list[Row](), COMMITTED_AT_ONCE
    for known_as, one in zip(found.topics, asked, strict=True):
        if (in_one_step := in_one_step - 1) < 0:
            yield
        partitions = []
        for partition in one.partitions:
            if (in_one_step := in_one_step - 1) < 0:
                yield
            index = partition.partition_index
            partitions.append(partition_row(partition_index=index, error_code=error_of(known_as, index)))
        rows.append(topic_row(name=one.name, topic_id=one.topic_id, partitions=tuple(partitions)))
    for unneeded in found if in_one_step < 0 else ():  # a hundred thousand objects would otherwise be freed at once
        while unneeded:
            yield
            unneeded.pop()
    return tuple(rows)
