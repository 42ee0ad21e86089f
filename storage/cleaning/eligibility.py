"""Why a log is or is not cleaned next, and when it will be: for people who ask what the cleaner is waiting for.

A pure question about one log; the cleaner manager asks it with what it knows, and nothing is changed. The numbers are
those that choose (`dirtiness`), so what is said here is what the next round does. In pieces, as there: what is said of a log that
changes meanwhile may be half of before and half of after.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..logs.log import Log
from ..steps import Steps
from ..topics.options import MAX_LONG
from .cleaning_states import NOT_HELD
from .dirtiness import (
    Bound,
    BoundBy,
    LogToClean,
    find_bound_in_pieces,
    first_dirty_offset,
    measure_in_pieces,
    oldest_dirty_ms_in_pieces,
    pieces,
)


class Waits(StrEnum):
    """What a log that is not eligible waits for; of several the first in this order is told."""

    NOT_COMPACTED = "not_compacted"
    CLEANER_OFF = "cleaner_off"
    OFFLINE = "offline"
    UNCLEANABLE = "uncleanable"
    HELD = "held"
    ALL_CLEAN = "all_clean"
    ACTIVE_SEGMENT = "active_segment"
    OPEN_TRANSACTION = "open_transaction"
    MIN_COMPACTION_LAG = "min_compaction_lag"
    BELOW_MIN_RATIO = "below_min_ratio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """One log as the cleaner sees it. Offsets as in `dirtiness`; sizes in bytes; times in ms since the epoch."""

    cleanup_policy: tuple[str, ...]
    state: str
    """`not held`, `in progress` (a pass or a deletion), `being aborted`, `paused`, `paused N times`."""
    uncleanable: str | None
    """Why it is left alone after a failed pass; None if it is not."""
    log_start_offset: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    bound_by: BoundBy
    """Why the part that may be cleaned ends there."""
    bound_producer_id: int | None
    """Whose transaction is open, where that is the bound."""
    upper_offset: int
    """Where a pass would end: the bound, down to the base of its segment."""
    log_end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    total_bytes: int
    dirty_ratio: float
    min_cleanable_dirty_ratio: float
    max_lag_overdue_ms: int
    """How much longer than `max.compaction.lag.ms` the oldest dirty record has waited; 0: not that long."""
    eligible: bool
    """Whether the next round of the cleaner may take it; of several eligible logs the dirtiest comes first."""
    waits_for: Waits | None
    """What is missing; None if it is eligible."""
    explanation: str
    """The same in a sentence."""
    eligible_at_ms: int | None
    """From when on it will be eligible if nothing but time passes. None if it is now, or if time alone does not do it:
    that takes more data, a roll, the end of a transaction or another configuration."""


def assess_in_pieces(
    log: Log,
    checkpoint: int | None,
    now_ms: int,
    *,
    held: str | None = None,
    uncleanable: str | None = None,
    cleaner_off: str | None = None,
) -> Steps[Eligibility]:
    """Look at one log.

    Args:
        checkpoint: Its entry in `cleaner-offset-checkpoint`, None without one.
        held: The state that keeps it from being chosen, None if nobody has it.
        uncleanable: The reason of its mark, None if it has none.
        cleaner_off: Why no cleaner works at all, None if one does.

    A log that cannot be measured is uncleanable, as the next round will find; its bytes are 0 then.
    """
    dirty_from, _ = first_dirty_offset(log, checkpoint)
    try:
        bound = yield from find_bound_in_pieces(log, dirty_from, now_ms)
        found = yield from measure_in_pieces(log, dirty_from, now_ms, bound)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        bound = Bound(dirty_from, BoundBy.DAMAGE)
        found = LogToClean(
            log=log,
            first_dirty_offset=dirty_from,
            upper_offset=dirty_from,
            segments=[],
            clean_bytes=0,
            cleanable_bytes=0,
            max_lag_overdue_ms=0,
        )
        uncleanable = uncleanable or str(error) or type(error).__name__
    config = log.config
    producer_id = log.producers.first_unstable_producer_id if bound.by is BoundBy.OPEN_TRANSACTION else None
    obstacles: tuple[tuple[Waits, str | None], ...] = (
        (Waits.NOT_COMPACTED, None if config.is_compact else "cleanup.policy has no compact"),
        (Waits.CLEANER_OFF, cleaner_off),
        (Waits.OFFLINE, log.failure and f"the log is offline: {log.failure}"),
        (
            Waits.UNCLEANABLE,
            uncleanable
            and f"a pass failed ({uncleanable}); it is tried again when the topic's configuration or the log start changes,"
            " or the broker starts anew",
        ),
        (Waits.HELD, held and f"the partition is {held}"),
    )
    waits_for, explanation = next(((why, text) for why, text in obstacles if text), (None, ""))
    eligible_at_ms = None
    if waits_for is None and not found.is_due:
        waits_for, explanation = _what_is_missing(found, bound, producer_id)
        eligible_at_ms = yield from _due_at_ms(log, dirty_from, now_ms)
    return Eligibility(
        cleanup_policy=config.cleanup_policy,
        state=held or NOT_HELD,
        uncleanable=uncleanable,
        log_start_offset=log.log_start_offset,
        first_dirty_offset=dirty_from,
        first_uncleanable_offset=bound.offset,
        bound_by=bound.by,
        bound_producer_id=producer_id,
        upper_offset=found.upper_offset,
        log_end_offset=log.log_end_offset,
        clean_bytes=found.clean_bytes,
        cleanable_bytes=found.cleanable_bytes,
        total_bytes=found.total_bytes,
        dirty_ratio=found.dirty_ratio,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        max_lag_overdue_ms=found.max_lag_overdue_ms,
        eligible=waits_for is None,
        waits_for=waits_for,
        explanation=explanation or "the cleaner takes it, after logs that are dirtier",
        eligible_at_ms=eligible_at_ms,
    )


def _what_is_missing(found: LogToClean, bound: Bound, producer_id: int | None) -> tuple[Waits, str]:
    """Why a log that nobody holds is not due."""
    log = found.log
    if found.cleanable_bytes > 0:
        ratio, wanted = found.dirty_ratio, log.config.min_cleanable_dirty_ratio
        return Waits.BELOW_MIN_RATIO, f"dirty ratio {ratio:.3f} is not above min.cleanable.dirty.ratio={wanted:g}"
    if found.first_dirty_offset >= log.log_end_offset:
        return Waits.ALL_CLEAN, "nothing is dirty"
    sentences = {
        BoundBy.ACTIVE_SEGMENT: "all that is dirty lies in the active segment, which is cleaned after it has rolled",
        BoundBy.OPEN_TRANSACTION: f"producer {producer_id} has a transaction open since offset"
        f" {log.producers.first_unstable_offset}",
        BoundBy.MIN_COMPACTION_LAG: f"the segment at offset {bound.offset} has records younger than"
        f" min.compaction.lag.ms={log.config.min_compaction_lag_ms}",
    }
    return Waits(bound.by), sentences[bound.by]


def _due_at_ms(log: Log, dirty_from: int, now_ms: int) -> Steps[int | None]:
    """The first time at which the log is due if nothing is written; None if it never is.

    Only two things come with time: segments that become old enough for `min.compaction.lag.ms`, and the end of
    `max.compaction.lag.ms`. What is due stays due, so the first of those moments can be searched by halving.
    """
    config = log.config
    moments: set[int] = set()
    for number, piece in enumerate(pieces(log.segments.between(dirty_from, log.segments.active.base_offset))):
        if number:
            yield
        moments.update(segment.largest_timestamp_ms + config.min_compaction_lag_ms for segment in piece)
    if (oldest_ms := (yield from oldest_dirty_ms_in_pieces(log, dirty_from))) is not None:
        moments.add(oldest_ms + config.max_compaction_lag_ms + 1)
    ahead = sorted(moment for moment in moments if now_ms < moment <= MAX_LONG)
    low, high = 0, len(ahead)
    while low < high:
        middle = (low + high) // 2
        then = yield from measure_in_pieces(log, dirty_from, ahead[middle])
        if then.is_due:
            high = middle
        else:
            low = middle + 1
    return ahead[low] if low < len(ahead) else None
