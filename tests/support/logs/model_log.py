"""A plain model of a log: lists of batches in lists of segments. It has no files and no bytes; the real log supplies the sizes.

`cleaner_model` has the effects of the cleaner; this module has everything else that changes what a clean pass finds:
appends and rolls, producers and their snapshots, DeleteRecords, retention, stops and starts. It follows the rules of
Apache Kafka 4.3.1. Nothing here is fast, and everything is computed again each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.storage.topics.config import LogConfig

COMMIT, ABORT, EMPTIED = 1, 0, -1
"""Kinds of marker; an emptied marker no longer says which kind it was."""

OFFSETS_MAX = 2**31 - 1
"""The largest offset of a segment, relative to its base: such offsets have 31 bits."""

Headers = tuple[tuple[str, bytes | None], ...]


class ModelRecord(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


@dataclass(frozen=True)
class ModelBatch:
    """A batch as a reader sees it. `marker` is a kind of marker for a control batch."""

    base: int
    last: int
    records: tuple[ModelRecord, ...]
    base_timestamp: int
    max_timestamp: int
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    marker: int | None = None
    horizon: int | None = None
    codec: int = 0
    log_append_time: bool = False
    leader_epoch: int = 0
    size_bytes: int = field(default=0, compare=False)

    @property
    def is_control(self) -> bool:
        return self.marker is not None


class ModelTxn(NamedTuple):
    """An aborted transaction, as the index of its marker's segment has it."""

    producer_id: int
    first: int
    last: int
    last_stable_offset: int


@dataclass
class ModelSegment:
    base: int
    changed: int = 0
    """Time of the last write: the modification time of its file."""
    created: int = 0
    """Time at which this process created or opened it."""
    batches: list[ModelBatch] = field(default_factory=list)
    aborted: list[ModelTxn] = field(default_factory=list)
    first_write: int = 1
    """Number of batches in the first write; a start forgets it. The cleaner's writes follow its buffers."""

    @property
    def size_bytes(self) -> int:
        return sum(batch.size_bytes for batch in self.batches)

    @property
    def first_timestamp(self) -> int:
        return max((batch.max_timestamp for batch in self.batches[: self.first_write]), default=-1)

    @property
    def largest_timestamp(self) -> int:
        largest = max((batch.max_timestamp for batch in self.batches), default=-1)
        return largest if largest >= 0 else self.changed


class ModelProducer(NamedTuple):
    epoch: int
    last_data_offset: int | None = None
    last_sequence: int = -1
    last_base: int = -1
    """Base offset of its last data batch."""
    timestamp: int = -1
    txn_first: int | None = None
    coordinator_epoch: int = -1


