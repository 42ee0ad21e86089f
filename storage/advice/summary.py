"""Summary of one measured log: a small value from which the cleaner's work can be predicted.

A compacted log has one record of most keys in its clean part, however often they were written. So only the dirty part says how
often a key is written, and after how many writes again. The offsets say how many records were written in all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

GAPS_EXACT = 16
"""Rows of `Summary.gaps` below this number of writes are of one number each; of each power of two from there on there are `GAP_PARTS`."""
GAP_PARTS = 8
WRITES_EXACT = 16
"""Rows of `Summary.writes_per_key` below this number of writes are of one number each; the others are powers of two."""


class RollReason(StrEnum):
    """Reason why a segment was closed, by what its files show."""

    SIZE = "size"
    """The next batch did not fit: `segment.bytes`."""
    TIME = "time"
    """The next batch was too much later than the first: `segment.ms`, or `max.compaction.lag.ms`."""
    INDEX = "index"
    """An index was full: `segment.index.bytes`."""
    CLEANED = "cleaned"
    """A clean pass has written it, so the reason is no longer known."""
    OTHER = "other"
    """None of these under the present options: a command, a restart, or other options at that time."""
    ACTIVE = "active"
    """The segment is not closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSegment:
    """One segment."""

    base_offset: int
    size_bytes: int
    first_timestamp_ms: int
    """The largest timestamp of its first batch; -1: none."""
    largest_timestamp_ms: int
    rolled_by: RollReason


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction without a marker."""

    producer_id: int
    first_offset: int
    first_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeBucket:
    """Writes of one interval of time, by the batches' largest timestamps."""

    begin_ms: int
    writes: int
    """Records that were written, also those that a clean pass has removed since: a difference of offsets."""
    records: int
    """Records that the log still has."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    """Keys that were written about equally often."""

    writes_min: int
    """The smallest number of writes of the row; the largest is below that of the next possible row."""
    keys: int
    writes: int
    """Writes of these keys together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """Gaps of about equal length: writes of any key from one of a key to its next, from the begin to its first, or from its last to
    the end."""

    gap_min: int
    """The shortest gap of the row; the longest is below that of the next possible row."""
    gaps: float
    sum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanRow:
    """Records of the clean part by their distance in offsets before the first dirty offset: keys of a run that ends there."""

    distance_min: int
    """The least distance of the row; the rows are those of `GapRow`."""
    records: int


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Measurement of one log. Numbers of keys are estimates from a sample of `sampled_keys`, exact if that is all of them."""

    log_start_offset: int
    first_dirty_offset: int
    log_end_offset: int
    size_bytes: int
    batches: int
    records: int
    """Without control records."""
    record_bytes: int
    """Bytes of the batches without their headers, as they are stored."""
    keyless_records: int
    tombstones: int
    tombstone_bytes: int
    """Unpacked."""
    unpacked_bytes: int
    """Bytes of the records, unpacked, without the batches' headers."""
    control_records: int
    dirty_records: int
    dirty_batches: int
    dirty_bytes: int
    """Bytes of these batches as they are stored: a clean pass takes records out of batches, so only new ones show their size."""
    writes_per_key: tuple[KeyRow, ...]
    """Keys by their writes in the dirty part. The first row may be of 0 writes: keys that only the clean part has."""
    gaps: tuple[GapRow, ...]
    """Gaps between writes of a key in the dirty part: how many different keys a run of writes has."""
    clean_records: tuple[CleanRow, ...]
    sampled_keys: int
    live_keys: int
    """Keys whose newest record has a value. Aborted transactions count like others."""
    live_bytes: int
    """Bytes of these records, unpacked."""
    bucket_ms: int
    buckets: tuple[TimeBucket, ...]
    """In order of time; those without a write are left out."""
    segments: tuple[MeasuredSegment, ...]
    open_transactions: tuple[OpenTransaction, ...]
    future_records: int
    """Records with a timestamp more than a day after the measurement. No bucket has them."""
    untimed_records: int
    """Records in batches without a timestamp."""
    late_records: int
    """Records with a timestamp more than an hour before the newest one of the records before them."""
    unread_bytes: int
    """Bytes at the end that are not a whole batch: an append in progress, or damage."""

    @property
    def keys(self) -> int:
        """Keys of the log, those with a tombstone included."""
        return sum(row.keys for row in self.writes_per_key)

    @property
    def writes(self) -> int:
        """Offsets of the log: records that were written from its start on."""
        return self.log_end_offset - self.log_start_offset

    def distinct_keys(self, writes: float) -> float:
        """Return the expected number of different keys in a run of `writes` successive ones.

        Up to half of the writes that were counted by key, this is the mean of all runs of that length. A clean log has one record of
        each key, so longer runs are those that end where the log is clean. Beyond, the count grows by a power law. Between two of
        64 points in each power of two the result is a straight line: a simulation needs millions of them.
        """
        step = 1 << max(0, int(writes).bit_length() - 7)
        low = int(writes) // step * step
        if (line := self._lines.get(low)) is None:
            before = self._distinct(low)
            line = self._lines[low] = before, (self._distinct(low + step) - before) / step
        return line[0] + line[1] * (writes - low)

    @cached_property
    def _lines(self) -> dict[int, tuple[float, float]]:
        """Number of writes -> distinct keys, and how many more come with each write after it."""
        return {}

    @cached_property
    def _known_writes(self) -> int:
        """The length of the longest run whose keys were counted."""
        return max(self.dirty_records, self.first_dirty_offset - self.log_start_offset)

    def _distinct(self, writes: int) -> float:
        known = self._known_writes
        if writes > known:
            return self._distinct(known) + self._new_keys(writes)
        half = self.dirty_records // 2
        if writes <= half or known == self.dirty_records:
            return self._mean_of_runs(writes)
        return self._mean_of_runs(half) + self._clean_keys(writes) - self._clean_keys(half)

    def _mean_of_runs(self, writes: int) -> float:
        """Return the mean number of keys in all runs of this length within the counted writes.

        A run lacks a key if it is within one of its gaps, and a gap has one run less for each write that a run is longer. Few
        runs are nearly as long as all writes, so between them the result is a straight line.
        """
        counted = self.dirty_records
        keys = sum(row.sum for row in self.gaps) / (counted + 1)
        longest = counted * 3 // 4
        if writes > longest:
            long_run = self._mean_of_runs(longest) if longest else 0.0
            return long_run + (keys - long_run) * (writes - longest) / max(1, counted - longest)
        missed = sum(_excess(row, writes) for row in self.gaps if _end_of_row(row.gap_min) > writes)
        return max(0.0, keys - missed / (counted - writes + 1))

    def _clean_keys(self, writes: int) -> float:
        """Return the number of keys in the run of this length that ends at the first dirty offset."""
        return sum(
            row.records * min(1.0, (writes + 1 - row.distance_min) / (_end_of_row(row.distance_min) - row.distance_min))
            for row in self.clean_records
            if row.distance_min <= writes
        )

    def _new_keys(self, writes: float) -> float:
        """Return the keys that come after the known writes. The chance that a write has a new key falls by a power law.

        It goes through the chances in the second half of the known writes and in the quarter before that.
        """
        known = self._known_writes
        whole, half, quarter = (self._distinct(known // parts) for parts in (1, 2, 4))
        late, early = (whole - half) / max(1, known - known // 2), (half - quarter) / max(1, known // 2 - known // 4)
        if late <= 0 or early <= 0:
            return 0.0
        falls_by = max(0.0, math.log2(early / late))
        now = late * math.pow(0.75, falls_by)
        exponent = 1 - falls_by
        if abs(exponent) < 1e-9:
            return now * known * math.log(writes / known)
        return now * known * (math.pow(writes / known, exponent) - 1) / exponent


def _end_of_row(least: int) -> int:
    return least + (1 if least < GAPS_EXACT else 1 << (least.bit_length() - 4))


def _excess(row: GapRow, writes: int) -> float:
    """Return by how much the gaps of a row are longer than this, together. Those of a row are spread evenly over it."""
    if row.gap_min >= writes:
        return row.sum - writes * row.gaps
    over = _end_of_row(row.gap_min) - 1 - writes
    return row.gaps * over / (_end_of_row(row.gap_min) - row.gap_min) * (over + 1) / 2
