"""Invariants of transactions, checked on the transaction log and the markers."""

from __future__ import annotations

from ottla.server.transactions.metadata import CLOSED, PREPARED, TransactionMetadata, TransactionState
from support.transactions.transactions import Transactions

COMPLETED_BY = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


def check_written(transactions: Transactions, ids: list[str]) -> None:
    """Check what was written: decisions are final, and epochs never decrease.

    Each existing partition of a decided transaction has exactly the marker of the decision (twice, if a restart came between
    the marker and the end). To be called when no transaction is unfinished.
    """
    expected: set[tuple[object, ...]] = set()
    for transactional_id in ids:
        history = transactions.store.history(transactional_id)
        for before, after in zip([None, *history], history, strict=False):
            if after is None:
                assert before is None or before.state in CLOSED, "an id with an open transaction was forgotten"
                continue
            if before is not None:
                _check_move(before, after)
            if after.state in PREPARED:
                expected |= {
                    (one, after.producer_id, after.producer_epoch, after.is_commit)
                    for one in after.partitions
                    if one not in transactions.markers.deleted
                }
        assert not history or history[-1] is None or history[-1].state not in PREPARED
    written = {
        (partition, marker.producer_id, marker.producer_epoch, marker.commit)
        for partition, marker in transactions.markers.written
        if partition not in transactions.markers.deleted
    }
    assert written == expected


def _check_move(before: TransactionMetadata, after: TransactionMetadata) -> None:
    if before.state in PREPARED:
        assert after.state is COMPLETED_BY[before.state], "a decided transaction changed its mind"
    assert after.producer_id >= before.producer_id
    if after.producer_id == before.producer_id:
        assert before.producer_epoch <= after.producer_epoch <= before.producer_epoch + 1
    if after.state is before.state is TransactionState.ONGOING:
        assert after.partitions > before.partitions
        assert after.start_ms == before.start_ms
