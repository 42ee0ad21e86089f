"""Runs clean passes: picks the filthiest log, cleans it in a worker thread, swaps on the Trio thread.

One task per cleaner thread (`log.cleaner.threads`). Each round cleans one log, requested ones (`clean_requests`) first. Then
it runs retention on all compacted logs that are free (the retention job leaves them to the cleaner), and waits
`log.cleaner.backoff.ms` if it cleaned nothing.

Source: Apache Kafka's LogCleaner; KIP-346 (a log that cannot be cleaned is skipped).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import trio

from ...protocol.errors import KafkaError
from ...storage.cleaning.cleaner_checkpoints import data_dir_of
from ...storage.cleaning.cleaner_manager import CleanerManager
from ...storage.cleaning.dirtiness import LogToClean
from ...storage.disk.files import AbortedError, Files, WouldWaitError
from ...storage.disk.paths import TopicPartition
from ...storage.logs.log import Log
from ...storage.logs.retention import is_active_aged, may_have_deletable
from ...storage.steps import Steps
from ...storage.topics.config import LogConfig
from ..config.live_config import LiveConfig
from ..partitions.waits import FetchWaits
from ..runtime.clock import Clock
from ..runtime.threads import Work, in_thread, load_cold
from ..runtime.time_slices import TimeSlice, run_cooperatively
from .clean_pass import clean, is_worth_it, report
from .clean_requests import CleanOutcome, CleanRequest, CleanRequests
from .threads import CleanerSettings, CleanerThread
from .throttler import Throttler
from .watched import ActivePasses

if TYPE_CHECKING:
    from ...storage.cleaning.cleaner import Cleaner, CleanStats
    from ...storage.cleaning.eligibility import Eligibility
    from .advice import CleanerStatus, LastPass
    from .watched import ActivePass

log = logging.getLogger("ottla.cleaner")

# This many logs are checked for deletable segments before the task yields: a tenth of a millisecond.
LOGS_AT_ONCE = 16


class Cleaning:
    """The cleaner threads of one broker. Other operations use it to keep them off a partition."""

    def __init__(
        self, files: Files, logs: Mapping[TopicPartition, Log], live_config: LiveConfig, clock: Clock, waits: FetchWaits
    ) -> None:
        self.logs = logs
        self._live_config = live_config
        self.clock = clock
        self._waits = waits
        self._is_stopping = False
        self.manager = CleanerManager(files, logs, log.warning)
        self.clean_requests = CleanRequests()
        self.dry_running = trio.Lock()
        """Held during a dry run: at most one runs at a time."""
        self.manager.on_freed = lambda _: self.clean_requests.note_change()
        self.leased_until_ms: dict[TopicPartition, int] = {}
        """Partitions that another process compacts (`leases`), with the lease's expiry in elapsed time."""
        self.throttler = Throttler(live_config.current.log_cleaner_io_max_bytes_per_second)
        self.threads: list[CleanerThread] = []
        self._settings = CleanerSettings.from_config(live_config)
        self.looked_at_ms: int | None = None
        """When a thread last selected a log, in elapsed time."""
        self._passes: dict[TopicPartition, tuple[int, LastPass]] = {}
        """Number of completed passes since the start, and the last of them, by partition."""
        self.watched = ActivePasses()
        self._waiting: dict[TopicPartition, list[Callable[[], None]]] = {}
        """Callbacks of callers that wait until a pass stops."""
        self._calls = 0
        """Number of requests for a round at once."""
        self._restart = trio.CancelScope()
        self._restarting = False
        self._now_s: Callable[[], float]

    async def run(self) -> None:
        """Run the cleaner until cancelled; `reconfigure` restarts the threads with the options of that moment."""
        self._now_s = trio.lowlevel.current_clock().current_time
        while True:
            self._settings = settings = CleanerSettings.from_config(self._live_config)
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
        """Apply changed options. Passes in progress are stopped and redone, unless only the throttle has changed."""
        config = self._live_config.current
        self.throttler.set_limit(config.log_cleaner_io_max_bytes_per_second, trio.current_time())
        if CleanerSettings.from_config(self._live_config) != self._settings:
            self._restarting = True
            self._restart.cancel()
            self.throttler.wake()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._is_stopping

    def stop(self) -> None:
        """Prepare for the broker's stop: passes notice at once that they must end."""
        self._is_stopping = True
        self.throttler.wake()
        self.clean_requests.give_back_all()
        self.clean_requests.note_change()

    def look_again(self) -> None:
        """Start a round at once, regardless of the back-off."""
        self.repeat_rounds()
        for thread in self.threads:
            thread.rest.cancel()

    def repeat_rounds(self) -> None:
        """Make present rounds start another one without a back-off, since what they have looked at has changed."""
        self._calls += 1

    async def _work(self, thread: CleanerThread, settings: CleanerSettings) -> None:
        """Run one cleaner thread."""
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
        """When the first cleaner thread will look for work again, in elapsed time; None: a thread is working, or none runs."""
        rests = [thread.rests_until_ms for thread in self.threads if not thread.is_dead]
        return min((each for each in rests if each is not None), default=None) if None not in rests else None

    async def _round(self, thread: CleanerThread, settings: CleanerSettings) -> bool:
        """Clean one log, and delete from all. Return whether to look for the next one at once."""
        is_busy = False
        try:
            if (clean_request := self.clean_requests.take()) is not None:
                is_busy = await self._serve(thread, settings, clean_request)
            elif (chosen := await self._choose()) is not None:
                is_busy = (await self._clean_one(thread, settings, chosen)).is_busy
        except Exception:
            log.exception("a round of the cleaner failed; the next round continues")
        # Run after any outcome: on a full disk, retention makes room.
        try:
            await self._write_corrections()
            await self.delete_from_compacted_logs()
        except Exception:
            log.exception("retention of compacted logs failed; the next round continues")
        return is_busy

    async def _serve(self, thread: CleanerThread, settings: CleanerSettings, clean_request: CleanRequest) -> bool:
        """Run one requested pass. Return whether to look for the next log at once."""
        served, failure = CleanOutcome.GIVEN_UP, None
        try:
            if not clean_request.log.is_surveyed:
                await in_thread(Work.READ, data_dir_of(clean_request.log), clean_request.log.survey)
            chosen = await run_cooperatively(
                self.manager.take(clean_request.log, self.clock.now_ms(), is_forced=clean_request.is_forced),
                TimeSlice(),
            )
            if chosen is None:
                # If another operation has the log, the caller waits until it ends.
                served = CleanOutcome.NOT_DUE if self.manager.is_available(clean_request.log) else CleanOutcome.GIVEN_UP
            else:
                clean_request.up_to = chosen.upper_offset
                chosen = replace(chosen, erased_keys=clean_request.erased_keys)
                ended = await self._clean_one(thread, settings, chosen, is_forced=clean_request.is_forced)
                served, failure = ended.served, ended.failure
        except Exception as error:
            failure = f"{clean_request.log.topic_partition} cannot be cleaned: {str(error) or type(error).__name__}"
            raise
        finally:
            clean_request.end(served, failure)
            self._give_back_if_off()
        return True

    async def _choose(self) -> LogToClean | None:
        """Return the log for this round."""
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
        """Run one pass over the selected log."""
        try:
            cleaner = thread.cleaner or await in_thread(
                Work.CLEAN, data_dir_of(chosen.log), thread.make_ready, settings
            )
            if cleaner is None:
                return _EndedPass(CleanOutcome.GIVEN_UP, is_busy=False)
            ended = _EndedPass(CleanOutcome.GIVEN_UP)
            # A pass stops at its own checkpoints, never in the middle of a swap.
            watching = self.watched.watching(chosen, self.clock.now_ms(), is_forced=is_forced)
            with trio.CancelScope(shield=True), watching as watched:
                ended = await self._pass(thread, cleaner, chosen, watched)
            return ended
        finally:
            self.manager.done_cleaning(chosen)
            self._waits.replaced(chosen.log)

    async def _pass(
        self, thread: CleanerThread, cleaner: Cleaner, chosen: LogToClean, watched: ActivePass
    ) -> _EndedPass:
        """Run the pass, and record its result."""
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
                    return _EndedPass(CleanOutcome.NOT_DUE)
            end_offset, stats = await in_thread(Work.CLEAN, data_dir_of(chosen.log), work)
        except AbortedError:
            if (refused := await self._save(chosen, chosen.first_dirty_offset)) is not None:
                return self._put_off(chosen.log, refused)
            return _EndedPass(CleanOutcome.GIVEN_UP)
        except OSError as error:
            return self._put_off(chosen.log, chosen.log.fail(error).message)
        except MemoryError:
            return self._put_off(chosen.log, f"{partition} cannot be cleaned now: out of memory")
        except Exception as error:
            # A fault of this log must not stop the cleaning of the others (KAFKA-7215).
            log.exception("%s cannot be cleaned and is marked uncleanable", partition)
            manager.mark_uncleanable(partition, str(error) or type(error).__name__)
            return _EndedPass(CleanOutcome.GIVEN_UP, is_busy=False)
        if (refused := await self._save(chosen, end_offset, stats)) is not None:
            return self._put_off(chosen.log, refused)
        manager.retries.end(partition)
        thread.last_stats = stats
        passes, _ = self._passes.get(partition, (0, None))
        last_pass = LastPass(end_offset, self.clock.now_ms(), stats)
        self._passes[partition] = passes + 1, last_pass
        self.watched.note_completed(partition, watched)
        self.clean_requests.notify_passed(partition, last_pass)
        report(chosen, end_offset, stats)
        return _EndedPass(CleanOutcome.PASSED)

    def _must_stop(self, partition: TopicPartition) -> bool:
        return self._is_stopping or self._restarting or self.manager.is_aborting(partition)

    async def _save(self, cleaned: LogToClean, end_offset: int, stats: CleanStats | None = None) -> str | None:
        """Write the checkpoint, unless another operation has asked for the partition since.

        Return the error of the disk, if any: then the pass does not count.
        """
        try:
            save = partial(self.manager.save_end_offset, cleaned, end_offset, stats)
            await in_thread(Work.CLEAN, data_dir_of(cleaned.log), save)
        except OSError as error:
            return cleaned.log.fail(error).message
        return None

    def _put_off(self, failed: Log, message: str) -> _EndedPass:
        """End a pass that failed for lack of disk space or memory, which is not the log's fault."""
        if failed.failure is not None:
            log.error("clean pass failed: %s", message)  # the disk has failed: nothing is tried before a restart
        else:
            retry = self.manager.retries.put_off(failed.topic_partition, message, self.clock.now_ms())
            log.error("clean pass failed: %s; it is tried again in %d s", message, retry.pause_ms // 1000)
        return _EndedPass(CleanOutcome.GIVEN_UP, message)

    async def delete_from_compacted_logs(self) -> None:
        """Run retention on every free compacted log (by log start always; by size and time if its policy also has delete)."""
        self.manager.review_marks()
        await self.retain(self.logs.values(), compacted=True)

    async def retain(self, logs: Iterable[Log], *, compacted: bool) -> None:
        """Run retention on the free ones of `logs`, one after the other; either on compacted logs or on the others."""
        time_slice, left = TimeSlice(), iter(logs)
        while some := [*islice(left, LOGS_AT_ONCE)]:
            if time_slice.is_over():
                await time_slice.next()
            now_ms = self.clock.now_ms()
            async for each in time_slice.each(
                [
                    log
                    for log in some
                    if log.config.is_compact == compacted
                    and (may_have_deletable(log, now_ms) or is_active_aged(log, now_ms))
                ]
            ):
                if each.config.is_compact == compacted:
                    await self.retain_one(each)

    async def retain_one(self, candidate: Log) -> Deleted | None:
        """Run retention on one log if it is free, else return None. Errors are also logged."""
        if not self.manager.begin_retention(candidate, compacted=candidate.config.is_compact):
            return None
        done = Deleted()
        try:
            await self._delete_old_segments(candidate, done)
        finally:
            self.manager.done_deleting([candidate.topic_partition])
        return done

    async def _delete_old_segments(self, candidate: Log, done: Deleted) -> None:
        """Run retention on one log that is held for it. Errors are logged and do not affect other logs."""
        try:
            if is_active_aged(candidate, self.clock.now_ms()):
                if not (active := candidate.segments.active).is_ready:
                    await in_thread(Work.READ, data_dir_of(candidate), active.get_ready)
                if is_active_aged(candidate, self.clock.now_ms()):
                    candidate.roll(self.clock.now_ms())
            # Thousands of segments are deleted in several steps, which stop if another operation wants the log.
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
        """Delete one batch of segments; return whether more remain."""
        clock = self.clock
        try:
            deletion = candidate.begin_deletion(clock.now_ms(), at_once=True)
        except WouldWaitError as cold:
            await load_cold(cold, candidate)
            deletion = candidate.begin_deletion(clock.now_ms())
        if deletion is None:
            return False
        try:
            await in_thread(Work.BACKGROUND, data_dir_of(candidate), deletion.rename_files)
        finally:
            done.segments += len(deletion.renamed)
            done.size_bytes += sum(segment.size_bytes for segment in deletion.renamed)
            candidate.end_deletion(deletion, clock.elapsed_ms())
            self._waits.changed(candidate.topic_partition)
        return deletion.has_more

    def log_reconfigured(self, changed: Log, config: LogConfig) -> None:
        """Apply a new configuration to `changed`; a pass over a log that is no longer compacted is stopped.

        A log that was marked uncleanable is tried again with it (KAFKA-19895).
        """
        was_compact, partition = changed.config.is_compact, changed.topic_partition
        if config != changed.config:
            self.manager.retry(partition)
        changed.config = config
        self.clean_requests.note_change()
        if was_compact and not config.is_compact and self.manager.is_busy(partition):
            self._pause_then(partition, partial(self.resume, partition))

    async def pause(self, partition: TopicPartition) -> None:
        """Return once no pass touches `partition`, and none will until `resume`."""
        paused = trio.Event()
        self._pause_then(partition, paused.set)
        try:
            await paused.wait()
        except trio.Cancelled:
            # The caller is gone and will not resume it.
            if paused.is_set():
                self.resume(partition)
            else:
                waiting = self._waiting[partition]
                waiting[waiting.index(paused.set)] = partial(self.resume, partition)
            raise

    def _pause_then(self, partition: TopicPartition, then: Callable[[], None]) -> None:
        """Call `then` with the partition paused: at once, or when the running pass has stopped.

        Several callers may wait for the end of one pass: a change of policy, then a deletion.
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
        """Notify the callers after the pass has stopped.

        Each waiting caller gets a pause of its own before the first can end its pause.
        """
        waiting = self._waiting.pop(partition)
        for _ in waiting[1:]:
            self.manager.abort_and_pause(partition, lambda: None)
        for then in waiting:
            then()

    def resume(self, partition: TopicPartition) -> None:
        """End one `pause`."""
        self.manager.resume([partition])

    async def forget(self, data_dir: str, partitions: Collection[TopicPartition]) -> None:
        """Forget deleted, paused partitions of a data directory: their checkpoint entries, marks and counts."""
        for partition in partitions:
            self._passes.pop(partition, None)
            self.watched.forget(partition)
        try:
            await in_thread(Work.CATALOG, data_dir, self.manager.forget, data_dir, partitions)
        except Exception as error:  # noqa: BLE001 - the partitions are deleted in any case, and their names must be free again
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
        """Return the cleaner's status of each of these logs, each when the iterator reaches it.

        A status is made in steps, since a log may be long.

        Args:
            with_ways: Also find out what would make them eligible, which takes ten times as long.
            aborted_at_ms: Producer ID -> when its open transaction will be aborted, in ms since 1970, if known.
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
        """Return when a paused partition will be released, in ms since 1970, if known."""
        due_ms = self.leased_until_ms.get(partition)
        return None if due_ms is None else self.clock.wall_at(due_ms)

    def _status(self, log: Log, assessment: Steps[Eligibility]) -> Steps[CleanerStatus]:
        from .advice import CleanerStatus  # its callers have loaded it already

        eligibility = yield from assessment
        return CleanerStatus(eligibility, log.counts, *self._passes.get(log.topic_partition, ()))

    def why_off(self) -> str | None:
        """Return why no cleaner runs at all, None if one does."""
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
            self.clean_requests.give_back_all()
            self.clean_requests.note_change()


@dataclass(slots=True)
class Deleted:
    """Result of retention on one log."""

    segments: int = 0
    size_bytes: int = 0
    failure: str | None = None
    """The error that ended it."""


class _EndedPass(NamedTuple):
    """Result of a pass."""

    served: CleanOutcome
    failure: str | None = None
    """The error of the system, if one ended it."""
    is_busy: bool = True
    """Whether to look for the next log at once."""
