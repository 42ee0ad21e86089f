"""What the coordinator knows of one transactional id, and how that changes.

A `TransactionMetadata` is a value: each method gives the one that is to follow, which is written to the log before it
takes the old one's place. Apache Kafka's rules on epochs are all here (KIP-98, KIP-360, KIP-890).

A producer gets a new epoch with InitProducerId, and from transaction version 2 on with the end of every transaction as
well. The largest epoch is never told to a producer, so that there is always one left to fence it with; after the one
before it comes a new producer id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Final

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import NO_PRODUCER_ID
from ...storage.disk.paths import TopicPartition

NO_EPOCH: Final = -1
MAX_EPOCH: Final = 2**15 - 1
NO_TIME: Final = -1
NO_TIMEOUT_MS: Final = 2**31 - 1
"""A transaction of this timeout stays open until it is ended: two phases are remembered so (KIP-939)."""

FIRST_VERSION_WITH_EPOCH_BUMP: Final = 2
"""Transaction version from which on every end of a transaction gives the producer a new epoch (KIP-890)."""


class TransactionState(IntEnum):
    """The numbers are those in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """The name that ListTransactions and DescribeTransactions use, e.g. `PrepareCommit`."""
        return self.name.title().replace("_", "")


BY_TITLE: Final = {state.title: state for state in TransactionState}

PREPARED: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Decided, and not closed: the markers are being written, and every other request has to wait."""

CLOSED: Final = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
"""No transaction is open: one may begin, and the transactional id may expire."""

FOLLOWS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: CLOSED,
    TransactionState.ONGOING: CLOSED | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # A producer of transaction version 2 may abort what it never began, which gives it a new epoch.
    TransactionState.PREPARE_ABORT: CLOSED | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
}
"""The states from which a state is reached.

Apache Kafka passes through the other two in memory alone: DEAD while a tombstone is appended, PREPARE_EPOCH_FENCE
between fencing a producer and aborting its transaction. Here each is one step, and nothing is ever found in between.
"""


def bumps_epoch(transaction_version: int) -> bool:
    return transaction_version >= FIRST_VERSION_WITH_EPOCH_BUMP


def is_exhausted(epoch: int) -> bool:
    """Whether no producer may be given a later epoch."""
    return epoch >= MAX_EPOCH - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMetadata:
    """One transactional id; a new one has no epoch yet."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    """The epoch before, with which a producer may ask again; not in the log."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id that follows once the transaction is closed; -1 if it stays."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """Partitions of the open transaction; once it is decided, those that have no marker yet."""
    start_ms: int = NO_TIME
    updated_ms: int
    client_version: int = 0
    """The transaction version that the producer spoke last."""

    @property
    def is_prepared(self) -> bool:
        return self.state in PREPARED

    @property
    def is_commit(self) -> bool:
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_exhausted(self.producer_epoch)

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionMetadata:
        """After InitProducerId, with an epoch left.

        Args:
            expected_epoch: The epoch that the producer says it has (KIP-360); None if it says nothing, and then
                whoever had one is fenced.

        Raises:
            KafkaError: PRODUCER_FENCED.
        """
        if expected_epoch is None:
            epochs = self.producer_epoch + 1, NO_EPOCH
        elif self.producer_epoch in (NO_EPOCH, expected_epoch):
            epochs = self.producer_epoch + 1, self.producer_epoch
        elif expected_epoch == self.last_producer_epoch:
            # The answer to the first request was lost. Nobody else came between, who would have cleared the last epoch.
            epochs = self.producer_epoch, self.last_producer_epoch
        else:
            raise KafkaError(
                ErrorCode.PRODUCER_FENCED,
                f"epoch {expected_epoch} of producer {self.producer_id} is neither {self.producer_epoch} nor the"
                f" previous one, {self.last_producer_epoch}",
            )
        return self._emptied(timeout_ms, now_ms, producer_epoch=epochs[0], last_producer_epoch=epochs[1])

    def with_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
    ) -> TransactionMetadata:
        """After InitProducerId, with no epoch left."""
        last_epoch = self.producer_epoch if keeps_last_epoch else NO_EPOCH
        return self._emptied(
            timeout_ms, now_ms, producer_id=producer_id, producer_epoch=0, last_producer_epoch=last_epoch
        )

    def with_partitions(
        self, partitions: frozenset[TopicPartition], client_version: int, now_ms: int
    ) -> TransactionMetadata:
        """After partitions were added; the first ones begin a transaction."""
        return self._moved(
            TransactionState.ONGOING,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
        )

    def prepared(
        self, state: TransactionState, client_version: int, next_producer_id: int, now_ms: int
    ) -> TransactionMetadata:
        """Decided: PREPARE_COMMIT or PREPARE_ABORT.

        Args:
            next_producer_id: What to go on with when this epoch was the last one; -1 otherwise.
        """
        changes: dict[str, Any] = {}
        if bumps_epoch(client_version):
            changes = {
                "producer_epoch": min(self.producer_epoch + 1, MAX_EPOCH),
                "last_producer_epoch": self.producer_epoch,
            }
        return self._moved(
            state,
            next_producer_id=next_producer_id,
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            updated_ms=now_ms,
            client_version=client_version,
            **changes,
        )

    def fenced(self) -> TransactionMetadata:
        """With an epoch that no producer has, as transaction versions below 2 fence a producer before they abort."""
        return replace(self, producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH), last_producer_epoch=NO_EPOCH)

    def completed(self, now_ms: int) -> TransactionMetadata:
        """Closed: every partition has its marker."""
        changes: dict[str, Any] = {}
        if bumps_epoch(self.client_version) and self.next_producer_id != NO_PRODUCER_ID:
            changes = {"producer_id": self.next_producer_id, "producer_epoch": 0}
        return self._moved(
            TransactionState.COMPLETE_COMMIT if self.is_commit else TransactionState.COMPLETE_ABORT,
            next_producer_id=NO_PRODUCER_ID,
            partitions=frozenset(),
            updated_ms=now_ms,
            **changes,
        )

    def _emptied(self, timeout_ms: int, now_ms: int, **changes: Any) -> TransactionMetadata:
        return self._moved(
            TransactionState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIME,
            updated_ms=now_ms,
            **changes,
        )

    def _moved(self, state: TransactionState, **changes: Any) -> TransactionMetadata:
        if self.state not in FOLLOWS[state]:
            raise RuntimeError(f"invalid state transition from {self.state.title} to {state.title}")
        return replace(self, state=state, previous_producer_id=self.producer_id, **changes)


def code_for(error: KafkaError, version: int, *, knows_fenced_since: int) -> ErrorCode:
    """The error's code in this version of a request: INVALID_PRODUCER_EPOCH stood for PRODUCER_FENCED (KIP-588)."""
    if error.code is ErrorCode.PRODUCER_FENCED and version < knows_fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code
