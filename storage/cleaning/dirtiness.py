"""How dirty a compacted log is, and how much of it a clean pass may touch now.

    0            first dirty offset            upper offset                    LEO
    |  clean     |  dirty                      |  not to be cleaned yet        |
    | [segment] [segment] [seg|ment] [segment] | [young or undecided] [active] |

The cleaner manager measures every compacted log of the broker in each round, on the thread that owns the logs. A log
may have tens of thousands of segments, so each measurement can be made in steps. If the log changes between two steps,
the result is that of the first one.

With `ottla.key.retention.ms`, a pass is also due once the oldest record that may go for its age has exceeded that by a
sixteenth. Below the end of the last pass its timestamp is known (`record_counts`). Elsewhere the first batches of the segments
give an estimate, but in the clean part only above `RecordCounter.aged_up_to_ms`: what is older was left by a pass, e.g. tombstones,
and would cause another one in each round.

Source: Apache Kafka's LogCleanerManager; KIP-58 (min lag), KIP-354 (max lag).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, Protocol

from ...protocol.records import RecordBatch
from ..logs.log import Log
from ..logs.record_counts import RecordCounter
from ..logs.segments import SegmentList
from ..produce.producer_state import LastRecord
from ..segment.segment import LogSegment
from ..steps import Steps, to_the_end
from ..topics.config import LogConfig
from ..topics.options import MAX_LONG

# A millisecond or less.
SEGMENTS_AT_ONCE = 1_024


class Measurable(Protocol):
    """The part of a log's interface that measuring needs: a log of the server, or one opened for reading only."""

    @property
    def config(self) -> LogConfig: ...
    @property
    def segments(self) -> SegmentList: ...
    @property
    def counter(self) -> RecordCounter: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...


def pieces(segments: Sequence[LogSegment]) -> Iterator[Sequence[LogSegment]]:
    """Divide segments into runs of `SEGMENTS_AT_ONCE`."""
    for at in range(0, len(segments), SEGMENTS_AT_ONCE):
        yield segments[at : at + SEGMENTS_AT_ONCE]


def _size_bytes(segments: Sequence[LogSegment]) -> Steps[int]:
    size_bytes = 0
    for number, piece in enumerate(pieces(segments)):
        if number:
            yield
        size_bytes += sum(segment.size_bytes for segment in piece)
    return size_bytes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Dirtiness:
    """Measurement of one log."""

    first_dirty_offset: int
    upper_offset: int
    """Base offset of a segment: the first that the pass must not touch."""
    segments: list[LogSegment]
    """The segments below `upper_offset`; none grows any more. A pass empties this list at its end."""
    clean_bytes: int
    cleanable_bytes: int
    """The segment that holds the first dirty offset counts in both."""
    max_lag_overdue_ms: int
    """How much longer than `max.compaction.lag.ms` the oldest dirty record has waited; 0: not that long."""
    key_overdue_ms: int = 0
    """How much longer than `ottla.key.retention.ms`, plus a sixteenth, the oldest record with a value has been kept; 0: not that
    long."""

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    def is_due_under(self, config: LogConfig) -> bool:
        """Return whether a pass is worthwhile: too dirty (strictly, so a ratio of 1.0 never is), dirty for too long, or too old."""
        is_dirty = self.cleanable_bytes > 0 and (
            self.max_lag_overdue_ms > 0 or self.dirty_ratio > config.min_cleanable_dirty_ratio
        )
        return is_dirty or self.key_overdue_ms > 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LogToClean(Dirtiness):
    """A log of the server with its dirtiness, and what a pass over it would do."""

    log: Log
    last_records: dict[int, LastRecord] | None = None
    """Last record of each producer; see `for_worker`. A pass empties this at its end."""
    high_watermark: int = 0
    """High watermark at the call of `for_worker`."""
    erased_keys: frozenset[bytes] = frozenset()
    """Keys whose tombstones the pass removes at once; see `OffsetMap.end_retention`."""
    log_start_offset: int = 0
    """Log start offset at the call of `for_worker`."""

    @property
    def is_due(self) -> bool:
        return self.is_due_under(self.log.config)

    def for_worker(self, last_records: dict[int, LastRecord] | None = None) -> "LogToClean":
        """Return a copy with everything that a pass needs of the log's changing state, so that it can run during appends.

        Args:
            last_records: Last record of each producer, read after the measurement; None reads them now. The last record of a
                producer that has written since is above what the pass reaches.
        """
        if last_records is None:
            last_records = self.log.producers.last_records()
        log = self.log
        return replace(
            self,
            last_records=last_records,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
        )


