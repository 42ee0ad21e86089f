"""What OffsetCommit and TxnOffsetCommit have in common: which of the partitions are there, and the commit made ready."""

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
    """One topic of a request, as it was when the request came."""

    topic: Topic | None
    partition_count: int
    may_read: bool
    """It may get more before the answer, which were not committed."""

    def error_of(self, index: int, group_error: ErrorCode, refused: dict[Place, ErrorCode]) -> ErrorCode:
        """What to answer for one partition: that it is not there, what the group says, or what is refused of it alone."""
        if not self.may_read:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if self.topic is None or not 0 <= index < self.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return group_error or refused.get((self.topic.name, index), ErrorCode.NONE)


async def found_of(
    ctx: Context, asked: Iterable[Asked], topic_of: Callable[[Asked], Topic | None], time_slice: TimeSlice
) -> tuple[list[TopicAtRequest], list[TopicCommit]]:
    """Each topic that a request names, and what is to be committed: the partitions that are there, of topics that the
    client may read."""
    found: list[TopicAtRequest] = []
    commits: list[TopicCommit] = []
    async for one in time_slice.each(asked):
        topic = topic_of(one)
        name = one.name if topic is None else topic.name
        # An id that is nobody's is no secret.
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


async def prepared_in_turns(
    ctx: Context,
    shard: GroupShard,
    body: OffsetCommitRequest | TxnOffsetCommitRequest,
    commits: list[TopicCommit],
) -> PreparedCommit:
    """The commit, ready to be written in the turn in which this returns: each topic is there then."""
    coordinator = ctx.services.coordinators.groups.coordinator
    while True:
        prepared = await run_cooperatively(
            coordinator.prepare(shard, body, commits, ctx.services.clock.now_ms()), ctx.time_slice
        )
        if coordinator.is_current(prepared):
            return prepared
