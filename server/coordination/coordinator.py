"""All shards of one coordinator: they are opened, loaded, unloaded and found by key.

The base class of every coordinator. One coordinator serves all nodes of the process. Routing decides which node may answer for
a key; the handlers check that before they call the coordinator.
"""

from __future__ import annotations

import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, TypeVar

from ...protocol.errors import ErrorCode, KafkaError
from .deadlines import Deadlines
from .jobs import IsOver, Job, Jobs, never
from .shard import Shard, ShardState
from .store import RecordStore

_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def java_hash(text: str) -> int:
    """Return `String.hashCode` of Java: the UTF-16 code units as digits to base 31, as a signed 32-bit number."""
    result = 0
    for unit in memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H"):
        result = 31 * result + unit & 0xFFFF_FFFF
    return result - (1 << 32) if result >> 31 else result


# One request calls this several times, and the same groups recur. Keys have at most 32 KiB.
@lru_cache(maxsize=128)
def partition_of(key: str, partition_count: int) -> int:
    """Return the partition of an internal topic that `key` (a group or transactional id) belongs to.

    Kafka takes the absolute value of the hash, and 0 for the only number that has none.
    """
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partition_count


log = logging.getLogger("ottla.coordination")

S = TypeVar("S", bound=Shard)
T = TypeVar("T")


