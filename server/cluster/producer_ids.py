"""Producer ids, of which none is used twice, not even after a crash.

The catalog stores a block before any of its ids is given out, as Apache Kafka's controller does. Ids that are left at a crash
are lost, which does not matter in a range of 2^63.
"""

from __future__ import annotations

import logging

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.catalog import Catalog
from ..runtime.threads import Work, on_disk

log = logging.getLogger("ottla.producer_ids")


class ProducerIds:
    """Producer ids of the present block."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._block = range(0)
        self._lock = trio.Lock()
        self._missed = trio.Event()

    async def run(self) -> None:
        """Fetch the next block whenever `take_now` has found no id, until cancelled.

        Without it, a timer, which cannot wait, would get an error until some client asks for an id.
        """
        while True:
            await self._missed.wait()
            self._missed = trio.Event()
            # The next call that gets an error makes it try again.
            try:
                await self.have_some()
            except KafkaError:
                pass  # The error has been logged.
            except Exception:
                log.exception("cannot allocate the next block of producer ids")

    async def take(self) -> int:
        """Return a producer id that was never used. Raises KafkaError KAFKA_STORAGE_ERROR if none can be stored."""
        await self.have_some()
        return self.take_now()

    async def have_some(self) -> None:
        """Return once an id is available, so that `take_now` in the same step returns one. Raises KafkaError as `take`."""
        while not self._block:
            async with self._lock:
                # Another task may have fetched the new block while this one waited for the lock.
                if not self._block:
                    self._block = await on_disk(Work.CATALOG, self._catalog.data_dir, self._catalog.take_producer_ids)

    def take_now(self) -> int:
        """Return a producer id of the present block that was never used.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS, as in Apache Kafka, until the next block is available; `run` fetches it
                now.
        """
        if not self._block:
            self._missed.set()
            raise KafkaError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the next block of producer ids is not available yet"
            )
        taken, self._block = self._block[0], self._block[1:]
        return taken
