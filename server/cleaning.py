"""Runs clean passes: picks the filthiest log, cleans it in a worker thread, swaps on the Trio thread.

One task per cleaner thread (`log.cleaner.threads`). Each round cleans one log, then runs retention on all
compacted logs that are free (they get theirs from here, not from the retention job), and waits
`log.cleaner.backoff.ms` if there was nothing to clean.
Source: Apache Kafka's LogCleaner; KIP-346 (a log that cannot be cleaned is left alone).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio
import trio.from_thread

from ..protocol.errors import KafkaError
from ..storage.cleaner_manager import CleanerManager, MeasuringError
from ..storage.config import LogConfig
from ..storage.dirtiness import LogToClean
from ..storage.log import Log
from ..storage.paths import TopicPartition
from ..storage.segment import LogSegment

# The cleaner itself is imported when the first log needs it: most short-lived brokers never clean.
if TYPE_CHECKING:
    from ..storage.cleaner import Cleaner, CleanStats
    from .broker import Broker
    from .config import BrokerConfig

log = logging.getLogger("ottla.cleaner")


class Cleaning:
    """The cleaner threads of one broker, and the way to keep them off a partition."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.manager = CleanerManager(broker.files, broker.logs.logs)
        self._waiting: dict[TopicPartition, list[Callable[[], None]]] = {}
        """Who waits for a pass that is being given up."""
        self._restart = trio.CancelScope()
        self._restarting = False

    async def run(self) -> None:
        """Clean until cancelled; `reconfigure` starts the threads anew with the options of that moment."""
        while True:
            config = self._broker.config
            self._restarting = False
            with trio.CancelScope() as self._restart:
                if not config.log_cleaner_enable:
                    await trio.sleep_forever()
                async with trio.open_nursery() as nursery:
                    for _ in range(config.log_cleaner_threads):
                        nursery.start_soon(self._work, config)

    def reconfigure(self) -> None:
        """Take on changed options; passes in progress are given up and redone."""
        self._restarting = True
        self._restart.cancel()

    async def _work(self, config: BrokerConfig) -> None:
        """One cleaner thread."""
        clock = self._broker.clock
        cleaner: Cleaner | None = None
        while True:
            cleaned = False
            try:
                chosen = self.manager.filthiest(clock.now_ms())
                if chosen is not None:
                    cleaner = cleaner or _cleaner(config)
                    cleaned = await self._clean_one(cleaner, chosen)
                self.delete_from_compacted_logs()
                self.manager.review_marks()
            except (MeasuringError, OSError) as error:
                log.error("%s", error)
            except Exception:
                log.exception("a round of the cleaner failed; the next one goes on")
            if not cleaned:
                await clock.sleep_until(clock.now_ms() + config.log_cleaner_backoff_ms)
            await trio.lowlevel.checkpoint()

    async def _clean_one(self, cleaner: Cleaner, chosen: LogToClean) -> bool:
        """One pass over the log that was chosen; False if it came to nothing."""
        from ..storage.cleaner import CleaningAbortedError

        manager, now_ms = self.manager, self._broker.clock.now_ms()
        partition = chosen.log.topic_partition
        started = trio.current_time()
        # A pass ends by its own checkpoints, never in the middle of a swap.
        with trio.CancelScope(shield=True):
            try:
                end_offset, stats = await trio.to_thread.run_sync(self._clean, cleaner, chosen, now_ms)
            except CleaningAbortedError:
                await self._save(chosen, chosen.first_dirty_offset)
                return False
            except OSError as error:
                log.error("%s: %s", partition, chosen.log.fail(error).message)
                await self._save(chosen, chosen.first_dirty_offset)
                return False
            except Exception as error:
                # Whatever is wrong with this log must not stop the cleaning of the others (KAFKA-7215).
                log.exception("%s cannot be cleaned and is left alone from now on", partition)
                manager.mark_uncleanable(partition, str(error))
                return False
            else:
                await self._save(chosen, end_offset)
            finally:
                manager.done_cleaning(chosen)
        _report(partition, chosen, end_offset, stats, trio.current_time() - started)
        return True

    async def _save(self, cleaned: LogToClean, end_offset: int) -> None:
        """Write the checkpoint, unless somebody asked for the partition meanwhile."""
        try:
            await trio.to_thread.run_sync(self.manager.save_end_offset, cleaned, end_offset)
        except OSError as error:
            log.error("cannot write the cleaner checkpoint of %s: %s", cleaned.log.topic_partition, error)

    def _clean(self, cleaner: Cleaner, chosen: LogToClean, now_ms: int) -> tuple[int, CleanStats]:
        """Worker thread: one pass."""
        from ..storage.clean_kernel import SECRET_BYTES
        from ..storage.cleaner import CleaningAbortedError

        broker, partition = self._broker, chosen.log.topic_partition

        def swap(new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
            chosen.log.prepare_swap(new, old)
            trio.from_thread.run_sync(chosen.log.commit_swap, new, old, broker.clock.now_ms())

        def checkpoint(_bytes_moved: int) -> None:
            if broker.stopping or self._restarting or self.manager.is_aborting(partition):
                raise CleaningAbortedError

        return cleaner.clean(chosen, now_ms, secret=os.urandom(SECRET_BYTES), swap=swap, checkpoint=checkpoint)

    def delete_from_compacted_logs(self) -> None:
        """Retention of every free compacted log (by log start always; by size and time with policy delete too)."""
        now_ms = self._broker.clock.now_ms()
        for candidate in self.manager.begin_deletion():
            try:
                candidate.delete_old_segments(now_ms)
            except KafkaError as error:
                log.error("%s", error.message)
            finally:
                self.manager.done_deleting([candidate.topic_partition])

    def log_reconfigured(self, changed: Log, config: LogConfig) -> None:
        """Give `changed` its new configuration; a pass over a log that is no longer compacted is given up."""
        was_compact = changed.config.is_compact
        changed.config = config
        partition = changed.topic_partition
        if was_compact and not config.is_compact and self.manager.is_busy(partition):
            self._pause_then(partition, partial(self.resume, partition))

    async def pause(self, partition: TopicPartition) -> None:
        """Return once no pass touches `partition`, and none will until `resume`."""
        paused = trio.Event()
        self._pause_then(partition, paused.set)
        await paused.wait()

    def _pause_then(self, partition: TopicPartition, then: Callable[[], None]) -> None:
        """Call `then` with the partition paused: at once, or when the pass that is running has been given up.

        Any number of callers may want that of one pass: a change of policy, then a deletion.
        """
        waiting = self._waiting.get(partition)
        if waiting is not None:
            waiting.append(then)
        elif self.manager.abort_and_pause(partition, partial(self._paused, partition)):
            then()
        else:
            self._waiting[partition] = [then]

    def _paused(self, partition: TopicPartition) -> None:
        """The pass was given up: everyone who waited holds a pause of their own before the first may give theirs back."""
        waiting = self._waiting.pop(partition)
        for _ in waiting[1:]:
            self.manager.abort_and_pause(partition, lambda: None)
        for then in waiting:
            then()

    def resume(self, partition: TopicPartition) -> None:
        """Take back one `pause`."""
        self.manager.resume([partition])

    async def forget(self, partition: TopicPartition, data_dir: str) -> None:
        """A paused partition was deleted: its checkpoint entry and marks go."""
        try:
            await trio.to_thread.run_sync(self.manager.forget, partition, data_dir)
        except OSError as error:
            log.error("cannot write the cleaner checkpoint of %s: %s", data_dir, error)
        self.manager.resume([partition])


def _cleaner(config: BrokerConfig) -> Cleaner:
    """The cleaner of one thread, with its share of the memory."""
    from ..storage.cleaner import Cleaner

    threads = config.log_cleaner_threads
    return Cleaner(
        dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size // threads,
        load_factor=config.log_cleaner_io_buffer_load_factor,
        io_buffer_bytes=config.log_cleaner_io_buffer_size // threads,
    )


def _report(partition: TopicPartition, cleaned: LogToClean, end_offset: int, stats: CleanStats, seconds: float) -> None:
    log.info(
        "cleaned %s from %d to %d in %.2f s: %d -> %d bytes, %d -> %d records, %d -> %d segments, map %.1f %% full",
        partition,
        cleaned.first_dirty_offset,
        end_offset,
        seconds,
        stats.bytes_read,
        stats.bytes_written,
        stats.records_read,
        stats.records_written,
        stats.segments_before,
        stats.segments_after,
        100 * stats.map_utilization,
    )
