"""The share coordinator: the effect of each request on the state of a share partition, in the log and in the tables.

Every change is in the log before it is in the tables, and an append that fails changes nothing. No request is parked.

Every method raises KafkaError if the request fails: NOT_COORDINATOR (the partition does not exist, or could not be loaded),
COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION (of the share partition), and the error of the append.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeAlias

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.disk.paths import TopicPartition
from ..config.broker_config import BrokerConfig
from ..coordination.coordinator import Coordinator
from ..coordination.deadlines import Deadline
from ..coordination.jobs import Job, for_each
from ..coordination.shard import ShardState
from ..coordination.store import RecordStore, WhenFlushed, call_at_once
from ..partitions.internal_topics import SHARE_STATE_TOPIC
from .share_records import Change, SharePartitionKey, write_record
from .share_states import ShareState, ShareStates, ShareStateShard, WrittenState

ChangeOf: TypeAlias = Callable[[ShareStates, SharePartitionKey], Change | None]
"""Function that returns the record that must be written for a share partition, or None."""


@dataclass(frozen=True, slots=True)
class ShareStateSettings:
    """Settings of the share coordinator, as they are when the broker starts."""

    updates_per_snapshot: int
    prune_interval_ms: int
    cold_interval_ms: int

    @classmethod
    def from_config(cls, config: BrokerConfig) -> Self:
        return cls(
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_state_topic_prune_interval_ms,
            config.share_coordinator_cold_partition_snapshot_interval_ms,
        )


class ShareStateCoordinator(Coordinator[ShareStateShard]):
    """The share coordinator: all share partitions, by partition of `__share_group_state`.

    Args:
        exists: Function that returns whether a topic with this id has this partition.
        prune: Function that deletes the records of a partition before an offset; never raises.
        when_flushed: Function that runs the deletion after a flush.
        on_replaced: Function that is called when a state is initialized, reset or deleted, so that its leader's copy is no
            longer valid.
        elapsed_ms: Monotonic time; see `Coordinator`.
    """

    topic = SHARE_STATE_TOPIC

    def __init__(
        self,
        settings: ShareStateSettings,
        store: RecordStore,
        *,
        exists: Callable[[bytes, int], bool],
        prune: Callable[[int, int], None],
        when_flushed: WhenFlushed = call_at_once,
        on_replaced: Callable[[SharePartitionKey], None] = lambda key: None,
        elapsed_ms: Callable[[], int],
        on_earlier: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, elapsed_ms, on_earlier)
        self._settings = settings
        self._exists = exists
        self._prune = prune
        self._when_flushed = when_flushed
        self._on_replaced = on_replaced
        self._pruning = Deadline(self._prune_all)
        self._refreshing = Deadline(self._refresh_cold)

    def _new_shard(self, partition: int) -> ShareStateShard:
        return ShareStateShard(partition, self._settings.updates_per_snapshot)

    def _activated(self, shard: ShareStateShard, now_ms: int) -> None:
        if self._pruning.due_ms is None:
            self._repeat_pruning()
            self._repeat_refreshing()
        # Forget states of topics that were deleted while the shard was not served.
        self._tidy_up(shard, self._forgotten, now_ms)

    def _unloaded(self, shard: ShareStateShard, error: ErrorCode, now_ms: int) -> Job:
        yield from ()

    # Requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int) -> None:
        """Initialize or reset a state; see `ShareStates.initialize`. Raises KafkaError: also INVALID_REQUEST,
        FENCED_STATE_EPOCH."""
        shard = self._shard(key)
        self._persist(shard, key, shard.states.initialize(key, state_epoch, start_offset, now_ms), now_ms)
        self._on_replaced(key)

    def write(self, key: SharePartitionKey, written: WrittenState, now_ms: int) -> None:
        """Write changes of the leader of a share partition. Raises KafkaError: also INVALID_REQUEST, FENCED_LEADER_EPOCH,
        FENCED_STATE_EPOCH."""
        shard = self._shard(key)
        self._persist(shard, key, shard.states.write(key, written, now_ms), now_ms)

    def read(self, key: SharePartitionKey, leader_epoch: int, now_ms: int) -> ShareState:
        """Return the state for a leader; the epoch of a new leader is written. Raises KafkaError: also INVALID_REQUEST,
        FENCED_LEADER_EPOCH."""
        shard = self._shard(key)
        change = shard.states.read(key, leader_epoch, now_ms)
        found = shard.states.get(key)
        assert found is not None
        self._persist(shard, key, change, now_ms)
        return found

    def summary(self, key: SharePartitionKey) -> ShareState | None:
        """Return the state of a share partition; None if it has none."""
        shard = self._shard(key)
        self._check_exists(key)
        return shard.states.get(key)

    def delete(self, key: SharePartitionKey, now_ms: int) -> None:
        """Forget a share partition, if it is known."""
        shard = self._shard(key)
        self._persist(shard, key, shard.states.delete(key), now_ms)
        self._on_replaced(key)

    def topic_deleted(self, topic_id: bytes, now_ms: int) -> None:
        """Forget the share partitions of a deleted topic, in pieces."""
        for shard in self.shards:
            self._tidy_up(shard, lambda states, key: states.delete(key) if key.topic_id == topic_id else None, now_ms)

    def _shard(self, key: SharePartitionKey) -> ShareStateShard:
        if key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        return self.shard_of(key.text)

    def _check_exists(self, key: SharePartitionKey) -> None:
        if not self._exists(key.topic_id, key.partition):
            message = "This server does not host this topic-partition."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)

    def _persist(self, shard: ShareStateShard, key: SharePartitionKey, change: Change | None, now_ms: int) -> None:
        self._check_exists(key)
        if change is not None:
            self._write(shard, change, now_ms)

    def _write(self, shard: ShareStateShard, change: Change, now_ms: int) -> None:
        offset = self._store.append(shard.partition, [write_record(*change)], now_ms)
        shard.states.replay(*change, offset)

    # Time

    def _prune_all(self, now_ms: int) -> None:
        self._repeat_pruning()
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE:
                self._start_job(shard, self._pruned(shard, now_ms))

    def _pruned(self, shard: ShareStateShard, now_ms: int) -> Job:
        needed = shard.states.first_needed_offset()
        if needed is not None and needed > self._store.start_offset(shard.partition):
            # The snapshots that make the older records superfluous must be on disk first.
            go_on = partial(self._prune_flushed, shard, needed)
            self._when_flushed([TopicPartition(self.topic, shard.partition)], go_on, now_ms)
        yield

    def _prune_flushed(
        self, shard: ShareStateShard, needed: int, lost: Collection[TopicPartition], _now_ms: int
    ) -> None:
        if not lost and self.is_open(shard):
            self._prune(shard.partition, needed)

    def _refresh_cold(self, now_ms: int) -> None:
        self._repeat_refreshing()
        for shard in self.shards:
            self._tidy_up(shard, partial(self._refreshed, now_ms), now_ms)

    def _refreshed(self, now_ms: int, states: ShareStates, key: SharePartitionKey) -> Change | None:
        # A topic may have been deleted while the log refused records.
        return self._forgotten(states, key) or states.cold(key, now_ms, self._settings.cold_interval_ms)

    def _forgotten(self, states: ShareStates, key: SharePartitionKey) -> Change | None:
        return None if self._exists(key.topic_id, key.partition) else states.delete(key)

    def _repeat_pruning(self) -> None:
        self._deadlines.start(self._pruning, self._settings.prune_interval_ms)

    def _repeat_refreshing(self) -> None:
        self._deadlines.start(self._refreshing, self._settings.cold_interval_ms)

    def _tidy_up(self, shard: ShareStateShard, change_of: ChangeOf, now_ms: int) -> None:
        """Start a job that writes a record for each share partition that needs one; if the log refuses one, it is left to the
        next time."""
        if shard.state is ShardState.ACTIVE and len(shard.states):
            self._start_job(shard, self._tidied_up(shard, change_of, now_ms))

    def _tidied_up(self, shard: ShareStateShard, change_of: ChangeOf, now_ms: int) -> Job:
        # A change is computed when it is written, in a batch of its own: the state may have changed after each piece, and a few
        # of the largest would not fit into one batch.
        def tidy_up(key: SharePartitionKey) -> Job:
            if (change := change_of(shard.states, key)) is not None:
                self._write(shard, change, now_ms)
            yield

        return for_each(tuple(shard.states), tidy_up, f"cannot clean up {self.topic}-{shard.partition} yet")
