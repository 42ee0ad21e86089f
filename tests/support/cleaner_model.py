"""What a clean pass must leave, said in the plainest way: lists of records, no bytes, no files, no sizes.

The reference for the real cleaner: `test_cleaner_model` runs random histories through both and compares every batch.
Written from the rules of Apache Kafka 4.3.1's cleaner, which it agrees with on recorded histories. It holds whole logs in
lists and looks everything up anew, so nothing here is fast, and nothing depends on how the real one does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

COMMIT, ABORT = 1, 0
NO_LIMIT = 10**9


class ModelRecord(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass(frozen=True)
class ModelBatch:
    """A batch as a reader sees it. `marker` is COMMIT or ABORT for a control batch."""

    base: int
    last: int
    records: tuple[ModelRecord, ...]
    base_timestamp: int
    max_timestamp: int
    producer_id: int = -1
    epoch: int = -1
    transactional: bool = False
    marker: int | None = None
    horizon: int | None = None

    @property
    def is_control(self) -> bool:
        return self.marker is not None


class ModelTxn(NamedTuple):
    """An aborted transaction, as the index of its marker's segment has it."""

    producer_id: int
    first: int
    last: int


@dataclass
class ModelSegment:
    base: int
    batches: list[ModelBatch] = field(default_factory=list)
    aborted: list[ModelTxn] = field(default_factory=list)


@dataclass
class ModelProducer:
    epoch: int
    last_data_offset: int | None


class Transactions:
    """What is known of transactions when walking over batches in order."""

    def __init__(self) -> None:
        self.pending: list[ModelTxn] = []
        self.aborting: dict[int, tuple[ModelTxn, bool]] = {}
        self.committing: set[int] = set()

    def announce(self, txns: Iterable[ModelTxn]) -> None:
        self.pending = sorted([*self.pending, *txns], key=lambda txn: txn.first)

    def is_aborted(self, batch: ModelBatch) -> bool:
        self._begin_up_to(batch.last)
        if not batch.transactional:
            return False
        if batch.producer_id in self.aborting:
            self.aborting[batch.producer_id] = (self.aborting[batch.producer_id][0], True)
            return True
        self.committing.add(batch.producer_id)
        return False

    def is_unneeded(self, batch: ModelBatch) -> tuple[bool, ModelTxn | None]:
        """Whether a marker has no data any more; if it ends an aborted transaction that has, that one."""
        self._begin_up_to(batch.last)
        if not batch.records:
            return True, None
        if batch.marker == ABORT:
            txn, has_data = self.aborting.pop(batch.producer_id, (None, False))
            return (False, txn) if has_data else (True, None)
        had_data = batch.producer_id in self.committing
        self.committing.discard(batch.producer_id)
        return not had_data, None

    def _begin_up_to(self, offset: int) -> None:
        while self.pending and self.pending[0].first <= offset:
            txn = self.pending.pop(0)
            self.aborting.setdefault(txn.producer_id, (txn, False))


