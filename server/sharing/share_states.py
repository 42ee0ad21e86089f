"""Contents of one partition of `__share_group_state`: the start offset and the states of records of each share partition.

It is a table like those of the other coordinators: an event becomes a record, computed without any effect. The record is
appended, and then applied by `replay`, as at a load. A snapshot has the whole state of a share partition, an update the changes
since then. An update has the same key as the one before, but does not replace it. So the topic is not compacted, as in Apache
Kafka; the records before the last snapshots of all share partitions are deleted instead (`first_needed_offset`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.share_state_log import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from ...protocol.records import Record, RecordBatch
from ..coordination.jobs import Job
from ..coordination.shard import Shard
from ..partitions.internal_topics import SHARE_STATE_TOPIC
from .share_records import Change, SharePartitionKey, key_of, read_batches, read_record, write_batches
from .state_batches import ShareStateBatch, are_merged, merged, with_more

WRITTEN_MAX = 2_000
"""Maximum number of state batches in one write; leaders write a quarter of it (`share_partition.RUNS_AT_ONCE`). Applying that
many takes some milliseconds."""
BATCHES_MAX = 20_000
"""Maximum number of state batches of a share partition: twice the number of records that may be in flight, with the highest
value of `group.share.max.partition.max.record.locks`."""
NOT_SAID = -1
"""Offset or number that a request leaves unchanged, and an epoch that no request may have."""
_EPOCH_MAX = 2**31 - 1
# In Apache Kafka's words, which members of a share group also get.
_NEGATIVE = "The {} epoch cannot be a negative number."
_LATE_LEADER = "The leader epoch in the request is older than the epoch on the broker."
_LATE_STATE = "The share coordinator rejected the request because the share-group state epoch did not match."


@dataclass(frozen=True, slots=True)
class ShareState:
    """Written state of one share partition.

    Attributes:
        batches: States of records, `state_batches.merged`.
        snapshot_offset: Offset of its last snapshot in the log.
        updates: Number of updates since the last snapshot that was made because of their number.
        state_fence, leader_fence: Highest epochs of requests; a request with a lower epoch is late. These and `updates` may be
            lower after a load, as in Apache Kafka: their records may have been pruned.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[ShareStateBatch, ...]
    create_ms: int
    write_ms: int
    snapshot_offset: int
    updates: int = 0
    state_fence: int = NOT_SAID
    leader_fence: int = NOT_SAID


