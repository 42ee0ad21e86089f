"""State of a partition's producers: duplicates, sequence gaps, fenced epochs, open transactions.

The log calls `check` before it writes a batch and `update` after; recovery only calls `update`. The state of each producer is
its epoch and its last five batches: librdkafka and the Java client keep five requests in flight. So a batch that is sent
again gets the offsets of the first time. An unknown producer (new, expired, or its records deleted) may start with any
sequence number, as in Apache Kafka since 2.5.

Nothing is replicated here, so a transaction is decided once its marker is written, and the last stable offset is the
first offset of the oldest open transaction.

Source: KIP-98 (idempotence, transactions), KIP-360 (epochs, unknown producers), KIP-890 (markers' epochs).
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import RecordBatch, sequence_after
from .producer_state import BatchMetadata, CompletedTxn, LastRecord, ProducerState
from .txn_markers import ABORT_MARKER, read_marker
from .validation import AppendOrigin
from .verifications import Verifications

PRODUCER_ID_EXPIRATION_MS_DEFAULT = 24 * 60 * 60 * 1000

UNPACKED_MAX = 1_000
"""Largest number of snapshot entries that one snapshot must make, in 2 ms, as it is part of an append."""

# Producers in one step, which takes a millisecond or two.
PRODUCERS_AT_ONCE = 4_096

LARGEST_EPOCH = 2**15 - 1
BUMPING_TRANSACTION_VERSION = 2
"""From this version on the end of each transaction raises the producer's epoch (KIP-890)."""


class Duplicate(NamedTuple):
    """Position of a batch that its producer has sent again, as written the first time."""

    base_offset: int
    last_offset: int
    timestamp: int
    """The batch's max timestamp."""


