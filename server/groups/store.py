"""The seam between group coordination and the topic that it is kept in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .records import Pair


class Chunk(Protocol):
    """Batches still on disk; `read` may be called in any thread."""

    def __len__(self) -> int: ...

    def read(self) -> bytes: ...


class RecordStore(Protocol):
    """The partitions of `__consumer_offsets`. `log_store` is the real one; tests bring one in memory."""

    def append(self, partition: int, records: Sequence[Pair], now_ms: int) -> int:
        """Append all records as one batch, or none.

        Returns:
            The offset of the first.

        Raises:
            KafkaError: The partition does not take them; the code is fit for a group's client.
        """

    def start_offset(self, partition: int) -> int:
        """The first offset that `read` gives. Raises KafkaError if there is no such partition."""

    def read(self, partition: int, offset: int) -> Chunk:
        """Whole batches from the one that holds `offset` on; empty at the end of the log.

        Raises:
            KafkaError: The partition cannot be read.
        """
