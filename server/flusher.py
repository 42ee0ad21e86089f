"""Makes appends durable before they are answered, many at a time (group commit).

`flush.messages` asks for it, whoever writes. While one sync of a log runs, requests that come meanwhile wait for the
next one together, so a hundred producers cost two syncs, not a hundred.

Apache Kafka syncs within the append, under the log's lock. Here the append returns before, so each of those who build on
it waits for itself: readers of the log do not see it (its high watermark), coordinators answer later
(`CoordinatorService.settle`), and a transaction's next step is taken later (`when_flushed`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress

import trio

from ..protocol.errors import ErrorCode, KafkaError
from ..storage.flush import Flush
from ..storage.log import Log
from .clock import Clock
from .meters import Timer

logger = logging.getLogger("ottla.flusher")


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
            KafkaError: One of them is offline, or its sync was refused; the others are flushed. Everybody who waits for a
                sync that fails is told.
        """
        failure: KafkaError | None = None
        for log, up_to in [(log, log.log_end_offset) for log in logs]:
            try:
                await self._flush_one(log, up_to)
            except KafkaError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _flush_one(self, log: Log, up_to: int) -> None:
        while log.recovery_point < up_to:
            running = self._running.get(log)
            if running is None:
                await self._sync(log, log.begin_flush())
            else:
                await running.wait()

    async def flush_sealed(self, logs: Iterable[Log]) -> None:
        """Sync segments that were closed since, so that recovery after a power loss has less to read.

        A log that the disk refuses is offline then; the others are not kept from theirs.
        """
        for log in logs:
            if log.failure is None and log not in self._running:
                with suppress(KafkaError):
                    await self._sync(log, log.begin_flush_of_sealed())

    async def flush_each(self, logs: Iterable[Log]) -> list[Log]:
        """As `flush`; returns those that failed."""
        failed = []
        for log, up_to in [(log, log.log_end_offset) for log in logs]:
            try:
                await self._flush_one(log, up_to)
            except KafkaError:
                failed.append(log)
        return failed

    async def _sync(self, log: Log, flush: Flush | None) -> None:
        if flush is None:
            return
        done = self._running[log] = trio.Event()
        begun_s = trio.current_time()
        try:
            await trio.to_thread.run_sync(flush.sync)
            log.end_flush(flush, self._clock.elapsed_ms())
        except OSError as error:
            failure = log.fail(error)
            logger.error("%s", failure.message)
            raise failure from error
        except KafkaError:
            raise
        except Exception as error:
            # No memory, no thread: nothing is vouched for, and those who wait are answered as by a disk that refuses.
            logger.exception("%s could not be synced", log.topic_partition)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{log.topic_partition} could not be synced: {error!r}"
            ) from error
        finally:
            self.timer.update(trio.current_time() - begun_s)
            del self._running[log]
            done.set()
