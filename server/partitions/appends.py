"""Appends of the broker itself, and the state that they share with clients' appends.

min ISR      `min.insync.replicas`, required for records that must be on all replicas
flush        `flush.messages`: callers that depend on an append wait until it is on disk
large ones   see `large_appends`
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import AppendInfo, Log
from ...storage.produce.validation import AppendOrigin
from ..runtime.clock import Clock
from ..runtime.meters import Meter
from ..runtime.nursery import Tasks
from .flusher import Flusher
from .topics import NO_LEADER, Partition, Topics, Watcher
from .waits import FetchWaits

logger = logging.getLogger("ottla.appends")

# Time after which a flush that failed for a temporary reason is retried.
FLUSH_RETRY_MS = 1_000
# Number of produced batches that worker threads decompress at one time. Most are decompressed in pieces, but a snappy block, or
# the window of a zstd frame, may have the maximum size of a decompressed batch.
HEAVY_CHECKS_MAX = 1

Flushed: TypeAlias = Callable[[Collection[TopicPartition], int], None]
"""Function that is called once partitions are on disk, with the partitions that cannot be flushed, and `now_ms`."""


class Appends:
    """Appends to all partitions of a broker."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        topics: Topics,
        waits: FetchWaits,
        clock: Clock,
        tasks: Tasks,
        watchers: Sequence[Watcher],
    ) -> None:
        self.flusher = Flusher(clock, waits.notify_moved)
        self.heavy_checks = trio.CapacityLimiter(HEAVY_CHECKS_MAX)
        self.large: dict[Log, trio.Event] = {}
        """Log to which a large batch is being written -> event for its end. The other producers of the partition wait for it;
        otherwise no large append would ever complete."""
        self.keyless_refused = Meter()
        """Meter of records without key that compacted topics refused."""
        self.clock = clock
        self._logs = logs
        self._topics = topics
        self._waits = waits
        self._tasks = tasks
        self._watchers = watchers

    def min_insync_replicas(self, partition: Partition) -> int:
        """Return `min.insync.replicas` of the topic, at most the number of its replicas, as in Apache Kafka."""
        return min(partition.log.config.min_insync_replicas, len(partition.replicas))

    def check_insync(self, partition: Partition) -> None:
        """Raise KafkaError NOT_ENOUGH_REPLICAS if too few replicas are in sync for records that must be on all of them."""
        wanted = self.min_insync_replicas(partition)
        if len(partition.isr) < wanted:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{partition.topic_partition} has too few in-sync replicas ({len(partition.isr)}, min.insync.replicas"
                f" is {wanted})",
            )

    def append_own(
        self, topic_partition: TopicPartition, records: bytearray, *, transaction_version: int = 0
    ) -> AppendInfo:
        """Append batches that the broker made itself, and wake the fetches that wait for them.

        If `flush.messages` requires it, the sync starts now. This method does not wait for it; callers that depend on the
        append do (`when_flushed`). If the sync fails, the partition's coordinator unloads its tables.

        Raises:
            KafkaError: as Log.append; NOT_LEADER_OR_FOLLOWER (no live node leads it), NOT_ENOUGH_REPLICAS.
        """
        partition = self._topics.partition(*topic_partition)
        if partition.leader == NO_LEADER:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic_partition} has no leader")
        self.check_insync(partition)
        done = partition.log.append(
            memoryview(records),
            now_ms=self.clock.now_ms(),
            leader_epoch=partition.leader_epoch,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=transaction_version,
        )
        if partition.log.needs_flush:
            self.when_flushed([topic_partition], partial(self._flushed, partition), self.clock.now_ms())
        else:
            self._waits.notify_moved(partition.log)
        return done

    async def complete(self, log: Log, done: AppendInfo) -> None:
        """Wait until an append is on disk, if `flush.messages` requires it, and wake the fetches that wait for it. Raises
        KafkaError as `Flusher.flush`."""
        if done.last_offset >= log.high_watermark:
            await self.flusher.flush([log])
        elif not done.duplicate:
            self._waits.notify_moved(log)

    def _flushed(self, partition: Partition, failed: Collection[TopicPartition], now_ms: int) -> None:
        if failed:
            self._waits.changed(partition.topic_partition)
            for watcher in self._watchers:
                watcher.lost(partition, now_ms)

    def when_flushed(self, partitions: Iterable[TopicPartition], then: Flushed, now_ms: int) -> None:
        """Call `then` once these partitions are on disk as `flush.messages` requires.

        It is called at once if nothing is missing, else from a task of its own. Partitions that do not exist are ignored.
        """
        wanted = {log: one for one in partitions if (log := self._logs.get(one)) is not None and log.needs_flush}
        if wanted:
            self._tasks.start_soon(self._flush_then, wanted, then)
        else:
            then((), now_ms)

    async def _flush_then(self, wanted: Mapping[Log, TopicPartition], then: Flushed) -> None:
        failed: set[TopicPartition] = set()
        left = list(wanted)
        while left:
            refused = await self.flusher.flush_each(left)
            failed.update(wanted[log] for log in refused if log.failure is not None)
            left = [log for log in refused if log.failure is None]
            if left:  # the disk works, but descriptors or memory were short
                await self.clock.sleep(FLUSH_RETRY_MS)
        try:
            then(failed, self.clock.now_ms())
        except Exception:
            logger.exception("the operation after the flush of %s failed", ", ".join(map(str, wanted.values())))