class ProducerStates:
    """The producers of one partition.

    Attributes:
        expiration_ms: `producer.id.expiration.ms`; may be changed at any time.
        end_offset: The state is that after all records below this offset. The log moves it, as batches without a producer
            move it also.
    """

    def __init__(self, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS_DEFAULT, end_offset: int = 0) -> None:
        self.expiration_ms = expiration_ms
        self.end_offset = end_offset
        self._states: dict[int, ProducerState] = {}
        # Invariant: sorted by first offset, which is the order of appending.
        # In a plain dict, each fetch would scan the slots of all ended transactions to find the first open one.
        self._open_txns: OrderedDict[int, int] = OrderedDict()  # first offset -> producer id
        self._verifications = Verifications()
        self._unpacked: deque[ProducerState] = deque()
        """Producers that have changed since their snapshot entry was made; the entries of some may have been made again."""

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self._states.values())

    def get(self, producer_id: int) -> ProducerState | None:
        return self._states.get(producer_id)

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None if every transaction is decided."""
        return next(iter(self._open_txns), None)

    @property
    def first_unstable_producer_id(self) -> int | None:
        """The producer ID of the oldest open transaction; None if every transaction is decided."""
        return next(iter(self._open_txns.values()), None)

    def open_transactions(self) -> Iterator[tuple[int, int]]:
        """Iterate over (first offset, producer id) of the open transactions, by offset. Read it before the state changes."""
        return iter(self._open_txns.items())

    def last_records(self) -> dict[int, LastRecord]:
        """Return every producer's last record, in a new mapping, for readers in other threads."""
        return {one: last for piece in self.last_records_in_pieces() for one, last in piece.items()}

    def last_records_in_pieces(self) -> Iterator[dict[int, LastRecord]]:
        """Yield the last records of PRODUCERS_AT_ONCE producers at a time, as they are at that step.

        The state may change between two steps.
        """
        for known in self._pieces():
            states = [state for one in known if (state := self._states.get(one))]
            yield {state.producer_id: LastRecord(state.last_data_offset, state.producer_epoch) for state in states}

    def _pieces(self) -> Iterator[tuple[int, ...]]:
        known = tuple(self._states)
        return (known[begin : begin + PRODUCERS_AT_ONCE] for begin in range(0, len(known), PRODUCERS_AT_ONCE))

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, bumps_epoch: bool, elapsed_ms: int
    ) -> bool:
        """Whether the broker must ask the transaction coordinator before it appends a batch of a transaction.

        It must if the producer has no transaction open here in this epoch. The request is noted: until a batch is written,
        or `end_verification` is called, batches with sequences above the lowest one noted are refused.

        Args:
            bumps_epoch: Each transaction of the producer has a new epoch, and so begins with sequence 0.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH (an older one than the last seen).
        """
        state = self._states.get(producer_id)
        if state is not None:
            if producer_epoch < state.producer_epoch:
                raise _old_epoch(producer_id, producer_epoch, state)
            if state.current_txn_first_offset is not None and producer_epoch == state.producer_epoch:
                return False
        self._verifications.note(
            producer_id, producer_epoch, base_sequence, bumps_epoch=bumps_epoch, elapsed_ms=elapsed_ms
        )
        return True

    def end_verification(self, producer_id: int) -> None:
        """Forget what `begin_verification` noted, as the coordinator has refused finally."""
        self._verifications.forget(producer_id)

    def check(self, batch: RecordBatch, origin: AppendOrigin, transaction_version: int = 0) -> Duplicate | None:
        """Decide whether a batch of a producer may be appended. Changes nothing.

        Args:
            batch: A whole batch, from a producer or not.
            origin: The coordinators' own batches have no sequence numbers; only their epochs are checked.
            transaction_version: Version of a marker's transaction. From 2 on the marker's epoch is the transaction's plus 1.

        Returns:
            The position of the batch if it is one of the producer's last five. It must not be written again, and the client
            gets the response of the first time. None if it must be appended.

        Raises:
            KafkaError: INVALID_PRODUCER_EPOCH (an older one than the last seen), OUT_OF_ORDER_SEQUENCE_NUMBER,
                INVALID_TXN_STATE (not transactional while the producer's transaction is open),
                TRANSACTION_COORDINATOR_FENCED (a marker of a coordinator that was replaced).
        """
        state = self._states.get(batch.producer_id)  # none has id -1, that of batches without a producer
        from_client = origin is AppendOrigin.CLIENT
        if state is None:
            if from_client:
                self._verifications.check(batch, is_first=True)
            return None
        if from_client and batch.producer_epoch == state.producer_epoch:
            for known in state.batches:
                if known.last_sequence == batch.last_sequence and known.base_sequence == batch.base_sequence:
                    return Duplicate(known.base_offset, known.last_offset, known.timestamp)
        if batch.producer_epoch < state.producer_epoch:
            raise _old_epoch(batch.producer_id, batch.producer_epoch, state)
        if batch.is_control:
            self._check_marker(batch, state, transaction_version)
            return None
        if from_client:
            self._verifications.check(batch, is_first=not state.batches)
            self._check_sequence(batch, state)
        if state.current_txn_first_offset is not None and not batch.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {batch.producer_id}: its transaction has been open since"
                f" offset {state.current_txn_first_offset}",
            )
        return None

    @staticmethod
    def _check_sequence(batch: RecordBatch, state: ProducerState) -> None:
        if batch.producer_epoch == state.producer_epoch:
            last_sequence = state.last_sequence
            if batch.base_sequence != (0 if last_sequence < 0 else sequence_after(last_sequence, 1)):
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Out of order sequence number for producer {batch.producer_id}: {batch.base_sequence} (incoming"
                    f" seq. number), {last_sequence} (current end sequence number)",
                )
        elif batch.base_sequence != 0:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Invalid sequence number for new epoch of producer {batch.producer_id}: {batch.producer_epoch}"
                f" (request epoch), {batch.base_sequence} (seq. number), {state.producer_epoch} (current producer"
                " epoch)",
            )

    @staticmethod
    def _check_marker(batch: RecordBatch, state: ProducerState, transaction_version: int) -> None:
        # A marker that is written again finds its own epoch here, but its transaction closed. The largest epoch cannot be
        # raised.
        if (
            transaction_version >= BUMPING_TRANSACTION_VERSION
            and batch.producer_epoch == state.producer_epoch != LARGEST_EPOCH
            and state.current_txn_first_offset is not None
        ):
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"A marker of transaction version {transaction_version} for producer {batch.producer_id} has epoch"
                f" {batch.producer_epoch} of the transaction; it must be greater",
            )
        marker = read_marker(batch)
        if marker is not None and marker.coordinator_epoch < state.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {batch.producer_id}: {marker.coordinator_epoch} (zombie),"
                f" {state.coordinator_epoch} (current)",
            )

    def update(self, batch: RecordBatch) -> CompletedTxn | None:
        """Take in a batch of the log: just appended, or read again by recovery. Refuses nothing.

        Emptied batches count like full ones; an emptied marker only has its producer's epoch.

        Returns:
            The transaction that the batch, a marker, ends; None if it ends none with data in this partition.

        Raises:
            CorruptRecordError: The record of a marker is invalid. The batch was not taken in.
        """
        if not batch.has_producer:
            return None
        if self._verifications and batch.is_transactional:
            self._verifications.note_written(batch)
        if batch.is_control:
            return self._end_txn(batch)
        state = self._state(batch)
        state.batches.append(
            BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
        )
        state.last_timestamp = batch.max_timestamp
        if batch.is_transactional and state.current_txn_first_offset is None:
            state.current_txn_first_offset = batch.base_offset
            self._open_txns[batch.base_offset] = batch.producer_id
        return None

    def _end_txn(self, batch: RecordBatch) -> CompletedTxn | None:
        marker = read_marker(batch)
        if marker is None:
            if batch.record_count == 0:
                self._keep_epoch(batch)
            return None
        state = self._state(batch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp = marker.timestamp
        first_offset = state.current_txn_first_offset
        if first_offset is None:
            return None
        state.current_txn_first_offset = None
        del self._open_txns[first_offset]
        still_open = self.first_unstable_offset
        last_stable_offset = batch.next_offset if still_open is None else still_open
        return CompletedTxn(
            batch.producer_id, first_offset, batch.base_offset, last_stable_offset, marker.kind == ABORT_MARKER
        )

    def _keep_epoch(self, batch: RecordBatch) -> None:
        """Take the epoch of an emptied marker, which the cleaner keeps for it when it has removed the transaction."""
        state = self._states.get(batch.producer_id)
        if state is None or (state.current_txn_first_offset is None and state.producer_epoch < batch.producer_epoch):
            state = self._state(batch)
            state.last_timestamp = max(state.last_timestamp, batch.max_timestamp)

    def _state(self, batch: RecordBatch) -> ProducerState:
        """Return the producer's state for a change, in the batch's epoch; a new one for an unknown producer."""
        state = self._states.get(batch.producer_id)
        if state is None:
            state = self._states[batch.producer_id] = ProducerState(batch.producer_id, batch.producer_epoch)
        else:
            state.start_epoch(batch.producer_epoch)
            if state.entry is None:
                return state
        # Beyond this number each change makes the entry of an earlier one, so that a snapshot never has many to make.
        if len(self._unpacked) >= UNPACKED_MAX:
            self._unpacked.popleft().pack()
        state.entry = None
        self._unpacked.append(state)
        return state

    def expire(self, now_ms: int) -> int:
        """Forget producers idle for `expiration_ms`, except those with an open transaction; returns their number."""
        return sum(self.expire_in_pieces(now_ms))

    def expire_in_pieces(self, now_ms: int) -> Iterator[int]:
        """Forget idle producers like `expire`, PRODUCERS_AT_ONCE at a time; yields the number of each step.

        The state may change between two steps; a producer that writes in between is not idle.
        """
        for known in self._pieces():
            expired = [one for one in known if (state := self._states.get(one)) and self._is_expired(state, now_ms)]
            for producer_id in expired:
                del self._states[producer_id]
            yield len(expired)

    def expire_verifications(self, elapsed_ms: int) -> None:
        """Forget verifications that began `expiration_ms` ago or earlier."""
        self._verifications.expire(elapsed_ms, self.expiration_ms)

    def _is_expired(self, state: ProducerState, now_ms: int) -> bool:
        return state.current_txn_first_offset is None and now_ms - state.last_timestamp >= self.expiration_ms

    def reset(self, end_offset: int, states: Iterable[ProducerState] = (), *, now_ms: int | None = None) -> None:
        """Replace the whole state by `states`, from a snapshot or empty.

        Args:
            end_offset: Offset up to which `states` are (exclusive).
            now_ms: If given, producers that have expired by then are left out.
        """
        self.end_offset = end_offset
        self._states = {
            state.producer_id: state for state in states if now_ms is None or not self._is_expired(state, now_ms)
        }
        self._open_txns = OrderedDict(
            sorted(
                (state.current_txn_first_offset, state.producer_id)
                for state in self
                if state.current_txn_first_offset is not None
            )
        )
        self._verifications.clear()
        self._unpacked.clear()


def _old_epoch(producer_id: int, producer_epoch: int, state: ProducerState) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Epoch of producer {producer_id} is {producer_epoch}, which is smaller than the last seen epoch"
        f" {state.producer_epoch}",
    )