def first_dirty_offset(log: Measurable, checkpoint: int | None) -> tuple[int, bool]:
    """Return where the dirty part begins, and whether the checkpoint is wrong and must be replaced by that.

    A checkpoint below the log start lags behind retention or DeleteRecords. One above the LEO is left over from a
    longer log: then nothing is known to be clean.
    """
    start = log.log_start_offset
    if checkpoint is None:
        return start, False
    if checkpoint < start or checkpoint > log.log_end_offset:
        return start, True
    return checkpoint, False


class BoundBy(StrEnum):
    """Reasons why the cleanable part of a log ends where it does."""

    ACTIVE_SEGMENT = "active_segment"
    OPEN_TRANSACTION = "open_transaction"
    MIN_COMPACTION_LAG = "min_compaction_lag"
    DAMAGE = "damage"
    """The log cannot be measured."""


class Bound(NamedTuple):
    """The end of the cleanable part, and the reason."""

    offset: int
    """The first offset that must stay as it is."""
    by: BoundBy


def find_bound_in_pieces(log: Measurable, dirty_from: int, now_ms: int, *, young_too: bool = False) -> Steps[Bound]:
    """Find the end of what may be cleaned: undecided transactions, the active segment and young segments stay as they are.

    `min.compaction.lag.ms` works on whole segments, by their largest timestamp; the first young one ends the range. A forced
    pass (`young_too`) takes the young ones as well.
    """
    found = Bound(log.segments.active.base_offset, BoundBy.ACTIVE_SEGMENT)
    if log.last_stable_offset < found.offset:
        found = Bound(log.last_stable_offset, BoundBy.OPEN_TRANSACTION)
    min_lag_ms = log.config.min_compaction_lag_ms
    if min_lag_ms > 0 and not young_too:
        young = yield from _first_young(log.segments.between(dirty_from, found.offset), now_ms - min_lag_ms)
        if young is not None:
            found = Bound(young.base_offset, BoundBy.MIN_COMPACTION_LAG)
    return found._replace(offset=max(dirty_from, found.offset))


def _first_young(segments: Sequence[LogSegment], since_ms: int) -> Steps[LogSegment | None]:
    for number, piece in enumerate(pieces(segments)):
        if number:
            yield
        for segment in piece:
            if segment.largest_timestamp_ms > since_ms:
                return segment
    return None


def measure(log: Log, dirty_from: int, now_ms: int) -> LogToClean:
    """Measure one log whose dirty part begins at `dirty_from`."""
    return to_the_end(measure_in_pieces(log, dirty_from, now_ms))


def measure_in_pieces(log: Log, dirty_from: int, now_ms: int, bound: Bound | None = None) -> Steps[LogToClean]:
    """Run `measure` in steps. `bound` is that of `find_bound_in_pieces`, if it is known."""
    found = yield from dirtiness_in_pieces(log, dirty_from, now_ms, bound)
    return LogToClean(
        log=log,
        first_dirty_offset=found.first_dirty_offset,
        upper_offset=found.upper_offset,
        segments=found.segments,
        clean_bytes=found.clean_bytes,
        cleanable_bytes=found.cleanable_bytes,
        max_lag_overdue_ms=found.max_lag_overdue_ms,
        key_overdue_ms=found.key_overdue_ms,
    )


def measure_forced_in_pieces(log: Log, dirty_from: int, now_ms: int) -> Steps[LogToClean]:
    """Measure a log for a forced pass: it includes young segments, but not the active one and undecided transactions."""
    bound = yield from find_bound_in_pieces(log, dirty_from, now_ms, young_too=True)
    return (yield from measure_in_pieces(log, dirty_from, now_ms, bound))


def dirtiness_of(log: Measurable, dirty_from: int, now_ms: int) -> Dirtiness:
    """Measure any log, not only one of the server."""
    return to_the_end(dirtiness_in_pieces(log, dirty_from, now_ms))