class WrittenState(NamedTuple):
    """Changes that the leader of a share partition writes (WriteShareGroupState).

    Attributes:
        batches: State batches. Many batches for the same records take less time if they are `merged` before.
        told: Number of batches before that.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[ShareStateBatch, ...]
    told: int = 0


class ShareStates:
    """The table, and the records that each event makes."""

    def __init__(self, updates_per_snapshot: int) -> None:
        self._updates_per_snapshot = updates_per_snapshot
        self._states: dict[SharePartitionKey, ShareState] = {}
        self._last_deleted: int | None = None

    def __len__(self) -> int:
        return len(self._states)

    def get(self, key: SharePartitionKey) -> ShareState | None:
        return self._states.get(key)

    def __iter__(self) -> Iterator[SharePartitionKey]:
        return iter(self._states)

    def drop(self) -> Iterator[None]:
        """Empty the table in pieces, since freeing everything at once takes long."""
        while self._states:
            self._states.popitem()
            yield

    # Events

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, now_ms: int) -> Change:
        """Return the record that initializes a state, or resets it, at an offset; -1 if the offset is not known yet.

        Raises:
            KafkaError: INVALID_REQUEST, FENCED_STATE_EPOCH.
        """
        _check_epoch("state", state_epoch)
        state = self._states.get(key)
        if state is not None:
            _check_state_epoch(state, state_epoch)
        return _snapshot(
            key,
            ShareState(
                snapshot_epoch=0 if state is None else _after(state.snapshot_epoch),
                state_epoch=state_epoch,
                leader_epoch=0,
                start_offset=start_offset,
                delivery_complete_count=NOT_SAID if start_offset == NOT_SAID else 0,
                batches=(),
                create_ms=now_ms,
                write_ms=now_ms,
                snapshot_offset=NOT_SAID,
            ),
        )

    def write(self, key: SharePartitionKey, written: WrittenState, now_ms: int) -> Change:
        """Return the record of a leader's write.

        Raises:
            KafkaError: INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.
        """
        _check_epoch("leader", written.leader_epoch)
        _check_epoch("state", written.state_epoch)
        state = self._checked(key, written.leader_epoch, "Write")
        _check_state_epoch(state, written.state_epoch)
        count = written.told or len(written.batches)
        if count > WRITTEN_MAX or count + len(state.batches) > BATCHES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"too many state batches ({count} in one write, {count + len(state.batches)} in all; limits"
                f" {WRITTEN_MAX} and {BATCHES_MAX})",
            )
        return self._record(key, state, written, state.leader_epoch, now_ms)

    def read(self, key: SharePartitionKey, leader_epoch: int, now_ms: int) -> Change | None:
        """Return the record that must be written before a new leader gets the state; None if the leader is not new.

        Raises:
            KafkaError: INVALID_REQUEST, FENCED_LEADER_EPOCH.
        """
        _check_epoch("leader", leader_epoch)
        state = self._checked(key, leader_epoch, "Read")
        if leader_epoch == state.leader_fence:
            return None
        same = WrittenState(state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ())
        return self._record(key, state, same, leader_epoch, now_ms)

    def delete(self, key: SharePartitionKey) -> Change | None:
        """Return the record that deletes a share partition; None if it has no state."""
        return (key_of(ShareSnapshotKey, key), None) if key in self._states else None

    def cold(self, key: SharePartitionKey, now_ms: int, interval_ms: int) -> Change | None:
        """Return a new snapshot of a state that was not written for `interval_ms`, so that the log before it can be deleted. A
        state that was written in the future, by a clock that has been set back, also gets one."""
        state = self._states.get(key)
        if state is None or 0 <= now_ms - state.write_ms < interval_ms:
            return None
        return _snapshot(key, replace(state, snapshot_epoch=_after(state.snapshot_epoch), write_ms=now_ms))

    def first_needed_offset(self) -> int | None:
        """Return the offset before which no record is needed; None if no state exists and none was deleted."""
        return min((state.snapshot_offset for state in self._states.values()), default=self._last_deleted)

    def _checked(self, key: SharePartitionKey, leader_epoch: int, what: str) -> ShareState:
        state = self._states.get(key)
        if state is None:
            message = f"{what} operation on uninitialized share partition not allowed."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if leader_epoch < state.leader_fence:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, _LATE_LEADER)
        return state

    def _record(
        self, key: SharePartitionKey, state: ShareState, written: WrittenState, leader_epoch: int, now_ms: int
    ) -> Change:
        """Return an update, or a snapshot after the configured number of updates.

        A late write, with an earlier start offset or a lower count, moves neither back.
        """
        start, count = max(
            (state.start_offset, state.delivery_complete_count),
            (written.start_offset, written.delivery_complete_count),
        )
        said = written.batches
        if said and (said[0].first_offset < start or not are_merged(said)):
            said = tuple(merged(said, start))
        if state.updates < self._updates_per_snapshot:
            return key_of(ShareUpdateKey, key), ShareUpdateValue(
                snapshot_epoch=state.snapshot_epoch,
                leader_epoch=leader_epoch,
                start_offset=start,
                delivery_complete_count=count,
                state_batches=write_batches(said),
            )
        return _snapshot(
            key,
            replace(
                state,
                snapshot_epoch=_after(state.snapshot_epoch),
                leader_epoch=leader_epoch,
                start_offset=start,
                delivery_complete_count=count,
                batches=tuple(with_more(state.batches, said, start)),
                create_ms=now_ms,
                write_ms=now_ms,
            ),
        )

    # Records

    def replay(self, key: Any, value: Any, offset: int) -> None:
        """Apply a record, at a load or after an append."""
        place = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        state = self._states.get(place)
        if isinstance(key, ShareUpdateKey):
            # Apache Kafka never deletes an update. If the snapshot of an update was pruned, a newer snapshot or a deletion
            # follows.
            if value is not None and state is not None:
                self._states[place] = _updated(state, value)
        elif value is None:
            self._states.pop(place, None)
            self._last_deleted = offset
        else:
            updates = 0 if state is None or state.updates >= self._updates_per_snapshot else state.updates
            self._states[place] = _from_snapshot(value, state, offset, updates)


def _from_snapshot(value: ShareSnapshotValue, before: ShareState | None, offset: int, updates: int) -> ShareState:
    batches = read_batches(value.state_batches)
    if not are_merged(batches):
        batches = tuple(merged(batches, value.start_offset))
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=batches,
        create_ms=value.create_timestamp,
        write_ms=value.write_timestamp,
        snapshot_offset=offset,
        updates=updates,
        state_fence=value.state_epoch if before is None else max(value.state_epoch, before.state_fence),
        leader_fence=value.leader_epoch if before is None else max(value.leader_epoch, before.leader_fence),
    )


def _updated(state: ShareState, value: ShareUpdateValue) -> ShareState:
    start = state.start_offset if value.start_offset == NOT_SAID else value.start_offset
    return replace(
        state,
        leader_epoch=state.leader_epoch if value.leader_epoch == NOT_SAID else value.leader_epoch,
        start_offset=start,
        delivery_complete_count=value.delivery_complete_count,
        batches=tuple(with_more(state.batches, read_batches(value.state_batches), start)),
        updates=state.updates + 1,
        leader_fence=max(value.leader_epoch, state.leader_fence),
    )


def _snapshot(key: SharePartitionKey, state: ShareState) -> Change:
    return key_of(ShareSnapshotKey, key), ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_ms,
        write_timestamp=state.write_ms,
        state_batches=write_batches(state.batches),
    )


def _check_epoch(whose: str, epoch: int) -> None:
    if epoch < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _NEGATIVE.format(whose))


def _check_state_epoch(state: ShareState, state_epoch: int) -> None:
    if state_epoch < state.state_fence:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, _LATE_STATE)


def _after(snapshot_epoch: int) -> int:
    """Return the next snapshot epoch. After the last one they start again at 0: the order in the log shows which snapshot is
    newer."""
    return 0 if snapshot_epoch == _EPOCH_MAX else snapshot_epoch + 1


log = logging.getLogger("ottla.sharing")


class ShareStateShard(Shard):
    """All share partitions of one partition of `__share_group_state`, loaded from it."""

    topic = SHARE_STATE_TOPIC

    def __init__(self, partition: int, updates_per_snapshot: int) -> None:
        super().__init__(partition)
        self.states = ShareStates(updates_per_snapshot)

    def drop(self) -> Job:
        yield from self.states.drop()

    def _replay_batch(self, batch: RecordBatch) -> None:
        if batch.is_control:
            log.warning(
                "%s-%d: ignored an unexpected marker at offset %d", self.topic, self.partition, batch.base_offset
            )
            return
        for record in self._records_of(batch):
            self._apply_or_pass(record, self._apply)

    def _apply(self, record: Record) -> None:
        found = read_record(record.key, record.value)
        if found is None:
            log.warning("%s-%d: unknown record type at offset %d", self.topic, self.partition, record.offset)
        else:
            self.states.replay(*found, record.offset)
