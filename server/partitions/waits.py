"""Fetches that wait for data, and the changes of logs that wake them (Kafka's fetch purgatory).

A fetch is complete when enough bytes have arrived, or when it can continue to read in an older segment; `FetchWatch.note_end`
has that rule. When the readable end of a partition moves, each fetch that waits for it costs one comparison with its due
position, and no read of the log; with several partitions also a subtraction. Open transactions do not move the last stable
offset, so fetches of committed records are not even checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import NamedTuple, Self

import trio

from ...storage.disk.paths import TopicPartition
from ...storage.logs.log_reader import LogOffsetMetadata, LogReader
from ..runtime.deferrals import Deferrals
from ..runtime.time_slices import TimeSlice, WakeupThrottle
from .fetch_sessions import Reader
from .topics import Partition, Topic, Watcher

NEVER = 1 << 62
WATCHES_MAX = 1_000
"""Maximum number of watches that are searched for the fetches of one consumer: 0.1 ms."""
TICK_MS = 2
_BEHIND_ALL = LogOffsetMetadata(NEVER, 0, NEVER)


class WantedPartition(NamedTuple):
    """One partition of a fetch, in the state that the fetch found."""

    log: LogReader
    start: LogOffsetMetadata
    """Position at which the fetch continues."""
    end: LogOffsetMetadata
    """Readable end of the log: the high watermark, or the last stable offset."""
    max_bytes: int
    """Maximum number of bytes of the partition that count."""


class FetchWatch:
    """State of one partition of a parked fetch."""

    __slots__ = ("counted_bytes", "due_position", "max_bytes", "start", "waiter")

    def __init__(self, waiter: Waiter, wanted: WantedPartition, due_bytes: int) -> None:
        self.waiter = waiter
        self.start = wanted.start
        self.max_bytes = wanted.max_bytes
        self.counted_bytes = 0
        self.due_position = wanted.start.position + due_bytes
        """Position in this segment below which an end changes nothing."""

    def note_end(self, end: LogOffsetMetadata) -> None:
        """Note the new readable end, and complete the fetch if that is enough.

        Source: Apache Kafka, DelayedFetch.tryComplete. There a fetch that begins after the last stable offset is complete at
        once, so its client repeats it in a loop; here it waits.
        """
        start = self.start
        if end.offset <= start.offset:
            return
        if end.segment_base_offset != start.segment_base_offset or end.position < start.position:
            # A read returns batches of one segment, so waiting would not make it more. In the other case, the segment was
            # replaced.
            self.waiter.complete()
            return
        bytes_there = min(end.position - start.position, self.max_bytes)
        self.waiter.count(bytes_there - self.counted_bytes)
        self.counted_bytes = bytes_there


class Waiter:
    """One parked fetch. It is used as a context manager, so that it always leaves the table."""

    __slots__ = (
        "_committed",
        "_event",
        "_is_alone",
        "_missing_bytes",
        "_on_wake",
        "_scope",
        "_table",
        "_wakeup_throttle",
        "_watches",
        "is_complete",
        "reader",
    )

    def __init__(
        self,
        table: Table,
        wakeup_throttle: WakeupThrottle,
        min_bytes: int,
        *,
        committed: bool,
        is_alone: bool,
        on_wake: Callable[[], object] | None,
    ) -> None:
        self._table = table
        self._wakeup_throttle = wakeup_throttle
        self._on_wake = on_wake
        self._event: trio.Event | None = None if on_wake else trio.Event()
        self._scope: trio.CancelScope | None = None
        self._missing_bytes = min_bytes
        self._committed = committed
        self._is_alone = is_alone
        self.is_complete = min_bytes <= 0
        """Whether the fetch must be answered now, with the data that exist."""
        self._watches: list[tuple[TopicPartition, FetchWatch]] = []
        self.reader: Reader | None = None
        """The consumer that waits; None for another client."""

    def __enter__(self) -> Self:
        return self

    def watch(self, wanted: WantedPartition) -> None:
        """Watch a partition: all records from now on are counted, and those since the fetch has read it."""
        log = wanted.log
        end_offset = log.last_stable_offset if self._committed else log.high_watermark
        end = wanted.end
        if end_offset != end.offset:
            try:
                end = log.locate(end_offset)
            except Exception:  # noqa: BLE001 -- the fetch reads again and gets the error
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
        """Watch a log for other changes than appends: its start moves, it gets another leader, or it is deleted."""
        watch = FetchWatch(self, WantedPartition(log, _BEHIND_ALL, _BEHIND_ALL, 0), 0)
        self._table[log.topic_partition].watches.add(watch)
        self._watches.append((log.topic_partition, watch))

    async def leave(self, time_slice: TimeSlice) -> None:
        """Stop watching, as `__exit__` does, but in several time slices."""
        while self._watches:
            if time_slice.is_over():
                await time_slice.next()
            self._forget(*self._watches.pop())

    def __exit__(self, *_: object) -> None:
        while self._watches:
            self._forget(*self._watches.pop())
        if self._on_wake is None:
            self._wakeup_throttle.leave(self)

    def _forget(self, topic_partition: TopicPartition, watch: FetchWatch) -> None:
        watches = self._table[topic_partition].watches
        watches.discard(watch)
        if not watches:
            del self._table[topic_partition]

    def count(self, more_bytes: int) -> None:
        """Count bytes more, or less, that can be read."""
        self._missing_bytes -= more_bytes
        if self._missing_bytes <= 0:
            self.complete()

    def complete(self) -> None:
        self.is_complete = True
        self.wake()

    def wake(self) -> None:
        """Wake the fetch soon, whatever it has counted, so that it reads again."""
        if self._on_wake is None:
            self._wakeup_throttle.wake(self)
        else:
            self._on_wake()

    def wake_now(self) -> None:
        assert self._event is not None
        self._event.set()

    async def wait(self, until_s: float) -> bool:
        """Wait until `until_s` of Trio's time; True if woken, False if the time ran out."""
        assert self._event is not None
        with trio.CancelScope(deadline=until_s) as self._scope:
            await self._event.wait()
            return True
        return False

    def hurry(self, until_s: float) -> None:
        """End the present wait at `until_s`, if that is earlier."""
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, until_s)