def dirtiness_in_pieces(log: Measurable, dirty_from: int, now_ms: int, bound: Bound | None = None) -> Steps[Dirtiness]:
    """Run `dirtiness_of` in steps. `bound` is that of `find_bound_in_pieces`, if it is known."""
    if bound is None:
        bound = yield from find_bound_in_pieces(log, dirty_from, now_ms)
    everything, active_base = log.segments, log.segments.active.base_offset
    # A pass ends between two segments, never in one.
    uncleanable = min(bound.offset, active_base)
    floor = everything.floor(uncleanable)
    upper = uncleanable if floor is None else floor.base_offset
    dirty_floor = everything.floor(min(dirty_from, upper))
    dirty_base = upper if dirty_floor is None else dirty_floor.base_offset
    clean, below = everything.between(-1, dirty_from), everything.between(-1, upper)
    cleanable, dirty = everything.between(dirty_base, upper), everything.between(dirty_from, active_base)
    max_lag_ms = log.config.max_compaction_lag_ms
    clean_bytes = yield from _size_bytes(clean)
    cleanable_bytes = yield from _size_bytes(cleanable)
    oldest_ms = yield from _oldest_ms(dirty)
    key_overdue_ms = 0
    if log.config.ottla_key_retention_ms >= 0 and len(below):
        oldest_key_ms = yield from _oldest_key_ms(log, clean, everything.between(dirty_from, upper), dirty_from)
        if oldest_key_ms is not None:
            key_overdue_ms = max(0, now_ms - due_from_ms(log.config, oldest_key_ms) + 1)
    return Dirtiness(
        first_dirty_offset=dirty_from,
        upper_offset=upper,
        segments=list(below),
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        max_lag_overdue_ms=0 if oldest_ms is None else max(0, now_ms - max_lag_ms - oldest_ms),
        key_overdue_ms=key_overdue_ms,
    )


def due_from_ms(config: LogConfig, oldest_key_ms: int) -> int:
    """Return when a pass becomes due for the age of a record with this timestamp."""
    return oldest_key_ms + config.ottla_key_retention_ms + config.key_retention_slack_ms + 1


def oldest_clean_key_ms_in_pieces(log: Measurable, dirty_from: int) -> Steps[int | None]:
    """Return the least timestamp of a clean record that may go for its age, or an estimate; None: there is none."""
    return _oldest_key_ms(log, log.segments.between(-1, dirty_from), (), dirty_from)


def _oldest_key_ms(
    log: Measurable, clean: Sequence[LogSegment], dirty: Sequence[LogSegment], dirty_from: int
) -> Steps[int | None]:
    known = log.counter.clean
    # The oldest counted record may have been in a segment that retention has deleted.
    is_whole = known is not None and next(iter(log.segments)).base_offset == known.start_offset
    if known is not None and is_whole and known.end_offset >= dirty_from and known.oldest_ms > 0:
        oldest_ms: int | None = known.oldest_ms if known.oldest_ms < MAX_LONG else None
    else:
        oldest_ms = yield from _oldest_ms(clean, above_ms=log.counter.aged_up_to_ms)
    dirty_ms = yield from _oldest_ms(dirty)
    return min((each for each in (oldest_ms, dirty_ms) if each is not None), default=None)


def oldest_dirty_ms_in_pieces(log: Measurable, dirty_from: int) -> Steps[int | None]:
    """Estimate when the oldest dirty record was written, by the first batch of each dirty segment; None if unknown.

    Segments that may not be cleaned now also count; the active one does not, nor do batches without a time.
    """
    return _oldest_ms(log.segments.between(dirty_from, log.segments.active.base_offset))


def _oldest_ms(segments: Sequence[LogSegment], above_ms: int = 0) -> Steps[int | None]:
    oldest_ms: int | None = None
    for number, piece in enumerate(pieces(segments)):
        if number:
            yield
        firsts = (segment.first_batch_timestamp_ms for segment in piece)
        found_ms = min((first_ms for first_ms in firsts if first_ms > above_ms), default=None)
        if found_ms is not None and (oldest_ms is None or found_ms < oldest_ms):
            oldest_ms = found_ms
    return oldest_ms


def is_any_reached(
    segments: Sequence[LogSegment],
    now_ms: int,
    checkpoint: Callable[[], None] = lambda: None,
    *,
    aged_up_to_ms: int = -1,
) -> bool:
    """Return whether one of these segments has a tombstone or a marker whose delete horizon has been reached, or an aged record.

    In any thread. The cleaner's rounds do not check this, as in Apache Kafka: a tombstone is removed by the first pass after its
    horizon, and only dirty records cause one. A forced pass checks it, so that no log is copied for nothing.

    Args:
        aged_up_to_ms: As of `LogConfig`.
        segments: Sealed segments, which must not be replaced or deleted during the call.
        checkpoint: Called before every segment; may raise to stop.

    Raises:
        CorruptRecordError: The bytes after some batch are not a batch, or its records cannot be read.
        OSError: The disk refused.
    """
    for segment in segments:
        checkpoint()
        for position, header in segment.headers():
            horizon_ms = header.delete_horizon_ms
            is_past = horizon_ms is not None and horizon_ms <= now_ms
            if is_past or (aged_up_to_ms >= 0 and not header.is_control):
                batch = RecordBatch(memoryview(segment.log_file.read_at(position, header.size_bytes)))
                # The other records of a batch keep its horizon after its tombstones have been removed.
                if batch.is_control or any(
                    is_past if record.value is None else 0 <= record.timestamp <= aged_up_to_ms
                    for record in batch.records()
                ):
                    return True
    return False
