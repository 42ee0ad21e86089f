"""Periodic jobs of the broker on its logs, each at its interval on the broker's clock.

A move of the clock makes every job due that would be due at that time. Worker threads wait for the disk; decisions and state
stay on Trio's thread. Each data directory has its own instance of each job, so a disk that hangs delays no other. `cleaning`
applies retention to compacted logs, not this module.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import trio

from ...protocol.errors import KafkaError
from ...storage.data_dirs.manager import LogManager
from ...storage.logs.log import Log
from ..cleaning.cleaning import Cleaning
from ..config.live_config import LiveConfig
from ..network.connections import Connections
from ..partitions.flusher import Flusher
from ..runtime.clock import Clock
from ..runtime.gc_policy import GcPolicy
from ..runtime.log_rate_limit import report_hidden
from ..runtime.threads import Work, in_thread
from ..runtime.time_slices import TimeSlice

if TYPE_CHECKING:
    from ..cluster.token_changes import TokenChanges

log = logging.getLogger("ottla.housekeeping")

# Interval for another attempt to remove files: another program may have them open, or an operator may want to look at them.
REMOVAL_RETRY_MS = 60_000

# Interval of the checks for sealed segments to sync, files to remove, appends whose `flush.ms` is over and idle connections.
# Apache Kafka has a timer for each; one check a second for all costs less.
TICK_MS = 1_000

# Number of logs that are checked for flushes in a millisecond.
LOGS_AT_ONCE = 5_000

# Number of logs that a worker thread creates at once, in 10 to 20 ms.
MADE_AT_ONCE = 20

# A check of ten thousand connections takes a hundredth of a second, and none of them is idle before ten minutes are over.
LOOKS_IN_IDLE_TIME = 20


class BackgroundJobs:
    """The periodic jobs of one broker."""

    def __init__(
        self,
        logs: LogManager,
        cleaning: Cleaning,
        flusher: Flusher,
        connections: Connections,
        live_config: LiveConfig,
        clock: Clock,
        collector: GcPolicy,
        tokens: TokenChanges | None = None,
    ) -> None:
        self._logs = logs
        self._cleaning = cleaning
        self._flusher = flusher
        self._connections = connections
        self._live_config = live_config
        self._clock = clock
        self._collector = collector
        self._tokens = tokens
        self._unlooked_ms = 0
        """Time since the last check for idle connections."""
        self._unmade_before: dict[str, int] = {}
        """Number of logs that were not on disk at the last call, by data directory."""
        self._locks: defaultdict[tuple[str, str], trio.Lock] = defaultdict(trio.Lock)
        """Locks by job and data directory: a caller waits for the end of a running job, and then runs it again."""

    async def run(self) -> None:
        """Run all jobs until cancelled."""
        config = self._live_config.current
        in_each_data_dir: list[tuple[int, Callable[[str], Awaitable[None]]]] = [
            (TICK_MS, self.tick),
            (TICK_MS, self.make_logs),
            (config.log_retention_check_interval_ms, self.retain),
            (config.log_flush_offset_checkpoint_interval_ms, self.checkpoint_recovery_points),
            (config.log_flush_start_offset_checkpoint_interval_ms, self.checkpoint_log_starts),
        ]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._repeat, TICK_MS, self.run_global_jobs)
            nursery.start_soon(self._repeat, config.producer_id_expiration_check_interval_ms, self.expire_producers)
            if self._tokens is not None:
                nursery.start_soon(self._repeat, config.delegation_token_expiry_check_interval_ms, self.expire_tokens)
            for data_dir in self._logs.data_dirs:
                for interval_ms, job in in_each_data_dir:
                    nursery.start_soon(self._repeat, interval_ms, partial(job, data_dir))

    async def _repeat(self, interval_ms: int, job: Callable[[], Awaitable[None]]) -> None:
        clock = self._clock
        due_ms = clock.elapsed_ms() + min(interval_ms, self._live_config.current.log_initial_task_delay_ms)
        while True:
            await clock.sleep_until(due_ms)
            due_ms = clock.elapsed_ms() + interval_ms
            with clock.at_work():
                await _attempt(_name(job), job)
            if interval_ms == 0:
                return  # once, as Apache Kafka's scheduler does

    async def run_global_jobs(self) -> None:
        """Run the jobs that belong to no data directory, every second."""
        report_hidden()
        await self.close_idle_connections()

    async def close_idle_connections(self) -> None:
        """Close connections that have been idle for `connections.max.idle.ms`, or are beyond `max.connections`."""
        self._connections.close_excess()
        idle_ms = self._live_config.current.connections_max_idle_ms
        self._unlooked_ms += TICK_MS
        if idle_ms >= 0 and self._unlooked_ms >= idle_ms // LOOKS_IN_IDLE_TIME:
            self._unlooked_ms = 0
            await self._connections.close_idle(idle_ms)

    # Each of these runs for one data directory, or for all at the same time.

    async def tick(self, data_dir: str | None = None) -> None:
        """Run the jobs of every second. An error in one of them, or for one log, does not stop the others."""
        await self._run_in(data_dir, "tick", self._tick)

    async def make_logs(self, data_dir: str | None = None) -> None:
        """Create the logs on disk that were promised since, every second. A refused one is tried again with the next call."""
        await self._run_in(data_dir, "make logs", self._make_logs)

    async def retain(self, data_dir: str | None = None) -> None:
        """Apply retention by size, time and log start to every log without compaction that is not held."""
        await self._run_in(data_dir, "retain", self._retain)

    async def checkpoint_recovery_points(self, data_dir: str | None = None) -> None:
        """Write the recovery points: up to where each log is known to be on disk."""
        await self._run_in(data_dir, "recovery points", self._checkpoint_recovery_points)

    async def checkpoint_log_starts(self, data_dir: str | None = None) -> None:
        """Write the log start offsets that DeleteRecords moved."""
        await self._run_in(data_dir, "log starts", self._checkpoint_log_starts)

    async def _run_in(self, data_dir: str | None, name: str, job: Callable[[str], Awaitable[None]]) -> None:
        async def do(data_dir: str) -> None:
            async with self._locks[name, data_dir]:
                await job(data_dir)

        if data_dir is not None:
            await do(data_dir)
            return
        async with trio.open_nursery() as nursery:
            for each in self._logs.data_dirs:
                nursery.start_soon(_attempt, f"{name} of {each}", partial(do, each))

    async def _tick(self, data_dir: str) -> None:
        elapsed_ms = self._clock.elapsed_ms()
        for removal in self._logs.due_deletions(data_dir, elapsed_ms):
            remove = partial(in_thread, Work.BACKGROUND, data_dir, removal)
            if not await _attempt(f"removing {removal.path}", remove):
                removal.put_off(elapsed_ms + REMOVAL_RETRY_MS)
        time_slice, logs = TimeSlice(), iter(self._logs.logs.values())
        while some := [*islice(logs, LOGS_AT_ONCE)]:
            if time_slice.is_over():
                await time_slice.next()
            here = [each for each in Log.wanting_flush(some, elapsed_ms) if each.data_dir == data_dir]
            await self._flush_due(here, elapsed_ms, time_slice)

    async def _make_logs(self, data_dir: str) -> None:
        refused: KafkaError | None = None
        unmade = self._logs.unmade(data_dir)
        had, self._unmade_before[data_dir] = self._unmade_before.get(data_dir, 0), len(unmade)
        del unmade[had:]  # newer ones wait: their topics may still be in creation, on the same disk
        unmade.reverse()
        while unmade:
            # These may be the last references, if the topic has been deleted: thousands at once would take a tenth of a second.
            some = unmade[-MADE_AT_ONCE:]
            del unmade[-MADE_AT_ONCE:]
            refused = await in_thread(Work.BACKGROUND, data_dir, _create_logs, some) or refused
            self._collector.look_at_new()
        if refused is not None:
            raise refused

    async def _flush_due(self, logs: Sequence[Log], elapsed_ms: int, time_slice: TimeSlice) -> None:
        async for each in time_slice.each(logs):
            if each.is_flush_due(elapsed_ms):
                await _attempt(f"flushing {each.topic_partition}", partial(self._flusher.flush, [each]))
            elif each.has_unflushed_segments:
                await _attempt(f"flushing {each.topic_partition}", partial(self._flusher.flush_sealed, [each]))

    async def _retain(self, data_dir: str) -> None:
        await self._cleaning.retain(self._logs.logs_in(data_dir), compacted=False)

    async def _checkpoint_recovery_points(self, data_dir: str) -> None:
        await in_thread(Work.BACKGROUND, data_dir, self._logs.checkpoint_recovery_points, data_dir)

    async def _checkpoint_log_starts(self, data_dir: str) -> None:
        await in_thread(Work.BACKGROUND, data_dir, self._logs.checkpoint_log_starts, data_dir)

    async def expire_producers(self) -> None:
        """Forget producers that have been idle for `producer.id.expiration.ms`."""
        clock, time_slice = self._clock, TimeSlice()
        async for _ in time_slice.each(self._logs.expire_producers(clock.now_ms(), clock.elapsed_ms())):
            pass

    async def expire_tokens(self) -> None:
        """Delete delegation tokens that have expired."""
        if self._tokens is not None:
            await self._tokens.sweep(self._clock.now_ms())


def _name(job: Callable[..., object]) -> str:
    return " of ".join((job.func.__name__, *job.args)) if isinstance(job, partial) else job.__name__


async def _attempt(name: str, job: Callable[[], Awaitable[object]]) -> bool:
    """Run `job`; errors are logged. Returns whether it succeeded."""
    try:
        await job()
    except (OSError, KafkaError) as error:
        log.error("%s: %s", name, error)
    except Exception:
        log.exception("%s failed; it is retried at its next scheduled time", name)
    else:
        return True
    return False


def _create_logs(logs: Sequence[Log]) -> KafkaError | None:
    """Create these logs. An error does not stop the others, and is returned."""
    refused = None
    for each in logs:
        try:
            if each.failure is None:
                each.make()
        except KafkaError as error:
            if each.failure is None:  # neither deleted, nor on a failed disk, which has been logged
                refused = error
    return refused
