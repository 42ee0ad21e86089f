"""The share coordinator: what each request does to the state of a share partition, in the log and in the tables.

Everything it changes is in the log before it is in the tables, and an append that fails changes nothing. Nothing is ever parked.

Every method raises KafkaError where the request fails: NOT_COORDINATOR (no such partition, or one that could not be loaded),
COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_TOPIC_OR_PARTITION (of the share partition), and what the log did not take the record for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Self

from ...protocol.errors import ErrorCode, KafkaError
from ..config.broker_config import BrokerConfig
from ..coordination.coordinator import Coordinator
from ..coordination.deadlines import Deadline
from ..coordination.jobs import Job
from ..coordination.shard import ShardState
from ..coordination.store import RecordStore
from ..partitions.internal_topics import SHARE_STATE_TOPIC
from .share_records import Change, SharePartitionKey, write_record
from .share_states import ShareState, Written
from .state_shard import ShareStateShard

log = logging.getLogger("ottla.sharing")

# Snapshots and deletions that are written before others get their turn.
CHANGES_A_PIECE = 16


@dataclass(frozen=True, slots=True)
class ShareStateSettings:
    """As they are when the broker starts."""

    updates_per_snapshot: int
    prune_interval_ms: int
    cold_interval_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        return cls(
            config.share_coordinator_snapshot_update_records_per_snapshot,
            config.share_coordinator_state_topic_prune_interval_ms,
            config.share_coordinator_cold_partition_snapshot_interval_ms,
        )


class ShareStateCoordinator(Coordinator[ShareStateShard]):
    """All share partitions, by partition of `__share_group_state`.

    Args:
        exists: Whether there is such a partition of a topic with this id.
        prune: Deletes what a partition of the topic has before an offset; never raises.
        elapsed_ms: Time that passes; see `Coordinator`.
    """

    topic = SHARE_STATE_TOPIC

    def __init__(
        self,
        settings: ShareStateSettings,
        store: RecordStore,
        *,
        exists: Callable[[bytes, int], bool],
        prune: Callable[[int, int], None],
        elapsed_ms: Callable[[], int],
        on_earlier: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(store, elapsed_ms, on_earlier)
        self._settings = settings
        self._exists = exists
        self._prune = prune
        self._intervals = (
            (Deadline(self._prune_all), settings.prune_interval_ms),
            (Deadline(self._refresh_cold), settings.cold_interval_ms),
        )

    def _new_shard(self, partition: int) -> ShareStateShard:
        return ShareStateShard(partition, self._settings.updates_per_snapshot)

    def _activated(self, shard: ShareStateShard, now_ms: int) -> None:
        for deadline, interval_ms in self._intervals:
            if deadline.due_ms is None:
                self._deadlines.start(deadline, interval_ms)
        gone = {key.topic_id for key in shard.states if not self._exists(key.topic_id, key.partition)}
        if gone:  # They were deleted while nobody coordinated them.
            self._start_job(shard, self._write_all(shard, shard.states.topics_deleted(gone), now_ms))

    def _unloaded(self, shard: ShareStateShard, error: ErrorCode, now_ms: int) -> Job:
        yield from ()

    # Requests

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int) -> None:
        """Begin, or begin anew; see `ShareStates.initialize`. KafkaError also INVALID_REQUEST, FENCED_STATE_EPOCH."""
        shard = self._shard(key)
        self._persist(shard, key, shard.states.initialize(key, state_epoch, start_offset, now_ms), now_ms)

    def write(self, key: SharePartitionKey, written: Written, now_ms: int) -> None:
        """Take what the leader of the share partition tells. KafkaError also INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH."""
        shard = self._shard(key)
        self._persist(shard, key, shard.states.write(key, written, now_ms), now_ms)

    def read(self, key: SharePartitionKey, leader_epoch: int, now_ms: int) -> ShareState:
        """What a leader has to know to go on; the epoch of a new one is written down. KafkaError also INVALID_REQUEST, FENCED_LEADER_EPOCH."""
        shard = self._shard(key)
        change = shard.states.read(key, leader_epoch, now_ms)
        found = shard.states.get(key)
        assert found is not None
        self._persist(shard, key, change, now_ms)
        return found

    def summary(self, key: SharePartitionKey) -> ShareState | None:
        """What is known of a share partition; None where nothing is."""
        shard = self._shard(key)
        self._check_exists(key)
        return shard.states.get(key)

    def delete(self, key: SharePartitionKey, now_ms: int) -> None:
        """Forget a share partition; one that is not known is fine."""
        shard = self._shard(key)
        self._persist(shard, key, shard.states.delete(key), now_ms)

    def topic_deleted(self, topic_id: bytes, now_ms: int) -> None:
        """Forget its share partitions, in turns."""
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE and len(shard.states):
                self._start_job(shard, self._write_all(shard, shard.states.topics_deleted((topic_id,)), now_ms))

    def _shard(self, key: SharePartitionKey) -> ShareStateShard:
        if key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")
        return self.shard_of(key.text)

    def _check_exists(self, key: SharePartitionKey) -> None:
        if not self._exists(key.topic_id, key.partition):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _persist(self, shard: ShareStateShard, key: SharePartitionKey, change: Change | None, now_ms: int) -> None:
        self._check_exists(key)
        if change is not None:
            self._write(shard, [change], now_ms)

    def _write(self, shard: ShareStateShard, changes: list[Change], now_ms: int) -> None:
        first = self._store.append(shard.partition, [write_record(*change) for change in changes], now_ms)
        for offset, (key, value) in enumerate(changes, first):
            shard.states.replay(key, value, offset)

    # Time

    def _prune_all(self, now_ms: int) -> None:
        self._again(0)
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE:
                needed = shard.states.first_needed_offset()
                if needed is not None and needed > self._store.start_offset(shard.partition):
                    self._prune(shard.partition, needed)

    def _refresh_cold(self, now_ms: int) -> None:
        self._again(1)
        for shard in self.shards:
            if shard.state is ShardState.ACTIVE and len(shard.states):
                cold = shard.states.cold(now_ms, self._settings.cold_interval_ms)
                self._start_job(shard, self._write_all(shard, cold, now_ms))

    def _again(self, which: int) -> None:
        deadline, interval_ms = self._intervals[which]
        self._deadlines.start(deadline, interval_ms)

    def _write_all(self, shard: ShareStateShard, changes: Iterable[Change], now_ms: int) -> Job:
        """Each of these, some at a time; what the log does not take is left to the next time."""
        left = iter(changes)
        try:
            while piece := list(islice(left, CHANGES_A_PIECE)):
                self._write(shard, piece, now_ms)
                yield
        except KafkaError as error:
            log.warning("%s-%d cannot be tidied up yet: %s", self.topic, shard.partition, error)