class ModelLog:
    def __init__(self) -> None:
        self.segments = [ModelSegment(0)]
        self.log_end = 0
        self.producers: dict[int, ModelProducer] = {}
        self.open_txns: dict[int, int] = {}

    # Writing

    def append(
        self,
        pairs: Sequence[tuple[bytes | None, bytes | None]],
        *,
        timestamps: Sequence[int] | None = None,
        producer_id: int = -1,
        epoch: int = 0,
        transactional: bool = False,
        log_append_time: int | None = None,
    ) -> None:
        base = self.log_end
        times = list(timestamps) if timestamps is not None else [1_000] * len(pairs)
        base_timestamp = times[0]
        if log_append_time is not None:
            times = [log_append_time] * len(pairs)
        records = tuple(
            ModelRecord(base + index, key, value, time)
            for index, ((key, value), time) in enumerate(zip(pairs, times, strict=True))
        )
        last = base + len(records) - 1
        self.log_end = last + 1
        if producer_id < 0:
            epoch = -1
        else:
            self.producers[producer_id] = ModelProducer(epoch, last)
            if transactional:
                self.open_txns.setdefault(producer_id, base)
        self.segments[-1].batches.append(
            ModelBatch(base, last, records, base_timestamp, max(times), producer_id, epoch, transactional)
        )

    def end_txn(self, producer_id: int, marker: int, *, epoch: int = 0, timestamp: int = 1_000) -> None:
        offset = self.log_end
        self.log_end = offset + 1
        known = self.producers.get(producer_id)
        last_data = known.last_data_offset if known is not None and known.epoch == epoch else None
        self.producers[producer_id] = ModelProducer(epoch, last_data)
        first = self.open_txns.pop(producer_id, None)
        if first is not None and marker == ABORT:
            self.segments[-1].aborted.append(ModelTxn(producer_id, first, offset))
        record = ModelRecord(offset, b"marker", b"coordinator", timestamp)
        self.segments[-1].batches.append(
            ModelBatch(offset, offset, (record,), timestamp, timestamp, producer_id, epoch, True, marker)
        )

    def roll(self, base: int | None = None) -> None:
        base = self.log_end if base is None else base
        if self.segments[-1].base < base:
            self.segments.append(ModelSegment(base))

    def reload(self) -> None:
        """An unclean stop and a start: producers and aborted transactions are learned anew from what is left.

        An aborted transaction then begins with the first batch that is left of it, and is forgotten without any.
        """
        self.producers = {}
        self.open_txns = {}
        for segment in self.segments:
            segment.aborted = []
            for batch in segment.batches:
                if batch.producer_id >= 0:
                    self._replay(batch, segment)

    def _replay(self, batch: ModelBatch, segment: ModelSegment) -> None:
        known = self.producers.get(batch.producer_id)
        if not batch.is_control:
            self.producers[batch.producer_id] = ModelProducer(batch.epoch, batch.last)
            if batch.transactional:
                self.open_txns.setdefault(batch.producer_id, batch.base)
        elif batch.records:
            last_data = known.last_data_offset if known is not None and known.epoch == batch.epoch else None
            self.producers[batch.producer_id] = ModelProducer(batch.epoch, last_data)
            first = self.open_txns.pop(batch.producer_id, None)
            if first is not None and batch.marker == ABORT:
                segment.aborted.append(ModelTxn(batch.producer_id, first, batch.base))

    # Reading

    @property
    def batches(self) -> list[ModelBatch]:
        return [batch for segment in self.segments for batch in segment.batches]

    @property
    def aborted(self) -> list[ModelTxn]:
        return [txn for segment in self.segments for txn in segment.aborted]

    @property
    def last_stable_offset(self) -> int:
        return min(self.open_txns.values(), default=self.log_end)

    def upper_offset(self) -> int:
        """Where a pass ends: the base of the segment with the last stable offset, or of the active one."""
        bound = min(self.last_stable_offset, self.segments[-1].base)
        return max(segment.base for segment in self.segments if segment.base <= bound)

    def committed_values(self) -> dict[bytes | None, bytes | None]:
        """What a read_committed reader of the log ends up with; tombstones leave None."""
        values: dict[bytes | None, bytes | None] = {}
        for batch in self.batches:
            aborted = any(
                txn.producer_id == batch.producer_id and txn.first <= batch.base <= txn.last for txn in self.aborted
            )
            is_open = batch.transactional and self.open_txns.get(batch.producer_id, self.log_end) <= batch.base
            if not (batch.is_control or (batch.transactional and aborted) or is_open):
                values.update((record.key, record.value) for record in batch.records)
        return values

    # Cleaning

    def merge(self, bases: Iterable[int]) -> None:
        """Join segments as the real cleaner did; which ones depends on sizes, which nothing here knows."""
        kept = set(bases)
        for at in range(len(self.segments) - 1, 0, -1):
            segment = self.segments[at]
            if segment.base not in kept:
                self.segments[at - 1].batches += segment.batches
                self.segments[at - 1].aborted += segment.aborted
                del self.segments[at]

    def clean(self, first_dirty: int, *, now: int, retention: int, limit: int = NO_LIMIT) -> int:
        """One pass; returns the next first dirty offset. To be called only if something is dirty."""
        upper = self.upper_offset()
        newest, latest = self._build_map(first_dirty, upper, limit)
        transactions = Transactions()
        for index, segment in enumerate(self.segments[:-1]):
            if segment.base > latest:
                break
            self._announce(transactions, index, self.segments[index + 1].base)
            segment.aborted = []
            batches = [
                self._clean_batch(batch, segment, transactions, newest, latest, upper, now, retention)
                for batch in segment.batches
            ]
            segment.batches = [batch for batch in batches if batch is not None]
        return latest + 1

    def _announce(self, transactions: Transactions, from_segment: int, upper: int) -> None:
        transactions.announce(
            txn for segment in self.segments[from_segment:] for txn in segment.aborted if txn.first < upper
        )

    def _build_map(self, start: int, end: int, limit: int) -> tuple[dict[bytes, int], int]:
        newest: dict[bytes, int] = {}
        latest = -1
        transactions = Transactions()
        first = max(index for index, segment in enumerate(self.segments) if segment.base <= start)
        self._announce(transactions, first, end)
        for segment, following in zip(self.segments[first:], self.segments[first + 1 :], strict=False):
            if segment.base >= end:
                break
            for batch in segment.batches:
                if batch.is_control:
                    transactions.is_unneeded(batch)
                elif not transactions.is_aborted(batch):
                    for record in batch.records:
                        if record.key is not None and record.offset >= start:
                            if len(newest) >= limit:
                                return newest, latest
                            newest[record.key] = latest = record.offset
                if batch.last >= start:
                    latest = batch.last
            latest = min(following.base, end) - 1
        return newest, latest

    def _clean_batch(
        self,
        batch: ModelBatch,
        segment: ModelSegment,
        transactions: Transactions,
        newest: dict[bytes, int],
        latest: int,
        upper: int,
        now: int,
        retention: int,
    ) -> ModelBatch | None:
        if batch.is_control:
            unneeded, txn = transactions.is_unneeded(batch)
            if txn is not None:
                segment.aborted.append(txn)
            drop_all = unneeded and batch.horizon is not None and batch.horizon <= now
        else:
            unneeded = drop_all = transactions.is_aborted(batch)
        kept = [
            record
            for record in batch.records
            if not drop_all and (batch.is_control or _stays(record, batch, newest, latest, now))
        ]
        if not kept:
            if not (self._is_last_of_producer(batch) or batch.last + 1 == upper):
                return None
            return batch if not batch.records else replace(batch, records=(), base_timestamp=-1, horizon=None)
        horizon = batch.horizon
        if horizon is None and (unneeded if batch.is_control else any(record.value is None for record in kept)):
            horizon = now + retention
        if len(kept) == len(batch.records) and horizon == batch.horizon:
            return batch
        return replace(
            batch,
            records=tuple(kept),
            base_timestamp=kept[0].timestamp if horizon is None else horizon,
            max_timestamp=max(record.timestamp for record in kept),
            horizon=horizon,
        )

    def _is_last_of_producer(self, batch: ModelBatch) -> bool:
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            return False
        if producer.last_data_offset is not None:
            return batch.last == producer.last_data_offset
        return batch.is_control and batch.epoch == producer.epoch


def _stays(record: ModelRecord, batch: ModelBatch, newest: dict[bytes, int], latest: int, now: int) -> bool:
    if record.offset > latest:
        return True
    if record.key is None or record.offset < newest.get(record.key, -1):
        return False
    return record.value is not None or batch.horizon is None or now < batch.horizon
