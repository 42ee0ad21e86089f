"""State of transactions whose first batch waits for the transaction coordinator; part of `producers`.

Before the first batch of a transaction is written, the broker asks the coordinator whether the partition belongs to the
transaction. The coordinator may answer "not now", and later batches in flight must not overtake the first one. So the lowest
sequence of such a request is noted until a batch of the transaction, or its marker, is written.

This is not stored on disk: after a restart the broker asks again. Source: KIP-890.
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
    """Running verifications by producer ID; rarely more than a few."""

    def __init__(self) -> None:
        self._noted: dict[int, _Verification] = {}

    def __len__(self) -> int:
        return len(self._noted)

    def note(self, producer_id: int, producer_epoch: int, sequence: int, *, bumps_epoch: bool, elapsed_ms: int) -> None:
        """Note a request for a batch that begins with `sequence`; see `ProducerStates.begin_verification`."""
        noted = self._noted.get(producer_id)
        if noted is None:
            self._noted[producer_id] = _Verification(producer_epoch, sequence, bumps_epoch, elapsed_ms)
        elif producer_epoch > noted.producer_epoch:
            noted.producer_epoch, noted.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == noted.producer_epoch and sequence < noted.lowest_sequence:
            noted.lowest_sequence = sequence

    def forget(self, producer_id: int) -> None:
        """Remove a producer, as the coordinator has refused finally."""
        self._noted.pop(producer_id, None)

    def check(self, batch: RecordBatch, *, is_first: bool) -> None:
        """Refuse a client's batch that would overtake the first one of its transaction.

        Args:
            is_first: Whether no batch of the producer is known in its present epoch.

        Raises:
            KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        noted = self._noted.get(batch.producer_id)
        if noted is None:
            return
        # If each transaction has a new epoch, each begins with sequence 0.
        lowest = 0 if noted.bumps_epoch and is_first else noted.lowest_sequence
        if batch.base_sequence > lowest:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {batch.producer_id}: {batch.base_sequence} (incoming seq."
                f" number) before {lowest} (earliest seen sequence) is written",
            )

    def note_written(self, batch: RecordBatch) -> None:
        """Note that a transactional batch or a marker was written."""
        noted = self._noted.get(batch.producer_id)
        if noted is None:
            return
        # The marker of the previous transaction has the epoch of the waiting one.
        is_marker_before = batch.is_control and noted.bumps_epoch and batch.producer_epoch == noted.producer_epoch
        if not is_marker_before:
            del self._noted[batch.producer_id]

    def expire(self, elapsed_ms: int, expiration_ms: int) -> None:
        """Remove verifications that were noted `expiration_ms` ago or earlier."""
        for producer_id, noted in tuple(self._noted.items()):
            if elapsed_ms - noted.since_ms >= expiration_ms:
                del self._noted[producer_id]

    def clear(self) -> None:
        self._noted.clear()
