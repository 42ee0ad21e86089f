"""One partition of a coordinator's topic: how its tables are loaded.

A shard starts as LOADING: `replay` is fed the partition's batches from the first to the last and builds the tables;
it touches nothing else, so a large partition may be replayed in a worker thread. The coordinator then makes it ACTIVE.
A record that cannot be read makes it FAILED, and its keys stay without coordinator; so do those of a partition without
a leader, which is OFFLINE.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import Enum

from ...protocol.errors import CorruptRecordError, KafkaError
from ...protocol.records import Record, RecordBatch, batches


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    OFFLINE = "offline"


class Shard(ABC):
    """The base of each coordinator's shards, which hold the tables."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.state = ShardState.LOADING
        self.next_offset = 0
        """Where `replay` goes on."""

    def replay(self, data: bytes) -> None:
        """Apply whole batches of the partition; those before `next_offset` are passed over.

        Raises:
            CorruptRecordError: A batch or record is damaged; names its offset. The shard is then of no use.
        """
        for batch in batches(data):
            if batch.next_offset > self.next_offset:
                if not batch.is_crc_valid():
                    raise CorruptRecordError(f"the batch at offset {batch.base_offset} fails its checksum")
                self._replay_batch(batch)
                self.next_offset = batch.next_offset
        self._replayed()

    @abstractmethod
    def _replay_batch(self, batch: RecordBatch) -> None:
        """Apply one batch that is whole. CorruptRecordError names the offset of a record that cannot be read."""

    def _replayed(self) -> None:  # noqa: B027 - most shards apply at once and have nothing left to do
        """The batches given to `replay` have all been seen."""


def records_of(batch: RecordBatch) -> Iterator[Record]:
    """The batch's records. CorruptRecordError names the batch if they cannot be read."""
    try:
        yield from batch.records()
    except KafkaError as error:
        message = f"the batch at offset {batch.base_offset} cannot be read: {error.message}"
        raise CorruptRecordError(message) from error
