"""Markers of transactions on their way to the processes that have the partitions.

The coordinator takes its next step when they are written, as it waits for those of this process to be on disk (`Appends.when_flushed`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ..partitions.topics import Partition, Topics
from ..runtime.nursery import Tasks
from .link import Link, LinkLostError
from .placed import Marker


class _Sent:
    """One of them."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.is_refused = False


class SentMarkers:
    """Those of the first process.

    Args:
        link_of: To the process that has a partition. LinkLostError: it is not there.
    """

    def __init__(self, topics: Topics, tasks: Tasks, link_of: Callable[[Partition], Link]) -> None:
        self._topics = topics
        self._tasks = tasks
        self._link_of = link_of
        self._sent: defaultdict[TopicPartition, list[_Sent]] = defaultdict(list)

    def send(self, where: TopicPartition, facts: dict[str, int]) -> bool:
        """Have a marker written by the process that has the partition; False if it is this one.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER (it is not there): it may be tried again.
        """
        partition = self._topics.partition(*where)
        if not partition.is_elsewhere:
            return False
        try:
            link = self._link_of(partition)
        except LinkLostError as error:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(error)) from error
        sent = _Sent()
        self._sent[where].append(sent)
        self._tasks.start_soon(self._carry, link, Marker(where, facts), sent)
        return True

    async def _carry(self, link: Link, marker: Marker, sent: _Sent) -> None:
        try:
            await link.call("mark", marker)
        except KafkaError as error:
            # What is deleted meanwhile needs none.
            sent.is_refused = error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        except LinkLostError:
            sent.is_refused = True
        finally:
            sent.over.set()

    def under_way(self, partitions: Iterable[TopicPartition]) -> Awaitable[set[TopicPartition]] | None:
        """Those of the partitions that have not taken what was sent to them, once that is known; None if nothing was."""
        found = {each: self._sent.pop(each) for each in partitions if each in self._sent}
        return self._refused(found) if found else None

    async def _refused(self, found: dict[TopicPartition, list[_Sent]]) -> set[TopicPartition]:
        refused = set()
        for where, all_sent in found.items():
            for sent in all_sent:
                await sent.over.wait()
                if sent.is_refused:
                    refused.add(where)
        return refused
