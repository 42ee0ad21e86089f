"""Compaction on demand: a pass now, and a wait for the cleaner's own.

`compact` comes in two kinds, and neither does what a cleaner may not do:

    as Kafka would   the next round of the cleaner, were this log chosen in it: the active segment stays, so do young ones
                     (`min.compaction.lag.ms`) and what open transactions have not decided; `min.cleanable.dirty.ratio` and
                     `max.compaction.lag.ms` say whether it is worth it. With `roll=True` the active segment is rolled first.
    force=True       rolls, and cleans whatever the ratio and the lags; what open transactions have not decided stays. With nothing
                     dirty it lets go tombstones and markers that have reached their delete horizon.

All goes through the cleaner's own threads, states and checkpoints: a pass that is under way is waited for and counts, a second
caller finds nothing left to do, and a deletion of the topic ends both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import trio

from ...storage.cleaning.eligibility import Waits
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
    """What was done to one partition, and what is left."""

    partition: int
    passes: int
    """Clean passes that ended during the call; 0: nothing was cleaned, and `explanation` says why."""
    has_rolled: bool
    """Whether the call rolled the active segment."""
    log_start_offset: int
    first_dirty_offset_before: int
    first_dirty_offset: int
    """All below is clean."""
    log_end_offset: int
    segments_before: int
    segments_after: int
    """The active one counts."""
    records_read: int
    """By all passes; `records_written` and bytes likewise."""
    records_written: int
    records_removed: RemovedRecords
    """By reason."""
    bytes_read: int
    bytes_written: int
    waits_for: Waits | None
    """What the cleaner waits for now; None: the next round may take the partition again."""
    explanation: str
    """The same in a sentence, as `explain` has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What `compact` did. As a text it is a block to be read."""

    topic: str
    is_forced: bool
    partitions: tuple[PartitionCompaction, ...]

    def __str__(self) -> str:
        return "\n".join(line for each in self.partitions for line in _lines(self.topic, each))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCompacted:
    """How far one partition is clean."""

    partition: int
    waited_for_offset: int
    """All below this was to be covered by passes that came to their end."""
    first_dirty_offset: int
    """All below is clean."""
    log_end_offset: int
    waits_for: Waits | None
    """What the cleaner waits for now, with the rest."""
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What `wait_until_compacted` waited for. As a text it is a block to be read."""

    topic: str
    partitions: tuple[PartitionCompacted, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"{self.topic}-{each.partition}: clean below {each.first_dirty_offset}, {each.waited_for_offset} was waited for;"
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
    rolled = ", the active one was rolled" * done.has_rolled
    yield f"  segments: {done.segments_after} (before: {done.segments_before}){rolled}"
    yield f"  {done.explanation}"


@operation("POST", "/v1/topics/{topic}/compact", statuses=(404, 409))
async def compact(
    broker: Broker, topic: TopicName, partitions: Partitions | None = None, *, force: bool = False, roll: bool = False
) -> Compaction:
    """Clean a compacted topic now: as the next round of the cleaner would, or by force.

    One partition after the other. As Kafka would, that is neither the active segment, nor records younger than
    `min.compaction.lag.ms`, nor what open transactions have not decided, and only if `min.cleanable.dirty.ratio` has it that it is
    worth it. Where nothing was cleaned, `explanation` says why.

    Args:
        partitions: Numbers; all of the topic if not given.
        force: Roll, and clean whatever ratio and lags say; never what an open transaction has not decided.
        roll: Roll the active segments first, if they have records.

    Raises:
        ControlError: NOT_FOUND: there is no such topic or partition; CONFLICT: the topic is not compacted, an earlier pass
            failed, or another process compacts it under a lease; UNAVAILABLE: no cleaner works, or the broker stops; FAILED: the disk
            refused. All partitions are checked before the first is rolled; what was done before a partition that fails stays.
    """
    logs = logs_of(broker, topic, partitions)
    for log in logs:
        check(broker.services.cleaning, log)
    rows = [await _compact(broker, log, is_forced=force, rolls=roll or force) for log in logs]
    return Compaction(topic=topic, is_forced=force, partitions=tuple(rows))


async def wait_until_compacted(
    broker: Broker, topic: str, timeout_s: float = 10.0, partitions: Iterable[int] | None = None
) -> Compacted:
    """Return when clean passes have covered all that lay in closed segments at the call. Starts no pass.

    The cleaner never touches an active segment: `roll` it first, to wait for its records too. If a log has only an active segment,
    the wait is for all of it, as another client may roll it.

    Args:
        timeout_s: Of real time, whatever the broker's clock does.

    Raises:
        ControlError: As `compact`; TIMED_OUT: with what the cleaner waits for.
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
    """Wait until clean passes have covered what lies in closed segments now.

    Args:
        timeout_ms: Of real time, whatever the broker's clock does.
    """
    return await wait_until_compacted(broker, topic, timeout_ms / 1_000)


def _first_dirty(broker: Broker, log: Log) -> int:
    return broker.services.cleaning.manager.first_dirty_offset(log)


async def _explained(broker: Broker, log: Log, time_slice: TimeSlice | None = None) -> PartitionExplanation:
    return await (await Explaining.of(broker.services, [log], time_slice or TimeSlice())).next()


async def _compact(broker: Broker, log: Log, *, is_forced: bool, rolls: bool) -> PartitionCompaction:
    cleaning, tp = broker.services.cleaning, log.topic_partition
    with cleaning.demands.listening(tp) as passes:
        dirty_from, segments = _first_dirty(broker, log), len(log.segments)
        check(cleaning, log)
        has_rolled = rolls and roll_one(log, broker.clock.now_ms()).has_rolled
        await clean_now(cleaning, log, is_forced=is_forced)
    explained = await _explained(broker, log)
    return told(
        log,
        [each.stats for each in passes],
        has_rolled=has_rolled,
        segments_before=segments,
        first_dirty=(dirty_from, _first_dirty(broker, log)),
        waits_for=explained.waits_for,
        explanation=explained.sentence,
    )


def told(
    log: Log,
    passes: Sequence[CleanStats],
    *,
    has_rolled: bool,
    segments_before: int,
    first_dirty: tuple[int, int],
    waits_for: Waits | None,
    explanation: str,
) -> PartitionCompaction:
    """What was done to `log`; `first_dirty` is the first dirty offset before and after."""
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
    """Where the closed segments end; of a log that has none, the log."""
    active = log.segments.active.base_offset
    return active if active > log.log_start_offset else log.log_end_offset


async def _covered(broker: Broker, log: Log, up_to: int) -> None:
    demands = broker.services.cleaning.demands
    while True:
        changes = demands.changes
        check(broker.services.cleaning, log)
        if _first_dirty(broker, log) >= up_to:
            return
        await demands.change(changes)


async def _timed_out(broker: Broker, log: Log, up_to: int, timeout_s: float) -> ControlError:
    explained = await _explained(broker, log)
    stands_still = "; the clock is frozen, so no round of the cleaner comes" if broker.clock.is_frozen else ""
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
