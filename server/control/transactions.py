"""Open transactions, including hanging ones, whose producer no coordinator knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ...storage.cleaning.outlook import OpenTransaction, open_transactions
from ...storage.logs.log import Log
from ...storage.steps import Steps
from ..broker.broker import Broker
from ..coordination.shard import ShardState
from ..runtime.errors import ControlError, Kind
from ..runtime.time_slices import run_cooperatively
from .operation import operation

if TYPE_CHECKING:
    from ..transactions.listing import UnclosedTransaction as KnownTransaction


@dataclass(frozen=True, slots=True)
class OpenTransactionState:
    """An open transaction. Records after its start are invisible to read_committed consumers and are not compacted."""

    producer_id: int
    transactional_id: str | None
    """Null: unknown to all coordinators; the transaction hangs until it is aborted (`kafka-transactions abort`)."""
    state: str
    """State as named by Apache Kafka's tools, e.g. "Ongoing"; "Hanging" if unknown to all coordinators."""
    started_ms: int | None
    timeout_ms: int | None
    aborted_at_ms: int | None
    """Time at which the coordinator aborts it; null: it is decided already, or hangs."""
    partitions: tuple[str, ...]
    """TOPIC-PARTITION of each log that contains its records, at most PARTITIONS_MAX."""


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """Open transactions in the order of producer IDs."""

    transactions: tuple[OpenTransactionState, ...]


PARTITIONS_MAX = 20
"""Maximum number of listed partitions of one transaction."""


@operation("GET", "/v1/transactions", statuses=(503,), only_waits=True)
async def list_open_transactions(broker: Broker) -> OpenTransactions:
    """List open and hanging transactions.

    Includes all transactions that lack a marker in a partition, and all that are open in a coordinator.

    Raises:
        ControlError: UNAVAILABLE: transactions are being loaded, so hanging ones cannot be identified.
    """
    return await run_cooperatively(open_in_pieces(broker))


def open_in_pieces(broker: Broker) -> Steps[OpenTransactions]:
    """Run `list_open_transactions` in steps; transactions may begin and end between two of them."""
    known = yield from _known_transactions(broker)
    places: dict[int, list[_Place]] = {producer_id: [] for producer_id in known}
    for log in tuple(broker.services.logs.logs.values()):
        yield
        for each in open_transactions(log):
            places.setdefault(each.producer_id, []).append((log, each.first_offset))
    if places.keys() - known.keys():
        # A coordinator knows a transaction for longer than a log has it open. So a transaction hangs if a log has it open
        # before and after this second query, and no coordinator knows it.
        known |= yield from _known_transactions(broker)
    found = []
    for producer_id in sorted(places):
        yield
        of, at = known.get(producer_id), places[producer_id]
        if of is None:
            at = [place for place in at if _is_open(broker, producer_id, *place)]
            if not at or _is_any_away(
                broker
            ):  # while no node leads a coordinator's partition, hanging transactions cannot be identified
                continue
        partitions = tuple(str(log.topic_partition) for log, _ in at[:PARTITIONS_MAX])
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


_Place: TypeAlias = tuple[Log, int]
"""Log in which a transaction is open, and its first offset there."""


def _known_transactions(broker: Broker) -> Steps[dict[int, KnownTransaction]]:
    """Return the transactions that a coordinator knows, by producer ID."""
    at_work = broker.services.coordinators.transactions_at_work
    if at_work is None:
        return {}
    if any(shard.state is ShardState.LOADING for shard in at_work.coordinator.shards):
        raise ControlError(Kind.UNAVAILABLE, "transactions are being loaded; retry")
    return (yield from at_work.coordinator.open_transactions(broker.clock.now_ms()))


def _is_any_away(broker: Broker) -> bool:
    at_work = broker.services.coordinators.transactions_at_work
    return at_work is not None and at_work.coordinator.is_any_away


def _is_open(broker: Broker, producer_id: int, log: Log, first_offset: int) -> bool:
    present = broker.services.logs.logs.get(log.topic_partition) is log
    return present and OpenTransaction(producer_id, first_offset) in open_transactions(log)
