"""Simulation of the cleaner over one log in virtual time, from a summary: by expected numbers, not record by record.

Segments have offsets, sizes and times but no records, so the product's own rules decide over them: `rolling.next_roll` when one
ends, `dirtiness` whether and how far a pass goes, `cleaner.group_segments` what it merges, `retention.deletable_segments` what is
deleted. Only the number of records that a pass keeps is estimated. A key's newest record before offset `n` is in [a, b) if its
last write is there, so a cleaned segment keeps

    distinct_keys(n - a) - distinct_keys(n - b)

records. The writes come as they came while the log was measured, again and again if the simulation is longer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import NamedTuple, cast

from ...protocol.records import HEADER_BYTES
from ..cleaning.cleaner import group_segments
from ..cleaning.dirtiness import Dirtiness, Measurable, dirtiness_of, first_dirty_offset
from ..filter.offset_map import entries_max
from ..logs.log_reader import LogReader
from ..logs.retention import deletable_segments
from ..logs.rolling import next_roll
from ..logs.segments import SegmentList
from ..segment.segment import LogSegment
from ..topics.config import LogConfig
from ..topics.options import MAX_LONG
from .prediction import Age, Ages, Prediction
from .summary import Summary

DAY_MS = 86_400_000
YEAR_MS = 365 * DAY_MS
_OFFSET_ENTRY_BYTES, _TIME_ENTRY_BYTES = 8, 12
INTERVALS_MAX = 4_000
"""Largest number of intervals of time with writes in a simulation that does not begin empty."""
LOOKS_MAX, _LOOK = 10_000_000, 100
"""Bound on the work of one run: segments that the cleaner looks at or a roll moves, and `_LOOK` more for each of both."""
_COARSER, _ATTEMPTS = 8, 12
PASSES_MAX = 3_000
"""A simulation ends after this number of passes: all that follow are like them."""
CLEANED_BYTES_PER_S = 100_000_000
"""Bytes that a cleaner thread reads and writes in a second, if no throttle is set and the disk is not slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """Options of the broker that change how its cleaner treats one log."""

    threads: int = 1
    dedupe_buffer_bytes: int = 128 << 20
    """The sum over all threads."""
    load_factor: float = 0.9
    bytes_per_s: float = CLEANED_BYTES_PER_S
    """Reading and writing of this log's thread: its share of `log.cleaner.io.max.bytes.per.second`, or the speed of the disk."""
    backoff_ms: int = 15_000

    @property
    def map_entries_max(self) -> int:
        return entries_max(self.dedupe_buffer_bytes // self.threads, self.load_factor)


class _Index(NamedTuple):
    """Size of an index."""

    size_bytes: int
    is_full: bool


@dataclass(slots=True, eq=False)
class VirtualSegment:
    """A segment without records; the part of `LogSegment` that the rules read."""

    base_offset: int
    config: LogConfig
    size_bytes: int = 0
    first_batch_timestamp_ms: int = -1
    largest_timestamp_ms: int = -1
    rolling_jitter_ms: int = 0
    created_ms: int = 0
    index_every_bytes: int = 0
    """Bytes for each entry of an index."""

    def __post_init__(self) -> None:
        self.index_every_bytes = max(1, self.config.index_distance_bytes)

    @property
    def offset_index(self) -> _Index:
        return self._index(_OFFSET_ENTRY_BYTES)

    @property
    def time_index(self) -> _Index:
        return self._index(_TIME_ENTRY_BYTES)

    def _index(self, entry_bytes: int) -> _Index:
        size_bytes = self.size_bytes // self.index_every_bytes * entry_bytes
        return _Index(size_bytes, size_bytes > self.config.segment_index_bytes - entry_bytes)


class VirtualLog:
    """A log of such segments: the parts of `cleaning.dirtiness.Measurable` and of `LogReader` that the rules read."""

    failure = None

    def __init__(self, config: LogConfig, segments: Sequence[VirtualSegment], end_offset: int) -> None:
        self.config = config
        self.segments = SegmentList(cast(list[LogSegment], list(segments)))
        self.log_start_offset = segments[0].base_offset
        self.log_end_offset = end_offset
        self.size_bytes = self.segments.size_bytes

    @property
    def last_stable_offset(self) -> int:
        return self.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.log_end_offset

    @property
    def active(self) -> VirtualSegment:
        return cast(VirtualSegment, self.segments.active)

    def append(self, writes: int, size_bytes: int) -> None:
        """Write records into the active segment."""
        self.active.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self.log_end_offset += writes

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, if the active one is not empty."""
        if self.active.size_bytes:
            new = VirtualSegment(
                self.log_end_offset,
                self.config,
                rolling_jitter_ms=min(self.config.segment_jitter_ms, self.config.roll_after_ms) // 2,
                created_ms=now_ms,
            )
            self.segments.add(cast(LogSegment, new))


@dataclass(slots=True)
class _Cohort:
    """Tombstones that one pass saw first: those of the writes from `begin` to `end`."""

    begin: int
    end: int
    horizon_ms: int


class _Pass(NamedTuple):
    """A pass in progress."""

    ends_ms: int
    end_offset: int
    replaced: list[tuple[VirtualSegment, list[LogSegment]]]
    tombstones_from: int


@dataclass(slots=True)
class _Costs:
    passes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    busy_ms: int = 0
    sizes: list[tuple[int, int]] = field(default_factory=list)


def simulate(
    summary: Summary,
    config: LogConfig,
    cleaner: CleanerSettings,
    *,
    span_ms: int | None = None,
    begins_empty: bool = False,
) -> Prediction:
    """Simulate a log; the result is of `span_ms`, or of the time of 3 000 passes if that is shorter.

    A log of very many segments is simulated with fewer, larger ones.

    Args:
        span_ms: Length of the simulation; None: a year, or the measured time if the log begins empty.
        begins_empty: Write the measured log once more into an empty one. Otherwise the simulation begins with the measured log,
            completely clean.

    Raises:
        ValueError: The summary has no record with a time, or its numbers cannot be those of a log; or the log is not compacted.
    """
    for attempt in range(_ATTEMPTS):
        coarser = _COARSER**attempt
        tried = replace(
            config,
            segment_bytes=config.segment_bytes * coarser,
            segment_index_bytes=config.segment_index_bytes * coarser,
            segment_ms=min(config.segment_ms * coarser, MAX_LONG),
        )
        with suppress(TooManySegmentsError):
            one = Simulation(summary, tried, cleaner, span_ms=span_ms, begins_empty=begins_empty)
            return one.run(ends_early=attempt == _ATTEMPTS - 1)
    raise ValueError("the offsets or sizes cannot be those of a log")


class _Writes(NamedTuple):
    """Writes of one interval of time."""

    number: int
    size: float
    """The sum of their sizes, each as a multiple of the mean."""

    def plus(self, number: int, size: float) -> _Writes:
        return _Writes(self.number + number, self.size + size)


def _writes_by_time(summary: Summary) -> dict[int, _Writes]:
    """Return the writes by the begin of their interval, from that of the first one on, in order.

    Writes of which no record is left came evenly since the record before. Only the dirty part says how large they were at a time: a
    clean pass takes records out of batches.
    """
    found: dict[int, _Writes] = {}
    begin_ms, width_ms = summary.buckets[0].begin_ms, summary.bucket_ms
    before_ms, before, clean = begin_ms - width_ms, 0, summary.first_dirty_offset - summary.log_start_offset
    dirty = [
        bucket
        for bucket, end in zip(summary.buckets, accumulate(each.writes for each in summary.buckets), strict=True)
        if end - bucket.writes >= clean and bucket.records
    ]
    mean_bytes = sum(each.size_bytes for each in dirty) / max(1, sum(each.records for each in dirty))
    for bucket in summary.buckets:
        size = 1.0
        if before >= clean and bucket.records and mean_bytes:
            size = bucket.size_bytes / bucket.records / mean_bytes
        before += bucket.writes
        lost = max(0, bucket.writes - bucket.records)
        times = range(before_ms + width_ms, bucket.begin_ms + width_ms, width_ms)
        for number, at_ms in enumerate(times if lost else ()):
            writes = lost * (number + 1) // len(times) - lost * number // len(times)
            found[at_ms - begin_ms] = _Writes(writes, writes * size)
        kept = bucket.writes - lost
        found[bucket.begin_ms - begin_ms] = found.get(bucket.begin_ms - begin_ms, _NONE).plus(kept, kept * size)
        before_ms = bucket.begin_ms
    return found


_NONE = _Writes(0, 0.0)


class TooManySegmentsError(Exception):
    """The log has too many segments for a simulation of a few seconds."""


class Simulation:
    """One run; `run` returns its result."""

    def __init__(
        self, summary: Summary, config: LogConfig, cleaner: CleanerSettings, *, span_ms: int | None, begins_empty: bool
    ) -> None:
        """The arguments are those of `simulate`."""
        if not config.is_compact:
            raise ValueError("the log is not compacted")
        if not summary.records or not summary.buckets:
            raise ValueError("no record with a timestamp was measured")
        config = replace(config, ottla_key_retention_ms=-1)
        self._summary, self._config, self._cleaner = summary, config, cleaner
        self._map_entries_max = cleaner.map_entries_max
        first, last = summary.buckets[0], summary.buckets[-1]
        self._width_ms = summary.bucket_ms
        self._writes = _writes_by_time(summary)
        self._period_ms = last.begin_ms + summary.bucket_ms - first.begin_ms
        self._begin_ms = first.begin_ms if begins_empty else last.begin_ms + summary.bucket_ms
        self._end_ms = self._begin_ms + (span_ms or (self._period_ms if begins_empty else YEAR_MS))
        self._now_ms = self._begin_ms
        if not begins_empty:
            self._widen((self._end_ms - self._begin_ms) // INTERVALS_MAX)
        stored = summary.record_bytes / summary.unpacked_bytes if summary.unpacked_bytes else 1.0
        data_bytes = summary.record_bytes / summary.records
        self._value_bytes = stored * summary.live_bytes / summary.live_keys if summary.live_keys else data_bytes
        self._tombstone_bytes = stored * summary.tombstone_bytes / summary.tombstones if summary.tombstones else 0.0
        packed_bytes = summary.record_bytes + HEADER_BYTES * summary.batches
        self._batch_marker_bytes = max(0, summary.size_bytes - packed_bytes) / max(1, summary.batches)
        """Bytes of control batches for each batch of data."""
        markers, batch_records = (
            summary.control_records / max(1, summary.batches),
            summary.records / max(1, summary.batches),
        )
        batch_bytes = packed_bytes / max(1, summary.batches)
        if summary.dirty_batches:
            batch_records = max(1.0, summary.dirty_records / summary.dirty_batches)
            batch_bytes = summary.dirty_bytes / summary.dirty_batches
        self._data_share = batch_records / (batch_records + markers)
        self._batch_writes = max(1, round(batch_records + markers))
        self._write_bytes = (batch_bytes + self._batch_marker_bytes) / (batch_records + markers)
        self._tombstone_share = 1 - summary.live_keys / summary.keys if summary.keys and summary.tombstones else 0.0
        self._tombstones_from = 0
        self._cohorts: list[_Cohort] = []
        self._times: tuple[list[int], list[int]] = [0], [self._begin_ms]
        self._dirty_from = 0 if begins_empty else summary.writes
        self._log = VirtualLog(config, [VirtualSegment(0, config, created_ms=self._begin_ms)], 0)
        if not begins_empty:
            self._begin_clean()
        self._pass: _Pass | None = None
        self._check_ms = self._begin_ms
        self._looks = 0
        self._costs = _Costs()
        self._superseded: list[Age] = []
        self._expired: list[Age] = []

    def run(self, *, ends_early: bool = False) -> Prediction:
        """Simulate the whole time.

        Args:
            ends_early: Return what there is at the moment at which the error would be raised.

        Raises:
            TooManySegmentsError: The cleaner would look at more than `LOOKS_MAX` segments.
        """
        self._note_size()
        try:
            for begin_ms, end_ms, writes in self._flow():
                self._write(begin_ms, end_ms, writes)
                if self._costs.passes >= PASSES_MAX:
                    self._end_ms = self._now_ms
            self._work(self._end_ms)
        except TooManySegmentsError:
            if not ends_early:
                raise
            self._end_ms = self._now_ms
        return self._prediction()

    # Writes

    def _begin_clean(self) -> None:
        """Begin with the measured log as one pass would leave it, and an empty active segment."""
        writes, span_ms = self._summary.writes, self._period_ms
        count = 1 + int(self._kept_bytes(0, writes, writes) // (self._config.segment_bytes * 0.9))
        if count > LOOKS_MAX // _LOOK:
            raise TooManySegmentsError
        bases = [writes * number // count for number in range(count)] + [writes]
        segments = [
            VirtualSegment(
                base,
                self._config,
                size_bytes=self._kept_bytes(base, end, writes),
                first_batch_timestamp_ms=self._begin_ms - span_ms + span_ms * base // writes,
                largest_timestamp_ms=self._begin_ms - span_ms + span_ms * end // writes,
            )
            for base, end in pairwise(bases)
            if base < end
        ]
        active = VirtualSegment(writes, self._config, created_ms=self._begin_ms)
        self._log = VirtualLog(self._config, [*segments, active], writes)
        self._times = [writes], [self._begin_ms]
        self._tombstones_from = writes

    def _widen(self, width_ms: int) -> None:
        """Put the writes into intervals of at least this time: a log of a few seconds repeats itself very often in a year."""
        if width_ms <= self._width_ms:
            return
        if width_ms >= self._period_ms:
            count = sum(each.number for each in self._writes.values()) * width_ms // self._period_ms
            self._writes, self._period_ms = {0: _Writes(count, count)}, width_ms
        else:
            merged: dict[int, _Writes] = {}
            for at_ms, writes in self._writes.items():
                begin_ms = at_ms // width_ms * width_ms
                merged[begin_ms] = merged.get(begin_ms, _NONE).plus(*writes)
            self._writes = merged
            self._period_ms = -(-self._period_ms // width_ms) * width_ms
        self._width_ms = width_ms

    def _flow(self) -> Iterator[tuple[int, int, _Writes]]:
        """Yield intervals of time in which something is written: begin, end, writes."""
        begin_ms = self._begin_ms
        while begin_ms < self._end_ms:
            for after_ms, writes in self._writes.items():
                at_ms = begin_ms + after_ms
                if at_ms >= self._end_ms:
                    return
                yield at_ms, at_ms + self._width_ms, writes
            begin_ms += self._period_ms

    def _write(self, begin_ms: int, end_ms: int, flow: _Writes) -> None:
        """Write batches at even distances in an interval of time."""
        writes, log = flow.number, self._log
        count, write_bytes = -(-writes // self._batch_writes), self._write_bytes * flow.size / max(1, writes)
        batch_bytes = max(1, round(write_bytes * self._batch_writes))
        done = 0
        while done < count and self._costs.passes < PASSES_MAX:
            now_ms = begin_ms + (end_ms - begin_ms) * done // count
            self._work(now_ms)
            rolls = next_roll(cast(LogReader, log))
            if rolls and (rolls.free_bytes < batch_bytes or (rolls.from_ms is not None and now_ms >= rolls.from_ms)):
                log.roll(now_ms)
                self._spend(len(log.segments))
                self._check_ms = min(self._check_ms, self._round(now_ms))
                continue
            free_bytes, until_ms = (self._config.segment_bytes, MAX_LONG) if rolls is None else rolls[2::-2]
            event_ms = self._check_ms if self._pass is None else self._pass.ends_ms
            until_ms = min(MAX_LONG if until_ms is None else until_ms, event_ms, end_ms)
            in_time = -(-(until_ms - begin_ms) * count // (end_ms - begin_ms)) - done
            batches = max(1, min(count - done, free_bytes // batch_bytes, in_time))
            last_ms = begin_ms + (end_ms - begin_ms) * (done + batches - 1) // count
            written = writes * (done + batches) // count - writes * done // count
            active = log.active
            self._note_time(log.log_end_offset, now_ms)
            if not active.size_bytes:
                active.first_batch_timestamp_ms = now_ms
            active.largest_timestamp_ms = last_ms
            log.append(written, round(written * write_bytes))
            self._note_time(log.log_end_offset, last_ms)
            done += batches
            self._now_ms = last_ms
            self._note_size()

    def _note_time(self, end_offset: int, now_ms: int) -> None:
        offsets, times = self._times
        offsets.append(end_offset)
        times.append(now_ms)

    # Cleaner and retention

    def _round(self, at_ms: int) -> int:
        """Return the time of the cleaner's first round at or after this time."""
        return self._begin_ms - (self._begin_ms - at_ms) // self._cleaner.backoff_ms * self._cleaner.backoff_ms

    def _work(self, until_ms: int) -> None:
        """Let the cleaner and retention do what they do up to this time."""
        while True:
            if self._pass is not None:
                if self._pass.ends_ms > until_ms:
                    return
                self._now_ms = self._pass.ends_ms
                self._finish(self._pass)
            elif self._check_ms <= until_ms:
                self._now_ms = self._check_ms
                self._look()
            else:
                return

    def _spend(self, segments: int) -> None:
        self._looks += _LOOK + segments
        if self._looks > LOOKS_MAX:
            raise TooManySegmentsError

    def _look(self) -> None:
        """One round: delete, and begin a pass if it is due."""
        now_ms, log = self._now_ms, self._log
        self._spend(len(log.segments))
        if self._config.is_delete:
            self._retain()
        self._dirty_from = first_dirty_offset(cast(Measurable, log), self._dirty_from)[0]
        found = dirtiness_of(cast(Measurable, log), self._dirty_from, now_ms)
        if found.is_due_under(self._config):
            self._begin_pass(found)
        else:
            self._check_ms = self._round(max(now_ms + 1, self._next_change_ms()))

    def _next_change_ms(self) -> int:
        """Return the first time at which waiting alone may make a pass or a deletion due."""
        config, log, changes = self._config, self._log, [MAX_LONG]
        dirty = log.segments.between(self._dirty_from, log.active.base_offset)
        if dirty:
            oldest_ms = min(segment.first_batch_timestamp_ms for segment in dirty)
            changes.append(oldest_ms + config.max_compaction_lag_ms + 1)
            changes += [
                due_ms
                for segment in dirty
                if (due_ms := segment.largest_timestamp_ms + config.min_compaction_lag_ms) > self._now_ms
            ][:1]
        if config.is_delete and config.retention_ms >= 0 and log.segments.first.size_bytes:
            changes.append(log.segments.first.largest_timestamp_ms + config.retention_ms + 1)
        return min(each for each in changes if each > self._now_ms)

    def _retain(self) -> None:
        log = self._log
        if deleted := deletable_segments(cast(LogReader, log), self._now_ms):
            if len(deleted) == len(log.segments):
                log.roll(self._now_ms)
            begin, dirty, now_ms = log.log_start_offset, self._dirty_from, self._now_ms
            log.segments.remove(deleted)
            log.size_bytes = log.segments.size_bytes
            kept_from = log.segments.first.base_offset
            for low, high, low_ms, high_ms in self._parts(max(dirty, kept_from), log.log_end_offset):
                records = self._newest(begin, kept_from, low) - self._newest(begin, kept_from, high)
                self._superseded.append(Age(now_ms - high_ms, now_ms - low_ms, records))
            lost_from = max(begin, self._tombstones_from)
            self._expired += self._newest_tombstones(lost_from, kept_from, log.log_end_offset, now_ms)
            log.log_start_offset = max(log.log_start_offset, log.segments.first.base_offset)
            self._note_size()

    def _begin_pass(self, found: Dirtiness) -> None:
        now_ms, upper, begin = self._now_ms, found.upper_offset, found.first_dirty_offset
        end = begin + self._mapped_writes(upper - begin)
        ends = {
            id(segment): each.base_offset for segment, each in zip(found.segments, found.segments[1:], strict=False)
        }
        segments = [segment for segment in found.segments if segment.base_offset < end]
        expired = [cohort.end for cohort in self._cohorts if cohort.horizon_ms <= now_ms]
        tombstones_from = max([self._tombstones_from, *expired])
        replaced = []
        for group in group_segments(segments, upper, self._config):
            base, group_end = group[0].base_offset, ends.get(id(group[-1]), upper)
            cleaned = VirtualSegment(
                base,
                self._config,
                size_bytes=self._kept_bytes(base, group_end, end, tombstones_from),
                first_batch_timestamp_ms=group[0].first_batch_timestamp_ms,
                largest_timestamp_ms=max(segment.largest_timestamp_ms for segment in group),
            )
            replaced.append((cleaned, group))
        read_bytes = sum(segment.size_bytes for segment in segments)
        read_bytes += sum(segment.size_bytes for segment in segments if ends.get(id(segment), upper) > begin)
        written_bytes = sum(cleaned.size_bytes for cleaned, _ in replaced)
        busy_ms = round((read_bytes + written_bytes) / self._cleaner.bytes_per_s * 1_000)
        costs = self._costs
        costs.passes += 1
        costs.read_bytes += read_bytes
        costs.written_bytes += written_bytes
        costs.busy_ms += busy_ms
        self._cohorts.append(_Cohort(begin, end, min(now_ms + self._config.delete_retention_ms, MAX_LONG)))
        self._pass = _Pass(now_ms + busy_ms, end, replaced, tombstones_from)

    def _mapped_writes(self, writes: int) -> int:
        """Return the number of dirty records whose keys fit into the map."""
        distinct, room = self._distinct, self._map_entries_max
        if writes <= room or distinct(writes) <= room:
            return writes
        fits, too_many = room, writes
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            fits, too_many = (middle, too_many) if distinct(middle) <= room else (fits, middle)
        return fits

    def _finish(self, done: _Pass) -> None:
        new = [cast(LogSegment, cleaned) for cleaned, _ in done.replaced]
        self._log.segments.exchange(new, [each for _, group in done.replaced for each in group])
        self._log.size_bytes = self._log.segments.size_bytes
        self._superseded += self._overwritten(self._dirty_from, done.end_offset, done.ends_ms)
        for cohort in [each for each in self._cohorts if each.end <= done.tombstones_from]:
            self._cohorts.remove(cohort)
            begin = max(cohort.begin, self._log.log_start_offset)
            self._expired += self._newest_tombstones(begin, cohort.end, done.end_offset, done.ends_ms)
        self._tombstones_from, self._dirty_from = done.tombstones_from, done.end_offset
        self._pass, self._check_ms = None, done.ends_ms
        self._note_size()

    def _parts(self, begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Divide offsets into parts that were written evenly; yields their offsets and times."""
        offsets, times = self._times
        at = max(1, bisect_right(offsets, begin))
        while at < len(offsets) and offsets[at - 1] < end:
            low, high = offsets[at - 1], offsets[at]
            from_, to = max(begin, low), min(end, high)
            if to > from_:
                lasted_ms = times[at] - times[at - 1]
                yield (
                    from_,
                    to,
                    times[at - 1] + lasted_ms * (from_ - low) // (high - low),
                    times[at - 1] + lasted_ms * (to - low) // (high - low),
                )
            at += 1

    # Estimates

    def _distinct(self, writes: int) -> float:
        return self._summary.distinct_keys(writes * self._data_share)

    def _newest(self, begin: int, end: int, written_to: int) -> float:
        """Return how many keys have their last write below `written_to` from `begin` to `end`."""
        return max(0.0, self._distinct(written_to - begin) - self._distinct(written_to - end))

    def _overwritten(self, begin: int, end: int, removed_ms: int) -> Iterator[Age]:
        """Yield the ages of the records that the writes from `begin` to `end` have superseded, if they are in the log."""
        start = self._log.log_start_offset
        for low, high, low_ms, high_ms in self._parts(max(begin, start), end):
            new = self._distinct(high - start) - self._distinct(low - start)
            yield Age(removed_ms - high_ms, removed_ms - low_ms, (high - low) * self._data_share - new)

    def _newest_tombstones(self, begin: int, end: int, written_to: int, removed_ms: int) -> Iterator[Age]:
        """Yield the ages of the tombstones of these writes that are the newest records of their keys."""
        if self._tombstone_share:
            for low, high, low_ms, high_ms in self._parts(begin, end):
                records = self._tombstone_share * self._newest(low, high, written_to)
                yield Age(removed_ms - high_ms, removed_ms - low_ms, records)

    def _kept_bytes(self, begin: int, end: int, clean_to: int, tombstones_from: int = MAX_LONG) -> int:
        """Return the size of a segment of these offsets after a pass up to `clean_to`.

        Args:
            tombstones_from: Tombstones, and markers without data, below this offset are gone.
        """
        mapped = min(end, clean_to)
        size = max(0, end - clean_to) * self._write_bytes
        low, later = begin, self._distinct(clean_to - begin)
        while low < mapped:
            # How many batches keep a record depends on their age, so parts become shorter towards the end.
            high = min(mapped, max(low + self._batch_writes, (low + clean_to) // 2))
            batches, before = (high - low) / self._batch_writes, later
            later = self._distinct(clean_to - high)
            newest = max(0.0, before - later)
            share = (high - min(max(low, tombstones_from), high)) / (high - low)
            tombstones = self._tombstone_share * newest * share
            values = (1 - self._tombstone_share) * newest
            left = min(1.0, (values + tombstones) / (high - low))
            used = 1 - (1 - left) ** self._batch_writes
            size += values * self._value_bytes + tombstones * self._tombstone_bytes
            size += batches * (used * HEADER_BYTES + max(used, share) * self._batch_marker_bytes)
            low = high
        return round(size)

    # The result

    def _note_size(self) -> None:
        self._costs.sizes.append((self._now_ms - self._begin_ms, self._log.size_bytes))

    def _prediction(self) -> Prediction:
        costs, log = self._costs, self._log
        end, end_ms = log.log_end_offset, self._end_ms
        tombstones_from = max(self._tombstones_from, log.log_start_offset)
        return Prediction.from_run(
            span_ms=self._end_ms - self._begin_ms,
            sizes=costs.sizes,
            passes=costs.passes,
            read_bytes=costs.read_bytes,
            written_bytes=costs.written_bytes,
            busy_ms=costs.busy_ms,
            superseded=Ages.from_parts(self._superseded, self._overwritten(self._dirty_from, end, end_ms)),
            tombstones=Ages.from_parts(self._expired, self._newest_tombstones(tombstones_from, end, end, end_ms)),
        )
