"""Producer ids: never the same one twice, not even after a crash.

The catalog records a block before any of its ids is given out (as Apache Kafka's controller does);
ids left over at a crash are lost, which costs nothing of a range of 2^63.
"""

from __future__ import annotations

import logging

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.catalog import Catalog
from ..runtime.threads import Work, on_disk

log = logging.getLogger("ottla.producer_ids")


class ProducerIds:
    """Gives out producer ids from the block in hand."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._block = range(0)
        self._lock = trio.Lock()
        self._missed = trio.Event()

    async def run(self) -> None:
        """Fetch the next block whenever `take_now` has found none, until cancelled.

        Without it a timer, which cannot wait, would be refused until some client happens to ask for an id.
        """
        while True:
            await self._missed.wait()
            self._missed = trio.Event()
            # Who is refused again has it tried again.
            try:
                await self.have_some()
            except KafkaError:
                pass  # The operator was told.
            except Exception:
                log.exception("cannot allocate the next block of producer ids")

    async def take(self) -> int:
        """A producer id that was never given before. KafkaError KAFKA_STORAGE_ERROR if none can be recorded."""
        await self.have_some()
        return self.take_now()

    async def have_some(self) -> None:
        """Return with an id at hand, so that `take_now` in the same turn gives one. KafkaError as `take`."""
        while not self._block:
            async with self._lock:
                # Whoever waited for the lock finds the new block in place.
                if not self._block:
                    self._block = await on_disk(Work.CATALOG, self._catalog.data_dir, self._catalog.take_producer_ids)

    def take_now(self) -> int:
        """A producer id that was never given before, of the block in hand.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, as Apache Kafka answers until it has the next block, which is
                fetched now (`run`).
        """
        if not self._block:
            self._missed.set()
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the next block of producer ids is not available yet"
            )
        taken, self._block = self._block[0], self._block[1:]
        return taken
