"""Durability of a log: which part survives a power loss, and how a flush extends it.

make                                        an empty log gets its directory and its log file
begin_flush -> Flush.sync, in any thread -> end_flush: the recovery point moves up, and with `flush.messages` the high
                                            watermark after it
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TypeVar

from ..disk.checkpoints import write_partition_metadata
from ..segment.segment import LogSegment
from ..topics.config import LogConfig
from .flush import Flush
from .log_parts import LogContents, LogPlace
from .log_reader import LogReader

Asked = TypeVar("Asked", bound="DurableLog")


class DurableLog(LogReader):
    """A log that can be flushed. `log.Log` adds appends."""

    def __init__(self, place: LogPlace, config: LogConfig, contents: LogContents) -> None:
        super().__init__(place, config, contents)
        self.last_flush_ms = 0
        """Time of the last flush or, before the first, of opening; in elapsed time."""
        self.is_place_on_disk = True
        """Whether the name of its directory is on disk; see `Log.relocate`."""
        self.is_made = contents.is_on_disk
        """Whether the log has a directory and a log file."""
        self._making = None if contents.is_on_disk else threading.Lock()
        """Held by the thread that makes the log; None once it is made."""

    def make(self) -> None:
        """Create the log's directory and log file unless they exist. In any thread, while the owner's does not append.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: the disk refused; the next call tries again. Or the partition was deleted.
        """
        making = self._making
        if making is None:
            return
        with making, self._working():
            if self._making is None:
                return  # another thread made it
            files, empty = self.files, self._active
            files.make_dir(self.directory)
            if self.topic_id is not None:
                write_partition_metadata(files, self.directory, self.topic_id)
            segment = LogSegment.create(files, self.directory, empty.base_offset, self.config, empty.created_ms)
            segment.rolling_jitter_ms = empty.rolling_jitter_ms
            # A later flush syncs only the log file and the names in its directory, so the directory's own name comes first.
            files.sync_dir(self.data_dir)
            self.segments.exchange((segment,), (empty,))
            self._active = segment
            self._making, self.is_made = None, True

    def has_directory(self) -> bool:
        """Whether the log has a directory, complete or not. Waits for a thread that is in `make`.

        The caller makes sure that no other thread begins to `make` it.
        """
        making = self._making
        if making is None:
            return True
        with making:
            return self.files.exists(self.directory)

    @property
    def needs_flush(self) -> bool:
        """Whether `flush.messages` demands a flush before the last append may be acknowledged, or read."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    @property
    def recovery_checkpoint(self) -> int:
        """Offset below which recovery need not scan if the broker crashed now. Any thread.

        The recovery point, but not above the base of the active segment: a flush syncs that one's records, not its indexes.
        Once the segment is sealed, recovery would skip it and take incomplete indexes for complete ones. Recovery reads
        whole segments, so this costs no further reads.
        """
        active = self._active  # read first, as a roll sets the recovery point back first
        return min(self.recovery_point, active.base_offset)

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether `begin_flush_of_sealed` has segments to flush, and the log is online."""
        return self.recovery_point < self._active.base_offset and self.failure is None

    def is_flush_due(self, elapsed_ms: int) -> bool:
        """Whether appends have waited `flush.ms` for a flush, or the flush that `flush.messages` demands was refused."""
        return (
            self.recovery_point < self.log_end_offset
            and self.failure is None
            and (self.needs_flush or elapsed_ms - self.last_flush_ms >= self.config.flush_ms)
        )

    @staticmethod
    def wanting_flush(logs: Iterable[Asked], elapsed_ms: int) -> list[Asked]:
        """Select the logs for which `is_flush_due` or `has_unflushed_segments` may hold.

        Called every second for thousands of logs, nearly all of them idle, so it reads as little of each as possible.
        """
        return [
            log
            for log in logs
            if (point := log.recovery_point) < log.log_end_offset
            and (
                point < log._active.base_offset
                or elapsed_ms - log.last_flush_ms >= log.config.flush_ms
                or log.log_end_offset - point >= log.config.flush_messages
            )
        ]

    def begin_flush(self) -> Flush | None:
        """Return the flush that makes all appends so far durable; None if they are.

        The caller runs its `sync`, in this thread or another, and then calls `end_flush`. Further appends, and
        further flushes, may come in between: one sync may serve many appends that wait for it.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: the log is offline. After a failed sync no later one guarantees anything.
        """
        self._check_online()
        if self.recovery_point >= self.log_end_offset:
            return None
        unflushed = self.segments.between(self.recovery_point, self.log_end_offset + 1)
        return self._flush_of(self.log_end_offset, unflushed[:-1], unflushed[-1])

    def begin_flush_of_sealed(self) -> Flush | None:
        """Begin a flush of the sealed segments only, as Apache Kafka does in the background after a roll."""
        self._check_online()
        end = self._active.base_offset
        if self.recovery_point >= end:
            return None
        return self._flush_of(end, self.segments.between(self.recovery_point, end), None)

    def _flush_of(self, up_to: int, sealed: tuple[LogSegment, ...], active: LogSegment | None) -> Flush:
        segments = sealed if active is None else (*sealed, active)
        has_new_names = any(segment.base_offset >= self.recovery_point for segment in segments)
        names_in = self.directory if has_new_names else None
        new_directory_in = None if self.is_place_on_disk else self.data_dir
        return Flush(up_to, [*sealed], active, self.leader_epochs, self.files, self._health, names_in, new_directory_in)

    def end_flush(self, done: Flush, elapsed_ms: int) -> None:
        """Note that `done.sync` has returned.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: the log went offline during the flush; the recovery point stays.
        """
        self._check_online()
        up_to = min(done.up_to, self.log_end_offset)
        if done.active is not None and done.active is not self._active:
            up_to = min(up_to, done.active.base_offset)  # sealed during the flush; its indexes are not synced yet
        self.recovery_point = max(self.recovery_point, up_to)
        self.high_watermark = max(self.high_watermark, self.recovery_point)
        if not self.needs_flush:
            self.high_watermark = self.log_end_offset
        self.last_flush_ms = elapsed_ms

    def flush(self, elapsed_ms: int) -> None:
        """Make every append so far durable, waiting for the disk.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; the recovery point stays, and if a sync failed, the log is offline.
        """
        if (flush := self.begin_flush()) is not None:
            with self._working():
                flush.sync()
            self.end_flush(flush, elapsed_ms)
