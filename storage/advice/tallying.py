"""Counts of the batches of one log, in their order, from its files or from a broker.

The memory is that of a sample of keys and of the buckets of time, whatever the log's size.
"""

from __future__ import annotations

import mmap
from array import array

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, RecordBatch, batch_size
from ..filter.batch_chunks import unpacked, unreadable
from ..kernel import LogTally, Stop
from ..produce.txn_markers import read_marker
from .summary import (
    GAP_PARTS,
    GAPS_EXACT,
    WRITES_EXACT,
    CleanRow,
    GapRow,
    KeyRow,
    MeasuredSegment,
    OpenTransaction,
    Summary,
    TimeBucket,
)

SAMPLE_KEYS_MAX = 1 << 19
"""Keys of which the writes are counted. An estimate from a quarter of a million keys is right within a percent."""
_SLACK_SLOTS = 1 << 12
BUCKETS = 2_048
BUCKET_MS_MIN = 1_000
FUTURE_MS = 86_400_000
"""Timestamps that are further ahead of the measurement belong to no bucket."""
LATE_MS = 3_600_000
OPEN_TRANSACTIONS_MAX = 100
"""Open transactions in a summary, the oldest."""
OFFSETS_MAX = 1 << 48
"""Largest number of offsets of a log. A larger one is that of a damaged batch, and no simulation could count so far."""
_ROWS = 80
_GAP_ROWS = 488


