"""Selection of the next log to clean, and what the cleaner knows about the logs.

One per broker, on the broker's own thread; cleaning itself runs elsewhere. Methods that write a checkpoint wait for the
disk: they say so, and may run in another thread. Keeps `cleaner-offset-checkpoint`, the partitions that cannot be
cleaned for the time being, and which operation has which partition (`cleaning_states`).

Source: Apache Kafka's LogCleanerManager; KIP-346 (uncleanable partitions).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from ..disk.files import Files
from ..disk.paths import TopicPartition
from ..logs import record_counts
from ..logs.log import Log
from ..logs.record_counts import CleanCounts
from ..produce.producer_state import LastRecord
from ..steps import Steps, to_the_end
from .cleaner_checkpoints import CleanerCheckpoints, data_dir_of
from .cleaning_states import CleaningStates
from .dirtiness import LogToClean, first_dirty_offset, measure_forced_in_pieces, measure_in_pieces
from .retries import Retries

if TYPE_CHECKING:
    from .clean_stats import CleanStats
    from .eligibility import Eligibility

# Logs and their segments; a millisecond or two.
MEASURED_AT_ONCE = 64
SEGMENTS_MEASURED_AT_ONCE = 1_024
CHECKPOINTS_AT_ONCE = 16


class UncleanableMark(NamedTuple):
    """A partition that could not be cleaned, and is neither cleaned nor subject to retention for the time being."""

    reason: str
    log_start_offset: int
    """Log start offset at the time of the mark: if it changes, the damage may have been deleted."""


class CleanerManager(CleaningStates):
    """Selects logs, and keeps their checkpoints and marks; see the module."""

    def __init__(
        self, files: Files, logs: Mapping[TopicPartition, Log], note: Callable[[str], None] = lambda _: None
    ) -> None:
        """
        Args:
            logs: The broker's open logs, as they are at any time; each lies directly below its data directory.
            note: Called with one line for each thing that was found broken and what was done about it.
        """
        super().__init__()
        self.uncleanable: dict[TopicPartition, UncleanableMark] = {}
        """Partitions that are skipped; see `mark_uncleanable`."""
        self.retries = Retries()
        self._corrections: dict[TopicPartition, tuple[Log, int]] = {}
        """Corrected checkpoints that `write_corrections` has yet to write."""
        self.max_dirty_ratio = 0.0
        """Largest dirty ratio of the candidates at the last selection."""
        self.max_lag_overdue_ms = 0
        """Largest delay beyond `max.compaction.lag.ms` at the last selection."""
        self._logs = logs
        self._note = note
        self._checkpoints = CleanerCheckpoints(files, logs, note)

    def correct_checkpoints(self, data_dirs: Iterable[str]) -> None:
        """Delete the checkpoints of logs that were longer when they were written; once, before anything is appended.

        The offsets between will be assigned again, and nothing there is clean. Apache Kafka notices only while the log
        is still too short. Checkpoints of partitions that no longer exist are deleted also: a process that dies in a
        deletion leaves them. They would declare a new partition of the name clean, and its tombstones would be removed
        before the records that they delete.

        Waits for the disk; a log whose checkpoint cannot be read or corrected is offline afterwards.
        """
        for data_dir in data_dirs:
            try:
                self._checkpoints.drop_strays(data_dir)
            except OSError as error:
                self._note(f"cannot correct the cleaner checkpoint of {data_dir}: {error}")
        checkpoints, unread = self._checkpoints.read_entries(self._logs.values())
        for log in self._logs.values():
            checkpoint = checkpoints.get(log.topic_partition, 0)
            if data_dir_of(log) in unread:
                log.give_up("cannot read the cleaner checkpoint")
            elif checkpoint > log.log_end_offset and not self._correct(log, checkpoint, log.log_start_offset):
                log.give_up(f"cannot correct the cleaner checkpoint {checkpoint}, which is above the log end")

    # Choosing

    def unsurveyed(self) -> list[Log]:
        """List the logs that `filthiest` would have to read from the disk. Callers that must not wait `survey` them first."""
        return [
            log
            for log in self._logs.values()
            if not log.is_surveyed and log.config.is_compact and self.is_available(log)
        ]

    def filthiest(self, now_ms: int) -> Generator[None, None, LogToClean | None]:
        """Choose the log with the largest dirty ratio of those that are due, and mark it in progress; None if none is due.

        A generator: between two steps the logs may change, and another thread may choose one. So the chosen log is measured
        again, and taken in a step in which it is as measured. A checkpoint that cannot be right is left to
        `write_corrections`, whether or not its log is chosen. A log in `retries` is not chosen before its pause is over. A log
        that cannot be measured becomes uncleanable, and `note` is called. Nothing here waits for the disk to write.
        """
        logs = [log for log in self._logs.values() if log.config.is_compact]
        max_dirty_ratio, max_lag_overdue_ms = 0.0, 0
        due: list[tuple[float, int]] = []  # dirtiest first, of several the first in `logs`
        for piece in _pieces(logs):
            measured = yield from self._measured(logs, piece, now_ms)
            for at, found in measured:
                max_dirty_ratio = max(max_dirty_ratio, found.dirty_ratio)
                max_lag_overdue_ms = max(max_lag_overdue_ms, found.max_lag_overdue_ms)
                if self._is_choosable(found, now_ms):
                    due.append((-found.dirty_ratio, at))
            yield
        self.max_dirty_ratio, self.max_lag_overdue_ms = max_dirty_ratio, max_lag_overdue_ms
        # A log that has waited too long is due, but does not come before a dirtier one (KIP-354).
        heapify(due)
        while due:
            _, at = heappop(due)
            measured = yield from self._measured(logs, [at], now_ms)
            for _, found in measured:
                if self._is_choosable(found, now_ms):
                    is_first = not due or (-found.dirty_ratio, at) <= due[0]
                    if is_first and self._is_as_measured(found):
                        return (yield from self._hand_out(found))
                    heappush(due, (-found.dirty_ratio, at))
            yield
        return None

    def take(self, log: Log, now_ms: int, *, is_forced: bool) -> Generator[None, None, LogToClean | None]:
        """Take this log for a pass, as `filthiest` would if it were the only log; None if it is not due, or not `is_available`.

        Args:
            is_forced: Take it whether or not it is due, with the young segments that `min.compaction.lag.ms` protects. The log
                may have nothing dirty: a pass then removes what has reached its delete horizon.
        """
        while True:
            measured = yield from self._measured([log], [0], now_ms, is_forced=is_forced)
            if not measured or not self.is_available(log):
                return None
            ((_, found),) = measured
            if not (is_forced or found.is_due):
                return None
            if self._is_as_measured(found):
                return (yield from self._hand_out(found))
            yield

    def _hand_out(self, chosen: LogToClean) -> Generator[None, None, LogToClean]:
        tp = chosen.log.topic_partition
        self.begin(tp)
        last_records: dict[int, LastRecord] = {}
        try:
            for piece in chosen.log.producers.last_records_in_pieces():
                if last_records:
                    yield
                last_records |= piece
        except BaseException:
            self.leave(tp)  # the caller gives a chosen partition back, but it did not get this one
            raise
        return chosen.for_worker(last_records)

    def _measured(
        self, logs: Sequence[Log], asked: Iterable[int], now_ms: int, *, is_forced: bool = False
    ) -> Steps[list[tuple[int, LogToClean]]]:
        """Measure those of `logs` that are still open, free, compacted and not empty. Only long logs take several steps."""
        free = {at: log for at in asked if (log := logs[at]).config.is_compact and self.is_available(log)}
        checkpoints, unread = self._checkpoints.read_entries(free.values())
        found = []
        for at, log in free.items():
            if log.failure is None and data_dir_of(log) not in unread:
                measured = yield from self._measure(
                    log, checkpoints.get(log.topic_partition), now_ms, is_forced=is_forced
                )
                if measured is not None and measured.total_bytes > 0:
                    found.append((at, measured))
        return found

    def _is_choosable(self, found: LogToClean, now_ms: int) -> bool:
        return found.is_due and self.retries.waiting(found.log.topic_partition, now_ms) is None

    def is_available(self, log: Log) -> bool:
        """Return whether a pass over the log may begin: no operation has it, and it is not marked, offline or deleted."""
        tp = log.topic_partition
        is_free = not self.is_held(tp) and tp not in self.uncleanable and log.failure is None
        return is_free and self._logs.get(tp) is log

    def _is_as_measured(self, found: LogToClean) -> bool:
        """Return whether a log that was measured in several steps still matches the measurement in this step."""
        log = found.log
        checkpoints, unread = self._checkpoints.read_entries([log])
        dirty_from, _ = first_dirty_offset(log, checkpoints.get(log.topic_partition))
        return (
            self.is_available(log)
            and log.config.is_compact
            and not unread
            and dirty_from == found.first_dirty_offset
            and found.upper_offset <= log.segments.active.base_offset
            and list(log.segments.between(-1, found.upper_offset)) == found.segments
        )

    def _measure(self, log: Log, checkpoint: int | None, now_ms: int, *, is_forced: bool) -> Steps[LogToClean | None]:
        """Measure a log; None if the system refuses: the log is skipped in this round, or for good."""
        tp = log.topic_partition
        try:
            dirty_from, is_wrong = first_dirty_offset(log, checkpoint)
            found = yield from (measure_forced_in_pieces if is_forced else measure_in_pieces)(log, dirty_from, now_ms)
        except OSError as error:
            self._note(log.fail(error).message)
            return None
        except MemoryError:
            self._note(f"{tp} cannot be measured for cleaning now: out of memory")
            return None
        except Exception as error:  # noqa: BLE001 - every error is reported
            # It must not keep all other logs from being cleaned (KAFKA-8725).
            if not self.is_available(log):
                return None  # it was deleted during the measurement, for instance
            reason = str(error) or type(error).__name__
            self.mark_uncleanable(tp, reason)
            self._note(f"{tp} cannot be measured for cleaning: {reason}")
            return None
        if is_wrong and self.is_available(log) and self._corrections.get(tp) != (log, dirty_from):
            self._note_wrong(log, checkpoint, dirty_from)
            self._corrections[tp] = log, dirty_from
        return found

    @property
    def dirs_to_correct(self) -> set[str]:
        """The data directories with corrections for `write_corrections`."""
        return {data_dir_of(log) for log, _ in self._corrections.values()}

    def write_corrections(self, data_dir: str) -> None:
        """Write the checkpoints that `filthiest` found wrong. Waits for the disk; may run in any thread."""
        for tp, (log, dirty_from) in tuple(self._corrections.items()):
            if data_dir_of(log) == data_dir:
                self._corrections.pop(tp, None)
                self._write_correction(log, dirty_from)

    def _note_wrong(self, log: Log, checkpoint: int | None, dirty_from: int) -> None:
        # If retention deletes, a checkpoint below the log start is normal.
        if not (log.config.is_delete and dirty_from > (checkpoint or 0)):
            self._note(
                f"{log.topic_partition} is cleaned from offset {dirty_from}: its checkpoint {checkpoint} is invalid"
            )

    def _correct(self, log: Log, checkpoint: int | None, dirty_from: int) -> bool:
        """Write a valid checkpoint, if the disk allows it."""
        self._note_wrong(log, checkpoint, dirty_from)
        return self._write_correction(log, dirty_from)

    def _write_correction(self, log: Log, dirty_from: int) -> bool:
        try:
            self._checkpoints.set(log, dirty_from)
        except OSError as error:
            self._note(log.fail(error).message)
            return False
        return True

    def first_dirty_offset(self, log: Log) -> int:
        """Return where the dirty part of a log begins, by its present checkpoint."""
        return next(self.first_dirty_offsets([log]))

    def first_dirty_offsets(self, logs: Sequence[Log]) -> Iterator[int]:
        """Yield where the dirty part of each of these logs begins, in their order.

        The checkpoints of `CHECKPOINTS_AT_ONCE` logs are read together, when the first of them is asked for.
        """
        for at, log in enumerate(logs):
            if at % CHECKPOINTS_AT_ONCE == 0:
                checkpoints, _ = self._checkpoints.read_entries(logs[at : at + CHECKPOINTS_AT_ONCE])
            yield first_dirty_offset(log, checkpoints.get(log.topic_partition))[0]

    def eligibility(self, logs: Sequence[Log], now_ms: int) -> Iterator[Eligibility]:
        """Yield the assessments of `assessments`, each made in one step."""
        return map(to_the_end, self.assessments(logs, now_ms))

    def assessments(
        self,
        logs: Sequence[Log],
        now_ms: int,
        *,
        cleaner_off: str | None = None,
        with_ways: bool = True,
        held_until_ms: Callable[[TopicPartition], int | None] = lambda _: None,
        aborted_at_ms: Callable[[int], int | None] = lambda _: None,
    ) -> Iterator[Steps[Eligibility]]:
        """Yield an assessment of each of these logs, in their order, as the next round would find it. Changes nothing.

        Each log is looked at in steps, and only when the iterator reaches it; see `assess_in_pieces`.

        Args:
            cleaner_off: Why no cleaner works at all, None if one does.
            held_until_ms: When a held partition is released at the latest, in ms since 1970, if that is known.
            with_ways, aborted_at_ms: Passed on to `assess_in_pieces`.
        """
        from .eligibility import assess_in_pieces  # imported here to keep it out of the start

        for at, log in enumerate(logs):
            if at % CHECKPOINTS_AT_ONCE == 0:
                checkpoints, _ = self._checkpoints.read_entries(logs[at : at + CHECKPOINTS_AT_ONCE])
            tp = log.topic_partition
            mark = self.uncleanable.get(tp)
            yield assess_in_pieces(
                log,
                checkpoints.get(tp),
                now_ms,
                held=self.state_name(tp) if self.is_held(tp) else None,
                uncleanable=mark.reason if mark else None,
                cleaner_off=cleaner_off,
                held_until_ms=held_until_ms(tp),
                retry=self.retries.waiting(tp, now_ms),
                with_ways=with_ways,
                aborted_at_ms=aborted_at_ms,
            )

    def begin_retention(self, log: Log, *, compacted: bool) -> bool:
        """Mark this log in progress for retention, until `done_deleting`; return False if it is not free.

        One job looks at compacted logs, another at all others; `compacted` says which of them asks.
        """
        tp = log.topic_partition
        if log.config.is_compact != compacted or self.is_held(tp) or self._logs.get(tp) is not log:
            return False
        if compacted and not self.is_available(log):
            return False
        self.begin(tp)
        return True

    # Ending

    def save_end_offset(self, cleaned: LogToClean, end_offset: int, stats: CleanStats | None = None) -> None:
        """Write the checkpoint after a pass: everything below `end_offset` is clean. Waits for the disk.

        May run in any thread, before `done_cleaning` in the owner's. If another operation has asked for the log since the
        pass began, the pass counts for nothing, and nothing is written.

        Args:
            end_offset: What the pass returned. After an error of the disk, or when the broker stops, the pass's
                first dirty offset: groups that were swapped in stay, but are not counted as clean.
            stats: Those of a finished pass. If its map had room for all keys, they say how many records the log has.

        Raises:
            OSError: The counts or the checkpoint cannot be read or written.
        """
        log = cleaned.log
        tp = log.topic_partition
        if self.is_aborting(tp):
            return
        if stats is not None:
            log.counter.aged_up_to_ms = stats.aged_up_to_ms
            if end_offset == cleaned.upper_offset:
                save_counts(log, end_offset, stats)
        self._corrections.pop(tp, None)
        self._checkpoints.set(log, end_offset)

    def done_cleaning(self, cleaned: LogToClean) -> None:
        """End a pass, whatever its result: free the partition, or give it to the operations that have asked for it.

        Raises:
            RuntimeError: The partition is not being cleaned.
        """
        self.leave(cleaned.log.topic_partition)

    def done_deleting(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """End retention of these partitions. RuntimeError if one was not in progress."""
        for tp in topic_partitions:
            self.leave(tp)

    # Partitions that come and go

    def mark_uncleanable(self, tp: TopicPartition, reason: str) -> None:
        """Exclude this partition from passes, as each would fail in the same way (KIP-346).

        The mark ends with `retry` (any change of the topic's configuration), a new log start offset, deletion or a restart of
        the broker. In Apache Kafka only the last two end it (KAFKA-19895).
        """
        if (log := self._logs.get(tp)) is not None:
            self.uncleanable[tp] = UncleanableMark(reason, log.log_start_offset)

    def retry(self, tp: TopicPartition) -> None:
        """Remove the mark and the pause, if any: the next pass finds out whether they were right."""
        self.uncleanable.pop(tp, None)
        self.retries.end(tp)

    def review_marks(self) -> None:
        """Drop the marks of partitions that were deleted or whose log start offset has changed.

        Called once a round, before retention: retention deletes damaged segments below the log start, so no pass reads them.
        """
        for tp, mark in list(self.uncleanable.items()):
            log = self._logs.get(tp)
            if log is None or log.log_start_offset != mark.log_start_offset:
                del self.uncleanable[tp]

    def uncleanable_partitions(self, data_dir: str) -> list[TopicPartition]:
        """Return the marked partitions of a data directory."""
        return [log.topic_partition for log in self._marked_logs(data_dir)]

    def uncleanable_bytes(self, data_dir: str, now_ms: int) -> int:
        """Return the bytes in the marked partitions of a data directory that could be cleaned if they could be read."""
        return sum(each.cleanable_bytes for each in self.eligibility(self._marked_logs(data_dir), now_ms))

    def _marked_logs(self, data_dir: str) -> list[Log]:
        logs = [self._logs[tp] for tp in self.uncleanable if tp in self._logs]
        return [log for log in logs if data_dir_of(log) == data_dir]

    def forget(self, data_dir: str, tps: Collection[TopicPartition]) -> None:
        """Delete the marks and checkpoints of deleted partitions of a data directory.

        Waits for the disk; may run in any thread.

        Raises:
            OSError: The checkpoint cannot be read or written. Its entries of these partitions are ignored all the same.
        """
        for tp in tps:
            self.retry(tp)
        self._checkpoints.drop(data_dir, tps)

    def cleaned_elsewhere(self, log: Log, end_offset: int) -> None:
        """Record that another process has cleaned a paused log up to `end_offset`. Waits for the disk; may run in any thread.

        Raises:
            OSError: The checkpoint cannot be read or written.
        """
        if end_offset > self._checkpoints.read_entries([log])[0].get(log.topic_partition, 0):
            self._checkpoints.set(log, end_offset)

    def about_to_move(self, log: Log, data_dir: str) -> int | None:
        """Prepare the move of a paused log to another data directory. Waits for the disk.

        Drops an old entry of that name in the other directory.

        Returns:
            The log's checkpoint, for `note_moved`.

        Raises:
            OSError: The checkpoint file there cannot be read or written.
        """
        self._checkpoints.drop(data_dir, [log.topic_partition])
        return self._checkpoints.read_entries([log])[0].get(log.topic_partition)

    def note_moved(self, log: Log, from_dir: str, clean_up_to: int | None) -> None:
        """Move the checkpoint of a log that has moved. Waits for the disk.

        If the disk refuses, `note` is called, and the log will be cleaned from its start.
        """
        try:
            if clean_up_to is not None:
                self._checkpoints.set(log, clean_up_to)
            self._checkpoints.drop(from_dir, [log.topic_partition])
        except OSError as error:
            self._note(f"cannot move the cleaner checkpoint of {log.topic_partition}: {error}")


def save_counts(log: Log, end_offset: int, stats: CleanStats) -> None:
    """Keep the numbers of records after a pass over all segments below `end_offset`. OSError: the disk refused."""
    counted = log.segments.between(-1, end_offset)
    counts = CleanCounts(
        start_offset=log.segments.first.base_offset,
        end_offset=end_offset,
        size_bytes=sum(segment.size_bytes for segment in counted),
        records=stats.records_written - stats.markers_written,
        tombstones=stats.tombstones_written,
        oldest_ms=stats.oldest_kept_ms,
    )
    record_counts.write(log.files, log.directory, counts)
    log.counter.clean = counts  # one assignment, which the owner's thread sees whole


def _pieces(logs: Sequence[Log]) -> Iterator[range]:
    """Divide the indexes of `logs` into ranges that one step can measure."""
    begin = segments = 0
    for at, log in enumerate(logs):
        segments += len(log.segments)
        if at + 1 - begin == MEASURED_AT_ONCE or segments >= SEGMENTS_MEASURED_AT_ONCE:
            yield range(begin, at + 1)
            begin, segments = at + 1, 0
    if begin < len(logs):
        yield range(begin, len(logs))
