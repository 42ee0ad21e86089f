"""Producer ids: never the same one twice, not even after a crash.

The catalog records a block before any of its ids is given out (as Apache Kafka's controller does);
ids left over at a crash are lost, which costs nothing of a range of 2^63.
"""

from __future__ import annotations

from collections.abc import Iterator

import trio

from ..storage.catalog import Catalog
from .disk import on_disk


class ProducerIds:
    """Gives out producer ids from the block in hand."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._block: Iterator[int] = iter(())
        self._lock = trio.Lock()

    async def take(self) -> int:
        """A producer id that was never given before. KafkaError KAFKA_STORAGE_ERROR if none can be recorded."""
        while True:
            for producer_id in self._block:
                return producer_id
            async with self._lock:
                # Whoever waited for the lock finds the new block in place.
                for producer_id in self._block:
                    return producer_id
                self._block = iter(await on_disk(self._catalog.take_producer_ids))
