"""Explanation why a partition is cleaned next or is not, when it will be, and what would make it eligible, from all sources.

Sources are the log and the cleaner's checkpoint (`storage.cleaning.eligibility`), the holder of the partition, the next check
of a cleaner thread, and the coordinator of its open transactions; `cleaning.advice` makes the sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.cleaning.eligibility import BlockedReason
from ...storage.cleaning.outlook import OpenTransaction as LoggedTransaction
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.logs.rolling import open_until_ms
from ...storage.topics.config import LogConfig
from ..cleaning.advice import CleanerStatus, OpenTransactionFacts, Remedy, moment, next_roll_sentence, remedies
from ..runtime.clock import NOW_MS_MAX
from ..runtime.threads import Work, in_thread
from ..runtime.time_slices import TimeSlice, run_cooperatively
from ..transactions.listing import UnclosedTransaction
from .context import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExplanation:
    """Reasons why one partition is or is not eligible for the cleaner. Times in ms since 1970 by the broker's clock."""

    topic: str
    partition: int
    eligible: bool
    """Whether the next round of the cleaner may clean it."""
    waits_for: BlockedReason | None
    """Code of the reason why it is not eligible; None if it is."""
    sentence: str
    """Why it is or is not eligible."""
    eligible_at_ms: int | None
    """Time from which it is eligible without further changes, after lags, a lease, or the timeout of an open transaction. None: it
    is eligible now, or also needs other changes."""
    cleaner_looks_at_ms: int | None
    """When a cleaner thread checks for work again (`log.cleaner.backoff.ms`); None: one is busy, or none is running."""
    rolls_from_ms: int | None
    """The next record with this timestamp or a later one rolls the active segment; None: no timestamp does, or it is empty."""
    rolls_when_advanced_ms: int | None
    """Moving the broker's clock to this time or later rolls the active segment, without a record; None: no move does."""
    transactions: tuple[OpenTransactionFacts, ...]
    """Open transactions, oldest first, at most ten. Transactions that cannot be identified as hanging or not are omitted."""
    remedies: tuple[Remedy, ...]
    """Actions that make it eligible, the smallest first; each is sufficient. Empty if it is eligible or nothing is dirty."""
    cleaner: CleanerStatus
    """All measurements, and the passes of the cleaner."""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        found = self.cleaner.eligibility
        state = "eligible now" if self.eligible else f"not eligible ({self.waits_for})"
        lines = [f"{self.topic}-{self.partition}: {state}: {self.sentence}"]
        lines.append(
            f"  first dirty offset {found.first_dirty_offset}, a pass would end at {found.upper_offset}, log end"
            f" {found.log_end_offset}; dirty ratio {found.dirty_ratio:.3f}, must be above"
            f" {found.min_cleanable_dirty_ratio:g}; passes so far: {self.cleaner.passes}"
        )
        for remedy in self.remedies:
            lines.append(f"  - {remedy.sentence}")
            lines += [f"      {line}" for line in (remedy.calls or remedy.commands)]
        return lines


class Explaining:
    """The explanations of some logs, one after the other, each for the moment at which it is requested."""

    def __init__(
        self, services: Services, logs: Sequence[Log], opened: Mapping[int, UnclosedTransaction], time_slice: TimeSlice
    ) -> None:
        self._services = services
        self._logs = iter(logs)
        self._opened = opened
        self._time_slice = time_slice
        self._statuses = services.cleaning.statuses(logs, aborted_at_ms=self._aborted_at_ms)

    @classmethod
    async def load(cls, services: Services, logs: Sequence[Log], time_slice: TimeSlice) -> Explaining:
        """Begin, after reading the open transactions of all logs."""
        return cls(services, logs, await _open_transactions(services, time_slice), time_slice)

    async def next(self) -> PartitionExplanation:
        """Explain the next log."""
        if self._time_slice.is_over():  # a log of one segment is one step
            await self._time_slice.next()
        log = next(self._logs)
        if not log.is_surveyed or not log.segments.active.is_ready:
            await in_thread(Work.READ, data_dir_of(log), _survey, log)
            self._time_slice.begin()
        status = await run_cooperatively(next(self._statuses), self._time_slice)
        hanging = self._unknown_transactions(status)
        if hanging:
            # A coordinator knows a transaction for longer than the log has it open. So a transaction hangs if the log has it
            # open before and after the coordinators were asked again, and they do not know it. One that began since may be
            # reported next time.
            was_any_away = self._is_any_away()
            self._opened = await _open_transactions(self._services, self._time_slice)
            (again,) = self._services.cleaning.statuses([log], aborted_at_ms=self._aborted_at_ms)
            status = await run_cooperatively(again, self._time_slice)
            hanging &= self._unknown_transactions(status)
            if was_any_away or self._is_any_away():
                hanging.clear()
        return _explained(self._services, log, status, self._opened, hanging)

    def _unknown_transactions(self, status: CleanerStatus) -> set[LoggedTransaction]:
        return {each for each in status.eligibility.open_transactions if each.producer_id not in self._opened}

    def _is_any_away(self) -> bool:
        at_work = self._services.coordinators.transactions_at_work
        return at_work is not None and at_work.coordinator.is_any_away

    def _aborted_at_ms(self, producer_id: int) -> int | None:
        known = self._opened.get(producer_id)
        return None if known is None else known.aborted_at_ms


