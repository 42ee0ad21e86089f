"""Rules for each batch in the second half of a clean pass: it is copied, rewritten, emptied or dropped.

`BatchFilter` gets every batch of the cleaned segments, in offset order, and fills the new ones. There are three zones by
offset; the batches at the two borders may be in two of them:

        0                    first dirty                 latest mapped                 end of the last segment
        |  below             |  mapped                   |  beyond                     |
    dead if its key is    dead bits of the map        never dead
    in the map

Rules, in order (source: Apache Kafka 4.4.0's cleaner; KIP-98, KIP-534, KAFKA-17076, KAFKA-20452):

- data of an aborted transaction and markers past their delete horizon are dropped, whatever their records are;
- a record is dropped if it has no key, or a newer record of its key exists; by KIP-280 the newer of two may be the one with
  the higher version (`topics.versions`);
- a tombstone is dropped once the clock has reached the delete horizon of its batch; with versions, not by a pass that reads
  a later record of its key;
- a record with a value is dropped if it is older than `ottla.key.retention.ms`, without a tombstone; with versions as above;
- a batch that keeps a tombstone, or a marker whose data is gone, gets a delete horizon: now + delete.retention.ms, at most
  the largest 64-bit time;
- a batch left without records is dropped, with two exceptions whose empty header stays: the last batch of its producer
  (only it has the sequence numbers), and the one that ends at the high watermark (or the log could end earlier after a
  restart). Up to Apache Kafka 4.3 the latter was the one that ends at the end of the cleaned range.

A batch that loses nothing is copied byte for byte. A rewritten batch keeps its offsets, producer, leader epoch and codec, and
with them the sequence number of every record.

`kernel.RecordFilter` does nearly all of this. It stops at batches that need codecs, transactions or producers; the rules for
these are here.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping
from heapq import merge

from ...protocol.batch_builder import seal_batch
from ...protocol.compression import compress
from ...protocol.errors import CorruptRecordError
from ...protocol.records import DELETE_HORIZON_BIT, HEADER_BYTES, NO_TIMESTAMP, RecordBatch, packed_block
from ..kernel import RecordFilter, Stop
from ..produce.producer_state import LastRecord
from ..segment.index import AbortedTxn
from ..segment.segment import LogSegment
from ..topics.options import MAX_LONG
from .batch_chunks import place_of, unpacked, unreadable
from .clean_output import CleanOutput, OutputEntries
from .dead_bits import DeadBits
from .removed import RemovedRecords
from .transaction_state import NO_TRANSACTIONS, CarriedTransactions, PassTransactions

Rewrite = Callable[[memoryview, int, memoryview, memoryview], tuple[int, int]]

_PRODUCERS_MAX = 256
_NONE_KEPT = 1 << 62

SORTED_AT_ONCE = 1 << 14
"""Largest number of integers that one call sorts, during which no other thread runs: it takes a millisecond or two."""


class BatchFilter:
    """Applies the rules for one pass.

    For each new segment call `begin`; then, for each of its sources, `begin_source`, `take` for every chunk in order, and
    `finish_source`.
    """

    def __init__(
        self,
        bits: DeadBits,
        *,
        last_records: Mapping[int, LastRecord],
        kept_end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        record_bytes_max: int,
        chunk_bytes: int,
        aged_up_to_ms: int = -1,
        on_written: Callable[[int], None] = lambda _: None,
        transactions: CarriedTransactions = NO_TRANSACTIONS,
    ) -> None:
        """
        Args:
            last_records: Last record of each producer that the log remembers.
            kept_end_offset: End, exclusive, of the batch that stays without its records, even if it has no producer.
            now_ms: Time of the pass, the same for all batches.
            record_bytes_max: `max.decompressed.message.bytes`.
            chunk_bytes: Size of the chunks for `take`.
            aged_up_to_ms: Largest timestamp of the records that go for their age; -1: none do.
            on_written: Called with the bytes of each write.
            transactions: State of the transactions after the batches before the first one taken.
        """
        self._transactions = PassTransactions()
        self._transactions.go_on_from(transactions)
        self._bits = bits
        self._last_records = last_records
        self._kept_end_offset = kept_end_offset
        self._now_ms = now_ms
        self._has_ages = aged_up_to_ms >= 0
        self._record_bytes_max = record_bytes_max
        self._records_read = 0
        self._aborted = self._markers = 0
        self.markers_kept = 0
        """Control records that stay."""
        self._rewritten = memoryview(bytearray())  # one batch, its records not packed yet
        self._producers = array("q", bytes(8 * _PRODUCERS_MAX))
        # These batches may have to stay without their records.
        pinned = [last.last_data_offset for last in last_records.values() if last.last_data_offset is not None]
        pinned.append(kept_end_offset - 1)
        entries = OutputEntries.empty()
        self._kernel = RecordFilter(
            bits.dead,
            bits.tombstones,
            bits.numbered,
            bits.start,
            bits.latest,
            bits.table,
            bits.slots,
            bits.secret,
            now_ms,
            min(now_ms + delete_retention_ms, MAX_LONG),  # MAX_LONG: "for ever", if the sum is too large
            array("q", _ascending(pinned)),
            (*entries, self._producers),
            bits.versions,
            bits.held,
            aged_up_to_ms,
        )
        self._output = CleanOutput(self._kernel, entries, chunk_bytes, on_written)

    @property
    def records_read(self) -> int:
        return self._records_read + self._kernel.records_read

    @property
    def tombstones_kept(self) -> int:
        return self._kernel.kept_tombstones

    @property
    def oldest_kept_ms(self) -> int:
        """Least timestamp of the records that stay and may go for their age; MAX_LONG: there are none; 0: it is unknown."""
        if not self._has_ages:
            return 0
        return self._kernel.oldest_kept if self._kernel.oldest_kept < _NONE_KEPT else MAX_LONG

    @property
    def removed(self) -> RemovedRecords:
        """Records removed so far, by reason."""
        kernel, mapped_keyless = self._kernel, self._bits.keyless
        return RemovedRecords(
            superseded=kernel.superseded - mapped_keyless,
            keyless=kernel.keyless + mapped_keyless,
            tombstones=kernel.expired,
            aged=kernel.aged,
            aborted=self._aborted,
            markers=self._markers,
        )

    def begin(self, cleaned: LogSegment) -> None:
        """Direct the output to this segment, which was just created."""
        self._output.begin(cleaned)
        self._txn_index = cleaned.txn_index

    def begin_source(self, aborted: Iterable[AbortedTxn]) -> None:
        """Begin another source segment, with which these aborted transactions overlap."""
        self._transactions.add_aborted(aborted)
        self._kernel.wary_from = self._transactions.wary_from
        self._rewritten = memoryview(bytearray())

    def take(self, segment: LogSegment, view: memoryview, size_bytes: int) -> int:
        """Write what stays of the whole batches in `view[:size_bytes]`; returns the size of these batches.

        Raises:
            CorruptRecordError: Records cannot be read.
            OSError: The disk refused.
        """
        kernel, output = self._kernel, self._output
        at = 0
        while True:
            at, output.filled, stop = kernel.filter(view, at, size_bytes, output.view, output.filled)
            if count := kernel.producer_count:
                self._transactions.add_committing(self._producers[:count])
                kernel.producer_count = 0
            if stop == Stop.DONE:
                if kernel.unchanged_from >= 0:
                    output.write(view[kernel.unchanged_from : at])
                output.flush()
                return at
            if stop == Stop.CORRUPT:
                raise unreadable(place_of(segment), view, at)
            if stop == Stop.COMPRESSED:
                at += self._open(segment, view, at)
                kernel.wary_from = self._transactions.wary_from
                continue
            batch = RecordBatch(view, at)
            if stop == Stop.FLUSH:
                output.make_room(kernel.room_for(view, at, batch.size_bytes))
            elif stop == Stop.GROW:
                kernel.grow(batch.record_count)
            elif stop == Stop.TRANSACTION and not self._transactions.on_data(batch):
                kernel.wary_from = max(self._transactions.wary_from, batch.next_offset)  # not aborted: like any other
            else:
                if stop == Stop.CONTROL:
                    self._take_control(segment, view, at, batch)
                elif stop == Stop.TRANSACTION:
                    self._records_read += batch.record_count
                    self._aborted += batch.record_count
                    self._empty(batch)
                else:
                    self._empty(batch)
                kernel.wary_from = self._transactions.wary_from
                at += batch.size_bytes

    def finish_source(self, base_offset: int) -> None:
        """End a source segment, and check that its output may be kept.

        Raises:
            CorruptRecordError: The map has numbered other records, so the output cannot be trusted. Only a transaction index
                that contradicts itself causes that.
        """
        expected = self._bits.ordinal_ends.get(base_offset, self._kernel.ordinal)
        if self._kernel.ordinal != expected:
            raise CorruptRecordError(
                f"segment {base_offset}: its records end at number {self._kernel.ordinal}, expected {expected} from the"
                " offset map"
            )

    def _take_control(self, segment: LogSegment, view: memoryview, at: int, batch: RecordBatch) -> None:
        is_unneeded, aborted = self._transactions.on_control(batch)
        if aborted is not None:
            self._txn_index.append(aborted)
        horizon_ms = batch.delete_horizon_ms
        self._records_read += batch.record_count
        if batch.record_count == 0:
            self._empty(batch)
        elif is_unneeded and horizon_ms is None:
            self._rewrite(segment, view, at, self._kernel.stamp)
        elif is_unneeded and horizon_ms is not None and horizon_ms <= self._now_ms:
            self._markers += batch.record_count
            self._empty(batch)
            return
        else:
            self._output.put(batch.view, batch.last_offset, batch.max_timestamp)
        self.markers_kept += batch.record_count

    def _open(self, segment: LogSegment, view: memoryview, at: int) -> int:
        """Filter a compressed batch some of whose records may be dropped; returns its size."""
        size_bytes, outcome = self._rewrite(segment, view, at, self._kernel.filter_block)
        if outcome == Stop.UNCHANGED:
            batch = RecordBatch(view, at)
            self._output.put(batch.view, batch.last_offset, batch.max_timestamp)
        elif outcome == Stop.EMPTIED:
            self._empty(RecordBatch(view, at))
        return size_bytes

    def _rewrite(self, segment: LogSegment, view: memoryview, at: int, rewrite: Rewrite) -> tuple[int, int]:
        """Have the kernel rewrite a batch, and put it into the output if it did; returns (its bytes, the outcome)."""
        codec, block, last_offset = packed_block(view, at)
        payload = unpacked(place_of(segment), view, at, self._record_bytes_max)
        size_bytes, outcome = rewrite(view, at, payload, self._rewritten)
        if outcome == Stop.GROW:
            self._kernel.grow(RecordBatch(view, at).record_count)
            size_bytes, outcome = rewrite(view, at, payload, self._rewritten)
        if outcome == Stop.FLUSH:
            self._rewritten = memoryview(bytearray(self._kernel.room_for(view, at, len(payload))))
            size_bytes, outcome = rewrite(view, at, payload, self._rewritten)
        if outcome == Stop.CORRUPT:
            raise unreadable(place_of(segment), view, at)
        if outcome == Stop.REWRITTEN:
            packed = compress(codec, self._rewritten[HEADER_BYTES:size_bytes])
            self._output.put_packed(self._rewritten[:HEADER_BYTES], packed, last_offset, self._kernel.timestamp)
        return HEADER_BYTES + len(block), outcome

    def _empty(self, batch: RecordBatch) -> None:
        """Drop the batch, or keep its empty header if the producer state or the end of the log needs it."""
        if not self._is_last_of_producer(batch) and batch.next_offset != self._kept_end_offset:
            return
        if batch.record_count == 0:
            self._output.put(batch.view, batch.last_offset, batch.max_timestamp)
            return
        empty = seal_batch(
            b"",
            record_count=0,
            base_offset=batch.base_offset,
            last_offset_delta=batch.last_offset_delta,
            attributes=batch.attributes & ~DELETE_HORIZON_BIT,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            partition_leader_epoch=batch.partition_leader_epoch,
        )
        self._output.put(empty, batch.last_offset, batch.max_timestamp)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        if not batch.has_producer:
            return False
        last = self._last_records.get(batch.producer_id)
        if last is None:
            return False
        if last.last_data_offset is not None:
            # By offset, not by sequence number: a producer may restart its sequence (KAFKA-8335).
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch


def _ascending(numbers: list[int]) -> Iterable[int]:
    """Sort the numbers in short calls; a partition may have hundreds of thousands of producers."""
    if len(numbers) <= SORTED_AT_ONCE:
        return sorted(numbers)
    parts = (numbers[begin : begin + SORTED_AT_ONCE] for begin in range(0, len(numbers), SORTED_AT_ONCE))
    return merge(*map(sorted, parts))
