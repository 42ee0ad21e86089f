"""Summary of one measured log: a small value from which the cleaner's work can be predicted.

A compacted log has one record of most keys in its clean part, however often they were written. So only the dirty part says how
often a key is written, and after how many writes again. The offsets say how many records were written in all.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate

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
    writes_per_key: tuple[KeyRow, ...]
    """Keys by their writes in the dirty part. The first row may be of 0 writes: keys that only the clean part has."""
    gaps: tuple[GapRow, ...]
    """Gaps between writes of a key in the dirty part: how many different keys a run of writes has."""
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

    @cached_property
    def _dirty_keys(self) -> float:
        """Keys of the counted writes; each has gaps from the begin to the end."""
        return sum(row.sum for row in self.gaps) / (self.dirty_records + 1)

    def distinct_keys(self, writes: float) -> float:
        """Return the expected number of different keys in a run of `writes` successive ones.

        Up to the number of writes that were counted by key, this is the mean of all runs of that length. Beyond, the count grows by a
        power law, through the number of keys of the whole log if the clean part has more, or as it grew at the end of the counted
        ones. Between two of 64 points in each power of two the result is a straight line: a simulation needs millions of them.
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

    def _distinct(self, writes: int) -> float:
        counted = self.dirty_records
        if writes <= 0 or not counted:
            return min(max(writes, 0.0), float(self.keys))
        if writes <= counted:
            return self._mean_of_runs(writes)
        known = self._dirty_keys
        before = self.first_dirty_offset - self.log_start_offset
        if before > 0 and self.keys > known > 0:
            exponent = math.log(self.keys / known) / math.log1p(before / counted)
            return known * math.pow(writes / counted, min(exponent, 1.0))
        return known + self._new_keys(writes)

    def _mean_of_runs(self, writes: int) -> float:
        """Return the mean number of keys in all runs of this length within the counted writes.

        A run lacks a key if it is within one of its gaps, and a gap has one run less for each write that a run is longer. Few
        runs are nearly as long as all writes, so between them the result is a straight line.
        """
        counted = self.dirty_records
        longest = counted * 3 // 4
        if writes > longest:
            long_run = self._mean_of_runs(longest) if longest else 0.0
            return long_run + (self._dirty_keys - long_run) * (writes - longest) / (counted - longest)
        starts, gaps, sums = self._longer_gaps
        at = bisect_right(starts, writes)
        missed = sums[at] - writes * gaps[at]
        if at:
            row = self.gaps[at - 1]
            width = 1 if row.gap_min < GAPS_EXACT else 1 << (row.gap_min.bit_length() - 4)
            over = row.gap_min + width - 1 - writes
            if over > 0:
                missed += row.gaps * over / width * (over + 1) / 2
        return max(0.0, self._dirty_keys - missed / (counted - writes + 1))

    @cached_property
    def _longer_gaps(self) -> tuple[list[int], list[float], list[float]]:
        """The beginnings of the rows of `gaps`; for each position, the number and the sum of the gaps from that row on."""
        rows = self.gaps[::-1]
        gaps = list(accumulate((row.gaps for row in rows), initial=0.0))[::-1]
        sums = list(accumulate((row.sum for row in rows), initial=0.0))[::-1]
        return [row.gap_min for row in self.gaps], gaps, sums

    def _new_keys(self, writes: float) -> float:
        """Return the keys that come after the counted writes. The chance that a write has a new key falls by a power law.

        It goes through the chances in the second half of the counted writes and in the quarter before that.
        """
        counted = self.dirty_records
        half, quarter = self._distinct(counted // 2), self._distinct(counted // 4)
        late, early = (self._dirty_keys - half) / (counted - counted // 2), (half - quarter) / max(1, counted // 4)
        if late <= 0 or early <= 0:
            return 0.0
        falls_by = max(0.0, math.log2(early / late))
        now = late * math.pow(0.75, falls_by)
        exponent = 1 - falls_by
        if abs(exponent) < 1e-9:
            return now * counted * math.log(writes / counted)
        return now * counted * (math.pow(writes / counted, exponent) - 1) / exponent
