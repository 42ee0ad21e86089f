"""Segments and transactions of one log, from the headers of its batches and from its markers.

The indexes of a running broker are incomplete, and those after a crash may be missing. So the outcome of each transaction is that
of the marker in the log, and timestamps are those of the batches.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import cast

from ...protocol.errors import CorruptRecordError
from ...protocol.records import RecordBatch
from ..cleaning.dirtiness import Bound, Dirtiness, dirtiness_in_pieces, find_bound_in_pieces
from ..cleaning.key_history import TransactionOutcome
from ..disk.files import Files
from ..logs.record_counts import RecordCounter
from ..logs.segments import SegmentList
from ..produce.txn_markers import ABORT_MARKER, read_marker
from ..segment.batch_scan import SCAN_CHUNK_BYTES, UNREADABLE, batch_walk
from ..segment.segment import LogSegment
from ..steps import Steps, to_the_end
from ..topics.config import LogConfig

MARKER_BYTES_MAX = 1 << 10
"""Control batches up to this size are read whole. A marker has less than a tenth of this."""


@dataclass(slots=True)
class SurveyedSegment:
    """A segment file; the part of `LogSegment` that `cleaning.dirtiness` measures."""

    path: str
    base_offset: int
    file_bytes: int
    """Size of the file when it was opened. Later bytes are not searched."""
    size_bytes: int = 0
    """Bytes of whole batches."""
    largest_timestamp_ms: int = -1
    """If no batch has a timestamp, the file's modification time."""
    first_batch_timestamp_ms: int = -1


class LogSurvey:
    """One log, opened for reading only; `cleaning.dirtiness.Measurable`."""

    def __init__(self, files: Files, config: LogConfig, log_start_offset: int) -> None:
        self.config = config
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_start_offset
        self.counter = RecordCounter(log_start_offset)
        """Knows nothing."""
        self.surveyed: list[SurveyedSegment] = []
        self._files = files
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        """Producer ID -> first offset and offset of the marker, ascending."""
        self._open: dict[int, int] = {}
        """Producer ID -> first offset of its open transaction."""

    def add(self, path: str, base_offset: int) -> Steps[None]:
        """Read the headers of the next segment; yields after each batch.

        Raises:
            OSError: The file cannot be read.
        """
        file = self._files.open(path)
        try:
            found = SurveyedSegment(path, base_offset, file.size())
            self.surveyed.append(found)
            self.log_end_offset = max(self.log_end_offset, base_offset)
            try:
                for position, batch in batch_walk(
                    file, 0, path, chunk_bytes=SCAN_CHUNK_BYTES, whole_bytes_max=MARKER_BYTES_MAX
                ):
                    if not position:
                        found.first_batch_timestamp_ms = batch.max_timestamp
                    found.size_bytes = position + batch.size_bytes
                    found.largest_timestamp_ms = max(found.largest_timestamp_ms, batch.max_timestamp)
                    self.log_end_offset = max(self.log_end_offset, batch.next_offset)
                    if batch.is_transactional:
                        self._note(batch)
                    yield
            except UNREADABLE:
                pass  # the search reports it
            if found.largest_timestamp_ms < 0:
                found.largest_timestamp_ms = file.mtime_ms()
        finally:
            file.close()

    def _note(self, batch: RecordBatch) -> None:
        if not batch.is_control:
            if batch.record_count:  # a pass may have emptied the batch, and removed the marker
                self._open.setdefault(batch.producer_id, batch.base_offset)
            return
        try:
            marker = read_marker(batch) if batch.is_whole else None
        except CorruptRecordError:
            return
        if marker is not None:
            first_offset = self._open.pop(batch.producer_id, None)
            if first_offset is not None and marker.kind == ABORT_MARKER:
                self._aborted.setdefault(batch.producer_id, []).append((first_offset, batch.base_offset))

    def outcome(self, batch: RecordBatch) -> TransactionOutcome:
        """Return the outcome of the transaction of a batch that was surveyed."""
        if not batch.is_transactional:
            return TransactionOutcome.NONE
        if batch.base_offset >= self._open.get(batch.producer_id, self.log_end_offset):
            return TransactionOutcome.OPEN
        aborted = self._aborted.get(batch.producer_id, [])
        at = bisect_right(aborted, batch.base_offset, key=lambda each: each[0])
        is_aborted = at > 0 and batch.base_offset < aborted[at - 1][1]
        return TransactionOutcome.ABORTED if is_aborted else TransactionOutcome.COMMITTED

    @property
    def segments(self) -> SegmentList:
        """The segments that were added; only for measuring."""
        return SegmentList(cast(list[LogSegment], self.surveyed))

    @property
    def last_stable_offset(self) -> int:
        return min(self._open.values(), default=self.log_end_offset)

    def measure(self, dirty_from: int, now_ms: int) -> tuple[Bound, Dirtiness]:
        """Measure the log as the cleaner does; returns the end of the cleanable part, and the dirtiness."""
        bound = to_the_end(find_bound_in_pieces(self, dirty_from, now_ms))
        return bound, to_the_end(dirtiness_in_pieces(self, dirty_from, now_ms, bound))
