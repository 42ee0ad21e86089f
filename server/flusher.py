"""Makes appends durable before they are answered, many at a time (group commit).

`flush.messages` asks for it. While one sync of a log runs, requests that come meanwhile wait for the
next one together, so a hundred producers cost two syncs, not a hundred.
"""

from __future__ import annotations

from collections.abc import Iterable

import trio

from ..storage.flush import Flush
from ..storage.log import Log
from .clock import Clock
from .meters import Timer


class Flusher:
    """Syncs logs in worker threads, one sync a log at a time."""

    def __init__(self, clock: Clock) -> None:
        self.timer = Timer()
        """Of every sync here; a clean pass does its own."""
        self._clock = clock
        self._running: dict[Log, trio.Event] = {}

    async def flush(self, logs: Iterable[Log]) -> None:
        """Return once everything in `logs` at this moment survives a power loss.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; that log is offline.
        """
        for log, up_to in [(log, log.log_end_offset) for log in logs]:
            while log.recovery_point < up_to:
                running = self._running.get(log)
                if running is None:
                    await self._sync(log, log.begin_flush())
                else:
                    await running.wait()

    async def flush_sealed(self, logs: Iterable[Log]) -> None:
        """Sync segments that were closed since, so that recovery after a power loss has less to read."""
        for log in logs:
            if log.failure is None and log not in self._running:
                await self._sync(log, log.begin_flush_of_sealed())

    async def _sync(self, log: Log, flush: Flush | None) -> None:
        if flush is None:
            return
        done = self._running[log] = trio.Event()
        begun_s = trio.current_time()
        try:
            await trio.to_thread.run_sync(flush.sync)
        except OSError as error:
            raise log.fail(error) from error
        else:
            log.end_flush(flush, self._clock.now_ms())
        finally:
            self.timer.update(trio.current_time() - begun_s)
            del self._running[log]
            done.set()
