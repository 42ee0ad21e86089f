"""One partition of a coordinator's topic, and the loading of its tables.

A shard starts as LOADING: `replay` gets the partition's batches from the first to the last and builds the tables. It changes
nothing else, so a worker thread may replay a large partition. The coordinator then makes it ACTIVE.

A record that cannot be applied is skipped with a line in the log: one such record, from any writer, must not affect all other
keys. A batch with a wrong checksum makes the shard FAILED, and its keys have no coordinator: the contents of the batch are not
known. A partition without leader is OFFLINE, and its keys also have no coordinator.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import Enum

from ...protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ...protocol.records import Record, RecordBatch, batches
from .jobs import Job

log = logging.getLogger("ottla.coordination")


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    OFFLINE = "offline"


_REFUSALS = {
    ShardState.LOADING: (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "{} is loading"),
    ShardState.FAILED: (ErrorCode.NOT_COORDINATOR, "{} cannot be loaded or flushed"),
    ShardState.OFFLINE: (ErrorCode.NOT_COORDINATOR, "{} has no leader"),
}


class Shard(ABC):
    """Base class of each coordinator's shards, which contain the tables."""

    topic: str

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.state = ShardState.LOADING
        self.next_offset = 0
        """Offset at which `replay` continues."""

    def check_active(self) -> None:
        """Return if the shard's keys are served. A shard that was unloaded is never served again: another shard replaces it.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR: it could not be loaded, or it has no leader.
        """
        if self.state is not ShardState.ACTIVE:
            code, words = _REFUSALS[self.state]
            raise KafkaError(code, words.format(f"{self.topic}-{self.partition}"))

    def replay(self, data: bytes) -> None:
        """Apply whole batches of the partition; batches before `next_offset` are skipped.

        Raises:
            CorruptRecordError: A batch is damaged; the message contains its offset. The shard must then not be used.
        """
        for batch in batches(data):
            if batch.next_offset > self.next_offset:
                if not batch.is_crc_valid():
                    raise CorruptRecordError(f"invalid checksum of the batch at offset {batch.base_offset}")
                self._replay_batch(batch)
                self.next_offset = batch.next_offset
        self._replayed()

    @abstractmethod
    def drop(self) -> Job:
        """Empty the tables of an unloaded shard in pieces, since freeing everything at once takes long."""

    @abstractmethod
    def _replay_batch(self, batch: RecordBatch) -> None:
        """Apply one valid batch."""

    def _replayed(self) -> None:  # noqa: B027 - most shards apply at once and have nothing left to do
        """Finish a call of `replay`, after all its batches."""

    def _records_of(self, batch: RecordBatch) -> Iterator[Record]:
        """Iterate over the batch's records, up to the first that cannot be decoded."""
        try:
            yield from batch.records()
        except KafkaError as error:
            log.error(
                "%s-%d: ignored unreadable records of the batch at offset %d: %s",
                self.topic,
                self.partition,
                batch.base_offset,
                error.message,
            )

    def _apply_or_pass(self, record: Record, apply: Callable[[Record], None]) -> None:
        """Apply a record; an exception skips this record only."""
        try:
            apply(record)
        except MemoryError:
            raise  # A MemoryError does not concern the record.
        except Exception as error:  # noqa: BLE001 - every exception is logged
            log.error("%s-%d: ignored the record at offset %d: %s", self.topic, self.partition, record.offset, error)
