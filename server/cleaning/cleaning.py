"""Runs clean passes: picks the filthiest log, cleans it in a worker thread, swaps on the Trio thread.

One task per cleaner thread (`log.cleaner.threads`). Each round cleans one log, what somebody asks for first (`demands`), then
runs retention on all compacted logs that are free (they get theirs from here, not from the retention job), and waits
`log.cleaner.backoff.ms` if there was nothing to clean.
Source: Apache Kafka's LogCleaner; KIP-346 (a log that cannot be cleaned is left alone).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.cleaning.cleaner_manager import CleanerManager
from ...storage.cleaning.dirtiness import LogToClean
from ...storage.disk.files import Files, WouldWaitError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.logs.retention import may_have_deletable
from ...storage.steps import Steps
from ...storage.topics.config import LogConfig
from ..config.live_config import LiveConfig
from ..partitions.waits import FetchWaits
from ..runtime.clock import Clock
from ..runtime.threads import Work, bring, in_thread
from ..runtime.time_slices import TimeSlice, run_cooperatively
from .clean_pass import Throttler, clean, is_worth_it, report
from .demands import Demand, DemandResult, Demands
from .threads import CleanerSettings, CleanerThread
from .watched import WatchedPasses

if TYPE_CHECKING:
    from ...storage.cleaning.cleaner import Cleaner
    from ...storage.cleaning.eligibility import Eligibility
    from .advice import CleanerStatus, LastPass
    from .watched import WatchedPass

log = logging.getLogger("ottla.cleaner")

# So many are looked at for something to delete before others may have their turn: a tenth of a millisecond.
LOGS_AT_ONCE = 16


class Cleaning:
    """The cleaner threads of one broker, and the way to keep them off a partition."""

    def __init__(
        self, files: Files, logs: Mapping[TopicPartition, Log], live_config: LiveConfig, clock: Clock, waits: FetchWaits
    ) -> None:
        self.logs = logs
        self._live_config = live_config
        self.clock = clock
        self._waits = waits
        self._is_stopping = False
        self.manager = CleanerManager(files, logs, log.warning)
        self.demands = Demands()
        self.dry_running = trio.Lock()
        """Held by the one dry run that is under way."""
        self.manager.on_freed = lambda _: self.demands.note_change()
        self.leased_until_ms: dict[TopicPartition, int] = {}
        """Partitions that somebody else compacts (`leases`), and until when, in elapsed time."""
        self.throttler = Throttler(live_config.current.log_cleaner_io_max_bytes_per_second)
        self.threads: list[CleanerThread] = []
        self._settings = CleanerSettings.of(live_config.current)
        self.looked_at_ms: int | None = None
        """When a thread looked for a log to clean last, in elapsed time."""
        self._passes: dict[TopicPartition, tuple[int, LastPass]] = {}
        """How many passes came to their end since the start, and the last of them."""
        self.watched = WatchedPasses()
        self._waiting: dict[TopicPartition, list[Callable[[], None]]] = {}
        """Who waits for a pass that is being given up."""
        self._calls = 0
        """How often a round was wanted at once."""
        self._restart = trio.CancelScope()
        self._restarting = False
        self._now_s: Callable[[], float]

    async def run(self) -> None:
        """Clean until cancelled; `reconfigure` starts the threads anew with the options of that moment."""
        self._now_s = trio.lowlevel.current_clock().current_time
        while True:
            self._settings = settings = CleanerSettings.of(self._live_config.current)
            self.threads = [CleanerThread() for _ in range(settings.threads)] if self._is_enabled else []
            self._restarting = False
            self._give_back_if_off()
            with trio.CancelScope() as self._restart:
                async with trio.open_nursery() as nursery:
                    for thread in self.threads:
                        nursery.start_soon(self._work, thread, settings)
                await trio.sleep_forever()  # switched off, or every thread is dead

    @property
    def _is_enabled(self) -> bool:
        return self._live_config.current.log_cleaner_enable

    def reconfigure(self) -> None:
        """Take on changed options. Passes in progress are given up and redone, unless only their speed has changed."""
        config = self._live_config.current
        self.throttler.set_limit(config.log_cleaner_io_max_bytes_per_second, trio.current_time())
        if CleanerSettings.of(config) != self._settings:
            self._restarting = True
            self._restart.cancel()
            self.throttler.wake()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopping

    def stop(self) -> None:
        """The broker is stopping: let passes find out at once that they must end."""
        self._is_stopping = True
        self.throttler.wake()
        self.demands.give_back_all()
        self.demands.note_change()

    def look_again(self) -> None:
        """Begin a round at once, whatever is left of the back-off."""
        self.repeat_rounds()
        for thread in self.threads:
            thread.rest.cancel()

    def repeat_rounds(self) -> None:
        """Let rounds that are under way be followed by others at once: what they looked at is another way by now."""
        self._calls += 1

    async def _work(self, thread: CleanerThread, settings: CleanerSettings) -> None:
        """One cleaner thread."""
        while not (thread.is_dead or self._is_stopping):
            calls = self._calls
            with self.clock.at_work():
                is_busy = await self._round(thread, settings)
                if not is_busy and thread.cleaner is not None and thread.cleaner.keeps_memory:
                    await trio.to_thread.run_sync(thread.cleaner.release_memory)
            if not is_busy and calls == self._calls:
                thread.rests_until_ms = self.clock.elapsed_ms() + settings.backoff_ms
                with trio.CancelScope() as thread.rest:
                    await self.clock.sleep(settings.backoff_ms)
                thread.rests_until_ms = None
            await trio.lowlevel.checkpoint()
        self._give_back_if_off()

    @property
    def looks_again_ms(self) -> int | None:
        """When the first cleaner thread looks for something to do again, in elapsed time; None: one is at it, or none runs."""
        rests = [thread.rests_until_ms for thread in self.threads if not thread.is_dead]
        return min((each for each in rests if each is not None), default=None) if None not in rests else None

    async def _round(self, thread: CleanerThread, settings: CleanerSettings) -> bool:
        """Clean one log, and delete from all. Returns whether to look for the next one at once."""
        is_busy = False
        try:
            if (demand := self.demands.take()) is not None:
                is_busy = await self._serve(thread, settings, demand)
            elif (chosen := await self._choose()) is not None:
                is_busy = (await self._clean_one(thread, settings, chosen)).is_busy
        except Exception:
            log.exception("a round of the cleaner failed; the next round continues")
        # Whatever became of that: where a disk is full, this is what makes room.
        try:
            await self._write_corrections()
            await self.delete_from_compacted_logs()
        except Exception:
            log.exception("retention of compacted logs failed; the next round continues")
        return is_busy

    async def _serve(self, thread: CleanerThread, settings: CleanerSettings, demand: Demand) -> bool:
        """One pass that somebody asked for. Returns as above."""
        served, failure = DemandResult.GIVEN_UP, None
        try:
            if not demand.log.is_surveyed:
                await in_thread(Work.READ, data_dir_of(demand.log), demand.log.survey)
            chosen = await run_cooperatively(
                self.manager.take(demand.log, self.clock.now_ms(), is_forced=demand.is_forced), TimeSlice()
            )
            if chosen is None:
                # Of a log that somebody else has, who asked waits for its end.
                served = DemandResult.NOT_DUE if self.manager.is_available(demand.log) else DemandResult.GIVEN_UP
            else:
                demand.up_to = chosen.upper_offset
                ended = await self._clean_one(thread, settings, chosen, is_forced=demand.is_forced)
                served, failure = ended.served, ended.failure
        except Exception as error:
            failure = f"{demand.log.topic_partition} cannot be cleaned: {str(error) or type(error).__name__}"
            raise
        finally:
            demand.end(served, failure)
            self._give_back_if_off()
        return True

    async def _choose(self) -> LogToClean | None:
        """The log for this round."""
        for each in self.manager.unsurveyed():
            await in_thread(Work.READ, data_dir_of(each), each.survey)
        self.looked_at_ms = self.clock.elapsed_ms()
        return await run_cooperatively(self.manager.filthiest(self.clock.now_ms()))

    async def _write_corrections(self) -> None:
        for data_dir in self.manager.dirs_to_correct:
            await in_thread(Work.CLEAN, data_dir, self.manager.write_corrections, data_dir)

    async def _clean_one(
        self, thread: CleanerThread, settings: CleanerSettings, chosen: LogToClean, *, is_forced: bool = False
    ) -> _EndedPass:
        """One pass over the log that was chosen."""
        try:
            cleaner = thread.cleaner or await in_thread(
                Work.CLEAN, data_dir_of(chosen.log), thread.make_ready, settings
            )
            if cleaner is None:
                return _EndedPass(DemandResult.GIVEN_UP, is_busy=False)
            ended = _EndedPass(DemandResult.GIVEN_UP)
            # A pass ends by its own checkpoints, never in the middle of a swap.
            watching = self.watched.watching(chosen, self.clock.now_ms(), is_forced=is_forced)
            with trio.CancelScope(shield=True), watching as watched:
                ended = await self._pass(thread, cleaner, chosen, watched)
            return ended
        finally:
            self.manager.done_cleaning(chosen)
            self._waits.replaced(chosen.log)

    async def _pass(
        self, thread: CleanerThread, cleaner: Cleaner, chosen: LogToClean, watched: WatchedPass
    ) -> _EndedPass:
        """The pass, and what is known after it."""
        from ...storage.cleaning.cleaner import CleaningAbortedError
        from .advice import LastPass

        manager, partition = self.manager, chosen.log.topic_partition
        must_stop = partial(self._must_stop, partition)
        work = partial(
            clean,
            cleaner,
            chosen,
            clock=self.clock,
            now_s=self._now_s,
            throttler=self.throttler,
            must_stop=must_stop,
            watched=watched,
        )
        try:
            if watched.is_forced and not chosen.cleanable_bytes:
                look = partial(is_worth_it, chosen, self.clock.now_ms(), must_stop)
                if not await in_thread(Work.CLEAN, data_dir_of(chosen.log), look):
                    return _EndedPass(DemandResult.NOT_DUE)
            end_offset, stats = await in_thread(Work.CLEAN, data_dir_of(chosen.log), work)
        except CleaningAbortedError:
            await self._save(chosen, chosen.first_dirty_offset)
            return _EndedPass(DemandResult.GIVEN_UP)
        except OSError as error:
            message = chosen.log.fail(error).message
            log.error("clean pass failed: %s", message)
            manager.put_off(partition)
            return _EndedPass(DemandResult.GIVEN_UP, message)
        except MemoryError:
            message = f"{partition} cannot be cleaned now: out of memory"
            log.error("%s", message)
            manager.put_off(partition)
            return _EndedPass(DemandResult.GIVEN_UP, message)
        except Exception as error:
            # Whatever is wrong with this log must not stop the cleaning of the others (KAFKA-7215).
            log.exception("%s cannot be cleaned and is marked uncleanable", partition)
            manager.mark_uncleanable(partition, str(error) or type(error).__name__)
            return _EndedPass(DemandResult.GIVEN_UP, is_busy=False)
        if (refused := await self._save(chosen, end_offset)) is not None:
            return _EndedPass(DemandResult.GIVEN_UP, refused)
        thread.last_stats = stats
        passes, _ = self._passes.get(partition, (0, None))
        last_pass = LastPass(end_offset, self.clock.now_ms(), stats)
        self._passes[partition] = passes + 1, last_pass
        self.watched.passed(partition, watched)
        self.demands.passed(partition, last_pass)
        report(chosen, end_offset, stats)
        return _EndedPass(DemandResult.PASSED)

    def _must_stop(self, partition: TopicPartition) -> bool:
        return self._is_stopping or self._restarting or self.manager.is_aborting(partition)

    async def _save(self, cleaned: LogToClean, end_offset: int) -> str | None:
        """Write the checkpoint, unless somebody asked for the partition meanwhile. Returns what the disk said against it."""
        try:
            await in_thread(Work.CLEAN, data_dir_of(cleaned.log), self.manager.save_end_offset, cleaned, end_offset)
        except OSError as error:
            # The pass counts for nothing. It would be the same again, at once, and so on.
            message = cleaned.log.fail(error).message
            log.error("%s", message)
            self.manager.put_off(cleaned.log.topic_partition)
            return message
        return None

    async def delete_from_compacted_logs(self) -> None:
        """Retention of every free compacted log (by log start always; by size and time with policy delete too)."""
        self.manager.review_marks()
        await self.retain(self.logs.values(), compacted=True)

    async def retain(self, logs: Iterable[Log], *, compacted: bool) -> None:
        """Retention of those of `logs` that are free, one after the other, and compacted or not."""
        time_slice, left = TimeSlice(), iter(logs)
        while some := [*islice(left, LOGS_AT_ONCE)]:
            if time_slice.is_over():
                await time_slice.next()
            now_ms = self.clock.now_ms()
            async for each in time_slice.each(
                [log for log in some if log.config.is_compact == compacted and may_have_deletable(log, now_ms)]
            ):
                if each.config.is_compact == compacted:
                    await self.retain_one(each)

    async def retain_one(self, candidate: Log) -> Deleted | None:
        """Retention of one log, if it is free; None if not. What goes wrong is told to the operator, too."""
        if not self.manager.begin_retention(candidate, compacted=candidate.config.is_compact):
            return None
        done = Deleted()
        try:
            await self._delete_old_segments(candidate, done)
        finally:
            self.manager.done_deleting([candidate.topic_partition])
        return done

    async def _delete_old_segments(self, candidate: Log, done: Deleted) -> None:
        """Retention of one log that is held for it. What goes wrong there is told, and is that log's affair alone."""
        try:
            # Thousands of segments go in several steps, unless somebody wants the log.
            while await self._delete_some(candidate, done) and not self.manager.is_aborting(candidate.topic_partition):
                pass
        except OSError as error:
            done.failure = candidate.fail(error).message
            log.error("%s", done.failure)
        except KafkaError as error:
            done.failure = error.message
            log.error("%s", error.message)
        except Exception as error:
            done.failure = f"retention of {candidate.topic_partition} failed: {error}"
            log.exception("retention of %s failed", candidate.topic_partition)

    async def _delete_some(self, candidate: Log, done: Deleted) -> bool:
        """Whether there are more to go."""
        clock = self.clock
        try:
            deletion = candidate.begin_deletion(clock.now_ms(), at_once=True)
        except WouldWaitError as cold:
            await bring(cold, candidate)
            deletion = candidate.begin_deletion(clock.now_ms())
        if deletion is None:
            return False
        try:
            await in_thread(Work.HOUSEKEEPING, data_dir_of(candidate), deletion.carry_out)
        finally:
            done.segments += len(deletion.renamed)
            done.size_bytes += sum(segment.size_bytes for segment in deletion.renamed)
            candidate.end_deletion(deletion, clock.elapsed_ms())
            self._waits.changed(candidate.topic_partition)
        return deletion.has_more

    def log_reconfigured(self, changed: Log, config: LogConfig) -> None:
        """Give `changed` its new configuration; a pass over a log that is no longer compacted is given up.

        A log that was found uncleanable is tried again with it (KAFKA-19895).
        """
        was_compact, partition = changed.config.is_compact, changed.topic_partition
        if config != changed.config:
            self.manager.retry(partition)
        changed.config = config
        self.demands.note_change()
        if was_compact and not config.is_compact and self.manager.is_busy(partition):
            self._pause_then(partition, partial(self.resume, partition))

    async def pause(self, partition: TopicPartition) -> None:
        """Return once no pass touches `partition`, and none will until `resume`."""
        paused = trio.Event()
        self._pause_then(partition, paused.set)
        try:
            await paused.wait()
        except trio.Cancelled:
            # Nobody is left who would resume it.
            if paused.is_set():
                self.resume(partition)
            else:
                waiting = self._waiting[partition]
                waiting[waiting.index(paused.set)] = partial(self.resume, partition)
            raise

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
            self.throttler.wake()

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

    async def forget(self, data_dir: str, partitions: Collection[TopicPartition]) -> None:
        """Paused partitions of a data directory were deleted: their checkpoint entries, marks and counts go."""
        for partition in partitions:
            self._passes.pop(partition, None)
            self.watched.forget(partition)
        try:
            await in_thread(Work.CATALOG, data_dir, self.manager.forget, data_dir, partitions)
        except Exception as error:  # noqa: BLE001 - they are gone all the same, and their names are to be free
            log.error("cannot write the cleaner checkpoint of %s: %s", data_dir, error)
        finally:
            self.manager.resume(partitions)

    def statuses(
        self,
        logs: Sequence[Log],
        *,
        with_ways: bool = True,
        aborted_at_ms: Callable[[int], int | None] = lambda _: None,
    ) -> Iterator[Steps[CleanerStatus]]:
        """What the cleaner says of each of these logs, when it is asked for the next one: in pieces, as a log may be long.

        Args:
            with_ways: Whether to find out what would make them eligible, too, which takes ten times as long.
            aborted_at_ms: Producer id -> when its open transaction is put an end to, in ms since 1970, if that is known.
        """
        found = self.manager.assessments(
            logs,
            self.clock.now_ms(),
            cleaner_off=self.why_off(),
            with_ways=with_ways,
            held_until_ms=self._held_until_ms,
            aborted_at_ms=aborted_at_ms,
        )
        return map(self._status, logs, found)

    def _held_until_ms(self, partition: TopicPartition) -> int | None:
        """When a partition that is paused is given back, as far as that is known."""
        due_ms = self.leased_until_ms.get(partition)
        return None if due_ms is None else self.clock.wall_at(due_ms)

    def _status(self, log: Log, assessment: Steps[Eligibility]) -> Steps[CleanerStatus]:
        from .advice import CleanerStatus  # who asks has loaded it

        eligibility = yield from assessment
        return CleanerStatus(eligibility, *self._passes.get(log.topic_partition, ()))

    def why_off(self) -> str | None:
        """Why no cleaner works at all, None if one does."""
        if self._is_stopping:
            return "the broker is stopping"
        if not self._is_enabled:
            return "log.cleaner.enable is false"
        if self.threads and all(thread.is_dead for thread in self.threads):
            return (
                "all cleaner threads have ended: log.cleaner.dedupe.buffer.size and load factor leave no room for keys"
            )
        return None

    def _give_back_if_off(self) -> None:
        if self.why_off() is not None:
            self.demands.give_back_all()
            self.demands.note_change()


@dataclass(slots=True)
class Deleted:
    """What retention did to one log."""

    segments: int = 0
    size_bytes: int = 0
    failure: str | None = None
    """What went wrong, and ended it."""


class _EndedPass(NamedTuple):
    """How a pass ended."""

    served: DemandResult
    failure: str | None = None
    """What the system said against it."""
    is_busy: bool = True
    """Whether to look for the next log at once."""
