"""Which log the cleaner takes next, and who may touch a log meanwhile.

One a broker, on the broker's own thread; cleaning itself runs elsewhere. What writes a checkpoint waits for the disk:
those methods say so, and may run in another thread. Keeps `cleaner-offset-checkpoint` (the first
dirty offset of each log, one file a data directory), the partitions that cannot be cleaned any more, and the state of
those that somebody holds. A partition without a state is free; one with a state is picked by nobody.

    none          --picked for a pass or for deletion-->  in progress
    in progress   --done-->                               none
    in progress   --abort and pause-->                    aborting     the pass ends at its next checkpoint
    aborting      --done-->                               paused once  and those who wait are told
    none          --abort and pause-->                    paused once
    paused n      --abort and pause-->                    paused n+1
    paused n      --resume-->                             paused n-1, or none after the last one

Anything else is a mistake of the caller (StateError). Truncation, deletion of a partition, a policy that drops
`compact`, and the retention job on logs without it pause first and resume after.
Source: Apache Kafka's LogCleanerManager; KIP-346 (uncleanable partitions).
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from . import paths
from .checkpoints import OffsetCheckpoint
from .dirtiness import LogToClean, first_dirty_offset, measure
from .files import Files
from .log import Log
from .paths import TopicPartition


class StateError(Exception):
    """A step that the partition's state does not allow: a mistake in the broker."""


class MeasuringError(Exception):
    """A log could not be measured. Its partition has become uncleanable; this round has no choice."""

    def __init__(self, topic_partition: TopicPartition, cause: Exception) -> None:
        super().__init__(f"{topic_partition} cannot be measured for cleaning: {cause}")
        self.topic_partition = topic_partition


@dataclass(slots=True)
class _InProgress:
    pass


@dataclass(slots=True)
class _Aborting:
    on_paused: Callable[[], None]


@dataclass(slots=True)
class _Paused:
    times: int = 1


_State = _InProgress | _Aborting | _Paused


