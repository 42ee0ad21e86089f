"""What EndTxn does in each state: two tables, one for each way in which producers count their epochs (KIP-890).

Up to transaction version 1 a producer keeps its epoch when a transaction ends, so whoever asks again for what was done
is told that it was done. From version 2 on every end brings a new epoch: the epoch before it means that the producer
asks again, the new one that it begins anew.
"""

from __future__ import annotations

from typing import Final

from ...protocol.errors import ErrorCode, KafkaError
from ..coordination.records import Producer
from .metadata import MAX_EPOCH, TransactionMetadata, TransactionState, bumps_epoch

_ONGOING = TransactionState.ONGOING
_EMPTY = TransactionState.EMPTY
_COMMITTED = TransactionState.COMPLETE_COMMIT
_ABORTED = TransactionState.COMPLETE_ABORT
_COMMIT = TransactionState.PREPARE_COMMIT
_ABORT = TransactionState.PREPARE_ABORT

Decision = TransactionState | None
"""PREPARE_COMMIT or PREPARE_ABORT; None: what is asked for was done before."""

Table = dict[tuple[TransactionState, bool, bool], Decision]
"""(state, commit?, asked again under the epoch before?) -> decision; INVALID_TXN_STATE where there is none."""

WITH_ONE_EPOCH: Final[Table] = {
    (_ONGOING, True, False): _COMMIT,
    (_ONGOING, False, False): _ABORT,
    (_COMMITTED, True, False): None,
    (_ABORTED, False, False): None,
}
WITH_NEW_EPOCHS: Final[Table] = {
    (_ONGOING, True, False): _COMMIT,
    (_ONGOING, False, False): _ABORT,
    (_EMPTY, False, False): _ABORT,
    (_COMMITTED, True, True): None,
    (_COMMITTED, False, False): _ABORT,
    (_ABORTED, False, True): None,
    (_ABORTED, False, False): _ABORT,
}

_ASKED_AGAIN_IN = frozenset({_COMMITTED, _ABORTED})


def decide(metadata: TransactionMetadata, producer: Producer, commit: bool, client_version: int) -> Decision:
    """What becomes of the transaction when `producer`, which speaks `client_version`, asks to end it.

    Raises:
        KafkaError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE.
    """
    asks_again = False
    if bumps_epoch(client_version):
        table = WITH_NEW_EPOCHS
        check_not_prepared(metadata)
        asks_again = _asks_again(metadata, producer)
        if not asks_again:
            check_producer(metadata, producer)
    else:
        table = WITH_ONE_EPOCH
        check_producer(metadata, producer)
        check_not_prepared(metadata)
    row = metadata.state, commit, asks_again
    if row not in table:
        raise KafkaError(
            ErrorCode.INVALID_TXN_STATE,
            f"{metadata.transactional_id} is in state {metadata.state.title}: nothing to"
            f" {'commit' if commit else 'abort'}",
        )
    return table[row]


def _asks_again(metadata: TransactionMetadata, producer: Producer) -> bool:
    """Whether a producer has not heard of its new epoch, or of the producer id that came after its last epoch."""
    if metadata.state not in _ASKED_AGAIN_IN:
        return False
    if producer.producer_id == metadata.producer_id:
        return producer.producer_epoch + 1 == metadata.producer_epoch
    return producer == (metadata.previous_producer_id, MAX_EPOCH - 1) and metadata.producer_epoch == 0


def check_producer(metadata: TransactionMetadata, producer: Producer) -> None:
    """Raise INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED unless `producer` is the one the transactional id has."""
    if producer.producer_id != metadata.producer_id:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{metadata.transactional_id} has producer ID {metadata.producer_id}, not {producer.producer_id}",
        )
    if producer.producer_epoch != metadata.producer_epoch:
        raise KafkaError(
            ErrorCode.PRODUCER_FENCED,
            f"producer {metadata.producer_id} has epoch {metadata.producer_epoch}, not {producer.producer_epoch}",
        )


def check_not_prepared(metadata: TransactionMetadata) -> None:
    """Raise CONCURRENT_TRANSACTIONS while the transaction before is being closed."""
    if metadata.is_prepared:
        raise KafkaError(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"{metadata.transactional_id} is in state {metadata.state.title}: markers of {len(metadata.partitions)}"
            " partitions are missing",
        )
