"""What happens to each batch in the second half of a clean pass: copied, rewritten, emptied or dropped.

`BatchFilter` is shown every batch of the cleaned segments, in offset order, and answers with the bytes to write. Four
zones by offset, of which two batches may lie in two:

        0                    first dirty                 latest mapped                 end of the last segment
        |  below             |  mapped                   |  beyond                     |
    dead if its key is    dead bits of the map        never dead
    in the map

Rules, in order (source: Apache Kafka 4.3.1's cleaner; KIP-98, KIP-534, KAFKA-17076):

- data of an aborted transaction and markers past their delete horizon go without a look at their records;
- a record without a key, or with a newer one of its key, goes;
- a tombstone goes once the clock has reached the delete horizon of its batch;
- a batch that keeps a tombstone, or a marker whose data is gone, gets a delete horizon: now + delete.retention.ms;
- a batch left without records goes, unless it is the last one of its producer (whose sequence numbers only it
  remembers) or of the cleaned range (or the log could end earlier after a restart): then its header stays, empty.

A batch that nothing happens to is copied byte for byte. Rewritten ones keep everything that the survivors do not
change: offsets, producer, leader epoch, codec, and with them the sequence number of every record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..protocol.batch_builder import seal_batch
from ..protocol.errors import CorruptRecordError
from ..protocol.records import DELETE_HORIZON_BIT, NO_TIMESTAMP, RecordBatch
from ..protocol.varints import BytesLike
from .clean_kernel import bits_of, copy_records, map_key, scan_keys, shift_records, survivors, wrap_longs
from .map_builder import DirtyMap, records_block
from .producers import LastRecord
from .transaction_state import TransactionState


class Kept(NamedTuple):
    """Bytes to write for a batch, with what the indexes need to know of it."""

    data: BytesLike
    last_offset: int
    max_timestamp: int


@dataclass(slots=True)
class RemovedRecords:
    """Records that a pass took out, by reason."""

    superseded: int = 0
    keyless: int = 0
    tombstones: int = 0
    aborted: int = 0
    markers: int = 0

    @property
    def total(self) -> int:
        return self.superseded + self.keyless + self.tombstones + self.aborted + self.markers


class _Verdict(NamedTuple):
    """Bits of a batch's records, lowest first."""

    dead: int
    tombstones: int
    expirable: int
    """Tombstones that may go when the batch's horizon has come."""


