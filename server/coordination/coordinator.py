"""All shards of one coordinator: opened, loaded, given up and found by key.

The base of every coordinator. One coordinator serves all nodes of the process; which node may speak for a key is a fact
of routing that the handlers check before they come here.
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
    """`String.hashCode` of Java: the UTF-16 units as digits to base 31, as a signed 32-bit number."""
    result = 0
    for unit in memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H"):
        result = 31 * result + unit & 0xFFFF_FFFF
    return result - (1 << 32) if result >> 31 else result


# One request asks some times, and the same groups come again and again. Keys have 32 KiB at most.
@lru_cache(maxsize=128)
def partition_of(key: str, partition_count: int) -> int:
    """The partition of an internal topic that `key` (a group or transactional id) belongs to.

    Kafka takes the absolute value, with 0 for the one number that has none.
    """
    hashed = java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partition_count


log = logging.getLogger("ottla.coordination")

S = TypeVar("S", bound=Shard)
T = TypeVar("T")


class Coordinator(ABC, Generic[S]):
    """All keys, by partition of `topic`.

    Args:
        elapsed_ms: Time that passes, for deadlines; `now_ms` everywhere else is the wall time, for what is written.
        on_earlier: Called when `next_deadline_ms` may have moved to an earlier time.
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
        """To what was in shards that have been given up."""

    # For each coordinator to say

    @abstractmethod
    def _new_shard(self, partition: int) -> S:
        """An empty shard, LOADING."""

    @abstractmethod
    def _activated(self, shard: S, now_ms: int) -> None:
        """The shard's tables are complete: start what runs by time."""

    @abstractmethod
    def _unloaded(self, shard: S, error: ErrorCode, now_ms: int) -> Job:
        """An ACTIVE shard is given up: answer what is parked with `error`, clear its deadlines. Write nothing. Deadlines that
        come due between two pieces have to see that the shard is not ACTIVE any more; another one may be in its place by
        then."""

    # Partitions

    def open(self, partition_count: int) -> None:
        """Know the number of partitions; each is LOADING until `activate` or `fail`."""
        self.shards = [self._new_shard(partition) for partition in range(partition_count)]

    def activate(self, shard: S, now_ms: int) -> None:
        """Serve the keys of a partition that has been replayed to its end. Whatever it raises, the shard is given up and
        LOADING as before, and is to be failed."""
        if self.is_open(shard):
            shard.state = ShardState.ACTIVE
            try:
                self._activated(shard, now_ms)
            except BaseException:
                self._give_up(shard, ErrorCode.NOT_COORDINATOR, now_ms)
                shard.state = ShardState.LOADING
                raise

    def fail(self, shard: S, reason: Exception) -> None:
        """Leave the keys of a partition without coordinator; all others are served."""
        if self.is_open(shard):
            log.error("cannot load %s-%d: %s", self.topic, shard.partition, reason)
            self._put_empty(shard.partition, ShardState.FAILED)

    def unload(self, partition: int, error: ErrorCode, now_ms: int) -> None:
        """Leave the keys of a partition without coordinator, since no node leads it; parked answers get `error`."""
        self._give_up(self.shards[partition], error, now_ms)
        self._put_empty(partition, ShardState.OFFLINE)

    def lose(self, partition: int, now_ms: int) -> None:
        """What the partition's log was given cannot be brought to the disk, so its tables tell of what may never have been:
        leave its keys without coordinator. Parked answers get NOT_COORDINATOR."""
        if partition < len(self.shards) and self.shards[partition].state in (ShardState.ACTIVE, ShardState.LOADING):
            log.error("cannot flush %s-%d; closing its coordinator", self.topic, partition)
            self._give_up(self.shards[partition], ErrorCode.NOT_COORDINATOR, now_ms)
            self._put_empty(partition, ShardState.FAILED)

    def reload(self, partition: int, error: ErrorCode, now_ms: int) -> S:
        """Forget a partition's tables, as on a new leader; the new shard is LOADING. Parked answers get `error`."""
        self._give_up(self.shards[partition], error, now_ms)
        return self._put_empty(partition, ShardState.LOADING)

    def forget(self, error: ErrorCode, now_ms: int) -> None:
        """The topic is gone, and with it every key: as before `open`. Parked answers get `error`."""
        shards, self.shards = self.shards, []
        for shard in shards:
            self._give_up(shard, error, now_ms)

    def close(self, error: ErrorCode, now_ms: int) -> None:
        """Answer everything that is parked with `error` and forget all. Nothing is written."""
        for shard in self.shards:
            self._give_up(shard, error, now_ms)
        self.shards = []
        self._jobs.clear()
        self._farewells.run(never)

    def _give_up(self, shard: S, error: ErrorCode, now_ms: int) -> None:
        if shard.state is ShardState.ACTIVE:
            shard.state = ShardState.OFFLINE
            # Fifty shards may go in one turn.
            self._farewells.start(_farewell(shard, self._unloaded(shard, error, now_ms)))

    def _put_empty(self, partition: int, state: ShardState) -> S:
        """Another object in the shard's place, so that whoever is still loading the old one is not listened to."""
        shard = self.shards[partition] = self._new_shard(partition)
        shard.state = state
        return shard

    def is_open(self, shard: S) -> bool:
        """False for a shard whose loading outlived its time here."""
        return shard.partition < len(self.shards) and self.shards[shard.partition] is shard

    def _each_in(self, shards: Iterable[S], table_of: Callable[[S], Mapping[str, T]]) -> Iterator[T]:
        """All that there is in these tables when the shard's turn comes, as far as it still is there.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, with which clients ask again: the shard was given up meanwhile, and what
                is left of it is not what there is.
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
        """Have the job done by `run_due`, as far as the shard is ACTIVE by then."""
        self._jobs.start(self._while_served(shard, job))

    def _while_served(self, shard: S, job: Job) -> Job:
        # A piece for tables that were given up would write into the log of those that took their place.
        while shard.state is ShardState.ACTIVE and self.is_open(shard):
            try:
                next(job)
            except StopIteration:
                return
            yield

    def partition_for(self, key: str) -> int:
        """The partition whose leader coordinates `key`. KafkaError NOT_COORDINATOR while there is no topic."""
        if not self.shards:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{self.topic} does not exist")
        return partition_of(key, len(self.shards))

    def shard_for(self, key: str) -> S:
        """The shard that `key` belongs to, ACTIVE or not. Raises as `partition_for`."""
        return self.shards[self.partition_for(key)]

    def shard_of(self, key: str) -> S:
        """The shard that `key` belongs to, if that is ACTIVE. Raises as `partition_for` and `Shard.check_active`."""
        shard = self.shard_for(key)
        shard.check_active()
        return shard

    @property
    def is_any_away(self) -> bool:
        """Whether some shard is being loaded, or will be once a node leads it: nobody knows of all there is."""
        return any(shard.state in (ShardState.LOADING, ShardState.OFFLINE) for shard in self.shards)

    # Time

    def next_deadline_ms(self) -> int | None:
        """When `run_due` has something to do, in elapsed time; None while it has not."""
        return 0 if self._jobs or self._farewells else self._deadlines.next_due_ms()

    def run_due(self, now_ms: int, is_over: IsOver = never) -> None:
        """Do what has come due, and jobs, until it `is_over`; `next_deadline_ms` tells whether something is left."""
        self._deadlines.run_due(now_ms, is_over)
        self._farewells.run(is_over)
        self._jobs.run(is_over)


def _farewell(shard: Shard, closing: Job) -> Job:
    yield from closing
    yield from shard.drop()
