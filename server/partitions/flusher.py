"""Flushing of appends before they are answered, many at a time (group commit).

`flush.messages` requires it, for every writer. Requests that arrive during a sync of a log wait for the next one together, so a
hundred producers need two syncs, not a hundred. Logs that one request wrote to are synced together. A sync that hangs blocks
only the requests that wait for it.

Apache Kafka syncs within the append, under the log's lock. Here the append returns before, so everything that depends on it
must wait: the high watermark hides it from readers, coordinators answer later (`CoordinatorService.settle`), and a
transaction's next step is run later (`when_flushed`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

import trio

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.logs.flush import Flush
from ...storage.logs.log import Log
from ..runtime.clock import Clock
from ..runtime.meters import Timer
from ..runtime.threads import Work, in_thread

logger = logging.getLogger("ottla.flusher")


class Flusher:
    """Flusher of logs in worker threads, one sync a log at a time."""

    def __init__(self, clock: Clock, moved: Callable[[Log], None]) -> None:
        """Make a flusher. `notify_moved` tells the readers of a log that it may have more records: the request for a sync may have
        ended."""
        self.timer = Timer()
        """Durations of all syncs here; a clean pass does its own."""
        self._clock = clock
        self._moved = moved
        self._running: dict[Log, trio.Event] = {}

    async def flush(self, logs: Iterable[Log]) -> None:
        """Return once everything in `logs` at this moment survives a power loss.

        Raises:
            KafkaError: A log is offline, or its sync was refused; the others are flushed. Every caller that waits for a failed
                sync gets the error.
        """
        for failure in (await self.flush_each(logs)).values():
            raise failure

    async def flush_each(self, logs: Iterable[Log]) -> dict[Log, KafkaError]:
        """Flush as `flush`, all logs at the same time. Return the errors of those that failed, in the order of `logs`."""
        wanted = {log: log.log_end_offset for log in logs}
        failed: dict[Log, KafkaError] = {}

        async def flush(log: Log, up_to: int) -> None:
            try:
                await self._flush_one(log, up_to)
            except KafkaError as error:
                failed[log] = error

        if len(wanted) == 1:
            for log, up_to in wanted.items():
                await flush(log, up_to)
        elif wanted:
            async with trio.open_nursery() as nursery:
                for log, up_to in wanted.items():
                    nursery.start_soon(flush, log, up_to)
        return {log: failed[log] for log in wanted if log in failed}

    async def wait_for(self, logs: Iterable[Log]) -> None:
        """Return once no sync of these logs is running. The caller must ensure that none starts."""
        for log in logs:
            while (running := self._running.get(log)) is not None:
                await running.wait()

    async def _flush_one(self, log: Log, up_to: int) -> None:
        while log.recovery_point < up_to:
            running = self._running.get(log)
            if running is None:
                await self._sync(log, log.begin_flush())
            else:
                await running.wait()

    async def flush_sealed(self, logs: Iterable[Log]) -> None:
        """Sync segments that were closed since the last flush, so that recovery after a power loss has less to read.

        A log whose sync the disk refuses is offline then; the others are still synced.
        """
        for log in logs:
            if log.failure is None and log not in self._running:
                with suppress(KafkaError):
                    await self._sync(log, log.begin_flush_of_sealed())

    async def _sync(self, log: Log, flush: Flush | None) -> None:
        if flush is None:
            return
        done = self._running[log] = trio.Event()
        begun_s = trio.current_time()
        try:
            await in_thread(Work.SYNC, data_dir_of(log), flush.sync)
            log.end_flush(flush, self._clock.elapsed_ms())
            self._moved(log)
        except OSError as error:
            failure = log.fail(error, flush.health)
            logger.error("%s", failure.message)
            raise failure from error
        except KafkaError:
            raise
        except Exception as error:
            # Memory or a thread was missing: nothing may count as flushed, and waiting callers get the error of a refused sync.
            logger.exception("cannot sync %s", log.topic_partition)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot sync {log.topic_partition}: {error!r}") from error
        finally:
            self.timer.update(trio.current_time() - begun_s)
            del self._running[log]
            done.set()
