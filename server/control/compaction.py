"""Compaction on demand: a pass now, and a wait for the cleaner's own passes.

`compact` has two modes, and neither does what a cleaner may not do:

    as Kafka would   like the next round of the cleaner, if it selected this log: the active segment stays, and so do young ones
                     (`min.compaction.lag.ms`) and records of undecided transactions; `min.cleanable.dirty.ratio` and
                     `max.compaction.lag.ms` decide whether it is due. With `roll=True` the active segment is rolled first.
    force=True       rolls, and cleans regardless of the ratio and the lags; records of undecided transactions stay. If nothing
                     is dirty, it removes tombstones and markers that have reached their delete horizon.

Both use the cleaner's own threads, states and checkpoints: the call waits for a pass in progress, which counts; a
second caller finds nothing left to do; and a deletion of the topic ends both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import trio

from ...storage.cleaning.eligibility import BlockedReason
from ...storage.filter.removed import RemovedRecords
from ...storage.logs.log import Log
from ..broker.broker import Broker
from ..cleaning.on_demand import check, clean_now
from ..runtime.errors import ControlError, Kind
from ..runtime.time_slices import TimeSlice
from ..services.explaining import Explaining, PartitionExplanation
from .operation import Partitions, Range, TopicName, operation
from .partitions import logs_of
from .segments import roll_one

if TYPE_CHECKING:
    from ...storage.cleaning.cleaner import CleanStats

TIMEOUT_S_MAX = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCompaction:
    """Result of a compaction for one partition."""

    partition: int
    passes: int
    """Number of clean passes that completed during the call; 0: nothing was cleaned, see `explanation`."""
    has_rolled: bool
    """Whether the call rolled the active segment."""
    log_start_offset: int
    first_dirty_offset_before: int
    first_dirty_offset: int
    """Everything below this offset is clean."""
    log_end_offset: int
    segments_before: int
    segments_after: int
    """Includes the active segment."""
    records_read: int
    """Total of all passes, as are `records_written` and the byte counts."""
    records_written: int
    records_removed: RemovedRecords
    """Removed records by reason."""
    bytes_read: int
    bytes_written: int
    waits_for: BlockedReason | None
    """Reason why it is not eligible now; None: the next round may clean the partition again."""
    explanation: str
    """Why it is or is not eligible now, as a sentence, as in `explain`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """Result of `compact`; str() of it is readable text."""

    topic: str
    is_forced: bool
    partitions: tuple[PartitionCompaction, ...]

    def __str__(self) -> str:
        return "\n".join(line for each in self.partitions for line in _lines(self.topic, each))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCompacted:
    """Cleaning progress of one partition."""

    partition: int
    waited_for_offset: int
    """The call waited until completed passes had covered everything below this offset."""
    first_dirty_offset: int
    """Everything below this offset is clean."""
    log_end_offset: int
    waits_for: BlockedReason | None
    """Reason why the rest of the log is not eligible now."""
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """Result of `wait_until_compacted`; str() of it is readable text."""

    topic: str
    partitions: tuple[PartitionCompacted, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{self.topic}-{each.partition}: clean below {each.first_dirty_offset}, required {each.waited_for_offset};"
            f" log end {each.log_end_offset}\n  {each.explanation}"
            for each in self.partitions
        )


def _lines(topic: str, done: PartitionCompaction) -> Iterator[str]:
    passes = {0: "no pass", 1: "1 pass"}.get(done.passes, f"{done.passes} passes")
    before = (
        f" (before: {done.first_dirty_offset_before})"
        if done.first_dirty_offset_before != done.first_dirty_offset
        else ""
    )
    yield (
        f"{topic}-{done.partition}: {passes}; clean below {done.first_dirty_offset}{before}, log from"
        f" {done.log_start_offset} to {done.log_end_offset}"
    )
    if done.passes:
        gone = ", ".join(f"{count} {reason}" for reason, count in asdict(done.records_removed).items() if count)
        yield (
            f"  kept {done.records_written} of {done.records_read} records, {done.bytes_written} of {done.bytes_read} bytes"
            f" ({gone or 'nothing'} removed)"
        )
    rolled = ", active segment rolled" * done.has_rolled
    yield f"  segments: {done.segments_after} (before: {done.segments_before}){rolled}"
    yield f"  {done.explanation}"