class ParkedFetches:
    """Fetches that wait for one partition."""

    __slots__ = ("end_offset", "segment_base_offset", "watches")

    def __init__(self) -> None:
        self.watches: set[FetchWatch] = set()
        self.end_offset = 0
        """End of the log that at least some of the fetches know. An append is notified when it is on disk, and a fetch that
        starts before that sees it already."""
        self.segment_base_offset = 0
        """Base offset of the segment that contains the end."""


Table = defaultdict[TopicPartition, ParkedFetches]


class FetchWaits(Watcher):
    """All parked fetches, by the partition that they watch."""

    def __init__(self) -> None:
        self._uncommitted: Table = defaultdict(ParkedFetches)
        self._committed: Table = defaultdict(ParkedFetches)
        self._wakeup_throttle = WakeupThrottle()
        self.deferrals = Deferrals(TICK_MS)
        """Waits without a task."""
        self.changes = 0
        """Number of changes other than appends. A fetch that reads in several steps may miss such a change."""

    def __len__(self) -> int:
        """Return the number of partitions with waiting fetches, counted once for each isolation level."""
        return len(self._uncommitted) + len(self._committed)

    def waiter(
        self, min_bytes: int, *, committed: bool, is_alone: bool, on_wake: Callable[[], object] | None = None
    ) -> Waiter:
        """Return a waiter that needs `min_bytes`. The caller must enter it, and let it watch all partitions, or (`is_alone`)
        the only one. With `on_wake`, which is called when it wakes, it has no task."""
        table = self._committed if committed else self._uncommitted
        return Waiter(table, self._wakeup_throttle, min_bytes, committed=committed, is_alone=is_alone, on_wake=on_wake)

    def readers(self, partition: TopicPartition) -> list[Reader]:
        """Return the consumers whose fetches wait for this partition."""
        found = [table.get(partition) for table in (self._uncommitted, self._committed)]
        waiters = [watch.waiter for parked in found if parked is not None for watch in parked.watches]
        return [waiter.reader for waiter in waiters if waiter.reader is not None]

    def end_for(self, client_id: str, client_host: str) -> None:
        """End the parked fetches of a consumer that has news elsewhere: some clients look at nothing else before their fetch
        ends. Only the first WATCHES_MAX watches are searched."""
        parked = chain(self._uncommitted.values(), self._committed.values())
        watches = (watch for each in parked for watch in each.watches)
        for watch in list(islice(watches, WATCHES_MAX)):
            reader = watch.waiter.reader
            if reader is not None and reader.client_id == client_id and reader.client_host == client_host:
                watch.waiter.complete()

    def notify_moved(self, log: LogReader) -> None:
        """Note that the log's end or its last stable offset has moved, by an append of records or of a marker."""
        if self._uncommitted and (parked := self._uncommitted.get(log.topic_partition)):
            _note_end(parked, log, log.high_watermark)
        if self._committed and (parked := self._committed.get(log.topic_partition)):
            _note_end(parked, log, log.last_stable_offset)

    def changed(self, partition: TopicPartition) -> None:
        """Wake all fetches of a partition that was deleted, or whose leader or log start has moved."""
        self._changed((partition,))

    def _changed(self, partitions: Iterable[TopicPartition]) -> None:
        self.changes += 1
        if len(self):
            for partition in partitions:
                for table in (self._uncommitted, self._committed):
                    if parked := table.get(partition):
                        _wake(parked)

    def leader_moved(self, partition: Partition) -> None:
        self.changed(partition.topic_partition)

    def topic_deleted(self, topic: Topic) -> None:
        self._changed(partition.topic_partition for partition in topic.partitions)

    def replaced(self, log: LogReader) -> None:
        """Wake the fetches that would continue to read in replaced segments of the log.

        These are fetches of committed records before a transaction that has been open for long; all others wait in the active
        segment.
        """
        self.changes += 1
        if parked := self._committed.get(log.topic_partition):
            for watch in parked.watches:
                if watch.start.segment_base_offset < log.segments.active.base_offset:
                    watch.waiter.wake()

    def wake_all(self) -> None:
        """Wake every fetch when the broker stops, so that it is answered."""
        self.changes += 1
        for table in (self._uncommitted, self._committed):
            for parked in table.values():
                _wake(parked)


def _note_end(parked: ParkedFetches, log: LogReader, end_offset: int) -> None:
    if end_offset != parked.end_offset:
        parked.end_offset = end_offset
        try:
            end = log.locate(end_offset, at_once=True)
        except Exception:  # noqa: BLE001 -- the append is done; waiting fetches read again, and get the error
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
