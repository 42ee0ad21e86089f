"""Why a log is or is not cleaned next, and when it will be: for people who ask what the cleaner is waiting for.

A pure function of one log; the cleaner manager calls it with its own knowledge, and nothing is changed. The numbers are
those of the selection (`dirtiness`), so the answer is what the next round does. It runs in steps, as there: if the log
changes between them, the answer may be part old, part new.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ..logs.log import Log
from ..logs.rolling import next_roll
from ..steps import Steps
from .cleaning_states import NOT_HELD
from .dirtiness import (
    Bound,
    BoundBy,
    LogToClean,
    dirtiness_in_pieces,
    find_bound_in_pieces,
    first_dirty_offset,
    measure_in_pieces,
)
from .outlook import (
    HypotheticalLog,
    OpenTransaction,
    RemedyPlan,
    due_after_time_outs_in_pieces,
    open_transactions,
    ways_in_pieces,
)
from .retries import Retry

TRANSACTIONS_SHOWN = 10


class BlockedReason(StrEnum):
    """Reason why a log is not eligible; of several, the first in this order is reported."""

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
    PUT_OFF = "put_off"
    """A pass failed for lack of disk space or memory, and is tried again later."""


_MAY_CHANGE = (
    BlockedReason.NOT_COMPACTED,
    BlockedReason.HELD,
    BlockedReason.ACTIVE_SEGMENT,
    BlockedReason.OPEN_TRANSACTION,
    BlockedReason.MIN_COMPACTION_LAG,
    BlockedReason.BELOW_MIN_RATIO,
)
"""Reasons that may end by time or by another operation, without a change of the cleaner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligibility:
    """State of one log from the view of the cleaner. Offsets as in `dirtiness`; sizes in bytes; times in ms since the epoch."""

    cleanup_policy: tuple[str, ...]
    state: str
    """`not held`, `in progress` (a pass or a deletion), `being aborted`, `paused`, `paused N times`."""
    uncleanable: str | None
    """Why it is marked uncleanable after a failed pass; None if it is not marked."""
    log_start_offset: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    bound_by: BoundBy
    """Why the cleanable part ends there."""
    bound_producer_id: int | None
    """Producer of the open transaction, if that is the bound."""
    upper_offset: int
    """Where a pass would end: the bound, rounded down to the base of its segment."""
    log_end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    total_bytes: int
    dirty_ratio: float
    min_cleanable_dirty_ratio: float
    max_lag_overdue_ms: int
    """How long the oldest dirty record has been waiting beyond `max.compaction.lag.ms`; 0: not overdue."""
    eligible: bool
    """Whether the next round of the cleaner may clean it; of several eligible logs the dirtiest is cleaned first."""
    waits_for: BlockedReason | None
    """Reason why it is not eligible; None if it is."""
    explanation: str
    """Why it is or is not eligible, as a sentence."""
    eligible_at_ms: int | None
    """Time from which it will be eligible without further changes. None if it is eligible now, or if it also needs more data, a
    roll, the end of a transaction or another configuration."""
    rolls_from_ms: int | None
    """The next record with this timestamp or a later one rolls the active segment; None: no timestamp does, or it is empty."""
    rolls_by_clock: bool
    """The active segment has no timestamps: from `rolls_from_ms` of the broker's clock, any record rolls it."""
    rolls_after_bytes: int | None
    """Size of the largest batch that still fits into the active segment; -1: none does; None: it is empty."""
    open_transactions: tuple[OpenTransaction, ...]
    """The oldest open transactions, at most `TRANSACTIONS_SHOWN`."""
    ways: tuple[RemedyPlan, ...]
    """Ways to make it eligible, the smallest change first; empty if it is eligible, nothing helps, or they were not requested."""
    forced_bytes: int
    """Dirty bytes for a forced pass, which rolls the active segment and includes young segments; 0 if not requested."""


