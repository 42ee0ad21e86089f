"""A group's committed offsets, and its commits."""

from __future__ import annotations

from collections.abc import Callable

from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.server.client.connection import Client

from .answers import Answer, Tasks, code_name
from .steps import Commit, DeleteOffsets, Read

PARTITIONS = (0, 1, 2)


class Offsets:
    """The offsets of one broker.

    Args:
        epoch: Returns the epoch to send for a member and step.
        active: Returns the active tasks of a member.
    """

    def __init__(
        self, client: Client, epoch: Callable[[str, int | None, int], int], active: Callable[[str], Tasks]
    ) -> None:
        self._client, self._epoch, self._active = client, epoch, active

    def commit(self, step: Commit) -> Answer:
        has = next(iter(self._active(step.member).values()), (0,))
        row = OffsetCommitRequestPartition(partition_index=has[0], committed_offset=7, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=step.group,
            generation_id_or_member_epoch=self._epoch(step.member, step.epoch, step.off),
            member_id=step.member,
            topics=(OffsetCommitRequestTopic(name=step.topic, partitions=(row,)),),
        )
        answer = self._client.ask(request, step.version)
        return (code_name(answer.topics[0].partitions[0].error_code),)

    def read(self, step: Read) -> Answer:
        topics = (OffsetFetchRequestTopics(name=step.topic, partition_indexes=PARTITIONS),)
        epoch = -1 if step.member is None else self._epoch(step.member, None, step.off)
        group = OffsetFetchRequestGroup(group_id=step.group, member_id=step.member, member_epoch=epoch, topics=topics)
        (answer,) = self._client.ask(OffsetFetchRequest(groups=(group,)), 9).groups
        rows = [(one.committed_offset, code_name(one.error_code)) for each in answer.topics for one in each.partitions]
        return code_name(answer.error_code), rows

    def delete(self, step: DeleteOffsets) -> Answer:
        rows = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in PARTITIONS)
        topic = OffsetDeleteRequestTopic(name=step.topic, partitions=rows)
        answer = self._client.ask(OffsetDeleteRequest(group_id=step.group, topics=(topic,)), 0)
        told = sorted(
            (one.partition_index, code_name(one.error_code)) for each in answer.topics for one in each.partitions
        )
        return code_name(answer.error_code), told