class BatchFilter:
    """The rules, for one pass. Call `take` for every batch in order; `transactions` is to know the aborted ones."""

    def __init__(
        self,
        dirty: DirtyMap,
        *,
        last_records: Mapping[int, LastRecord],
        upper_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        secret: bytes,
    ) -> None:
        """
        Args:
            last_records: Where each producer is that the log remembers.
            upper_offset: End of the cleaned range, exclusive.
            now_ms: The pass's time, the same for all batches.
            secret: The one that `dirty` was built with.
        """
        self.transactions = TransactionState()
        self.removed = RemovedRecords()
        self.ordinal = 0
        """Records met so far that the map numbered."""
        self._dirty = dirty
        self._offsets = dirty.offsets
        self._last_records = last_records
        self._upper_offset = upper_offset
        self._now_ms = now_ms
        self._new_horizon_ms = now_ms + delete_retention_ms
        self._secret = secret

    def take(self, data: bytes, at: int, batch: RecordBatch) -> Kept | None:
        """What to write for the batch at `data[at:]`; None: nothing.

        Raises:
            CorruptRecordError: Its records cannot be read.
        """
        if batch.is_control:
            return self._take_control(data, at, batch)
        if self.transactions.on_data(batch):
            self.removed.aborted += batch.record_count
            return self._emptied(batch)
        first = self.ordinal
        if self._dirty.first_dirty_offset <= batch.last_offset and batch.base_offset <= self._offsets.latest_offset:
            self.ordinal = first + batch.record_count
        if batch.record_count == 0:
            return self._emptied(batch)
        return self._take_data(data, at, batch, self._judge(data, at, batch, first))

    def finish_segment(self, base_offset: int) -> None:
        """All batches of a source segment were taken; what they became may be kept.

        Raises:
            CorruptRecordError: The map knows other records by these numbers, so nothing here can be trusted. Only a
                transaction index that contradicts itself brings that about.
        """
        expected = self._dirty.ordinal_ends.get(base_offset, self.ordinal)
        if self.ordinal != expected:
            raise CorruptRecordError(
                f"segment {base_offset}: its records end at number {self.ordinal}, at {expected} for the map"
            )

    def _take_control(self, data: bytes, at: int, batch: RecordBatch) -> Kept | None:
        is_unneeded = self.transactions.on_control(batch)
        horizon_ms = batch.delete_horizon_ms
        if batch.record_count == 0:
            return self._emptied(batch)
        if is_unneeded and horizon_ms is None:
            return self._rewritten(data, at, batch, 0, self._new_horizon_ms)
        if is_unneeded and horizon_ms is not None and horizon_ms <= self._now_ms:
            self.removed.markers += batch.record_count
            return self._emptied(batch)
        return _unchanged(batch)

    def _take_data(self, data: bytes, at: int, batch: RecordBatch, verdict: _Verdict) -> Kept | None:
        dead, live_tombstones = verdict.dead, verdict.tombstones & ~verdict.dead
        self.removed.superseded += dead.bit_count()
        horizon_ms = batch.delete_horizon_ms
        if live_tombstones:
            if horizon_ms is None:
                horizon_ms = self._new_horizon_ms
                return self._rewritten(data, at, batch, dead, horizon_ms)
            if horizon_ms <= self._now_ms:
                expired = live_tombstones & verdict.expirable
                self.removed.tombstones += expired.bit_count()
                dead |= expired
        if not dead:
            return _unchanged(batch)
        if dead.bit_count() == batch.record_count:
            return self._emptied(batch)
        return self._rewritten(data, at, batch, dead, horizon_ms)

    def _judge(self, data: bytes, at: int, batch: RecordBatch, first: int) -> _Verdict:
        offsets, start = self._offsets, self._dirty.first_dirty_offset
        if start <= batch.base_offset and batch.last_offset <= offsets.latest_offset:
            tombstones = offsets.tombstones(first, batch.record_count)
            return _Verdict(offsets.dead(first, batch.record_count), tombstones, tombstones)
        if batch.base_offset <= offsets.latest_offset and start <= batch.last_offset:
            return self._judge_singly(batch, first)
        payload, block_start, block_end = records_block(data, at, batch)
        count = batch.record_count
        keys, tombstone_indexes, has_keyless = scan_keys(payload, block_start, block_end, count, self._secret)
        tombstones = bits_of(tombstone_indexes, count) if tombstone_indexes else 0
        if batch.base_offset > offsets.latest_offset:
            return _Verdict(0, tombstones, 0)
        dead = 0
        if has_keyless or offsets.has_any(keys):
            dead = bits_of((i for i, key in enumerate(keys) if key is None or key in offsets), count)
            self._count_keyless(keys.count(None))
        return _Verdict(dead, tombstones, tombstones)

    def _judge_singly(self, batch: RecordBatch, first: int) -> _Verdict:
        """For the batches that the first dirty offset or the end of the map cuts in two."""
        offsets, start = self._offsets, self._dirty.first_dirty_offset
        known_dead = offsets.dead(first, batch.record_count)
        dead, tombstones, expirable = [], [], []
        for index, span in enumerate(batch.spans()):
            if not span.has_value:
                tombstones.append(index)
            if span.offset > offsets.latest_offset:
                continue
            expirable.append(index)
            if span.offset < start:
                is_dead = span.key is None or map_key(span.key, self._secret) in offsets
                self._count_keyless(span.key is None)
            else:
                is_dead = known_dead >> index & 1 != 0
            if is_dead:
                dead.append(index)
        count = batch.record_count
        return _Verdict(bits_of(dead, count), bits_of(tombstones, count), bits_of(expirable, count))

    def _count_keyless(self, count: int) -> None:
        """Dead for want of a key, not because of a newer one. Those of the mapped zone stand in the map's count."""
        self.removed.keyless += count
        self.removed.superseded -= count

    def _rewritten(self, data: bytes, at: int, batch: RecordBatch, dead: int, horizon_ms: int | None) -> Kept:
        payload, start, end = records_block(data, at, batch)
        kept = survivors(payload, start, end, batch.record_count, dead)
        count = len(kept.starts)
        base = batch.base_timestamp
        if batch.is_log_append_time:
            timestamps = [batch.max_timestamp] * count
            max_timestamp = batch.max_timestamp
        else:
            timestamps = wrap_longs([base + delta for delta in kept.timestamp_deltas])
            max_timestamp = max(timestamps)
        new_base = timestamps[0] if horizon_ms is None else horizon_ms
        deltas = wrap_longs([timestamp - new_base for timestamp in timestamps])
        records = (
            copy_records(payload, kept) if deltas == kept.timestamp_deltas else shift_records(payload, kept, deltas)
        )
        attributes = batch.attributes if horizon_ms is None else batch.attributes | DELETE_HORIZON_BIT
        return Kept(
            _sealed(batch, records, count, attributes, new_base, max_timestamp), batch.last_offset, max_timestamp
        )

    def _emptied(self, batch: RecordBatch) -> Kept | None:
        """The batch without its records: gone, or a bare header where somebody needs it."""
        if not self._is_last_of_producer(batch) and batch.next_offset != self._upper_offset:
            return None
        if batch.record_count == 0:
            return _unchanged(batch)
        attributes = batch.attributes & ~DELETE_HORIZON_BIT
        empty = _sealed(batch, b"", 0, attributes, NO_TIMESTAMP, batch.max_timestamp)
        return Kept(empty, batch.last_offset, batch.max_timestamp)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        if not batch.has_producer:
            return False
        last = self._last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            # By offset, not by sequence number: a producer may begin its sequence anew (KAFKA-8335).
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch


def _unchanged(batch: RecordBatch) -> Kept:
    return Kept(batch.view, batch.last_offset, batch.max_timestamp)


def _sealed(
    batch: RecordBatch, records: bytes, count: int, attributes: int, base_timestamp: int, max_timestamp: int
) -> bytearray:
    """A batch of these records with everything else as in `batch`."""
    return seal_batch(
        records,
        record_count=count,
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        partition_leader_epoch=batch.partition_leader_epoch,
    )
