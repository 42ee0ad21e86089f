"""Makes appends durable before they are answered, many at a time (group commit).

`flush.messages` asks for it, whoever writes. While one sync of a log runs, requests that come meanwhile wait for the
next one together, so a hundred producers cost two syncs, not a hundred. Logs that one request wrote to are synced together,
and one that hangs holds up nobody but those who wait for it.

Apache Kafka syncs within the append, under the log's lock. Here the append returns before, so each of those who build on
it waits for itself: readers of the log do not see it (its high watermark), coordinators answer later
(`CoordinatorService.settle`), and a transaction's next step is taken later (`when_flushed`).
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
    """Syncs logs in worker threads, one sync a log at a time."""

    def __init__(self, clock: Clock, moved: Callable[[Log], None]) -> None:
        """`moved` tells the readers of a log that there may be more: of who asked for a sync nobody may be left."""
        self.timer = Timer()
        """Of every sync here; a clean pass does its own."""
        self._clock = clock
        self._moved = moved
        self._running: dict[Log, trio.Event] = {}

    async def flush(self, logs: Iterable[Log]) -> None:
        """Return once everything in `logs` at this moment survives a power loss.

        Raises:
            KafkaError: One of them is offline, or its sync was refused; the others are flushed. Everybody who waits for a
                sync that fails is told.
        """
        for failure in (await self.flush_each(logs)).values():
            raise failure

    async def flush_each(self, logs: Iterable[Log]) -> dict[Log, KafkaError]:
        """As `flush`, all at the same time; returns what became of those that failed, in the order of `logs`."""
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
        """Return once no sync of these logs is under way; the caller sees to it that none begins."""
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
        """Sync segments that were closed since, so that recovery after a power loss has less to read.

        A log that the disk refuses is offline then; the others are not kept from theirs.
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
            # No memory, no thread: nothing is vouched for, and those who wait are answered as by a disk that refuses.
            logger.exception("cannot sync %s", log.topic_partition)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"cannot sync {log.topic_partition}: {error!r}") from error
        finally:
            self.timer.update(trio.current_time() - begun_s)
            del self._running[log]
            done.set()
