"""Fetches that wait for data, and the changes of logs that wake them (Kafka's "purgatory", small).

A fetch is complete when enough bytes have come, or when it could go on reading in an older segment; `Watch.note_end`
is that rule. Whenever the end of what may be read moves, a fetch that waits for that partition costs one comparison with
the position where it is due, and no look at the log; if it waits for several partitions, a subtraction. Transactions that
stay open leave the last stable offset where it is, so whoever reads committed records is not even asked.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple, Self

import trio

from ...storage.disk.paths import TopicPartition
from ...storage.logs.log_reader import LogOffsetMetadata, LogReader
from ..runtime.time_slices import TimeSlice, Waking
from .topics import Partition, Topic, Watcher

NEVER = 1 << 62
_BEHIND_ALL = LogOffsetMetadata(NEVER, 0, NEVER)


class WantedPartition(NamedTuple):
    """One partition of a fetch, as the fetch found it."""

    log: LogReader
    start: LogOffsetMetadata
    """Where it goes on reading."""
    end: LogOffsetMetadata
    """The end of what it may read: the high watermark, or the last stable offset."""
    max_bytes: int
    """As many bytes of the partition count at most."""


class FetchWatch:
    """What a parked fetch knows of one partition."""

    __slots__ = ("counted_bytes", "due_position", "max_bytes", "start", "waiter")

    def __init__(self, waiter: Waiter, wanted: WantedPartition, due_bytes: int) -> None:
        self.waiter = waiter
        self.start = wanted.start
        self.max_bytes = wanted.max_bytes
        self.counted_bytes = 0
        self.due_position = wanted.start.position + due_bytes
        """Ends in this segment that lie below change nothing."""

    def note_end(self, end: LogOffsetMetadata) -> None:
        """What may be read ends here now; completes the fetch if that is enough.

        Source: Apache Kafka, DelayedFetch.tryComplete. There a fetch that begins behind the last stable offset is
        complete at once, so that its client asks on in a loop; here it waits.
        """
        start = self.start
        if end.offset <= start.offset:
            return
        if end.segment_base_offset != start.segment_base_offset or end.position < start.position:
            # A read gives batches of one segment, so waiting would not make it more. The other way round, the segment
            # has been replaced since.
            self.waiter.complete()
            return
        bytes_there = min(end.position - start.position, self.max_bytes)
        self.waiter.count(bytes_there - self.counted_bytes)
        self.counted_bytes = bytes_there


class Waiter:
    """One parked fetch. Use as a context manager so that it always leaves the table."""

    __slots__ = ("_committed", "_event", "_is_alone", "_missing_bytes", "_table", "_waking", "_watches", "is_complete")

    def __init__(self, table: Table, waking: Waking, min_bytes: int, *, committed: bool, is_alone: bool) -> None:
        self._table = table
        self._waking = waking
        self._event = trio.Event()
        self._missing_bytes = min_bytes
        self._committed = committed
        self._is_alone = is_alone
        self.is_complete = min_bytes <= 0
        """Whether it is time to answer, with what there is then."""
        self._watches: list[tuple[TopicPartition, FetchWatch]] = []

    def __enter__(self) -> Self:
        return self

    def watch(self, wanted: WantedPartition) -> None:
        """From now on nothing that comes there is missed, nor what has come since the fetch looked."""
        log = wanted.log
        end_offset = log.last_stable_offset if self._committed else log.high_watermark
        end = wanted.end
        if end_offset != end.offset:
            try:
                end = log.locate(end_offset)
            except Exception:  # noqa: BLE001 -- the fetch looks again and is told what is wrong
                self.wake()
                return
        due_bytes = 0
        if self._is_alone:
            due_bytes = self._missing_bytes if self._missing_bytes <= wanted.max_bytes else NEVER
        watch = FetchWatch(self, wanted, due_bytes)
        watch.note_end(end)
        parked = self._table[log.topic_partition]
        if not parked.watches:
            parked.end_offset, parked.segment_base_offset, _ = end
        parked.watches.add(watch)
        self._watches.append((log.topic_partition, watch))

    def watch_changes(self, log: LogReader) -> None:
        """From now on it is woken when the log begins elsewhere, gets another leader or is deleted, whatever is appended to it."""
        watch = FetchWatch(self, WantedPartition(log, _BEHIND_ALL, _BEHIND_ALL, 0), 0)
        self._table[log.topic_partition].watches.add(watch)
        self._watches.append((log.topic_partition, watch))

    async def leave(self, time_slice: TimeSlice) -> None:
        """Watch nothing any more; what `__exit__` does, for those who are not in a hurry."""
        while self._watches:
            if time_slice.is_over():
                await time_slice.next()
            self._forget(*self._watches.pop())

    def __exit__(self, *_: object) -> None:
        while self._watches:
            self._forget(*self._watches.pop())
        self._waking.left(self)

    def _forget(self, topic_partition: TopicPartition, watch: FetchWatch) -> None:
        watches = self._table[topic_partition].watches
        watches.discard(watch)
        if not watches:
            del self._table[topic_partition]

    def count(self, more_bytes: int) -> None:
        """So many bytes more, or less, could be read."""
        self._missing_bytes -= more_bytes
        if self._missing_bytes <= 0:
            self.complete()

    def complete(self) -> None:
        self.is_complete = True
        self.wake()

    def wake(self) -> None:
        """Let the fetch look again, whatever it has counted: soon."""
        self._waking.wake(self)

    def wake_now(self) -> None:
        self._event.set()

    async def wait(self, timeout_ms: float) -> bool:
        """Wait at most `timeout_ms`; True if woken, False if the time ran out."""
        with trio.move_on_after(timeout_ms / 1000):
            await self._event.wait()
            return True
        return False


class ParkedFetches:
    """The fetches that wait for one partition."""

    __slots__ = ("end_offset", "segment_base_offset", "watches")

    def __init__(self) -> None:
        self.watches: set[FetchWatch] = set()
        self.end_offset = 0
        """The end that all of them know, or some only: an append is told when it is on disk, and who comes before sees it."""
        self.segment_base_offset = 0
        """Of the segment in which it lies."""


Table = defaultdict[TopicPartition, ParkedFetches]


class FetchWaits(Watcher):
    """All parked fetches, by the partition they watch."""

    def __init__(self) -> None:
        self._uncommitted: Table = defaultdict(ParkedFetches)
        self._committed: Table = defaultdict(ParkedFetches)
        self._waking = Waking()
        self.changes = 0
        """How often something changed that is no append; who looked in several turns may have missed it."""

    def __len__(self) -> int:
        """How many partitions have waiters, counted once for each isolation level."""
        return len(self._uncommitted) + len(self._committed)

    def waiter(self, min_bytes: int, *, committed: bool, is_alone: bool) -> Waiter:
        """One that misses `min_bytes`. Enter it, and let it watch all partitions, or (`is_alone`) the only one."""
        table = self._committed if committed else self._uncommitted
        return Waiter(table, self._waking, min_bytes, committed=committed, is_alone=is_alone)

    def moved(self, log: LogReader) -> None:
        """The log's end has moved, or its last stable offset: an append, of records or of a marker."""
        if parked := self._uncommitted.get(log.topic_partition):
            _note_end(parked, log, log.high_watermark)
        if parked := self._committed.get(log.topic_partition):
            _note_end(parked, log, log.last_stable_offset)

    def changed(self, partition: TopicPartition) -> None:
        """The partition was deleted, its leader or its log start moved: all its waiters look again."""
        self.changes += 1
        for table in (self._uncommitted, self._committed):
            if parked := table.get(partition):
                _wake(parked)

    def leader_moved(self, partition: Partition) -> None:
        self.changed(partition.topic_partition)

    def topic_deleted(self, topic: Topic) -> None:
        for partition in topic.partitions:
            self.changed(partition.topic_partition)

    def replaced(self, log: LogReader) -> None:
        """Segments of the log were replaced: who goes on reading in one of them looks again.

        That is who reads committed records up to a transaction that has been open for long; all others wait in the active
        segment.
        """
        self.changes += 1
        if parked := self._committed.get(log.topic_partition):
            for watch in parked.watches:
                if watch.start.segment_base_offset < log.segments.active.base_offset:
                    watch.waiter.wake()

    def wake_all(self) -> None:
        """The broker stops: every waiter looks again, and answers."""
        self.changes += 1
        for table in (self._uncommitted, self._committed):
            for parked in table.values():
                _wake(parked)


def _note_end(parked: ParkedFetches, log: LogReader, end_offset: int) -> None:
    if end_offset != parked.end_offset:
        parked.end_offset = end_offset
        try:
            end = log.locate(end_offset, at_once=True)
        except Exception:  # noqa: BLE001 -- the append stands; whoever waits looks again, and is told what is wrong
            _wake(parked)
            return
        due = [watch for watch in parked.watches if watch.due_position <= end.position]
        if end.segment_base_offset != parked.segment_base_offset:
            parked.segment_base_offset, due = end.segment_base_offset, [*parked.watches]
        for watch in due:
            watch.note_end(end)


def _wake(parked: ParkedFetches) -> None:
    for watch in parked.watches:
        watch.waiter.wake()
