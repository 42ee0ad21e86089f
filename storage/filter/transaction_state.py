"""State of transactions while the cleaner reads batches in offset order.

Used twice in a pass, by the map builder and by the copying. The cleaner never passes the last stable offset, so every
transaction that it meets is decided; the transaction indexes of the segments list the aborted ones.

    pending     aborted transactions that have not begun yet, by first offset
    aborting    producer id -> the aborted transaction it is in, and whether data of it was seen
    committing  producer ids with data of a transaction that will be committed

A marker may be removed only when no data of its transaction is left: readers of the data need it.
Source: KIP-98 and Apache Kafka's cleaner (KAFKA-5196, KAFKA-8351).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from ...protocol.records import RecordBatch
from ..disk.paths import OFFSET_MAX
from ..produce.txn_markers import ABORT_MARKER, read_marker
from ..segment.index import AbortedTxn


@dataclass(slots=True)
class _Aborting:
    txn: AbortedTxn
    has_data: bool = False


class CarriedTransactions(NamedTuple):
    """A copy of the state between two batches, from which another object can continue."""

    pending: tuple[AbortedTxn, ...] = ()
    aborting: tuple[tuple[AbortedTxn, bool], ...] = ()
    """(transaction, whether data of it was seen), at most one per producer."""
    committing: tuple[int, ...] = ()


NO_TRANSACTIONS = CarriedTransactions()


@dataclass(slots=True)
class PassTransactions:
    """State of the transactions in one half of a pass."""

    _pending: list[tuple[int, int, AbortedTxn]] = field(default_factory=list)
    _aborting: dict[int, _Aborting] = field(default_factory=dict)
    _committing: set[int] = field(default_factory=set)

    def add_aborted(self, txns: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions. A transaction may be added more than once."""
        for txn in txns:
            heappush(self._pending, (txn.first_offset, txn.last_offset, txn))

    def carry(self) -> CarriedTransactions:
        """Return a copy of the state; equal states give equal copies."""
        return CarriedTransactions(
            tuple(txn for _, _, txn in sorted(set(self._pending))),
            tuple((each.txn, each.has_data) for _, each in sorted(self._aborting.items())),
            tuple(sorted(self._committing)),
        )

    def go_on_from(self, carried: CarriedTransactions) -> None:
        """Replace the state by this one."""
        self._pending = [(txn.first_offset, txn.last_offset, txn) for txn in carried.pending]  # sorted, so a heap
        self._aborting = {txn.producer_id: _Aborting(txn, has_data) for txn, has_data in carried.aborting}
        self._committing = set(carried.committing)

    @property
    def wary_from(self) -> int:
        """Transactional batches that end below this offset do not belong to an aborted transaction."""
        if self._aborting:
            return 0
        return self._pending[0][0] if self._pending else OFFSET_MAX

    def add_committing(self, producer_ids: Iterable[int]) -> None:
        """Note that these producers have transactional batches below `wary_from`, as `on_data` would."""
        self._committing.update(producer_ids)

    def on_data(self, batch: RecordBatch) -> bool:
        """Take the next data batch; returns whether its transaction was aborted."""
        self._advance(batch.last_offset)
        if not batch.is_transactional:
            return False
        aborting = self._aborting.get(batch.producer_id)
        if aborting is not None and batch.base_offset < aborting.txn.last_offset:
            aborting.has_data = True
            return True
        self._committing.add(batch.producer_id)
        return False

    def on_control(self, batch: RecordBatch) -> tuple[bool, AbortedTxn | None]:
        """Take the next control batch.

        Returns:
            (Whether no data of its transaction is left before it; the transaction that it aborts if the marker stays, for the
            index of its new segment, else None).

        Raises:
            CorruptRecordError: The marker cannot be read.
        """
        self._advance(batch.last_offset)
        if batch.record_count == 0:
            return True, None
        marker = read_marker(batch)
        if marker is None:
            return False, None
        if marker.kind == ABORT_MARKER:
            aborting = self._aborting.pop(batch.producer_id, None)
            if aborting is None or not aborting.has_data:
                # If its data was taken for committed, the index has lost the transaction. Without the marker a restart
                # would find the transaction open, for ever.
                return not self._is_committing(batch.producer_id), None
            return False, aborting.txn
        return not self._is_committing(batch.producer_id), None

    def _is_committing(self, producer_id: int) -> bool:
        """Whether data was seen since the producer's last marker. Resets that, as a marker has been read."""
        has_data = producer_id in self._committing
        self._committing.discard(producer_id)
        return has_data

    def _advance(self, offset: int) -> None:
        while self._pending and self._pending[0][0] <= offset:
            txn = heappop(self._pending)[2]
            known = self._aborting.get(txn.producer_id)
            # A transaction over several segments is added with each of them. A transaction without a marker, which only a
            # damaged index contains, must not make later data of its producer look aborted.
            if known is None or known.txn.last_offset < txn.first_offset:
                self._aborting[txn.producer_id] = _Aborting(txn)
