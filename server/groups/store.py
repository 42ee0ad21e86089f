"""The seam between group coordination and the topic that it is kept in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from .records import Pair


class RecordStore(Protocol):
    """The partitions of `__consumer_offsets`. `log_store` is the real one; tests bring one in memory."""

    def append(self, partition: int, records: Sequence[Pair], now_ms: int) -> int:
        """Append all records as one batch, or none.

        Returns:
            The offset of the first.

        Raises:
            KafkaError: The partition does not take them; the code is fit for a group's client.
        """

    def read(self, partition: int, offset: int) -> bytes:
        """Whole batches from the one that holds `offset` on; empty at the end of the log.

        Raises:
            KafkaError: The partition cannot be read.
        """
