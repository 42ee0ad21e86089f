"""Measurement of one log in one pass over its files, of Ottla or of Apache Kafka, with or without a running broker.

Only reads. The memory is that of one chunk, of a sample of keys and of the buckets of time, whatever the log's size.
"""

from __future__ import annotations

import mmap
from array import array
from dataclasses import replace

from ...protocol.errors import CorruptRecordError
from ...protocol.records import HEADER_BYTES, RecordBatch, batch_size
from ..disk import paths
from ..disk.files import Files
from ..disk.paths import SegmentFile
from ..filter.batch_chunks import ChunkReader, unpacked, unreadable
from ..kernel import LogTally, Stop
from ..produce.txn_markers import read_marker
from ..segment.segment import LogSegment
from ..steps import Steps
from ..topics.config import LogConfig
from .summary import WRITES_EXACT, KeyRow, MeasuredSegment, OpenTransaction, RollReason, Summary, TimeBucket

CHUNK_BYTES = 2 << 20
SAMPLE_KEYS_MAX = 1 << 19
"""Keys of which the writes are counted. An estimate from a quarter of a million keys is right within a percent."""
SAMPLE_SLOTS = 2 * SAMPLE_KEYS_MAX
_SLACK_SLOTS = 1 << 12
BUCKETS = 2_048
BUCKET_MS_MIN = 1_000
FUTURE_MS = 86_400_000
"""Timestamps that are further ahead of the measurement belong to no bucket."""
JUMP_MS = 3_600_000
OPEN_TRANSACTIONS_MAX = 100
"""Open transactions in a summary, the oldest."""
_ROWS = 80
_INDEX_ENTRIES_BYTES = 24
"""Two entries of the larger index: the last one of the time index is reserved for the end of the segment."""


