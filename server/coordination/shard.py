"""One partition of a coordinator's topic: how its tables are loaded.

A shard starts as LOADING: `replay` is fed the partition's batches from the first to the last and builds the tables;
it touches nothing else, so a large partition may be replayed in a worker thread. The coordinator then makes it ACTIVE.
A record that makes no sense is passed over with a line for the operator: one such, whoever wrote it, must not take all
other keys with it. A batch whose bytes are not those that were written makes the shard FAILED, and its keys stay without
coordinator: nobody knows what it said. So do those of a partition without a leader, which is OFFLINE.
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
    """The base of each coordinator's shards, which hold the tables."""

    topic: str

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.state = ShardState.LOADING
        self.next_offset = 0
        """Where `replay` goes on."""

    def check_active(self) -> None:
        """Return if its keys are served. One that has been given up never is again: another one has its place.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR: it could not be loaded, or nobody leads it.
        """
        if self.state is not ShardState.ACTIVE:
            code, words = _REFUSALS[self.state]
            raise KafkaError(code, words.format(f"{self.topic}-{self.partition}"))

    def replay(self, data: bytes) -> None:
        """Apply whole batches of the partition; those before `next_offset` are passed over.

        Raises:
            CorruptRecordError: A batch is damaged; names its offset. The shard is then of no use.
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
        """Empty the tables of a shard that has been given up: to free all at once takes long."""

    @abstractmethod
    def _replay_batch(self, batch: RecordBatch) -> None:
        """Apply one batch that is whole."""

    def _replayed(self) -> None:  # noqa: B027 - most shards apply at once and have nothing left to do
        """The batches given to `replay` have all been seen."""

    def _records_of(self, batch: RecordBatch) -> Iterator[Record]:
        """The batch's records, up to the first that cannot be told from the next."""
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
        """`apply(record)`; what it raises costs this record alone."""
        try:
            apply(record)
        except MemoryError:
            raise  # It says nothing of the record.
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            log.error("%s-%d: ignored the record at offset %d: %s", self.topic, self.partition, record.offset, error)
