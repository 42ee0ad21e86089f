"""One partition: a list of segments that grows at its end. The only place that assigns offsets.

The server appends and reads on its one thread, which owns all state here; nothing is locked. Retention and the swap of
the cleaner change the list on that thread also. Worker threads get objects that the owner does not change: sealed segments,
a `Flush`, a `Deletion`, the file half of a swap. Only those wait for the disk; an append, a roll or a move of the log start
syncs nothing.

Steps of an append, in order; until the write nothing has changed:

    check the batch, assign offsets -> check the producer states -> roll if the segment is full
        -> write -> move the LEO -> update the producer states

`now_ms` is wall time, for what is stored; `elapsed_ms` is the time of a monotonic clock, for what has to wait.

`log_reader` has a drawing of a log's offsets.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.records import HEADER_BYTES, NO_PRODUCER_ID, NO_TIMESTAMP, RecordBatch
from ..disk import paths
from ..disk.files import WouldWaitError
from ..disk.health import is_disk_failure
from ..produce import producer_snapshots
from ..produce.record_checks import CheckedBatch
from ..produce.validation import AppendOrigin, admit, assign, check_batch
from ..segment.cleaned import discard
from ..segment.leader_epochs import LeaderEpochs
from ..segment.segment import LogSegment
from ..topics.config import LogConfig
from .deletion import DeletedFiles, Deletion
from .durable_log import DurableLog
from .large_append import AT_ONCE_WRITTEN_BYTES, LargeAppend
from .log_parts import LogContents, LogPlace
from .replay import update_producers
from .retention import SEGMENTS_AT_ONCE, deletable_segments
from .swap import is_begun, swap_files


@dataclass(slots=True)
class AppendInfo:
    """Result of an append: the offsets of the records."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """Timestamp that the log has given to the records under LogAppendTime; -1 under CreateTime."""
    log_start_offset: int
    duplicate: bool = False
    """Whether the producer had sent this batch before: nothing was written, and the offsets are those of the first time."""


class Log(DurableLog):
    """An open partition. Made by `recovery.load_log`, kept by the LogManager."""

    def __init__(self, place: LogPlace, config: LogConfig, contents: LogContents, rng: random.Random) -> None:
        """Make a log from what recovery found; `rng` draws the jitter of `segment.jitter.ms`."""
        super().__init__(place, config, contents)
        self.deleted_files = DeletedFiles(place.directory)
        self._rng = rng
        self._large = LargeAppend()
        self._must_roll = False
        """Whether a roll failed half-way. A file that begins at the LEO may exist, so nothing may be appended to the segment
        before it until the roll is done."""
        self._draw_jitter()

    # Appending

    def check(
        self,
        records: memoryview,
        *,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        at_once: bool = False,
    ) -> CheckedBatch:
        """Check a batch: the first step of an append, and the one that may be slow. In any thread, for any number of batches.

        Arguments and errors as for `append`.
        """
        return check_batch(
            records,
            topic_partition=self.topic_partition,
            config=self.config,
            now_ms=now_ms,
            origin=origin,
            at_once=at_once,
        )

    def append(
        self,
        records: memoryview | CheckedBatch,
        *,
        now_ms: int,
        leader_epoch: int = 0,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        at_once: bool = False,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Check a produced record batch, assign offsets to its records and write it.

        Args:
            records: One record batch (magic 2), as received. Offsets and leader epoch, and under LogAppendTime the
                timestamps, are patched in place. Or what `check` made of it.
            now_ms: Wall clock, for timestamp bounds, LogAppendTime and rolling.
            leader_epoch: Epoch of the partition's leader, written into each batch.
            origin: Kind of writer; only a COORDINATOR may write control batches.
            at_once: Do not block: raise if the check takes longer than 200 µs, if the first append after a start has to
                read, or if the log's directory has to be made.
            transaction_version: Version of the transaction that a marker ends; see `ProducerStates.check`.

        Returns:
            The assigned offsets (both inclusive). For a batch that the producer has repeated: those of the first time.

        Raises:
            KafkaError: CORRUPT_MESSAGE, INVALID_RECORD (as InvalidRecordError with the records' errors),
                INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE; RECORD_LIST_TOO_LARGE (more than
                `segment.bytes`); OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH and the like. Nothing was
                written. KAFKA_STORAGE_ERROR: the disk refused, or no offset is left; the log is as before the call. After
                any error the bytes of `records` are as before the call also.
            LargeBatchError: Only if `at_once`: `check` the batch in another thread, then append the result. Or, if it was
                begun, have another thread write it, then append the same CheckedBatch again. An append in between makes the
                write start again.
            WouldWaitError: Only if `at_once`.

        The records are readable on return, or, if the log `needs_flush`, after the next `flush`. They are durable after that.
        Source: KIP-98 (batches, sequences), KIP-101 (leader epochs).
        """
        if self._health.failure is not None:
            raise self._offline()
        if self._making is not None:
            if at_once:
                raise WouldWaitError(self.make)
            self.make()
        if at_once and not self._active.is_ready:
            raise WouldWaitError(self._active.get_ready)
        checked: CheckedBatch | None = None
        if isinstance(records, CheckedBatch):
            checked, view = records, records.batch.view
            if checked.config is not self.config:  # the topic was reconfigured since the check
                checked = self.check(view, now_ms=now_ms, origin=origin, at_once=at_once)
                view = checked.batch.view
        elif len(records) > AT_ONCE_WRITTEN_BYTES:
            checked = self.check(records, now_ms=now_ms, origin=origin, at_once=at_once)
            view = checked.batch.view
        else:
            view = records
        header = view[:HEADER_BYTES].tobytes()
        try:
            return self._append(view, checked, now_ms, leader_epoch, origin, at_once, transaction_version)
        except BaseException:
            # Only the header is patched. The batch may be checked again under other options, or appended again.
            if not view.readonly:
                view[:HEADER_BYTES] = header
            raise

    def _append(
        self,
        view: memoryview,
        checked: CheckedBatch | None,
        now_ms: int,
        leader_epoch: int,
        origin: AppendOrigin,
        at_once: bool,
        transaction_version: int,
    ) -> AppendInfo:
        """Append a batch that was checked or is not large. Patches the header, and may fail after that."""
        config, base_offset, log_append_time_ms = self.config, self.log_end_offset, NO_TIMESTAMP
        found = admit(view, config, base_offset, now_ms, leader_epoch) if checked is None else None
        if found is None:
            if checked is None:
                checked = self.check(view, now_ms=now_ms, origin=origin, at_once=at_once)
            valid = assign(checked, next_offset=base_offset, now_ms=now_ms, leader_epoch=leader_epoch)
            view, (batch,), log_append_time_ms = valid
            found = batch.last_offset_delta, batch.max_timestamp, batch.producer_id
        last_offset_delta, max_timestamp_ms, producer_id = found
        size_bytes = len(view)
        if size_bytes > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"The batch for {self.topic_partition} has {size_bytes} bytes, which exceeds"
                f" segment.bytes={config.segment_bytes}",
            )
        has_producer = producer_id != NO_PRODUCER_ID
        if has_producer:
            batch = RecordBatch(view)
            if (first := self.producers.check(batch, origin, transaction_version)) is not None:
                return AppendInfo(first.base_offset, first.last_offset, first.timestamp, self.log_start_offset, True)
        last_offset = base_offset + last_offset_delta
        if last_offset >= paths.OFFSET_MAX:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{self.topic_partition}: not enough offsets left below 2^63 (log end {base_offset}, batch needs"
                f" {last_offset_delta + 1})",
            )
        try:
            self.leader_epochs.assign(leader_epoch, base_offset)
            segment = self._active
            if self._must_roll or segment.is_full_for(size_bytes, last_offset, max_timestamp_ms, now_ms, config):
                segment = self._roll(now_ms)
            ahead = None
            if checked is not None and at_once and size_bytes > AT_ONCE_WRITTEN_BYTES:
                ahead = self._large.take_written(checked, segment, view)
            segment.append(view, last_offset, max_timestamp_ms, last_offset, ahead)
        except OSError as error:
            raise self.fail(error) from error
        if base_offset == segment.base_offset:
            segment.first_append_ms = now_ms
        self.log_end_offset = end = last_offset + 1
        if end - self.recovery_point < config.flush_messages:
            self.high_watermark = end
        if has_producer:
            try:
                if (aborted := update_producers(self.producers, batch)) is not None:
                    segment.txn_index.append(aborted)
            except Exception as error:
                self.give_up(
                    f"append failed halfway: {error!r}"
                )  # the log has everything about its producers: a start reads it
                raise
            if origin is AppendOrigin.COORDINATOR and batch.is_control:
                self.counter.note_marker()
        return AppendInfo(base_offset, last_offset, log_append_time_ms, self.log_start_offset)

    def give_up_large(self) -> None:
        """Drop a large write: the caller that got its LargeBatchError will not append."""
        try:
            self._large.give_up()
        except OSError as error:
            self.fail(error)

    def roll(self, now_ms: int) -> LogSegment:
        """Seal the active segment and begin a new one at the LEO; an empty active segment stays.

        Returns the active segment. A snapshot of the producers is written for its base. Nothing is synced: until the
        next `flush` a crash is repaired from the recovery point.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR. The log takes no appends until a roll succeeds; the next append tries it.
        """
        with self._working():
            return self._roll(now_ms)

    def _roll(self, now_ms: int) -> LogSegment:
        sealed = self._active
        if sealed.size_bytes == 0 and sealed.base_offset == self.log_end_offset:
            return sealed
        self._must_roll = True
        sealed.on_roll(at_once=True)
        # A flush may have synced all records of this segment while it was active, but not its indexes. The recovery point
        # moves before the active segment changes: see `recovery_checkpoint`.
        self.recovery_point = min(self.recovery_point, self.log_end_offset - 1)
        segment = LogSegment.create(self.files, self.directory, self.log_end_offset, self.config, now_ms)
        self.producers.end_offset = segment.base_offset
        producer_snapshots.take(self.files, self.directory, self.producers, sync=False)
        self.segments.add(segment)
        self._active = segment
        self.counter.note_roll()
        self._draw_jitter()
        self._must_roll = False
        return segment

    def _draw_jitter(self) -> None:
        """Draw by how much the new active segment rolls early; for each segment, as in Apache Kafka.

        The jitter is less than the time after which the segment rolls: otherwise each append would begin a segment.
        """
        jitter_ms = min(self.config.segment_jitter_ms, self.config.roll_after_ms)
        self._active.rolling_jitter_ms = self._rng.randrange(jitter_ms) if jitter_ms > 0 else 0

    # Log start and retention

    def advance_log_start(self, offset: int) -> None:
        """Hide the records below `offset`; one below the present log start changes nothing.

        The next deletion removes segments that are wholly below.

        Raises:
            KafkaError: OFFSET_OUT_OF_RANGE above the high watermark; KAFKA_STORAGE_ERROR.
        """
        with self._working():
            if offset > self.high_watermark:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Cannot start {self.topic_partition} at {offset}, above its high watermark {self.high_watermark}",
                )
            if offset > self.log_start_offset:
                self.leader_epochs.truncate_from_start(offset)
                self.log_start_offset = offset

    def begin_deletion(self, now_ms: int, *, at_once: bool = False) -> Deletion | None:
        """Begin to delete what retention no longer keeps (`retention.deletable_segments`): move the log start above it.

        Returns None if nothing is to delete. If one deletion is not enough, it `has_more`: the next one may follow at once. If
        all segments go, a new one begins first, so the LEO is kept. On a full disk everything is deleted whose deletion needs
        no space: the active segment stays, and epochs from before the start are removed later.

        The caller runs `rename_files` in any thread and then calls `end_deletion`, even after an error. Reads and appends are
        allowed in between; another deletion or a swap is not. The caller makes sure that the cleaner does not hold this log.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
            WouldWaitError: Only if `at_once`: a segment's age has to be read from the disk.
        """
        with self._working():
            deletable = deletable_segments(self, now_ms, at_once=at_once, at_most=SEGMENTS_AT_ONCE)
            has_more = len(deletable) == SEGMENTS_AT_ONCE
            if not deletable:
                return None
            if len(deletable) == len(self.segments):
                try:
                    self._roll(now_ms)
                except OSError as error:
                    if is_disk_failure(error) or len(deletable) == 1:
                        raise
                    deletable.pop()
                    has_more = False
            staying = self.segments.higher(deletable[-1].base_offset) or self._active
            self.log_start_offset = max(self.log_start_offset, staying.base_offset)
            return Deletion(
                self.files,
                self.directory,
                self.leader_epochs,
                deletable,
                staying.base_offset,
                one_by_one=self.config.is_compact and len(deletable) > 1,
                has_more=has_more,
            )

    def end_deletion(self, deletion: Deletion, elapsed_ms: int) -> None:
        """Remove from the list what `deletion` has renamed; the rest stays for the next deletion."""
        # Not before: until then a power loss may bring the segments back, and their epochs must come back with them.
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        self.segments.remove(deletion.renamed)
        self._delete_later(deletion.renamed, (), elapsed_ms)

    def _delete_later(
        self, segments: Sequence[LogSegment], snapshots_of: Sequence[LogSegment], elapsed_ms: int
    ) -> None:
        """Schedule the removal of renamed segments' files, and of the snapshots at the bases of some of them."""
        bases, snapshot_bases = ([each.base_offset for each in some] for some in (segments, snapshots_of))
        self.deleted_files.add(bases, snapshot_bases, elapsed_ms + self.config.file_delete_delay_ms)

    # The swap of the cleaner

    def prepare_swap(self, new_segments: Sequence[LogSegment], old_segments: Sequence[LogSegment]) -> None:
        """Replace the files of old segments by those of cleaned ones; for a worker thread. See `swap.swap_files`.

        The list is not touched: reads use the old segments until `commit_swap`. No retention or deletion of this log may happen
        in between; the cleaner's state of the partition prevents that.

        Raises:
            OSError, or another such as MemoryError: If renaming had begun, the log is given up: the next start finishes
                the swap or undoes it. Otherwise the new segments are deleted, and the log is as before.
        """
        try:
            self.leader_epochs.write()
            swap_files(self.files, self.directory, new_segments, old_segments)
        except BaseException as error:
            if is_begun(new_segments):
                self._give_up_swap(error)
            else:
                discard(self.files, self.directory, new_segments)
            raise

    def _give_up_swap(self, error: BaseException) -> None:
        if isinstance(error, OSError):
            self._health.note(error)
        self.give_up(f"segment swap failed halfway: {error!r}")

    def commit_swap(
        self, new_segments: Sequence[LogSegment], old_segments: Sequence[LogSegment], elapsed_ms: int
    ) -> None:
        """Replace the segments in the list, in one step; for the owner's thread. The LEO and log start stay."""
        try:
            self.segments.exchange(new_segments, old_segments)
        except BaseException as error:
            self._give_up_swap(error)
            raise
        following = self.segments.higher(old_segments[-1].base_offset)
        self.counter.note_swap(self.log_end_offset if following is None else following.base_offset)
        new_bases = {segment.base_offset for segment in new_segments}
        merged_away = [segment for segment in old_segments if segment.base_offset not in new_bases]
        self._delete_later(old_segments, merged_away, elapsed_ms)

    def replace_segments(
        self, new_segments: Sequence[LogSegment], old_segments: Sequence[LogSegment], elapsed_ms: int
    ) -> None:
        """Run `prepare_swap` and `commit_swap` in one thread."""
        with self._working():
            self.prepare_swap(new_segments, old_segments)
        self.commit_swap(new_segments, old_segments, elapsed_ms)

    # Another place

    def relocate(self, place: LogPlace, segments: Sequence[LogSegment], leader_epochs: LeaderEpochs, safe: int) -> None:
        """Switch to another directory with the same content; for the owner's thread, in the same turn as the comparison.

        Offsets, producers and the segments' bounds stay. The log no longer removes the `.deleted` files of the old directory.

        Args:
            segments: One for each of the present segments; the active one is last.
            leader_epochs: The epochs file of that directory. Its content is replaced by the present epochs.
            safe: Offset up to which the copy is on disk. The directory's name need not be: `is_place_on_disk` is False then.
        """
        leader_epochs.take_over(self.leader_epochs)
        active = self._active
        segments[-1].go_on_from(active)
        self.segments.exchange(segments, list(self.segments))
        self._active = self.segments.active
        self.directory = place.directory
        self.data_dir = paths.parent(place.directory)
        self._health = place.health
        self.leader_epochs = leader_epochs
        self.deleted_files = DeletedFiles(place.directory)
        self.recovery_point = min(self.recovery_point, safe)
        self.is_place_on_disk = False

    # The end

    def close(self, now_ms: int) -> None:
        """Make everything durable, and write what a start without recovery needs: indexes and a producer snapshot at the LEO.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR: the disk refused; this is not a clean stop.
        """
        with suppress(KafkaError):
            self.make()
        if not self.is_made:
            return  # the next start finds no directory, and makes an unmade log again
        with self._working():
            if self._must_roll:
                self._roll(now_ms)
            self.leader_epochs.write()
            if self.log_end_offset == 0 and not self._active.is_preallocated:
                return  # nothing was ever appended: a start finds that, whatever a power loss leaves
            self._active.on_roll()
            for segment in self.segments.between(self.recovery_point, self.log_end_offset + 1):
                segment.flush()
            if self.log_end_offset > self.log_start_offset:
                self.producers.end_offset = self.log_end_offset
                producer_snapshots.take(self.files, self.directory, self.producers, sync=True)
            self.files.sync_dir(self.directory)
        self.recovery_point = self.high_watermark = self.log_end_offset

    def release_files(self) -> None:
        """Close the log's files; it can no longer be read. For the end of the broker, after `close` or instead of it."""
        for segment in self.segments:
            segment.log_file.close()
