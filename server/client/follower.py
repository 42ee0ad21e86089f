"""Reading of all partitions of a topic as its records are committed, without a group.

A `Follower` asks each leader for all of its partitions in one Fetch request, and can wait there for the next record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ...protocol.records import Record
from .nodes import RETRIABLE, NodeConnections, check
from .reading import FETCH_BYTES, LEVELS, offsets, visible_records

T = TypeVar("T")
OFFSET_MAX = 2**63 - 1
SHARED_WAIT_MS = 20
"""Maximum wait at one of several leaders, since the next record may come at another one."""


class Follower:
    """Positions in all partitions of a topic; for one thread at a time."""

    def __init__(
        self,
        nodes: NodeConnections,
        topic: str,
        *,
        begin: Callable[[], None],
        take: Callable[[int, Record], None],
        forget_below: Callable[[int, int], bool],
    ) -> None:
        """
        Args:
            begin: Called before any record of the topic, also of another one of the same name.
            take: Called with the partition and each record that a read_committed consumer gets, in the order of offsets.
            forget_below: Called with a partition and an offset, if the records below it were deleted; OFFSET_MAX if the
                partition is read from its start again. If it returns True, the partition is read again in any case.
        """
        self._nodes = nodes
        self._topic = topic
        self._begin = begin
        self._take = take
        self._forget_below = forget_below
        self._topic_id = b""
        self._leaders: dict[int, int] | None = None
        self._positions: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._begun_at: dict[int, int] = {}
        """Last stable offsets when the reading began at the log start."""
        self._targets: dict[int, int] = {}
        """Last stable offsets of the first responses since `catch_up` began."""

    @property
    def partition_count(self) -> int:
        """Number of partitions that were read, at least 1."""
        return max(1, len(self._positions))

    def catch_up(self) -> None:
        """Read all partitions up to their present last stable offsets.

        Raises:
            KafkaError: The topic was deleted, or a batch is damaged.
            OSError: No response.
        """
        self._leaders = None  # the topic may have more partitions now
        self._targets = {}  # a producer that is faster than this reader would move the end for ever
        while not self._nodes.retrying(partial(self._at_leaders, partial(self._pull, 0))):
            pass

    def wait(self, wait_ms: int) -> None:
        """Wait for records for at most `wait_ms`, and read the first ones. Errors as of `catch_up`."""
        if not self._nodes.retrying(partial(self._at_leaders, partial(self._pull, wait_ms))):
            self.catch_up()  # a partition is read again, and nothing is known of it before

    def read_one(self, partition: int, offset: int) -> Record | None:
        """Return the record at this offset; None if there is none any more. Errors as of `catch_up`."""
        data = self._nodes.retrying(partial(self._at_leaders, partial(self._fetch_one, partition, offset)))
        if data.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            check(data.error_code, f"topic {self._topic!r}, partition {partition}, offset {offset}")
        for _, records in visible_records(data, self._topic, LEVELS["read_uncommitted"]):
            for record in records:
                if record.offset == offset:
                    return record
        return None

    def _at_leaders(self, work: Callable[[dict[int, int]], T]) -> T:
        """Do work with the leaders of all partitions, and ask for them again after an error."""
        if self._leaders is None:
            found = self._nodes.topic(self._topic)
            if found.topic_id != self._topic_id:
                self._begin_again(found.topic_id)
            self._leaders = {each.index: each.leader for each in found.partitions}
        try:
            if unled := [index for index, leader in self._leaders.items() if leader < 0]:
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"partition {unled[0]} of topic {self._topic!r} has no leader"
                )
            return work(self._leaders)
        except (KafkaError, OSError):
            self._leaders = None
            raise

    def _begin_again(self, topic_id: bytes) -> None:
        """Read another topic of the same name from its start."""
        self._begin()
        self._positions.clear()
        self._starts.clear()
        self._begun_at.clear()
        self._topic_id = topic_id

    def _fetch_one(self, partition: int, offset: int, leaders: dict[int, int]) -> PartitionData:
        """Fetch the batch at an offset, however large it is."""
        if partition not in leaders:
            return PartitionData()  # the topic was created again, with fewer partitions
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)
        request = FetchRequest(max_bytes=1, topics=(FetchTopic(topic=self._topic, partitions=(wanted,)),))
        data: PartitionData = self._ask(request, leaders[partition])[0]
        if data.error_code in RETRIABLE:
            check(data.error_code, f"topic {self._topic!r}, partition {partition}")
        return data

    def _pull(self, wait_ms: int, leaders: dict[int, int]) -> bool:
        """Fetch once from each leader; return whether all partitions are read to their ends as of the first response."""
        led: dict[int, list[FetchPartition]] = {}
        for index, leader in leaders.items():
            position = self._positions.setdefault(index, 0)
            wanted = FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
            led.setdefault(leader, []).append(wanted)
        is_done = True
        for leader, partitions in led.items():
            request = FetchRequest(
                max_wait_ms=wait_ms if len(led) == 1 else min(wait_ms, SHARED_WAIT_MS),
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                isolation_level=LEVELS["read_committed"],
                topics=(FetchTopic(topic=self._topic, partitions=tuple(partitions)),),
            )
            found = self._ask(request, leader)
            is_gap = not any(data.records for data in found)
            for data in found:
                is_done &= self._accept(data, is_gap)
        return is_done

    def _ask(self, request: FetchRequest, leader: int) -> Sequence[PartitionData]:
        answer = self._nodes.ask(request, leader)
        check(answer.error_code, f"topic {self._topic!r}")
        found: Sequence[PartitionData] = answer.responses[0].partitions
        if answer.throttle_time_ms and not any(data.records for data in found):
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"throttled for {answer.throttle_time_ms} ms")
        return found

    def read_again(self, index: int) -> None:
        """Read a partition from its start in the next call of `catch_up`."""
        self._read_again(index, self._starts.get(index, 0))

    def _read_again(self, index: int, start: int) -> None:
        """Read a partition from its start: other records have the offsets, or a clean pass may have removed a tombstone unread."""
        self._forget_below(index, OFFSET_MAX)
        self._positions[index] = self._starts[index] = start
        self._begun_at.pop(index, None)

    def _accept(self, data: PartitionData, is_gap: bool) -> bool:
        """Take the records of one partition; return whether it is read to its end as of the first response.

        Args:
            is_gap: No partition of the response has records, so offsets up to the end have none.
        """
        index = data.partition_index
        position = self._positions[index]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = offsets(self._nodes, self._topic, index, "read_committed").start
            if start > position:
                self._forget_below(index, start)
                self._positions[index] = self._starts[index] = start
            else:
                self._read_again(index, start)
            return False
        check(data.error_code, f"topic {self._topic!r}, partition {index}, offset {position}")
        if data.log_start_offset > self._starts.get(index, 0):
            self._starts[index] = data.log_start_offset
            if self._forget_below(index, data.log_start_offset):
                self._read_again(index, data.log_start_offset)
                return False
        begun_at = self._begun_at.setdefault(index, data.last_stable_offset)
        for batch, records in visible_records(data, self._topic, LEVELS["read_committed"]):
            is_dense = batch.base_offset <= self._positions[index] and batch.record_count == batch.last_offset_delta + 1
            if batch.next_offset > begun_at and not is_dense:
                self._read_again(index, data.log_start_offset)
                return False
            for record in records:
                if record.offset >= position:
                    self._take(index, record)
            self._positions[index] = max(self._positions[index], batch.next_offset)
        if is_gap and data.last_stable_offset > position:
            if data.last_stable_offset > begun_at:
                self._read_again(index, data.log_start_offset)
                return False
            self._positions[index] = data.last_stable_offset
        target = self._targets.setdefault(index, data.last_stable_offset)
        return self._positions[index] >= min(target, data.last_stable_offset)
