"""Survivors and gaps: which offsets of a range still have a record. Reads the log in steps, up to fixed limits."""

from __future__ import annotations

from ...protocol.compression import UnpackLimitError
from ...protocol.records import RecordBatch
from ..logs.log import Log
from ..segment.segment import LogSegment
from ..steps import Steps
from .log_picture import Bucket, Contents, Horizon

BUCKETS_MAX = 1_000
READ_BYTES_MAX = 16 << 20
"""Bytes that one picture reads."""
UNPACKED_BYTES_MAX = 64 << 20
"""Unpacked bytes in one picture, not counting the batch that exceeds this."""
BATCH_BYTES_MAX = 32 << 20
"""Largest batch, unpacked: a kilobyte may unpack to megabytes. The picture ends before a larger batch."""


class RangeScan:
    """One scan of a range. Make it on the thread that owns the log; any other thread may run its `steps`."""

    def __init__(self, log: Log, from_offset: int, to_offset: int, *, buckets: int) -> None:
        """
        Args:
            from_offset, to_offset: Range within the log, the end exclusive; an empty range has no buckets.
            buckets: Largest number of buckets; each has at least one offset.
        """
        self._segments = log.segments.between(from_offset, to_offset)
        self._active = log.segments.active
        # The active segment's index grows, so it is used here; the other indexes in `steps`, which may read the disk.
        self._position = self._active.floor_position(from_offset) if self._active in self._segments else 0
        self._from, self._to = from_offset, to_offset
        span = max(0, to_offset - from_offset)
        self._count = min(buckets, span)
        self._edges = [from_offset + span * at // self._count for at in range(self._count + 1)] if span else []
        self._records = [0] * self._count
        self._tombstones = [0] * self._count
        self._markers = [0] * self._count
        self._horizon: Horizon | None = None
        self._read_bytes = self._unpacked_bytes = 0
        self._reached = to_offset

    def steps(self) -> Steps[Contents]:
        """Scan the range; yields after each batch.

        Raises:
            CorruptRecordError: A batch cannot be read.
            OSError: The disk refused.
        """
        for segment in self._segments if self._count else ():
            if not (yield from self._segment(segment)):
                break
        return self._contents()

    def _segment(self, segment: LogSegment) -> Steps[bool]:
        """Scan one segment; returns whether to continue with the next one."""
        position = self._position if segment is self._active else segment.floor_position(self._from)
        for _, batch in segment.batches(position):
            if batch.base_offset >= self._to:
                return False
            if self._read_bytes >= READ_BYTES_MAX or self._unpacked_bytes >= UNPACKED_BYTES_MAX:
                self._reached = max(self._from, batch.base_offset)
                return False
            self._read_bytes += batch.size_bytes
            if batch.last_offset >= self._from and not self._take(batch):
                self._reached = max(self._from, batch.base_offset)
                return False
            yield
        return True

    def _take(self, batch: RecordBatch) -> bool:
        """Count the records of a batch; returns False if it unpacks to more than BATCH_BYTES_MAX."""
        horizon_ms = batch.delete_horizon_ms
        if horizon_ms is not None and (self._horizon is None or horizon_ms < self._horizon.at_ms):
            self._horizon = Horizon(at_ms=horizon_ms, offset=batch.base_offset)
        if batch.is_control:
            self._count_one(batch.base_offset, is_marker=True)
            return True
        try:
            payload = batch.payload(max_bytes=BATCH_BYTES_MAX)
        except UnpackLimitError:
            return False
        self._unpacked_bytes += len(payload)
        for record in batch.spans(payload):
            self._count_one(record.offset, is_tombstone=not record.has_value)
        return True

    def _count_one(self, offset: int, *, is_marker: bool = False, is_tombstone: bool = False) -> None:
        if not self._from <= offset < self._to:
            return
        # The inverse of `_edges`: the last bucket whose edge is not above the offset.
        at = ((offset - self._from + 1) * self._count - 1) // (self._to - self._from)
        self._records[at] += 1
        self._markers[at] += is_marker
        self._tombstones[at] += is_tombstone

    def _contents(self) -> Contents:
        buckets = [
            Bucket(
                from_offset=self._edges[at],
                to_offset=self._edges[at + 1],
                records=self._records[at],
                tombstones=self._tombstones[at],
                markers=self._markers[at],
            )
            for at in range(self._count)
            if self._edges[at] < self._reached
        ]
        return Contents(
            from_offset=self._from,
            to_offset=self._to,
            buckets=tuple(buckets),
            looked_at_to_offset=self._reached,
            records=sum(self._records),
            horizon=self._horizon,
        )