@operation("POST", "/v1/topics/{topic}/compact", statuses=(404, 409))
async def compact(
    broker: Broker, topic: TopicName, partitions: Partitions | None = None, *, force: bool = False, roll: bool = False
) -> Compaction:
    """Clean a compacted topic now, by the rules of the cleaner or by force.

    Partitions are cleaned one after another. As in Kafka, the cleaner skips the active segment, records younger than
    `min.compaction.lag.ms`, records after the start of an open transaction, and partitions whose dirty ratio is not above
    `min.cleanable.dirty.ratio`. If nothing was cleaned, `explanation` says why.

    Args:
        partitions: Partition numbers (default: all partitions of the topic).
        force: Roll the active segments and ignore the dirty ratio and lags; open transactions still apply.
        roll: Roll the active segments first, if they contain records.

    Raises:
        ControlError: NOT_FOUND: topic or partition not found; CONFLICT: the topic is not compacted, an earlier pass failed, or
            another process compacts it under a lease; UNAVAILABLE: no cleaner is running, or the broker is stopping; FAILED: the
            disk failed. All partitions are checked before the first is rolled; partitions before a failed one stay cleaned.
    """
    return await compact_logs(broker, topic, partitions, force=force, roll=roll)


async def compact_logs(
    broker: Broker,
    topic: str,
    partitions: Iterable[int] | None,
    *,
    force: bool,
    roll: bool = False,
    erased_keys: frozenset[bytes] = frozenset(),
) -> Compaction:
    """Run `compact`.

    Args:
        erased_keys: Keys whose tombstones in the dirty part are removed at once.
    """
    logs = logs_of(broker, topic, partitions)
    for log in logs:
        check(broker.services.cleaning, log)
    rows = [await _compact(broker, log, erased_keys, is_forced=force, rolls=roll or force) for log in logs]
    return Compaction(topic=topic, is_forced=force, partitions=tuple(rows))


async def wait_until_compacted(
    broker: Broker, topic: str, timeout_s: float = 10.0, partitions: Iterable[int] | None = None
) -> Compacted:
    """Wait until clean passes have covered all segments that were closed at the call. Starts no pass.

    The cleaner never cleans an active segment: call `roll` first to include its records. If a log has only an active segment,
    the call waits for all of its records, as another client may roll it.

    Args:
        timeout_s: Time limit in seconds of real time, independent of the broker's clock.

    Raises:
        ControlError: As `compact`; TIMED_OUT: the message says what the cleaner is waiting for.
    """
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= TIMEOUT_S_MAX:
        raise ControlError(
            Kind.INVALID, f"timeout_s: expected seconds from 0 to {TIMEOUT_S_MAX:.0f}, found {timeout_s!r:.40}"
        )
    wanted = {log: _closed_up_to(log) for log in logs_of(broker, topic, partitions)}
    time_slice = TimeSlice()
    with trio.move_on_after(timeout_s) as waiting:
        async for log, up_to in time_slice.each(wanted.items()):
            await _covered(broker, log, up_to)
    if waiting.cancelled_caught:
        async for log, up_to in time_slice.each(wanted.items()):
            check(broker.services.cleaning, log)
            if _first_dirty(broker, log) < up_to:
                raise await _timed_out(broker, log, up_to, timeout_s)
    return Compacted(
        topic=topic, partitions=tuple([await _compacted(broker, *each, time_slice) for each in wanted.items()])
    )


@operation("GET", "/v1/topics/{topic}/compacted", statuses=(404, 409, 504), only_waits=True)
async def wait_ms_until_compacted(
    broker: Broker, topic: TopicName, timeout_ms: Annotated[int, Range(0, int(TIMEOUT_S_MAX * 1_000))] = 10_000
) -> Compacted:
    """Wait until clean passes have covered all segments that are closed now.

    Args:
        timeout_ms: Time limit in milliseconds of real time, independent of the broker's clock.
    """
    return await wait_until_compacted(broker, topic, timeout_ms / 1_000)