class CleanerManager:
    """See the module."""

    def __init__(self, files: Files, logs: Mapping[TopicPartition, Log]) -> None:
        """`logs` are the broker's open logs, as they are at any time; each lies directly below its data directory."""
        self.uncleanable: dict[TopicPartition, str] = {}
        """Partitions that are neither cleaned nor subject to retention any more, with the reason."""
        self.max_dirty_ratio = 0.0
        """Of the candidates at the last selection."""
        self.max_lag_overdue_ms = 0
        """The largest at the last selection."""
        self.last_selection_ms: int | None = None
        self._files = files
        self._logs = logs
        self._checkpoint_guard = threading.Lock()  # one reads and replaces a checkpoint file at a time
        self._states: dict[TopicPartition, _State] = {}

    # Choosing

    def filthiest(self, now_ms: int) -> LogToClean | None:
        """The log with the largest dirty ratio of those that are due, now in progress; None if none is due.

        A checkpoint that cannot be right is corrected on disk, whether or not its log is chosen.

        Raises:
            MeasuringError: No log was chosen; the next round goes on without the culprit.
            OSError: A checkpoint cannot be read or written: its data directory has failed.
        """
        self.last_selection_ms = now_ms
        measured = [self._measure(log, checkpoint, now_ms) for log, checkpoint in self._candidates()]
        measured = [each for each in measured if each.total_bytes > 0]
        self.max_dirty_ratio = max((each.dirty_ratio for each in measured), default=0.0)
        self.max_lag_overdue_ms = max((each.max_lag_overdue_ms for each in measured), default=0)
        due = [each for each in measured if each.is_due]
        if not due:
            return None
        # One that waited too long is due, but does not come before a dirtier one (KIP-354).
        chosen = max(due, key=lambda each: each.dirty_ratio)
        self._states[chosen.log.topic_partition] = _InProgress()
        return chosen.for_worker()

    def _candidates(self) -> list[tuple[Log, int | None]]:
        free = [log for log in self._logs.values() if log.config.is_compact and self._is_available(log)]
        checkpoints = {directory: self._checkpoint(directory).read() for directory in set(map(data_dir_of, free))}
        return [(log, checkpoints[data_dir_of(log)].get(log.topic_partition)) for log in free]

    def _is_available(self, log: Log) -> bool:
        tp = log.topic_partition
        return tp not in self._states and tp not in self.uncleanable and log.failure is None

    def _measure(self, log: Log, checkpoint: int | None, now_ms: int) -> LogToClean:
        tp = log.topic_partition
        dirty_from, is_wrong = first_dirty_offset(log, checkpoint)
        if is_wrong:
            self._write_checkpoint(data_dir_of(log), tp, dirty_from)
        try:
            return measure(log, dirty_from, now_ms)
        except Exception as error:
            # Whatever it is, it must not keep all other logs from being cleaned (KAFKA-8725).
            self.mark_uncleanable(tp, str(error))
            raise MeasuringError(tp, error) from error

    def begin_deletion(self) -> list[Log]:
        """The free logs with compaction, now in progress: for `Log.delete_old_segments`, then `done_deleting`."""
        logs = [log for log in self._logs.values() if log.config.is_compact and self._is_available(log)]
        for log in logs:
            self._states[log.topic_partition] = _InProgress()
        return logs

    def begin_retention(self) -> list[Log]:
        """The free logs without compaction, now paused: for the retention job, then `resume`."""
        logs = [
            log for log in self._logs.values() if not log.config.is_compact and log.topic_partition not in self._states
        ]
        for log in logs:
            self._states[log.topic_partition] = _Paused()
        return logs

    # Ending

    def save_end_offset(self, cleaned: LogToClean, end_offset: int) -> None:
        """Write the checkpoint after a pass: everything below `end_offset` is clean. Waits for the disk.

        May run in any thread, before `done_cleaning` in the owner's. If somebody has asked for the log meanwhile the
        pass counts for nothing, and nothing is written.

        Args:
            end_offset: What the pass returned. After an error of the disk, or when the broker stops, the pass's
                first dirty offset: groups that were swapped in stay, but are not counted as clean.

        Raises:
            OSError: The checkpoint cannot be read or written.
        """
        tp = cleaned.log.topic_partition
        if not self.is_aborting(tp):
            self._write_checkpoint(data_dir_of(cleaned.log), tp, end_offset)

    def done_cleaning(self, cleaned: LogToClean) -> None:
        """A pass is over, however it ended: free the partition, or hand it to those who asked for it.

        Raises:
            StateError: The partition is not being cleaned.
        """
        self._leave(cleaned.log.topic_partition)

    def done_deleting(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Retention is through with these. StateError if one was not in progress."""
        for tp in topic_partitions:
            self._leave(tp)

    def _leave(self, tp: TopicPartition) -> None:
        state = self._states.get(tp)
        if isinstance(state, _InProgress):
            del self._states[tp]
        elif isinstance(state, _Aborting):
            self._states[tp] = _Paused()
            state.on_paused()
        else:
            raise StateError(f"{tp} is {_name(state)}, so no cleaning of it can end")

    # Pausing

    def is_aborting(self, tp: TopicPartition) -> bool:
        """Whether the pass over this partition is to stop; its checkpoints ask. Safe from any thread."""
        return isinstance(self._states.get(tp), _Aborting)

    def is_busy(self, tp: TopicPartition) -> bool:
        """Whether a pass or a deletion is running, if only to its next checkpoint."""
        return isinstance(self._states.get(tp), _InProgress | _Aborting)

    def state_name(self, tp: TopicPartition) -> str:
        """For people: none, in progress, aborting or paused."""
        return _name(self._states.get(tp))

    def abort_and_pause(self, tp: TopicPartition, on_paused: Callable[[], None]) -> bool:
        """Keep the cleaner away from a partition until `resume`.

        Args:
            on_paused: Called once the running pass has stopped; not called if there is none.

        Returns:
            True if the partition is paused now, False if `on_paused` will be called.

        Raises:
            StateError: Somebody else is waiting for the same.
        """
        state = self._states.get(tp)
        if state is None:
            self._states[tp] = _Paused()
        elif isinstance(state, _Paused):
            state.times += 1
        elif isinstance(state, _InProgress):
            self._states[tp] = _Aborting(on_paused)
            return False
        else:
            raise StateError(f"{tp} is being aborted already")
        return True

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Take one pause back from each. StateError if one was not paused."""
        for tp in topic_partitions:
            state = self._states.get(tp)
            if not isinstance(state, _Paused):
                raise StateError(f"{tp} is {_name(state)}, so it cannot be resumed")
            state.times -= 1
            if state.times == 0:
                del self._states[tp]

    # Partitions that come and go

    def mark_uncleanable(self, tp: TopicPartition, reason: str) -> None:
        """Leave this partition alone until the broker starts anew, or it is forgotten."""
        self.uncleanable[tp] = reason

    def uncleanable_bytes(self, data_dir: str, now_ms: int) -> int:
        """Bytes that could be cleaned if they could be read; those of the marked partitions of a data directory."""
        checkpoints = self._checkpoint(data_dir).read()
        total = 0
        for tp in self.uncleanable:
            log = self._logs.get(tp)
            if log is not None and data_dir_of(log) == data_dir:
                total += measure(log, first_dirty_offset(log, checkpoints.get(tp))[0], now_ms).cleanable_bytes
        return total

    def forget(self, tp: TopicPartition, data_dir: str) -> None:
        """A partition was deleted: drop its mark and its checkpoint. Waits for the disk; may run in any thread."""
        self.uncleanable.pop(tp, None)
        self._write_checkpoint(data_dir, tp, None)

    def forget_missing(self) -> None:
        """Drop the marks of partitions that are no longer there. Once a round."""
        for tp in [tp for tp in self.uncleanable if tp not in self._logs]:
            del self.uncleanable[tp]

    def truncated(self, log: Log) -> None:
        """A log was cut: its clean part may be shorter now. Called while the partition is paused."""
        if not log.config.is_compact:
            return
        data_dir, bound = data_dir_of(log), log.segments.active.base_offset
        if self._checkpoint(data_dir).read().get(log.topic_partition, 0) > bound:
            self._write_checkpoint(data_dir, log.topic_partition, bound)

    def _checkpoint(self, data_dir: str) -> OffsetCheckpoint:
        return OffsetCheckpoint(self._files, paths.join(data_dir, paths.CLEANER_CHECKPOINT))

    def _write_checkpoint(self, data_dir: str, tp: TopicPartition, offset: int | None) -> None:
        """Set or (None) drop one partition's entry; entries of partitions that are gone go with it."""
        checkpoint = self._checkpoint(data_dir)
        with self._checkpoint_guard:
            offsets = {known: at for known, at in checkpoint.read().items() if known in self._logs}
            offsets.pop(tp, None)
            if offset is not None:
                offsets[tp] = offset
            checkpoint.write(offsets)


def data_dir_of(log: Log) -> str:
    """The data directory that a log's directory lies in."""
    return paths.parent(log.directory)


def _name(state: _State | None) -> str:
    if isinstance(state, _Paused):
        return f"paused {state.times} times" if state.times > 1 else "paused"
    return "not held" if state is None else "being aborted" if isinstance(state, _Aborting) else "in progress"
