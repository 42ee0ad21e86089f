"""The seam between a coordinator and the topic that its state is kept in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from ...storage.disk.paths import TopicPartition
from ..partitions.appends import Flushed
from .records import Pair, Producer, Records

WhenFlushed = Callable[[Collection[TopicPartition], Flushed, int], None]
"""Calls the second once as much of the first is on disk as `flush.messages` asks for: at once, with the third for
`now_ms`, if nothing is missing."""


def at_once(_: Collection[TopicPartition], then: Flushed, now_ms: int) -> None:
    """`WhenFlushed` where nobody asks for it."""
    then((), now_ms)


class Chunk(Protocol):
    """Batches still on disk; `read` may be called in any thread."""

    def __len__(self) -> int: ...

    def read(self) -> bytes: ...


class RecordStore(Protocol):
    """The partitions of one topic. `log_store` is the real one; tests bring one in memory."""

    def append(
        self, partition: int, records: Records | Sequence[Pair], now_ms: int, *, producer: Producer | None = None
    ) -> int:
        """Append all records as one batch, or none; transactional if there is a `producer`.

        Returns:
            The offset of the first.

        Raises:
            KafkaError: The partition does not take them; the code is fit for the coordinator's client.
        """

    def max_batch_bytes(self, partition: int) -> int:
        """What `append` takes at the most."""

    def leader_epoch(self, partition: int) -> int:
        """The epoch of the partition's leader, which is the epoch of its coordinator."""

    def start_offset(self, partition: int) -> int:
        """The first offset that `read` gives. Raises KafkaError if there is no such partition."""

    def read(self, partition: int, offset: int) -> Chunk:
        """Whole batches from the one that holds `offset` on; empty at the end of the log.

        Raises:
            KafkaError: The partition cannot be read.
        """