class ModelLog:
    def __init__(self, config: LogConfig | None = None, *, now: int = 0, expiration_ms: int = 86_400_000) -> None:
        self.config = config or LogConfig(cleanup_policy=("compact",))
        self.expiration_ms = expiration_ms
        self.segments = [ModelSegment(0, changed=now, created=now)]
        self.log_start = 0
        self.log_end = 0
        self.producers: dict[int, ModelProducer] = {}
        self.snapshots: dict[int, dict[int, ModelProducer]] = {}
        """Producers as of an offset, as the snapshots on disk have them."""

    # Writing

    def append(
        self,
        pairs: Sequence[tuple[bytes | None, bytes | None]],
        *,
        now: int = 1_000,
        timestamps: Sequence[int] = (),
        headers: Headers = (),
        producer_id: int = -1,
        epoch: int = 0,
        sequence: int = 0,
        transactional: bool = False,
        codec: int = 0,
        leader_epoch: int = 0,
        size_bytes: int = 0,
        is_index_full: bool = False,
    ) -> None:
        """Write a batch; without `timestamps` all of its records have the time `now`."""
        base, times = self.log_end, list(timestamps) or [now] * len(pairs)
        base_timestamp = times[0]
        is_stamped = self.config.message_timestamp_type == "LogAppendTime"
        if is_stamped:
            times = [now] * len(pairs)
        records = tuple(
            ModelRecord(base + index, key, value, time, headers)
            for index, ((key, value), time) in enumerate(zip(pairs, times, strict=True))
        )
        has_producer = producer_id >= 0
        written = ModelBatch(
            base,
            base + len(records) - 1,
            records,
            base_timestamp,
            max(times),
            producer_id,
            epoch if has_producer else -1,
            sequence if has_producer else -1,
            transactional,
            codec=codec,
            log_append_time=is_stamped,
            leader_epoch=leader_epoch,
            size_bytes=size_bytes,
        )
        self._write(written, now, is_index_full)

    def end_txn(
        self,
        producer_id: int,
        marker: int,
        *,
        now: int = 1_000,
        epoch: int = 0,
        leader_epoch: int = 0,
        size_bytes: int = 0,
        is_index_full: bool = False,
    ) -> None:
        at = self.log_end
        written = ModelBatch(
            at,
            at,
            (ModelRecord(at, b"marker", b"coordinator", now),),
            now,
            now,
            producer_id,
            epoch,
            -1,
            True,
            marker,
            log_append_time=self.config.message_timestamp_type == "LogAppendTime",
            leader_epoch=leader_epoch,
            size_bytes=size_bytes,
        )
        self._write(written, now, is_index_full)

    def _write(self, batch: ModelBatch, now: int, is_index_full: bool) -> None:
        if self.segments[-1].batches and (is_index_full or self._is_full_for(batch, now)):
            self.roll(now)
        segment = self.segments[-1]
        segment.batches.append(batch)
        segment.changed = now
        self.log_end = batch.last + 1
        if (aborted := self._learn(batch)) is not None:
            segment.aborted.append(aborted)

    def _is_full_for(self, batch: ModelBatch, now: int) -> bool:
        segment, config = self.segments[-1], self.config
        limit_ms = min(config.segment_ms, config.max_compaction_lag_ms) if config.is_compact else config.segment_ms
        if config.is_compact and config.ottla_key_retention_ms >= 0:
            limit_ms = min(limit_ms, max(1, config.ottla_key_retention_ms))
        first = segment.first_timestamp
        waited_ms = batch.max_timestamp - first if first >= 0 else now - segment.created
        return (
            segment.size_bytes + batch.size_bytes > config.segment_bytes
            or waited_ms > limit_ms
            or batch.last - segment.base > OFFSETS_MAX
        )

    def roll(self, now: int = 0) -> None:
        if self.segments[-1].batches or self.segments[-1].base < self.log_end:
            self.segments.append(ModelSegment(self.log_end, changed=now, created=now))
            self.snapshots.setdefault(self.log_end, dict(self.producers))

    def _learn_epoch(self, batch: ModelBatch) -> None:
        """Learn the producer's epoch from an emptied marker, which has no other information."""
        known = self.producers.get(batch.producer_id, ModelProducer(-1))
        if known.epoch < batch.epoch and known.txn_first is None:
            timestamp = max(known.timestamp, batch.max_timestamp)
            self.producers[batch.producer_id] = ModelProducer(
                batch.epoch, timestamp=timestamp, coordinator_epoch=known.coordinator_epoch
            )

    def _learn(self, batch: ModelBatch) -> ModelTxn | None:
        """Note what a batch says about its producer; return the aborted transaction that it ends, if any."""
        if batch.producer_id < 0:
            return None
        if batch.is_control and not batch.records:
            self._learn_epoch(batch)
            return None
        known = self.producers.get(batch.producer_id, ModelProducer(batch.epoch))
        if known.epoch != batch.epoch:
            known = ModelProducer(batch.epoch, txn_first=known.txn_first, coordinator_epoch=known.coordinator_epoch)
        known = known._replace(timestamp=batch.max_timestamp)
        if batch.is_control:
            self.producers[batch.producer_id] = known._replace(txn_first=None, coordinator_epoch=0)
            if known.txn_first is None or batch.marker == COMMIT:
                return None
            still_open = min(self.open_txns.values(), default=batch.last + 1)
            return ModelTxn(batch.producer_id, known.txn_first, batch.base, still_open)
        if batch.transactional and known.txn_first is None:
            known = known._replace(txn_first=batch.base)
        self.producers[batch.producer_id] = known._replace(
            last_data_offset=batch.last,
            last_base=batch.base,
            last_sequence=(batch.sequence + batch.last - batch.base) & (2**31 - 1),
        )
        return None

    # Reading

    @property
    def batches(self) -> list[ModelBatch]:
        return [batch for segment in self.segments for batch in segment.batches]

    @property
    def aborted(self) -> list[ModelTxn]:
        return [txn for segment in self.segments for txn in segment.aborted]

    @property
    def open_txns(self) -> dict[int, int]:
        """Return producer id -> first offset of its open transaction."""
        return {pid: each.txn_first for pid, each in self.producers.items() if each.txn_first is not None}

    @property
    def last_stable_offset(self) -> int:
        return max(self.log_start, min(self.open_txns.values(), default=self.log_end))

    def segments_from(self, offset: int, up_to: int) -> list[ModelSegment]:
        """Return the segments from the one that contains `offset`, or the first one, to the last with a base below `up_to`."""
        start = max((each.base for each in self.segments if each.base <= offset), default=0)
        return [each for each in self.segments if start <= each.base < up_to]

    def committed_values(self) -> dict[bytes | None, bytes | None]:
        """Return the last value of each key for a read_committed reader; tombstones leave None."""
        return {each.key: each.value for each in self.committed_records()}

    def committed_records(self) -> Iterator[ModelRecord]:
        """Yield the records that a read_committed reader gets."""
        for batch in self.batches:
            aborted = any(
                txn.producer_id == batch.producer_id and txn.first <= batch.base <= txn.last for txn in self.aborted
            )
            is_open = batch.transactional and self.open_txns.get(batch.producer_id, self.log_end) <= batch.base
            if not (batch.is_control or (batch.transactional and aborted) or is_open):
                yield from (each for each in batch.records if each.offset >= self.log_start)

    # Shortening

    def delete_records(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)

    def delete_old_segments(self, now: int) -> None:
        """Delete segments below the log start and, with policy delete, by size and age; each rule deletes from the front."""
        ends = [each.base for each in self.segments[1:]] + [self.log_end]
        rest = list(zip(self.segments, ends, strict=True))
        if not rest[-1][0].batches:
            rest.pop()  # an empty active segment is never deleted
        while rest and rest[0][0] is not self.segments[-1] and rest[0][1] <= self.log_start:
            rest.pop(0)
        if self.config.is_delete:
            while rest and self.config.retention_bytes >= 0:
                if sum(each.size_bytes for each, _ in rest[1:]) < self.config.retention_bytes:
                    break
                rest.pop(0)
            while rest and self.config.retention_ms >= 0:
                if now - rest[0][0].largest_timestamp <= self.config.retention_ms:
                    break
                rest.pop(0)
        first_base = rest[0][0].base if rest else self.log_end
        if first_base > self.segments[0].base:
            if not rest:
                self.roll(now)
            self.segments = [each for each in self.segments if each.base >= first_base]
            self.delete_records(first_base)
            self.snapshots = {at: known for at, known in self.snapshots.items() if at >= first_base}

    def forget_idle_producers(self, now: int) -> None:
        self.producers = self._without_idle(self.producers, now)

    def _without_idle(self, producers: dict[int, ModelProducer], now: int) -> dict[int, ModelProducer]:
        return {
            producer_id: each
            for producer_id, each in producers.items()
            if each.txn_first is not None or now - each.timestamp < self.expiration_ms
        }

    # Stopping and starting

    def restart(self, now: int) -> None:
        """Stop cleanly and start: the producers are loaded from the snapshot that the stop wrote."""
        if self.log_end > self.log_start:
            self.snapshots.setdefault(self.log_end, dict(self.producers))
        self._reopen(now)
        self._load_producers(self.log_end, self.log_start, now)

    def recover(self, now: int, recovery_point: int) -> None:
        """Start after a kill: everything from the segment with the recovery point on is read again.

        An aborted transaction then begins with its first remaining batch, and is forgotten if none remains.
        """
        base = max((each.base for each in self.segments if each.base <= recovery_point), default=self.segments[0].base)
        self._load_producers(base, min(self.log_start, base), now)
        for segment in self.segments_from(base, self.log_end + 1):
            if segment is not self.segments[0]:
                self.snapshots.setdefault(segment.base, dict(self.producers))
            segment.aborted = [txn for batch in segment.batches if (txn := self._learn(batch)) is not None]
        self.forget_idle_producers(now)
        self._reopen(now)

    def _reopen(self, now: int) -> None:
        """Do the work of every start: remove the snapshots without a segment, except the newest one beyond the segments."""
        for segment in self.segments:
            segment.created = now
            segment.first_write = 1
        bases = {segment.base for segment in self.segments}
        stray = sorted(self.snapshots.keys() - bases)
        if stray and stray[-1] > max(bases):
            stray.pop()
        for at in stray:
            del self.snapshots[at]

    def _load_producers(self, up_to: int, log_start: int, now: int) -> None:
        """Load producers from the newest snapshot above the log start, or from the log start, then read the batches."""
        self.snapshots = {at: known for at, known in self.snapshots.items() if log_start < at <= up_to}
        newest = max(self.snapshots, default=log_start)
        self.producers = self._without_idle(self.snapshots.get(newest, {}), now)
        for batch in self._batches_between(newest, up_to):
            self._learn(batch)

    def _batches_between(self, start: int, end: int) -> Iterator[ModelBatch]:
        return (batch for batch in self.batches if batch.last >= start and batch.base < end)


def emptied(batch: ModelBatch) -> ModelBatch:
    """Return the bare header that remains of a batch without its records; an empty batch stays as it is."""
    if not batch.records:
        return batch
    marker = EMPTIED if batch.is_control else None
    return replace(batch, records=(), base_timestamp=-1, horizon=None, codec=0, marker=marker)
