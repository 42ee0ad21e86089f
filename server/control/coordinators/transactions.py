"""Transactions that are open, and those of which nobody knows the producer any more."""

from __future__ import annotations

from dataclasses import dataclass

from ....storage.cleaning.outlook import open_transactions
from ...broker.broker import Broker
from ...runtime.turns import Turn, in_turns


@dataclass(frozen=True, slots=True)
class OpenTransactionState:
    """A transaction that keeps readers of committed records, and the cleaner, from what comes behind it."""

    producer_id: int
    transactional_id: str | None
    """Null: no coordinator knows of it: it hangs until somebody aborts it (`kafka-transactions abort`)."""
    state: str
    """As Apache Kafka's tools name it, "Ongoing"; "Hanging" where no coordinator knows of it."""
    started_ms: int | None
    timeout_ms: int | None
    aborted_at_ms: int | None
    """When the coordinator puts an end to it; null: it is decided already, or hangs."""
    partitions: tuple[str, ...]
    """TOPIC-PARTITION of each log with records of it, at most PARTITIONS_MAX."""


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """In the order of their producer ids."""

    transactions: tuple[OpenTransactionState, ...]


PARTITIONS_MAX = 20
"""Of one transaction are told."""


async def list_open_transactions(broker: Broker) -> OpenTransactions:
    """All that have no marker somewhere yet, and all that a coordinator holds open."""
    services, turn = broker.services, Turn()
    at_work = services.coordinators.transactions_at_work
    known = (
        {} if at_work is None else await in_turns(at_work.coordinator.open_transactions(broker.clock.now_ms()), turn)
    )
    places: dict[int, list[str]] = {producer_id: [] for producer_id in known}
    for topic_partition, log in tuple(services.logs.logs.items()):
        if turn.is_over():
            await turn.next()
        for each in open_transactions(log):
            places.setdefault(each.producer_id, []).append(f"{topic_partition.topic}-{topic_partition.partition}")
    found = []
    for producer_id in sorted(places):
        if turn.is_over():
            await turn.next()
        of, partitions = known.get(producer_id), tuple(places[producer_id][:PARTITIONS_MAX])
        if of is None:
            found.append(OpenTransactionState(producer_id, None, "Hanging", None, None, None, partitions))
        else:
            found.append(
                OpenTransactionState(
                    producer_id,
                    of.transactional_id,
                    of.state,
                    of.started_ms,
                    of.timeout_ms,
                    of.aborted_at_ms,
                    partitions,
                )
            )
    return OpenTransactions(tuple(found))