def _first_dirty(broker: Broker, log: Log) -> int:
    return broker.services.cleaning.manager.first_dirty_offset(log)


async def _explained(broker: Broker, log: Log, time_slice: TimeSlice | None = None) -> PartitionExplanation:
    return await (await Explaining.load(broker.services, [log], time_slice or TimeSlice())).next()


async def _compact(
    broker: Broker, log: Log, erased_keys: frozenset[bytes], *, is_forced: bool, rolls: bool
) -> PartitionCompaction:
    cleaning, tp = broker.services.cleaning, log.topic_partition
    with cleaning.clean_requests.listening(tp) as passes:
        dirty_from, segments = _first_dirty(broker, log), len(log.segments)
        check(cleaning, log)
        has_rolled = rolls and roll_one(log, broker.clock.now_ms()).has_rolled
        await clean_now(cleaning, log, is_forced=is_forced, erased_keys=erased_keys)
    explained = await _explained(broker, log)
    return describe_pass(
        log,
        [each.stats for each in passes],
        has_rolled=has_rolled,
        segments_before=segments,
        first_dirty=(dirty_from, _first_dirty(broker, log)),
        waits_for=explained.waits_for,
        explanation=explained.sentence,
    )


def describe_pass(
    log: Log,
    passes: Sequence[CleanStats],
    *,
    has_rolled: bool,
    segments_before: int,
    first_dirty: tuple[int, int],
    waits_for: BlockedReason | None,
    explanation: str,
) -> PartitionCompaction:
    """Return the result for `log`; `first_dirty` is the first dirty offset before and after."""
    removed: Counter[str] = Counter()
    for each in passes:
        removed.update(asdict(each.removed))
    before, after = first_dirty
    return PartitionCompaction(
        partition=log.topic_partition.partition,
        passes=len(passes),
        has_rolled=has_rolled,
        log_start_offset=log.log_start_offset,
        first_dirty_offset_before=before,
        first_dirty_offset=after,
        log_end_offset=log.log_end_offset,
        segments_before=segments_before,
        segments_after=len(log.segments),
        records_read=sum(each.records_read for each in passes),
        records_written=sum(each.records_written for each in passes),
        records_removed=RemovedRecords(**removed),
        bytes_read=sum(each.bytes_read for each in passes),
        bytes_written=sum(each.bytes_written for each in passes),
        waits_for=waits_for,
        explanation=explanation,
    )


def _closed_up_to(log: Log) -> int:
    """Return where the closed segments end; the log end if the log has none."""
    active = log.segments.active.base_offset
    return active if active > log.log_start_offset else log.log_end_offset


async def _covered(broker: Broker, log: Log, up_to: int) -> None:
    clean_requests = broker.services.cleaning.clean_requests
    while True:
        changes = clean_requests.changes
        check(broker.services.cleaning, log)
        if _first_dirty(broker, log) >= up_to:
            return
        await clean_requests.change(changes)


async def _timed_out(broker: Broker, log: Log, up_to: int, timeout_s: float) -> ControlError:
    explained = await _explained(broker, log)
    stands_still = "; the clock is frozen, so the cleaner starts no round" if broker.clock.is_frozen else ""
    return ControlError(
        Kind.TIMED_OUT,
        f"{log.topic_partition} is clean up to offset {_first_dirty(broker, log)}, not {up_to}, after {timeout_s:g} s:"
        f" {explained.sentence}{stands_still}",
    )


async def _compacted(broker: Broker, log: Log, up_to: int, time_slice: TimeSlice) -> PartitionCompacted:
    if time_slice.is_over():
        await time_slice.next()
    explained = await _explained(broker, log, time_slice)
    return PartitionCompacted(
        partition=log.topic_partition.partition,
        waited_for_offset=up_to,
        first_dirty_offset=_first_dirty(broker, log),
        log_end_offset=log.log_end_offset,
        waits_for=explained.waits_for,
        explanation=explained.sentence,
    )