class BatchTally:
    """One measurement. The caller gives all batches with `take`, then asks for the `summary`."""

    def __init__(
        self,
        *,
        log_start_offset: int,
        dirty_from: int,
        record_bytes_max: int,
        now_ms: int,
        secret: bytes,
        sample_keys_max: int = SAMPLE_KEYS_MAX,
    ) -> None:
        """
        Args:
            dirty_from: Only writes from this offset on are counted by key.
            record_bytes_max: Largest record that is unpacked.
            secret: 16 random bytes.
        """
        self._start = log_start_offset
        self._dirty_from = max(dirty_from, log_start_offset)
        self._record_bytes_max = record_bytes_max
        slots = 2 * sample_keys_max
        table = memoryview(mmap.mmap(-1, 40 * (slots + _SLACK_SLOTS))).cast("Q")
        self._gaps = array("d", bytes(24 * _GAP_ROWS))
        self.kernel = LogTally(
            table, slots, sample_keys_max, self._dirty_from, secret, now_ms + FUTURE_MS, LATE_MS, self._gaps
        )
        self.kernel.end_offset = log_start_offset
        self._buckets, self._begin_ms, self._width_ms = array("q", bytes(24 * BUCKETS)), -1, BUCKET_MS_MIN
        self._open: dict[int, OpenTransaction] = {}
        self._control_end = self._control_records = self._packed_bytes = 0
        self.taken_bytes = 0
        """Bytes of the whole batches that the last `take` counted, also of one that ended with an error."""

    @property
    def end_offset(self) -> int:
        """End of the last batch; at first the log start."""
        return max(self.kernel.end_offset, self._control_end)

    def take(self, view: memoryview, size_bytes: int, place: str) -> int:
        """Count the whole batches of the first `size_bytes` bytes; returns their bytes.

        Args:
            place: Name of what contains them, for messages.

        Raises:
            CorruptRecordError: A batch cannot be read; those before it are counted.
        """
        kernel, at = self.kernel, 0
        while True:
            at, stop = kernel.take(view, at, size_bytes)
            self.taken_bytes = at
            if stop == Stop.TRANSACTION:
                stop = self._take_transactional(view, at, place)
            elif stop == Stop.COMPRESSED:
                stop = self._take_block(view, at, place)
            elif stop == Stop.DONE:
                return at
            if stop == Stop.FLUSH:
                self._make_room(RecordBatch(view, at).max_timestamp)
            elif stop == Stop.CORRUPT:
                raise unreadable(place, view, at)
            elif stop == Stop.DONE:
                at += batch_size(view[at:])

    def summary(
        self, *, segments: tuple[MeasuredSegment, ...] = (), size_bytes: int, end_offset: int = 0, unread_bytes: int = 0
    ) -> Summary:
        """Return the result.

        Args:
            segments: Empty if they are unknown.
            end_offset: The end of the log, if it is known to be after that of the last batch.

        Raises:
            CorruptRecordError: The offsets cannot be those of a log.
        """
        kernel = self.kernel
        counts = array("q", bytes(16 * _ROWS))
        kernel.count_keys(counts)
        share = 1 << kernel.sample_bits
        rows = [
            KeyRow(writes_min=_writes_min(row), keys=keys * share, writes=counts[2 * row + 1] * share)
            for row in range(_ROWS)
            if (keys := counts[2 * row])
        ]
        end_offset = max(end_offset, self.end_offset)
        if end_offset - self._start > OFFSETS_MAX:
            raise CorruptRecordError(f"invalid offset {end_offset - 1} (limit {self._start + OFFSETS_MAX})")
        return Summary(
            log_start_offset=self._start,
            first_dirty_offset=min(self._dirty_from, end_offset),
            log_end_offset=end_offset,
            size_bytes=size_bytes,
            batches=kernel.batches,
            records=kernel.records,
            record_bytes=kernel.record_bytes,
            keyless_records=kernel.keyless,
            tombstones=kernel.tombstones,
            tombstone_bytes=kernel.tombstone_bytes,
            unpacked_bytes=kernel.record_bytes - self._packed_bytes,
            control_records=self._control_records,
            dirty_records=kernel.dirty_records,
            dirty_batches=kernel.dirty_batches,
            dirty_bytes=kernel.dirty_bytes,
            writes_per_key=tuple(rows),
            gaps=tuple(
                GapRow(gap_min=_gap_min(row), gaps=self._gaps[3 * row], sum=self._gaps[3 * row + 1])
                for row in range(_GAP_ROWS)
                if self._gaps[3 * row]
            ),
            clean_records=tuple(
                CleanRow(distance_min=_gap_min(row), records=int(self._gaps[3 * row + 2]))
                for row in range(_GAP_ROWS)
                if self._gaps[3 * row + 2]
            ),
            sampled_keys=kernel.keys,
            live_keys=kernel.live_keys * share,
            live_bytes=kernel.live_bytes * share,
            bucket_ms=self._width_ms,
            buckets=tuple(
                TimeBucket(
                    begin_ms=self._begin_ms + at // 3 * self._width_ms,
                    writes=self._buckets[at],
                    records=self._buckets[at + 1],
                    size_bytes=self._buckets[at + 2],
                )
                for at in range(0, len(self._buckets), 3)
                if self._buckets[at + 1]
            ),
            segments=segments,
            open_transactions=tuple(sorted(self._open.values(), key=_first_offset)[:OPEN_TRANSACTIONS_MAX]),
            future_records=kernel.future,
            untimed_records=kernel.untimed,
            late_records=kernel.late,
            unread_bytes=unread_bytes,
        )

    def _take_transactional(self, view: memoryview, at: int, place: str) -> int:
        batch = RecordBatch(view, at)
        if not batch.is_control:
            if batch.is_transactional and batch.record_count:
                self._open.setdefault(
                    batch.producer_id,
                    OpenTransaction(
                        producer_id=batch.producer_id,
                        first_offset=batch.base_offset,
                        first_timestamp_ms=batch.max_timestamp,
                    ),
                )
            return self._take_block(view, at, place)
        if read_marker(batch) is not None:
            self._open.pop(batch.producer_id, None)
        self._control_records += batch.record_count
        self._control_end = batch.next_offset  # the next batch counts it among its writes
        return int(Stop.DONE)

    def _take_block(self, view: memoryview, at: int, place: str) -> int:
        payload = unpacked(place, view, at, self._record_bytes_max)
        stop = self.kernel.take_block(view, at, payload)
        if stop == Stop.DONE:
            batch = RecordBatch(view, at)
            self._packed_bytes += batch.size_bytes - HEADER_BYTES - len(payload)
        return stop

    def _make_room(self, timestamp_ms: int) -> None:
        """Change the buckets so that they contain this time: begin earlier, or make them wider."""
        if self._begin_ms < 0:
            self._begin_ms = timestamp_ms
        else:
            begin_ms, end_ms = self._begin_ms, self._begin_ms + BUCKETS * self._width_ms
            begin_ms, end_ms, width_ms = min(begin_ms, timestamp_ms), max(end_ms, timestamp_ms + 1), self._width_ms
            while BUCKETS * width_ms < end_ms - begin_ms:
                width_ms *= 2
            moved = array("q", bytes(len(self._buckets) * 8))
            for at in range(0, len(moved), 3):
                if any(self._buckets[at : at + 3]):
                    to = (self._begin_ms + at // 3 * self._width_ms - begin_ms) // width_ms * 3
                    for column in range(3):
                        moved[to + column] += self._buckets[at + column]
            self._buckets, self._begin_ms, self._width_ms = moved, begin_ms, width_ms
        self.kernel.set_buckets(self._buckets, self._begin_ms, self._width_ms)


def _writes_min(row: int) -> int:
    return row if row < WRITES_EXACT else 1 << (row - WRITES_EXACT + 4)


def _gap_min(row: int) -> int:
    if row < GAPS_EXACT:
        return row
    power, part = divmod(row - GAPS_EXACT, GAP_PARTS)
    return (GAP_PARTS + part) << (power + 1)


def _first_offset(transaction: OpenTransaction) -> int:
    return transaction.first_offset
