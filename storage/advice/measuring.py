"""Measurement of one log in one pass over its files, of Ottla or of Apache Kafka, with or without a running broker.

Only reads. The memory is that of one chunk and of a `BatchTally`, whatever the log's size.
"""

from __future__ import annotations

from dataclasses import replace

from ...protocol.errors import CorruptRecordError
from ...protocol.records import RecordBatch
from ..disk import paths
from ..disk.files import Files
from ..disk.paths import SegmentFile
from ..filter.batch_chunks import ChunkReader, place_of
from ..segment.segment import LogSegment
from ..steps import Steps
from ..topics.config import LogConfig
from .summary import MeasuredSegment, RollReason, Summary
from .tallying import SAMPLE_KEYS_MAX, BatchTally

CHUNK_BYTES = 2 << 20
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
        self._now_ms = now_ms
        self._dirty_from = max(clean_below or 0, log_start_offset)
        self._tally = BatchTally(
            log_start_offset=log_start_offset,
            dirty_from=self._dirty_from,
            record_bytes_max=config.max_decompressed_message_bytes,
            now_ms=now_ms,
            secret=secret,
            sample_keys_max=sample_keys_max,
        )
        self._reader = ChunkReader(CHUNK_BYTES)
        self._segments: list[MeasuredSegment] = []
        self._unread_bytes = 0

    def steps(self) -> Steps[Summary]:
        """Read the log; yield after each chunk.

        Raises:
            CorruptRecordError: A segment before the last one has bytes that are not a batch, or an offset is too large.
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
        for base_offset in bases:
            segment = LogSegment.open(self._files, self._directory, base_offset, self._config, self._now_ms)
            try:
                is_last = base_offset == bases[-1]
                first = self._first_batch(segment, is_last=is_last)
                first_ms = -1 if first is None else first.max_timestamp
                if self._segments:
                    self._segments[-1] = replace(self._segments[-1], rolled_by=self._roll_reason(base_offset, first))
                self._tally.kernel.max_timestamp = -1
                size_bytes = segment.size_bytes  # the active one may grow
                yield from self._read(segment, size_bytes, is_last=is_last)
                self._segments.append(
                    MeasuredSegment(
                        base_offset=base_offset,
                        size_bytes=size_bytes,
                        first_timestamp_ms=first_ms,
                        largest_timestamp_ms=self._tally.kernel.max_timestamp,
                        rolled_by=RollReason.ACTIVE,
                    )
                )
            finally:
                segment.log_file.close()
        return self._tally.summary(
            segments=tuple(self._segments),
            size_bytes=sum(each.size_bytes for each in self._segments),
            end_offset=max((each.base_offset for each in self._segments), default=0),
            unread_bytes=self._unread_bytes,
        )

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
        reader, taken_bytes, place = self._reader, 0, place_of(segment)
        try:
            for size_bytes in reader.chunks(segment, 0, end):
                try:
                    reader.advance(self._tally.take(reader.view, size_bytes, place))
                finally:
                    taken_bytes += self._tally.taken_bytes
                yield
        except CorruptRecordError:
            if not is_last:
                raise
            self._unread_bytes = end - taken_bytes
