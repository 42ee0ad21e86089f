"""Common parts of OffsetCommit and TxnOffsetCommit: the existing partitions, and the preparation of the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ...protocol.errors import ErrorCode
from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic
from ...protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from ..groups.offset_commits import PreparedCommit, TopicCommit
from ..groups.offset_table import Place
from ..groups.shard import GroupShard
from ..partitions.topics import Topic
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context

Asked = TypeVar("Asked", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic)


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


async def found_of(
    ctx: Context, asked: Iterable[Asked], topic_of: Callable[[Asked], Topic | None], time_slice: TimeSlice
) -> tuple[list[TopicAtRequest], list[TopicCommit]]:
    """Return each topic in a request, and the offsets to commit: existing partitions of topics that the client may read."""
    found: list[TopicAtRequest] = []
    commits: list[TopicCommit] = []
    async for one in time_slice.each(asked):
        topic = topic_of(one)
        name = one.name if topic is None else topic.name
        # An unknown id reveals nothing.
        may_read = (topic is None and not name) or ctx.may(AclOperation.READ, ResourceType.TOPIC, name)
        found.append(TopicAtRequest(topic, 0 if topic is None else len(topic.partitions), may_read))
        if topic is None or not may_read:
            continue
        partitions = []
        async for partition in time_slice.each(one.partitions):
            if 0 <= partition.partition_index < found[-1].partition_count:
                partitions.append(partition)
        if partitions:
            commits.append(TopicCommit(topic.name, topic.id, partitions))
    return found, commits


async def prepare_cooperatively(
    ctx: Context,
    shard: GroupShard,
    body: OffsetCommitRequest | TxnOffsetCommitRequest,
    commits: list[TopicCommit],
) -> PreparedCommit:
    """Return the commit, prepared: all its topics exist if the caller writes it before any other task runs."""
    coordinator = ctx.services.coordinators.groups.coordinator
    while True:
        prepared = await run_cooperatively(
            coordinator.prepare(shard, body, commits, ctx.services.clock.now_ms()), ctx.time_slice
        )
        if coordinator.is_current(prepared):
            return prepared