def _survey(log: Log) -> None:
    """Read what must be known of a log since a start. A read error is reported by later callers."""
    log.survey()
    with suppress(Exception):
        log.segments.active.get_ready()


def as_json(explained: PartitionExplanation) -> dict[str, Any]:
    """Convert for `json.dumps`: the fields of `CleanerStatus.as_json`, and those of the explanation."""
    told = asdict(explained)
    told.pop("cleaner")
    return explained.cleaner.as_json() | told


def _explained(
    services: Services,
    log: Log,
    status: CleanerStatus,
    opened: Mapping[int, UnclosedTransaction],
    hanging: set[LoggedTransaction],
) -> PartitionExplanation:
    found, tp, now_ms = status.eligibility, log.topic_partition, services.clock.now_ms()
    transactions = tuple(
        _facts(each.producer_id, each.first_offset, opened.get(each.producer_id))
        for each in found.open_transactions
        if each.producer_id in opened or each in hanging
    )
    looks_ms = services.cleaning.looks_again_ms
    looks_at_ms = None if looks_ms is None else services.clock.wall_at(looks_ms)
    rolls_when_advanced_ms = _rolls_when_advanced_ms(log)
    return PartitionExplanation(
        topic=tp.topic,
        partition=tp.partition,
        eligible=found.eligible,
        waits_for=found.waits_for,
        sentence=(_move_sentence(services, tp) or _sentence(status, transactions, looks_at_ms, now_ms))
        + _jitter_sentence(log.config),
        eligible_at_ms=found.eligible_at_ms,
        cleaner_looks_at_ms=looks_at_ms,
        rolls_from_ms=found.rolls_from_ms,
        rolls_when_advanced_ms=rolls_when_advanced_ms,
        transactions=transactions,
        remedies=remedies(
            tp,
            found,
            transactions,
            now_ms,
            bootstrap=services.cluster.nodes[0].listeners[0].address,
            rolls_when_advanced_ms=rolls_when_advanced_ms,
        ),
        cleaner=status,
    )


def _rolls_when_advanced_ms(log: Log) -> int | None:
    """See `PartitionExplanation`; None also if the log cannot be read, which is reported elsewhere."""
    try:
        until_ms = None if log.failure is not None else open_until_ms(log)
    except (OSError, KafkaError):
        return None
    return None if until_ms is None or until_ms >= NOW_MS_MAX else until_ms + 1


def _jitter_sentence(config: LogConfig) -> str:
    """Say that the segments of a topic may be as small as its appends; empty if the jitter cannot cause that."""
    grows_ms, jitter_ms = config.roll_after_ms, min(config.segment_jitter_ms, config.segment_ms)
    if jitter_ms - 1 <= grows_ms:
        return ""
    return (
        f"; segment.jitter.ms={config.segment_jitter_ms} is above max.compaction.lag.ms={config.max_compaction_lag_ms}: segments"
        " with a larger random jitter roll at the next append; set a lower segment.jitter.ms"
    )


def _move_sentence(services: Services, tp: TopicPartition) -> str | None:
    """Say that the partition moves to another data directory, with the progress."""
    move = services.moves.under_way.get(tp)
    if move is None:
        return None
    sentence = (
        f"the partition is moving to {move.target_dir}: {move.copied_bytes} bytes copied, {move.offset_lag} offsets remaining;"
        " the cleaner and retention skip it during the move"
    )
    if move.problem is None:
        return sentence
    return f"{sentence}; its last step failed {move.refusals} times and is being retried: {move.problem}"


def _sentence(
    status: CleanerStatus, transactions: Sequence[OpenTransactionFacts], looks_at_ms: int | None, now_ms: int
) -> str:
    found = status.eligibility
    if found.waits_for is None:
        look = "" if looks_at_ms is None else f"; a cleaner thread checks again at {moment(looks_at_ms)}"
        return f"{found.explanation}{look}"
    if found.waits_for is BlockedReason.ACTIVE_SEGMENT and (rolls := next_roll_sentence(found, now_ms)) is not None:
        return f"{found.explanation}; {rolls}"
    if found.waits_for is BlockedReason.OPEN_TRANSACTION and transactions:
        return str(transactions[0])
    if found.waits_for is BlockedReason.PUT_OFF:
        return f"{found.explanation}; it is tried again at {moment(found.eligible_at_ms)}"
    if found.waits_for is BlockedReason.HELD and found.eligible_at_ms is not None:
        return f"{found.explanation}; it will be released at {moment(found.eligible_at_ms)} at the latest"
    return found.explanation


def _facts(producer_id: int, first_offset: int, known: UnclosedTransaction | None) -> OpenTransactionFacts:
    return OpenTransactionFacts(
        producer_id=producer_id,
        first_offset=first_offset,
        transactional_id=None if known is None else known.transactional_id,
        state=None if known is None else known.state,
        timeout_ms=None if known is None else known.timeout_ms,
        aborted_at_ms=None if known is None else known.aborted_at_ms,
    )


async def _open_transactions(services: Services, time_slice: TimeSlice) -> Mapping[int, UnclosedTransaction]:
    """Return open transactions by producer id; empty if no client has used transactions since the start, and none is left from
    before."""
    at_work = services.coordinators.transactions_at_work
    if at_work is None:
        return {}
    return await run_cooperatively(at_work.coordinator.open_transactions(services.clock.now_ms()), time_slice)