def assess_in_pieces(
    log: Log,
    checkpoint: int | None,
    now_ms: int,
    *,
    held: str | None = None,
    held_until_ms: int | None = None,
    uncleanable: str | None = None,
    cleaner_off: str | None = None,
    retry: Retry | None = None,
    with_ways: bool = True,
    aborted_at_ms: Callable[[int], int | None] = lambda _: None,
) -> Steps[Eligibility]:
    """Assess one log, in steps.

    Args:
        with_ways: Also try what would make it eligible, which takes ten times as long.
        aborted_at_ms: Producer ID -> when its open transaction exceeds its timeout, in ms since 1970; None if unknown.
        checkpoint: Its entry in `cleaner-offset-checkpoint`, None without one.
        held: The state that keeps it from being selected, None if no operation has it.
        held_until_ms: When it is released at the latest, in ms since 1970; None if unknown.
        uncleanable: The reason of its mark, None if it has none.
        cleaner_off: Why no cleaner runs at all, None if one does.
        retry: The pause after a failed pass, None if it has none.

    A log that cannot be measured is uncleanable, as the next round will find; its bytes are 0 then.
    """
    dirty_from, _ = first_dirty_offset(log, checkpoint)
    try:
        bound = yield from find_bound_in_pieces(log, dirty_from, now_ms)
        found = yield from measure_in_pieces(log, dirty_from, now_ms, bound)
        rolls = None if log.failure is not None else next_roll(log)
    except Exception as error:  # noqa: BLE001 - every error is reported
        bound, rolls = Bound(dirty_from, BoundBy.DAMAGE), None
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
    obstacles: tuple[tuple[BlockedReason, str | None], ...] = (
        (BlockedReason.NOT_COMPACTED, None if config.is_compact else "cleanup.policy does not include compact"),
        (BlockedReason.CLEANER_OFF, cleaner_off),
        (BlockedReason.OFFLINE, log.failure and f"the log is offline: {log.failure}"),
        (
            BlockedReason.UNCLEANABLE,
            uncleanable
            and f"a pass failed ({uncleanable}); it is retried when the topic's configuration or the log start changes,"
            " or when the broker restarts",
        ),
        (BlockedReason.HELD, held and f"the partition is {held}"),
    )
    waits_for, explanation = next(((why, text) for why, text in obstacles if text), (None, ""))
    opened = open_transactions(log)
    eligible_at_ms, ways, forced_bytes = None, tuple[RemedyPlan, ...](), 0
    if waits_for is None and not found.is_due:
        waits_for, explanation = _reason_not_due(found, bound, producer_id)
    if waits_for is None and retry is not None:
        waits_for, explanation = BlockedReason.PUT_OFF, f"a pass failed ({retry.reason})"
        eligible_at_ms = retry.at_ms
    has_ages = config.ottla_key_retention_ms >= 0
    may_change = waits_for in _MAY_CHANGE or (waits_for is BlockedReason.ALL_CLEAN and has_ages)
    if may_change and cleaner_off is None and uncleanable is None and log.failure is None:
        ends = ((each.first_offset, aborted_at_ms(each.producer_id)) for each in opened)
        known = [(first_offset, end_ms) for first_offset, end_ms in ends if end_ms is not None]
        if waits_for is BlockedReason.HELD:
            if held_until_ms is not None:
                since_ms = max(now_ms, held_until_ms)
                eligible_at_ms = yield from due_after_time_outs_in_pieces(log, dirty_from, since_ms, known)
        elif waits_for is BlockedReason.ALL_CLEAN:
            eligible_at_ms = yield from due_after_time_outs_in_pieces(log, dirty_from, now_ms, known)
        elif waits_for is not BlockedReason.NOT_COMPACTED:
            eligible_at_ms = yield from due_after_time_outs_in_pieces(log, dirty_from, now_ms, known)
            rolled = HypotheticalLog(log, is_rolled=True)
            forced_bound = yield from find_bound_in_pieces(rolled, dirty_from, now_ms, young_too=True)
            forced = yield from dirtiness_in_pieces(rolled, dirty_from, now_ms, forced_bound)
            forced_bytes = forced.cleanable_bytes
        if with_ways and waits_for not in (BlockedReason.HELD, BlockedReason.ALL_CLEAN):
            ways = yield from ways_in_pieces(log, dirty_from, now_ms)
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
        explanation=explanation or "the cleaner will clean it, after dirtier logs",
        eligible_at_ms=eligible_at_ms,
        rolls_from_ms=rolls and rolls.from_ms,
        rolls_by_clock=rolls is not None and rolls.goes_by_clock,
        rolls_after_bytes=rolls and rolls.free_bytes,
        open_transactions=tuple(opened[:TRANSACTIONS_SHOWN]),
        ways=ways,
        forced_bytes=forced_bytes,
    )


def _reason_not_due(found: LogToClean, bound: Bound, producer_id: int | None) -> tuple[BlockedReason, str]:
    """Return why a log that no operation has is not due."""
    log = found.log
    if found.cleanable_bytes > 0:
        ratio, wanted = found.dirty_ratio, log.config.min_cleanable_dirty_ratio
        return (
            BlockedReason.BELOW_MIN_RATIO,
            f"dirty ratio {ratio:.3f} is not above min.cleanable.dirty.ratio={wanted:g}",
        )
    if found.first_dirty_offset >= log.log_end_offset:
        return BlockedReason.ALL_CLEAN, "nothing is dirty"
    sentences = {
        BoundBy.ACTIVE_SEGMENT: "all dirty records are in the active segment, which is cleaned only after it has rolled",
        BoundBy.OPEN_TRANSACTION: f"producer {producer_id} has an open transaction since offset"
        f" {log.producers.first_unstable_offset}",
        BoundBy.MIN_COMPACTION_LAG: f"the segment at offset {bound.offset} contains records younger than"
        f" min.compaction.lag.ms={log.config.min_compaction_lag_ms}",
    }
    return BlockedReason(bound.by), sentences[bound.by]
