"""A `BatchFilter` that also lists the first removed records, each with the reason.

The kernel only counts. So it gets one batch at a time until the list is full, and its output is compared with its input. A
second filter, which gets the same batches and for which no time has passed, tells a superseded record from one that has reached
its delete horizon or its age.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ...protocol.records import HEADER_BYTES, LENGTH_POSITION, LOG_OVERHEAD_BYTES, RecordBatch, batches
from ..disk import paths
from ..disk.files import Files
from ..disk.size_only import SizeOnlyFile, SizeOnlyFiles
from ..produce.producer_state import LastRecord
from ..segment.index import AbortedTxn
from ..segment.segment import LogSegment
from .clean_rules import BatchFilter
from .dead_bits import DeadBits
from .removed import Removal

NO_HORIZON_CAME_MS = -1


class ListedFilter(BatchFilter):
    """A filter that lists removed records. Its new segments have a `SizeOnlyFile`."""

    def __init__(
        self, bits: DeadBits, *, records_max: int, last_records: Mapping[int, LastRecord], now_ms: int, **options: Any
    ) -> None:
        """Make a filter; `options` are other arguments of `BatchFilter`.

        Args:
            records_max: Number of removals to list.
        """
        super().__init__(bits, last_records=last_records, now_ms=now_ms, **options)
        self.listed: list[Removal] = []
        self._records_max = records_max
        options.pop("on_written", None)
        options.pop("aged_up_to_ms", None)
        self._timeless: BatchFilter | None = BatchFilter(
            bits, last_records=last_records, now_ms=NO_HORIZON_CAME_MS, **options
        )
        """The second filter; None once the list is full."""

    def begin(self, cleaned: LogSegment) -> None:
        super().begin(cleaned)
        if self._timeless is not None:
            self._kept: list[bytes] = []
            self._kept_anyway: list[bytes] = []
            cast(SizeOnlyFile, cleaned.log_file).kept = self._kept
            beside = LogSegment.create(
                cast(Files, SizeOnlyFiles()), "/beside", cleaned.base_offset, cleaned.config, 0, suffix=paths.CLEANED
            )
            cast(SizeOnlyFile, beside.log_file).kept = self._kept_anyway
            self._timeless.begin(beside)
        self._file = cast(SizeOnlyFile, cleaned.log_file)

    def begin_source(self, aborted: Iterable[AbortedTxn]) -> None:
        found = list(aborted)
        super().begin_source(found)
        if self._timeless is not None:
            self._timeless.begin_source(found)

    def take(self, segment: LogSegment, view: memoryview, size_bytes: int) -> int:
        at = 0
        while self._timeless is not None:
            batch_bytes = _batch_bytes(view, at, size_bytes)
            if batch_bytes is None:
                return at
            self._take_one(segment, view[at : at + batch_bytes], self._timeless)
            at += batch_bytes
            if len(self.listed) >= self._records_max:
                self._timeless = self._file.kept = None
        return at + super().take(segment, view[at:size_bytes], size_bytes - at)

    def _take_one(self, segment: LogSegment, view: memoryview, timeless: BatchFilter) -> None:
        before = self.removed
        super().take(segment, view, len(view))
        timeless.take(segment, view, len(view))
        after = self.removed
        if after.total > before.total:
            batch, kept, kept_anyway = RecordBatch(view), _offsets(self._kept), _offsets(self._kept_anyway)
            is_aborted = after.aborted > before.aborted
            for record in batch.records():
                if record.offset not in kept and len(self.listed) < self._records_max:
                    if batch.is_control:
                        reason = "markers"
                    elif is_aborted:
                        reason = "aborted"
                    elif record.key is None:
                        reason = "keyless"
                    else:
                        went_by_time = "aged" if record.value is not None else "tombstones"
                        reason = went_by_time if record.offset in kept_anyway else "superseded"
                    self.listed.append(Removal(record.offset, reason, None if batch.is_control else record.key))
        self._kept.clear()
        self._kept_anyway.clear()


def _batch_bytes(view: memoryview, at: int, size_bytes: int) -> int | None:
    """Return the size of the batch at `at`, None if it is not whole. For an invalid one, all bytes: the filter refuses them."""
    left_bytes = size_bytes - at
    if left_bytes < HEADER_BYTES:
        return None
    found = LOG_OVERHEAD_BYTES + int.from_bytes(view[at + LENGTH_POSITION : at + LOG_OVERHEAD_BYTES], signed=True)
    if found < HEADER_BYTES:
        return left_bytes
    return found if found <= left_bytes else None


def _offsets(written: list[bytes]) -> set[int]:
    return {record.offset for data in written for batch in batches(data) for record in batch.records()}
