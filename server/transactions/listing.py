"""ListTransactions and DescribeTransactions: what is in the tables, as clients see it (KIP-664, KIP-994, KIP-1152)."""

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
    """Which transactional ids to list; an empty part lets all pass."""

    states: Sequence[str] = ()
    """Titles of states, spelt as they are shown."""
    producer_ids: Sequence[int] = ()
    duration_ms: int = -1
    """Only those whose transaction began longer ago than this; negative: all."""
    pattern: str | None = None
    """RE2, which has to match the whole transactional id."""

    def select(self, transactions: Iterable[TransactionMetadata], now_ms: int) -> Steps[list[TransactionMetadata]]:
        """Those that pass.

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
    """A transaction that is not closed, for those who wait for its end. Times in ms since 1970."""

    transactional_id: str
    producer_id: int
    state: str
    """The title of `Ongoing`, or of what was decided and has no marker everywhere yet."""
    started_ms: int
    timeout_ms: int
    aborted_at_ms: int | None
    """When the coordinator puts an end to it, by the broker's clock; None: it is decided already."""


def is_unknown(name: str) -> bool:
    """Whether no state has this title."""
    return name not in BY_TITLE


def described(metadata: TransactionMetadata) -> DescribedTransaction:
    """One transactional id in full; its partitions are those that have no marker yet."""
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
