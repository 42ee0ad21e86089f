"""What the cleaner knows of transactions while it walks over batches in offset order.

Used twice in a pass, by the map builder and by the copying. The cleaner never passes the last stable offset, so every
transaction that it meets is decided; which ones were aborted stands in the transaction indexes of the segments.

    pending     aborted transactions that have not begun yet, by first offset
    aborting    producer id -> the aborted transaction it is in, and whether data of it was seen
    committing  producer ids with data of a transaction that will be committed

A marker may go only when no data of its transaction is left: readers of the data need it.
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
    """A state between two batches, to go on from elsewhere."""

    pending: tuple[AbortedTxn, ...] = ()
    aborting: tuple[tuple[AbortedTxn, bool], ...] = ()
    """(the transaction, whether data of it was seen), one a producer."""
    committing: tuple[int, ...] = ()


NO_TRANSACTIONS = CarriedTransactions()


@dataclass(slots=True)
class PassTransactions:
    """See the module."""

    _pending: list[tuple[int, int, AbortedTxn]] = field(default_factory=list)
    _aborting: dict[int, _Aborting] = field(default_factory=dict)
    _committing: set[int] = field(default_factory=set)

    def add_aborted(self, txns: Iterable[AbortedTxn]) -> None:
        """Announce aborted transactions; one that was announced before does no harm."""
        for txn in txns:
            heappush(self._pending, (txn.first_offset, txn.last_offset, txn))

    def carry(self) -> CarriedTransactions:
        """All that is known now; equal states give equal results."""
        return CarriedTransactions(
            tuple(txn for _, _, txn in sorted(set(self._pending))),
            tuple((each.txn, each.has_data) for _, each in sorted(self._aborting.items())),
            tuple(sorted(self._committing)),
        )

    def go_on_from(self, carried: CarriedTransactions) -> None:
        """Know this, and nothing of before."""
        self._pending = [(txn.first_offset, txn.last_offset, txn) for txn in carried.pending]  # sorted, so a heap
        self._aborting = {txn.producer_id: _Aborting(txn, has_data) for txn, has_data in carried.aborting}
        self._committing = set(carried.committing)

    @property
    def wary_from(self) -> int:
        """Batches of transactions that end below this offset belong to none that was aborted."""
        if self._aborting:
            return 0
        return self._pending[0][0] if self._pending else OFFSET_MAX

    def add_committing(self, producer_ids: Iterable[int]) -> None:
        """What `on_data` does for their transactional batches below `wary_from`."""
        self._committing.update(producer_ids)

    def on_data(self, batch: RecordBatch) -> bool:
        """Walk over a data batch; whether its transaction was aborted."""
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
        """Walk over a control batch.

        Returns:
            Whether nothing of what it is about is left before it; and, of a marker that stays, the transaction that it
            aborts, for the index of the segment that it goes to.

        Raises:
            CorruptRecordError: A marker that cannot be read.
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
                # Data that passed for committed, with an ABORT after it: the index has lost the transaction. Without its
                # marker a restart would find it open, for ever.
                return not self._is_committing(batch.producer_id), None
            return False, aborting.txn
        return not self._is_committing(batch.producer_id), None

    def _is_committing(self, producer_id: int) -> bool:
        """Whether data was seen since the producer's last marker; a marker has come, so from now on there is none."""
        has_data = producer_id in self._committing
        self._committing.discard(producer_id)
        return has_data

    def _advance(self, offset: int) -> None:
        while self._pending and self._pending[0][0] <= offset:
            txn = heappop(self._pending)[2]
            known = self._aborting.get(txn.producer_id)
            # A transaction over several segments is announced with each of them. One whose marker never came (only a
            # damaged index tells of such) must not pass later data of its producer off as aborted.
            if known is None or known.txn.last_offset < txn.first_offset:
                self._aborting[txn.producer_id] = _Aborting(txn)