class LogMeasuring:
    """One measurement; `steps` runs it."""

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        clean_below: int | None,
        log_start_offset: int,
        now_ms: int,
        secret: bytes,
        sample_keys_max: int = SAMPLE_KEYS_MAX,
    ) -> None:
        """
        Args:
            directory: Of the partition.
            clean_below: The cleaner's checkpoint; None without one.
            secret: 16 random bytes.
        """
        self._files = files
        self._directory = directory
        self._config = config
        self._start = log_start_offset
        self._dirty_from = max(clean_below or 0, log_start_offset)
        self._now_ms = now_ms
        slots = 2 * sample_keys_max
        table = memoryview(mmap.mmap(-1, 32 * (slots + _SLACK_SLOTS))).cast("Q")
        self._tally = LogTally(table, slots, sample_keys_max, self._dirty_from, secret, now_ms + FUTURE_MS)
        self._tally.end_offset = log_start_offset
        self._buckets, self._begin_ms, self._width_ms = array("q", bytes(24 * BUCKETS)), -1, BUCKET_MS_MIN
        self._reader = ChunkReader(CHUNK_BYTES)
        self._open: dict[int, OpenTransaction] = {}
        self._segments: list[MeasuredSegment] = []
        self._control_end = self._control_records = self._unread_bytes = self._taken_bytes = 0
        self._packed_bytes = 0
        """Bytes that compression saves; negative, as the stored ones minus the unpacked ones."""

    def steps(self) -> Steps[Summary]:
        """Read the log; yield after each chunk.

        Raises:
            CorruptRecordError: A segment before the last one has bytes that are not a batch.
            FileNotFoundError: A broker has replaced or deleted a segment during the measurement; it can be repeated.
            OSError: The disk refused.
        """
        bases = sorted(
            found.base_offset
            for name in self._files.list(self._directory)
            if isinstance(found := paths.parse_segment_name(name), SegmentFile)
            and found.kind == paths.LOG
            and not found.suffix
        )
        latest_ms, jumps = -1, 0
        for base_offset in bases:
            segment = LogSegment.open(self._files, self._directory, base_offset, self._config, self._now_ms)
            try:
                is_last = base_offset == bases[-1]
                first = self._first_batch(segment, is_last=is_last)
                first_ms = -1 if first is None else first.max_timestamp
                if self._segments:
                    self._segments[-1] = replace(self._segments[-1], rolled_by=self._roll_reason(base_offset, first))
                self._tally.max_timestamp = -1
                size_bytes = segment.size_bytes  # the active one may grow
                yield from self._read(segment, size_bytes, is_last=is_last)
                self._segments.append(
                    MeasuredSegment(
                        base_offset=base_offset,
                        size_bytes=size_bytes,
                        first_timestamp_ms=first_ms,
                        largest_timestamp_ms=self._tally.max_timestamp,
                        rolled_by=RollReason.ACTIVE,
                    )
                )
            finally:
                segment.log_file.close()
            jumps += 0 <= first_ms < latest_ms - JUMP_MS
            if self._tally.max_timestamp <= self._now_ms + FUTURE_MS:
                latest_ms = max(latest_ms, self._tally.max_timestamp)
        return self._summary(jumps)

    def _first_batch(self, segment: LogSegment, *, is_last: bool) -> RecordBatch | None:
        try:
            return next((header for _, header in segment.headers()), None)
        except CorruptRecordError:
            if is_last:
                return None  # the first append may be in progress
            raise

    def _roll_reason(self, next_base_offset: int, following: RecordBatch | None) -> RollReason:
        """Say why the last segment so far was closed, by the first batch of the one that follows."""
        last, config = self._segments[-1], self._config
        if next_base_offset <= self._dirty_from:
            return RollReason.CLEANED
        if following is not None and last.size_bytes + following.size_bytes > config.segment_bytes:
            return RollReason.SIZE
        waited_ms = -1
        if following is not None and last.first_timestamp_ms >= 0:
            waited_ms = following.max_timestamp - last.first_timestamp_ms
        if waited_ms > config.roll_after_ms - min(config.segment_jitter_ms, config.roll_after_ms):
            return RollReason.TIME
        for kind in (paths.INDEX, paths.TIME_INDEX):
            path = paths.segment_path(self._directory, last.base_offset, kind)
            if self._files.exists(path) and self._files.size(path) > config.segment_index_bytes - _INDEX_ENTRIES_BYTES:
                return RollReason.INDEX
        return RollReason.OTHER

    def _read(self, segment: LogSegment, end: int, *, is_last: bool) -> Steps[None]:
        """Read one segment. Of the last one, bytes that are not a batch may be an append in progress."""
        self._taken_bytes = 0
        try:
            for size_bytes in self._reader.chunks(segment, 0, end):
                self._reader.advance(self._take(segment, size_bytes))
                yield
        except CorruptRecordError:
            if not is_last:
                raise
            self._unread_bytes = end - self._taken_bytes

    def _take(self, segment: LogSegment, size_bytes: int) -> int:
        """Count the whole batches of the reader's chunk; returns their bytes."""
        view, tally = self._reader.view, self._tally
        at = 0
        while True:
            at, stop = tally.take(view, at, size_bytes)
            if stop == Stop.TRANSACTION:
                stop = self._take_transactional(segment, at)
            elif stop == Stop.COMPRESSED:
                stop = self._take_block(segment, at)
            elif stop == Stop.DONE:
                self._taken_bytes += at
                return at
            if stop == Stop.FLUSH:
                self._make_room(RecordBatch(view, at).max_timestamp)
            elif stop == Stop.CORRUPT:
                self._taken_bytes += at
                raise unreadable(segment, view, at)
            elif stop == Stop.DONE:
                at += batch_size(view[at:])

    def _take_transactional(self, segment: LogSegment, at: int) -> int:
        batch = RecordBatch(self._reader.view, at)
        if not batch.is_control:
            if batch.is_transactional and batch.record_count:
                self._open.setdefault(
                    batch.producer_id,
                    OpenTransaction(
                        producer_id=batch.producer_id,
                        first_offset=batch.base_offset,
                        first_timestamp_ms=batch.max_timestamp,
                    ),
                )
            return self._take_block(segment, at)
        if read_marker(batch) is not None:
            self._open.pop(batch.producer_id, None)
        self._control_records += batch.record_count
        self._control_end = batch.next_offset  # the next batch counts it among its writes
        return int(Stop.DONE)

    def _take_block(self, segment: LogSegment, at: int) -> int:
        payload = unpacked(segment, self._reader.view, at, self._config.max_decompressed_message_bytes)
        stop = self._tally.take_block(self._reader.view, at, payload)
        if stop == Stop.DONE:
            batch = RecordBatch(self._reader.view, at)
            self._packed_bytes += batch.size_bytes - HEADER_BYTES - len(payload)
        return stop

    def _make_room(self, timestamp_ms: int) -> None:
        """Change the buckets so that they contain this time: begin earlier, or make them wider."""
        if self._begin_ms < 0:
            self._begin_ms = timestamp_ms
        else:
            begin_ms, end_ms = self._begin_ms, self._begin_ms + BUCKETS * self._width_ms
            begin_ms, end_ms, width_ms = min(begin_ms, timestamp_ms), max(end_ms, timestamp_ms + 1), self._width_ms
            while BUCKETS * width_ms < end_ms - begin_ms:
                width_ms *= 2
            moved = array("q", bytes(len(self._buckets) * 8))
            for at in range(0, len(moved), 3):
                if any(self._buckets[at : at + 3]):
                    to = (self._begin_ms + at // 3 * self._width_ms - begin_ms) // width_ms * 3
                    for column in range(3):
                        moved[to + column] += self._buckets[at + column]
            self._buckets, self._begin_ms, self._width_ms = moved, begin_ms, width_ms
        self._tally.set_buckets(self._buckets, self._begin_ms, self._width_ms)

    def _summary(self, jumps: int) -> Summary:
        tally = self._tally
        counts = array("q", bytes(16 * _ROWS))
        tally.count_keys(counts)
        share = 1 << tally.sample_bits
        rows = [
            KeyRow(writes_min=_writes_min(row), keys=keys * share, writes=counts[2 * row + 1] * share)
            for row in range(_ROWS)
            if (keys := counts[2 * row])
        ]
        end_offset = max([tally.end_offset, self._control_end, *(each.base_offset for each in self._segments)])
        return Summary(
            log_start_offset=self._start,
            first_dirty_offset=min(self._dirty_from, end_offset),
            log_end_offset=end_offset,
            size_bytes=sum(each.size_bytes for each in self._segments),
            batches=tally.batches,
            records=tally.records,
            record_bytes=tally.record_bytes,
            keyless_records=tally.keyless,
            tombstones=tally.tombstones,
            tombstone_bytes=tally.tombstone_bytes,
            unpacked_bytes=tally.record_bytes - self._packed_bytes,
            control_records=self._control_records,
            dirty_records=tally.dirty_records,
            writes_per_key=tuple(rows),
            sampled_keys=tally.keys,
            live_keys=tally.live_keys * share,
            live_bytes=tally.live_bytes * share,
            bucket_ms=self._width_ms,
            buckets=tuple(
                TimeBucket(
                    begin_ms=self._begin_ms + at // 3 * self._width_ms,
                    writes=self._buckets[at],
                    records=self._buckets[at + 1],
                    size_bytes=self._buckets[at + 2],
                )
                for at in range(0, len(self._buckets), 3)
                if self._buckets[at + 1]
            ),
            segments=tuple(self._segments),
            open_transactions=tuple(sorted(self._open.values(), key=_first_offset)[:OPEN_TRANSACTIONS_MAX]),
            future_records=tally.future,
            untimed_records=tally.untimed,
            backward_jumps=jumps,
            unread_bytes=self._unread_bytes,
        )


def _writes_min(row: int) -> int:
    return row if row < WRITES_EXACT else 1 << (row - WRITES_EXACT + 4)


def _first_offset(transaction: OpenTransaction) -> int:
    return transaction.first_offset
