"""State of one producer. `producers` has the rules for it, `producer_snapshots` its format on disk."""

import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.records import NO_SEQUENCE, NO_TIMESTAMP, sequence_after

BATCHES_REMEMBERED = 5
"""Number of batches remembered: what clients keep in flight (librdkafka, the Java client) and may send again."""

ENTRY = struct.Struct(">qhiqiqiq")
"""Entry of a snapshot; see `producer_snapshots`."""

_NONE = -1


class BatchMetadata(NamedTuple):
    """One remembered batch."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    """Last offset - base offset."""
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def base_sequence(self) -> int:
        return sequence_after(self.last_sequence, -self.offset_delta)


class ProducerState:
    """State of one producer. `batches` are those of its current epoch, the newest last.

    `entry` is its entry in a snapshot, from `pack`. The code that changes the state sets it to None.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "entry",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int,
        *,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = deque(batches, maxlen=BATCHES_REMEMBERED)
        self.entry: bytes | None = None

    def pack(self) -> bytes:
        """Make the snapshot entry, and keep it in `entry`."""
        newest = self.batches[-1] if self.batches else None
        self.entry = packed = ENTRY.pack(
            self.producer_id,
            self.producer_epoch,
            self.last_sequence,
            _NONE if newest is None else newest.last_offset,
            0 if newest is None else newest.offset_delta,
            self.last_timestamp,
            self.coordinator_epoch,
            _NONE if self.current_txn_first_offset is None else self.current_txn_first_offset,
        )
        return packed

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int | None:
        return self.batches[-1].last_offset if self.batches else None

    def start_epoch(self, producer_epoch: int) -> None:
        """Begin another epoch and forget the batches; the same epoch changes nothing."""
        if producer_epoch != self.producer_epoch:
            self.producer_epoch = producer_epoch
            self.batches.clear()


class CompletedTxn(NamedTuple):
    """A transaction with data in this partition, just ended by its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's offset."""
    last_stable_offset: int
    """The last stable offset after it, for the transaction index."""
    aborted: bool


class LastRecord(NamedTuple):
    """The record of a producer that the cleaner must keep, so that a reload finds its last batch or its epoch."""

    last_data_offset: int | None
    """None if only a marker was written since the epoch changed."""
    producer_epoch: int