class Coordinator(ABC, Generic[S]):
    """A coordinator: its keys, by partition of `topic`.

    Args:
        elapsed_ms: Monotonic time, for deadlines. `now_ms` everywhere else is the wall time, for records.
        on_earlier: Function that is called when `next_deadline_ms` may have moved to an earlier time.
    """

    topic: str

    def __init__(
        self, store: RecordStore, elapsed_ms: Callable[[], int], on_earlier: Callable[[], None] = lambda: None
    ) -> None:
        self.shards: list[S] = []
        self._store = store
        self._deadlines = Deadlines(elapsed_ms, on_earlier)
        self._jobs = Jobs(on_earlier)
        self._farewells = Jobs(on_earlier)
        """Jobs that close the keys of unloaded shards."""

    # Methods of each coordinator

    @abstractmethod
    def _new_shard(self, partition: int) -> S:
        """Return an empty shard in the state LOADING."""

    @abstractmethod
    def _activated(self, shard: S, now_ms: int) -> None:
        """Start the timers of a shard whose tables are complete."""

    @abstractmethod
    def _unloaded(self, shard: S, error: ErrorCode, now_ms: int) -> Job:
        """Close an ACTIVE shard that is unloaded: answer parked requests with `error`, clear deadlines, and write nothing.
        Deadlines that are due between two pieces must check that the shard is no longer ACTIVE; another shard may have replaced
        it by then."""

    # Partitions

    def open(self, partition_count: int) -> None:
        """Set the number of partitions; each is LOADING until `activate` or `fail`."""
        self.shards = [self._new_shard(partition) for partition in range(partition_count)]

    def activate(self, shard: S, now_ms: int) -> None:
        """Serve the keys of a partition that has been replayed to its end. After any exception the shard is closed and LOADING
        as before, and the caller must call `fail`."""
        if self.is_open(shard):
            shard.state = ShardState.ACTIVE
            try:
                self._activated(shard, now_ms)
            except BaseException:
                self._give_up(shard, ErrorCode.NOT_COORDINATOR, now_ms)
                shard.state = ShardState.LOADING
                raise

    def fail(self, shard: S, reason: Exception) -> None:
        """Leave the keys of a partition without coordinator; the others are served."""
        if self.is_open(shard):
            log.error("cannot load %s-%d: %s", self.topic, shard.partition, reason)
            self._put_empty(shard.partition, ShardState.FAILED)

    def unload(self, partition: int, error: ErrorCode, now_ms: int) -> None:
        """Leave the keys of a partition without coordinator, since no node leads it; parked requests are answered with
        `error`."""
        self._give_up(self.shards[partition], error, now_ms)
        self._put_empty(partition, ShardState.OFFLINE)

    def lose(self, partition: int, now_ms: int) -> None:
        """Leave the keys of a partition without coordinator, since its log cannot be flushed, and its tables may have changes
        that will be lost. Parked requests are answered with NOT_COORDINATOR."""
        if partition < len(self.shards) and self.shards[partition].state in (ShardState.ACTIVE, ShardState.LOADING):
            log.error("cannot flush %s-%d; closing its coordinator", self.topic, partition)
            self._give_up(self.shards[partition], ErrorCode.NOT_COORDINATOR, now_ms)
            self._put_empty(partition, ShardState.FAILED)

    def reload(self, partition: int, error: ErrorCode, now_ms: int) -> S:
        """Replace a partition's tables, as on a new leader; the new shard is LOADING. Parked requests are answered with
        `error`."""
        self._give_up(self.shards[partition], error, now_ms)
        return self._put_empty(partition, ShardState.LOADING)

    def forget(self, error: ErrorCode, now_ms: int) -> None:
        """Forget every key, since the topic was deleted: the state is as before `open`. Parked requests are answered with
        `error`."""
        shards, self.shards = self.shards, []
        for shard in shards:
            self._give_up(shard, error, now_ms)

    def close(self, error: ErrorCode, now_ms: int) -> None:
        """Answer all parked requests with `error` and forget all keys. Nothing is written."""
        for shard in self.shards:
            self._give_up(shard, error, now_ms)
        self.shards = []
        self._jobs.clear()
        self._farewells.run(never)

    def _give_up(self, shard: S, error: ErrorCode, now_ms: int) -> None:
        if shard.state is ShardState.ACTIVE:
            shard.state = ShardState.OFFLINE
            # Fifty shards may be unloaded in one time slice.
            self._farewells.start(_drop_and_close(shard, self._unloaded(shard, error, now_ms)))

    def _put_empty(self, partition: int, state: ShardState) -> S:
        """Replace the shard with another object, so that a load of the old one that is still running has no effect."""
        shard = self.shards[partition] = self._new_shard(partition)
        shard.state = state
        return shard

    def is_open(self, shard: S) -> bool:
        """Whether the shard is in use; False if it was replaced while it was loaded."""
        return shard.partition < len(self.shards) and self.shards[shard.partition] is shard

    def _each_in(self, shards: Iterable[S], table_of: Callable[[S], Mapping[str, T]]) -> Iterator[T]:
        """Iterate over these tables: each has its keys of the moment when its shard is reached, without those deleted since.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, after which clients retry: the shard was unloaded during the iteration, so
                its table is not complete.
        """
        for shard in shards:
            for key in tuple(table_of(shard)):
                if not self.is_open(shard):
                    raise KafkaError(
                        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                        f"the coordinator of {self.topic}-{shard.partition} was closed",
                    )
                one = table_of(shard).get(key)
                if one is not None:
                    yield one

    def _start_job(self, shard: S, job: Job) -> None:
        """Let `run_due` run the job, as long as the shard is ACTIVE."""
        self._jobs.start(self._run_while_served(shard, job))

    def _run_while_served(self, shard: S, job: Job) -> Job:
        # A piece for tables of an unloaded shard would write into the log of its successor.
        while shard.state is ShardState.ACTIVE and self.is_open(shard):
            try:
                next(job)
            except StopIteration:
                return
            yield

    def partition_for(self, key: str) -> int:
        """Return the partition whose leader coordinates `key`. Raises KafkaError NOT_COORDINATOR while the topic does not
        exist."""
        if not self.shards:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.topic} does not exist")
        return partition_of(key, len(self.shards))

    def shard_for(self, key: str) -> S:
        """Return the shard that `key` belongs to, ACTIVE or not. Raises as `partition_for`."""
        return self.shards[self.partition_for(key)]

    def shard_of(self, key: str) -> S:
        """Return the shard that `key` belongs to, if it is ACTIVE. Raises as `partition_for` and `Shard.check_active`."""
        shard = self.shard_for(key)
        shard.check_active()
        return shard

    @property
    def is_any_away(self) -> bool:
        """Whether some shard is being loaded, or will be once a node leads it, so that the known keys may be incomplete."""
        return any(shard.state in (ShardState.LOADING, ShardState.OFFLINE) for shard in self.shards)

    # Time

    def next_deadline_ms(self) -> int | None:
        """Return the elapsed time at which `run_due` has work; None if it has none."""
        return 0 if self._jobs or self._farewells else self._deadlines.next_due_ms()

    def run_due(self, now_ms: int, is_over: IsOver = never) -> None:
        """Run due deadlines and jobs until `is_over()`; `next_deadline_ms` shows whether work is left."""
        self._deadlines.run_due(now_ms, is_over)
        self._farewells.run(is_over)
        self._jobs.run(is_over)


def _drop_and_close(shard: Shard, closing: Job) -> Job:
    yield from closing
    yield from shard.drop()
