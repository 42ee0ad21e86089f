"""Status of the cleaner's work on a partition, and remedies for a partition that the cleaner does not clean.

Remedies are sentences, with shell commands and Python calls. They are made from the results of
`storage.cleaning.eligibility`; this module looks up nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

# Needed at run time: the schema of the control API reads these type hints.
from ...storage.cleaning.clean_stats import CleanStats
from ...storage.cleaning.eligibility import BlockedReason, Eligibility
from ...storage.cleaning.outlook import RemedyAction, RemedyPlan
from ...storage.disk.paths import TopicPartition
from ...storage.logs.record_counts import RecordCounts

NEXT_RECORD = "next_record"
ADVANCE_CLOCK = "advance_clock"
FORCE = "force"
WAIT = "wait"
RESTART = "restart"
RETRY = "retry"
RETRIED_BY_MS = 60_001
"""A delay that hardly differs from the default: any change of the configuration triggers the retry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """An action that is sufficient to make the partition eligible."""

    moves: tuple[str, ...]
    """For programs: `next_record`, `roll`, `end_transactions`, `no_min_compaction_lag`, `lower_min_cleanable_dirty_ratio`,
    `compact_policy`, `force`, `advance_clock`, `wait`, `restart`, `retry`; in this order, if there are several."""
    sentence: str
    commands: tuple[str, ...]
    """Shell commands in order; empty if no command does it."""
    calls: tuple[str, ...]
    """Python calls on a `Broker` with the same effect."""
    eligible_at_ms: int | None
    """Time from which the partition is eligible then, in ms since 1970 by the broker's clock; None: at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactionFacts:
    """An open transaction of a partition, with the state of its coordinator."""

    producer_id: int
    first_offset: int
    transactional_id: str | None
    """None: unknown to all coordinators, so the transaction hangs."""
    state: str | None
    timeout_ms: int | None
    aborted_at_ms: int | None
    """Earliest time at which its coordinator aborts it, by the broker's clock; the coordinator checks at intervals
    (`transaction.abort.timed.out.transaction.cleanup.interval.ms`). None if unknown, or if it is decided already."""

    def __str__(self) -> str:
        who = f"transactional.id {self.transactional_id!r} (producer {self.producer_id})"
        if self.transactional_id is None:
            return (
                f"producer {self.producer_id} has an open transaction since offset {self.first_offset} that is unknown to all"
                " coordinators: it hangs until it is aborted"
            )
        until = (
            f", to be aborted at {moment(self.aborted_at_ms)}" if self.aborted_at_ms is not None else f", {self.state}"
        )
        return f"{who} has an open transaction since offset {self.first_offset}{until}"


def remedies(
    tp: TopicPartition,
    found: Eligibility,
    transactions: tuple[OpenTransactionFacts, ...],
    now_ms: int,
    *,
    bootstrap: str,
    rolls_when_advanced_ms: int | None,
) -> tuple[Remedy, ...]:
    """Return the remedies that make a partition eligible, the smallest first; empty if it is eligible, or nothing is dirty.

    Args:
        transactions: The open transactions, the oldest first.
        bootstrap: The address for commands of Apache Kafka's tools.
        rolls_when_advanced_ms: The time of the broker's clock from which advancing the clock rolls the active segment; None: never.
    """
    return tuple(_remedies(tp, found, transactions, now_ms, bootstrap, rolls_when_advanced_ms))


def _remedies(
    tp: TopicPartition,
    found: Eligibility,
    transactions: tuple[OpenTransactionFacts, ...],
    now_ms: int,
    bootstrap: str,
    rolls_when_advanced_ms: int | None,
) -> Iterator[Remedy]:
    yield from _remedy_for_trouble(tp, found)
    if (at_ms := found.eligible_at_ms) is not None:
        by_ms = max(0, at_ms - now_ms)
        yield Remedy(
            moves=(WAIT,),
            sentence=f"eligible at {moment(at_ms)}, in {duration(by_ms)} by the broker's clock",
            commands=(f"ottla clock advance {by_ms}ms",),
            calls=(f"broker.clock.advance(milliseconds={by_ms})",),
            eligible_at_ms=at_ms,
        )
    for way in found.ways:
        if way.moves == (RemedyAction.ROLL,):
            yield from _rolls(tp, found, way, now_ms, rolls_when_advanced_ms)
        else:
            yield _remedy_for_plan(tp, way, transactions, bootstrap)
    if found.forced_bytes:
        yield Remedy(
            moves=(FORCE,),
            sentence="a forced pass cleans it now: it rolls the active segment and ignores the dirty ratio and lag"
            + (", but stops before the open transaction" if transactions else ""),
            commands=(f"ottla compact {tp.topic} --force",),
            calls=(f"broker.compact({tp.topic!r}, force=True)",),
            eligible_at_ms=None,
        )


def _remedy_for_trouble(tp: TopicPartition, found: Eligibility) -> Iterator[Remedy]:
    """Return the remedy if neither time nor a change of the log helps."""
    retry = f"ottla configs alter topic:{tp.topic} file.delete.delay.ms={RETRIED_BY_MS}"
    troubles: dict[BlockedReason, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
        BlockedReason.CLEANER_OFF: (
            RESTART,
            "restart with log.cleaner.enable=true and enough memory to run the cleaner",
            ("ottla serve --override log.cleaner.enable=true --override log.cleaner.dedupe.buffer.size=134217728",),
            ("ottla.Broker(..., overrides={'log.cleaner.enable': True, 'log.cleaner.dedupe.buffer.size': 134217728})",),
        ),
        BlockedReason.OFFLINE: (
            RESTART,
            "restart with a working disk to use the log again",
            (),
            ("broker.restart()",),
        ),
        BlockedReason.UNCLEANABLE: (
            RETRY,
            "the damaged segment is retried after any config change of the topic, or once the log starts after it",
            (retry,),
            (f"broker.set_configs('topic', {tp.topic!r}, {{'file.delete.delay.ms': {RETRIED_BY_MS}}})",),
        ),
    }
    trouble = None if found.waits_for is None else troubles.get(found.waits_for)
    if trouble is not None:
        move, sentence, commands, calls = trouble
        yield Remedy(moves=(move,), sentence=sentence, commands=commands, calls=calls, eligible_at_ms=None)
    elif found.waits_for is BlockedReason.HELD and found.eligible_at_ms is None:
        yield Remedy(
            moves=(WAIT,),
            sentence="busy: held by a clean pass, a deletion or a lease; it will be released",
            commands=(),
            calls=(),
            eligible_at_ms=None,
        )


def _rolls(
    tp: TopicPartition, found: Eligibility, way: RemedyPlan, now_ms: int, rolls_when_advanced_ms: int | None
) -> Iterator[Remedy]:
    then_ms = way.eligible_at_ms
    then = f"; it is eligible at {moment(then_ms)}" if then_ms is not None else ""
    if (sentence := next_roll_sentence(found, now_ms)) is not None:
        yield Remedy(
            moves=(NEXT_RECORD,),
            sentence=f"{sentence}{then}",
            commands=(),
            calls=(),
            eligible_at_ms=then_ms,
        )
    yield Remedy(
        moves=(RemedyAction.ROLL,),
        sentence=f"roll the active segment, then it can be cleaned{then}",
        commands=(f"ottla roll {tp.topic}",),
        calls=(f"broker.roll({tp.topic!r})",),
        eligible_at_ms=then_ms,
    )
    if rolls_when_advanced_ms is not None:
        by_ms = max(0, rolls_when_advanced_ms - now_ms)
        at_ms = max(rolls_when_advanced_ms, way.since_ms)
        yield Remedy(
            moves=(ADVANCE_CLOCK,),
            sentence=f"move the broker's clock forward to {moment(rolls_when_advanced_ms)} (by {duration(by_ms)}), which rolls the"
            " active segment",
            commands=(f"ottla clock advance {max(by_ms, at_ms - now_ms)}ms",),
            calls=(f"broker.clock.advance(milliseconds={max(by_ms, at_ms - now_ms)})",),
            eligible_at_ms=at_ms,
        )


def next_roll_sentence(found: Eligibility, now_ms: int) -> str | None:
    """Return a sentence on the record that rolls the active segment; None if no timestamp does, or the segment is empty."""
    if found.rolls_after_bytes is None:
        return None
    if found.rolls_after_bytes < 0:
        return "the active segment is full: the next record rolls it"
    if found.rolls_from_ms is None:
        return None
    if found.rolls_by_clock:
        if found.rolls_from_ms <= now_ms:
            return "the next record rolls the active segment"
        return f"the first record that arrives at or after {moment(found.rolls_from_ms)} rolls the active segment"
    if found.rolls_from_ms <= now_ms:
        return f"the next record with a timestamp of {moment(found.rolls_from_ms)} or later, such as now, rolls the active segment"
    return f"the next record with a timestamp of {moment(found.rolls_from_ms)} or later rolls the active segment"


def _remedy_for_plan(
    tp: TopicPartition, way: RemedyPlan, transactions: tuple[OpenTransactionFacts, ...], bootstrap: str
) -> Remedy:
    topic = tp.topic
    configs = _configs(way)
    sentences, commands, calls = [], [], []
    if configs:
        settings = " ".join(f"{name}={value}" for name, value in configs.items())
        sentences.append(f"set {settings}")
        commands.append(f"ottla configs alter topic:{topic} {settings}")
        calls.append(f"broker.set_configs('topic', {topic!r}, {configs!r})")
    if RemedyAction.ROLL in way.moves:
        sentences.append("roll the active segment")
        commands.append(f"ottla roll {topic}")
        calls.append(f"broker.roll({topic!r})")
    if RemedyAction.END_TRANSACTIONS in way.moves:
        sentences.append("end the open transaction" + ("s" if len(transactions) > 1 else ""))
        sentences[-1] += "".join(f": {each}" for each in transactions[:1])
        if transactions and transactions[0].transactional_id is not None:
            sentences[-1] += "; restarting its producer with the same transactional.id also aborts it"
        commands += [
            f"kafka-transactions.sh --bootstrap-server {bootstrap} abort --topic {topic} --partition {tp.partition}"
            f" --start-offset {each.first_offset}"
            for each in transactions
        ]
    later_ms = way.eligible_at_ms
    then = f"; then it is eligible at {moment(later_ms)}" if later_ms is not None else ""
    return Remedy(
        moves=tuple(way.moves),
        sentence=f"{', and '.join(sentences)}{then}",
        commands=tuple(commands),
        calls=tuple(calls),
        eligible_at_ms=later_ms,
    )


def _configs(way: RemedyPlan) -> Mapping[str, str]:
    values = {
        RemedyAction.COMPACT_POLICY: ("cleanup.policy", "compact"),
        RemedyAction.NO_MIN_LAG: ("min.compaction.lag.ms", "0"),
        RemedyAction.LOWER_RATIO: ("min.cleanable.dirty.ratio", f"{way.min_cleanable_dirty_ratio or 0:g}"),
    }
    return dict(values[move] for move in way.moves if move in values)


def moment(at_ms: int | None) -> str:
    """Return a time as text, or as a number of milliseconds if it has no calendar date."""
    try:
        found = datetime.fromtimestamp((at_ms or 0) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms since 1970"  # beyond the year 9999
    return f"{found:%Y-%m-%d %H:%M:%S}.{(at_ms or 0) % 1000:03} UTC"


def duration(ms: int) -> str:
    """Return a duration as text, rounded to seconds if it is long."""
    if ms < 10_000:
        return f"{ms} ms"
    seconds = -(-ms // 1000)
    for name, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {name}"
    return f"{seconds} seconds"


@dataclass(frozen=True, slots=True)
class LastPass:
    """The last completed pass over a partition."""

    end_offset: int
    """First dirty offset after the pass."""
    ended_at_ms: int
    stats: CleanStats


@dataclass(frozen=True, slots=True)
class CleanerStatus:
    """Cleaner state of one partition, and its passes since the broker started."""

    eligibility: Eligibility
    counts: RecordCounts
    passes: int = 0
    """Number of completed passes."""
    last_pass: LastPass | None = None

    def as_json(self) -> dict[str, Any]:
        """For `json.dumps`: the fields of the eligibility, `counts`, `passes`, and `last_pass` as an object or null."""
        last_pass = None if self.last_pass is None else asdict(self.last_pass)
        counts = asdict(self.counts)
        return asdict(self.eligibility) | {"counts": counts, "passes": self.passes, "last_pass": last_pass}
