"""Contents of the tables for ListTransactions and DescribeTransactions (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...protocol.messages.describe_transactions import TopicData
from ...protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from ..coordination.jobs import Steps
from ..runtime.expressions import Expression
from .metadata import BY_TITLE, TransactionMetadata, TransactionState
from .records import partitions_by_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFilter:
    """Filter of transactional ids; an empty part lets all pass."""

    states: Sequence[str] = ()
    """Titles of states, in the case in which they are shown."""
    producer_ids: Sequence[int] = ()
    duration_ms: int = -1
    """Minimum age of the transaction in ms, exclusive; negative: any age."""
    pattern: str | None = None
    """RE2 expression that must match the whole transactional id."""

    def select(self, transactions: Iterable[TransactionMetadata], now_ms: int) -> Steps[list[TransactionMetadata]]:
        """Return the transactions that pass the filter.

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION.
        """
        states: set[TransactionState] = set()
        for name in self.states:
            if name in BY_TITLE:
                states.add(BY_TITLE[name])
            yield
        producer_ids: set[int] = set()
        for producer_id in self.producer_ids:
            producer_ids.add(producer_id)
            yield
        matches = Expression(self.pattern).matches if self.pattern else None
        found = []
        for one in transactions:
            yield
            if (
                (not producer_ids or one.producer_id in producer_ids)
                and (not self.states or one.state in states)
                and (self.duration_ms < 0 or now_ms - one.start_ms > self.duration_ms)
                and (matches is None or matches(one.transactional_id))
            ):
                found.append(one)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class UnclosedTransaction:
    """A transaction that is not closed, for callers that wait for its end. Times are in ms since 1970."""

    transactional_id: str
    producer_id: int
    state: str
    """Title of the state: `Ongoing`, or the decision while markers are missing."""
    started_ms: int
    timeout_ms: int
    aborted_at_ms: int | None
    """Time at which the coordinator aborts it, by the broker's clock; None: it is decided, or has no time-out."""


def is_unknown(name: str) -> bool:
    """Whether no state has this title."""
    return name not in BY_TITLE


def described(metadata: TransactionMetadata) -> DescribedTransaction:
    """Describe one transactional id in full; its partitions are those that have no marker yet."""
    return DescribedTransaction(
        transactional_id=metadata.transactional_id,
        transaction_state=metadata.state.title,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=tuple(
            TopicData(topic=one.topic, partitions=one.partition_ids) for one in partitions_by_topic(metadata.partitions)
        ),
    )
