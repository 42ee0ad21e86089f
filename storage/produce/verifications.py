"""Transactions whose first batch waits for the transaction coordinator: what `producers` remembers of them meanwhile.

Before the first batch of a transaction is written, the coordinator is asked whether the partition belongs to it. It may
say "not now", and the batches in flight behind must not overtake the one that it was asked about. So the lowest sequence
that was asked about is noted until a batch of the transaction, or its marker, is written.

Nothing of it is on disk: after a restart it is asked again. Source: KIP-890.
"""

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import RecordBatch


class _Verification:
    __slots__ = ("bumps_epoch", "lowest_sequence", "producer_epoch", "since_ms")

    def __init__(self, producer_epoch: int, sequence: int, bumps_epoch: bool, elapsed_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.bumps_epoch = bumps_epoch
        self.since_ms = elapsed_ms


class Verifications:
    """By producer id; hardly ever more than a few."""

    def __init__(self) -> None:
        self._noted: dict[int, _Verification] = {}

    def __len__(self) -> int:
        return len(self._noted)

    def note(self, producer_id: int, producer_epoch: int, sequence: int, *, bumps_epoch: bool, elapsed_ms: int) -> None:
        """The coordinator is asked about a batch that begins with `sequence`; see `ProducerStates.begin_verification`."""
        noted = self._noted.get(producer_id)
        if noted is None:
            self._noted[producer_id] = _Verification(producer_epoch, sequence, bumps_epoch, elapsed_ms)
        elif producer_epoch > noted.producer_epoch:
            noted.producer_epoch, noted.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == noted.producer_epoch and sequence < noted.lowest_sequence:
            noted.lowest_sequence = sequence

    def forget(self, producer_id: int) -> None:
        """The coordinator's no was final."""
        self._noted.pop(producer_id, None)

    def check(self, batch: RecordBatch, *, is_first: bool) -> None:
        """Refuse a client's batch that would overtake the first one of its transaction.

        Args:
            is_first: No batch of the producer is known in its present epoch.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        noted = self._noted.get(batch.producer_id)
        if noted is None:
            return
        # Where each transaction has an epoch of its own, each begins with sequence 0.
        lowest = 0 if noted.bumps_epoch and is_first else noted.lowest_sequence
        if batch.base_sequence > lowest:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id}: {batch.base_sequence} (incoming seq."
                f" number) before {lowest} (earliest seen sequence) is written",
            )

    def written(self, batch: RecordBatch) -> None:
        """A transactional batch, a marker maybe, was written."""
        noted = self._noted.get(batch.producer_id)
        if noted is None:
            return
        # The marker of the transaction before has the epoch of the one that waits for it.
        is_marker_before = batch.is_control and noted.bumps_epoch and batch.producer_epoch == noted.producer_epoch
        if not is_marker_before:
            del self._noted[batch.producer_id]

    def expire(self, elapsed_ms: int, expiration_ms: int) -> None:
        """Forget what was noted that long ago."""
        for producer_id, noted in tuple(self._noted.items()):
            if elapsed_ms - noted.since_ms >= expiration_ms:
                del self._noted[producer_id]

    def clear(self) -> None:
        self._noted.clear()
