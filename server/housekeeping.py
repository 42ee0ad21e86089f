"""What the broker does without being asked: the log jobs, each at its interval on the broker's clock.

Moving the clock makes every job due that would be due at that time. Waiting for the disk happens in
worker threads; decisions and state stay on the Trio thread. Compacted logs get their retention from
`cleaning`, not from here.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..protocol.errors import KafkaError

if TYPE_CHECKING:
    from .broker import Broker

log = logging.getLogger("ottla.housekeeping")

# When to try again what could not be removed: something may hold it, or want it to be looked at.
REMOVAL_RETRY_MS = 60_000

# How often to look for sealed segments to sync, files to remove, appends whose `flush.ms` is over and idle
# connections. Apache Kafka gives each its own timer; one look a second over all costs less.
TICK_MS = 1_000


class Housekeeping:
    """The periodic jobs of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def run(self) -> None:
        """Run all jobs until cancelled."""
        config = self._broker.config
        jobs: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (TICK_MS, self.tick),
            (config.log_retention_check_interval_ms, self.retain),
            (config.log_flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points),
            (config.log_flush_start_offset_checkpoint_interval_ms, self.checkpoint_log_starts),
            (config.producer_id_expiration_check_interval_ms, self.expire_producers),
        ]
        async with trio.open_nursery() as nursery:
            for interval_ms, job in jobs:
                nursery.start_soon(self._repeat, interval_ms, job)

    async def _repeat(self, interval_ms: int, job: Callable[[], Awaitable[None]]) -> None:
        clock = self._broker.clock
        due_ms = clock.elapsed_ms() + min(interval_ms, self._broker.config.log_initial_task_delay_ms)
        while True:
            await clock.sleep_until(due_ms)
            due_ms = clock.elapsed_ms() + interval_ms
            await _attempt(job.__name__, job)
            if interval_ms == 0:
                return  # once, as Apache Kafka's scheduler has it

    async def tick(self) -> None:
        """The jobs of every second. What fails in one of them, or for one log, keeps none of the others from its turn."""
        broker, elapsed_ms = self._broker, self._broker.clock.elapsed_ms()
        idle_ms = broker.config.connections_max_idle_ms
        if idle_ms >= 0:
            await broker.connections.close_idle(idle_ms)
        for removal in broker.logs.due_deletions(elapsed_ms):
            if not await _attempt(f"removing {removal.path}", partial(trio.to_thread.run_sync, removal)):
                removal.put_off(elapsed_ms + REMOVAL_RETRY_MS)
        for each in broker.logs.logs_to_flush(elapsed_ms):
            await _attempt(f"flushing {each.topic_partition}", partial(broker.flusher.flush, [each]))
        for each in [each for each in broker.logs.logs.values() if each.has_unflushed_segments]:
            await _attempt(f"flushing {each.topic_partition}", partial(broker.flusher.flush_sealed, [each]))

    async def retain(self) -> None:
        """Retention by size, time and log start of every log without compaction that nobody holds."""
        cleaning = self._broker.cleaning
        for candidate in cleaning.manager.begin_retention():
            try:
                cleaning.delete_old_segments(candidate)
            finally:
                cleaning.resume(candidate.topic_partition)

    async def checkpoint_recovery_points(self) -> None:
        """Write how far each log is known to be on disk."""
        await trio.to_thread.run_sync(self._broker.logs.checkpoint_recovery_points)

    async def checkpoint_log_starts(self) -> None:
        """Write the log start offsets that DeleteRecords moved."""
        await trio.to_thread.run_sync(self._broker.logs.checkpoint_log_starts)

    async def expire_producers(self) -> None:
        """Forget producers that have been idle for `producer.id.expiration.ms`."""
        clock = self._broker.clock
        self._broker.logs.expire_producers(clock.now_ms(), clock.elapsed_ms())


async def _attempt(name: str, job: Callable[[], Awaitable[object]]) -> bool:
    """Do `job`; whatever is wrong with it is told to the operator. Returns whether it was done."""
    try:
        await job()
    except (OSError, KafkaError) as error:
        log.error("%s: %s", name, error)
    except Exception:
        log.exception("%s failed; it is tried again at its next time", name)
    else:
        return True
    return False
