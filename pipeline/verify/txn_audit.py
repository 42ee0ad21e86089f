"""Data of aborted transactions, derived from markers only: `verify` trusts no transaction index.

    producer 7    data 310..312   data 340   ABORT 351        aborted: 310..351, by its marker
    producer 9    data 320                                    open: no marker yet

Transactional batches are read from every segment by itself. The driver folds them in the order of the log, of the
originals and the result together, as a marker or the data before it may remain in only one of the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...protocol.errors import CorruptRecordError
from ...protocol.records import CONTROL_BIT, TRANSACTIONAL_BIT, RecordBatch
from ...storage.disk.files import Files
from ...storage.produce.txn_markers import ABORT_MARKER, COMMIT_MARKER, read_marker
from ..records.batch_window import BatchWindow, Bools
from .log_view import SegmentRef, WindowCursor

DATA, ABORT, COMMIT, OTHER = range(4)

ROWS = np.dtype([("base_offset", "i8"), ("last_offset", "i8"), ("producer_id", "i8"), ("kind", "u1")])
Rows = NDArray[np.void]
NO_ROWS: Rows = np.empty(0, ROWS)


class Span(NamedTuple):
    """The data of one transaction."""

    producer_id: int
    first_offset: int
    end_offset: int
    """Offset of its marker; the offset after its data if it has none."""


class Transactions(NamedTuple):
    """Transactions by the markers of a log."""

    aborted: tuple[Span, ...] = ()
    unmarked: tuple[Span, ...] = ()
    """Data without a later marker."""
    abort_markers: frozenset[tuple[int, int]] = frozenset()
    """(producer id, offset)."""

    def aborted_in(self, first_offset: int, end_offset: int) -> list[Span]:
        """Return the aborted transactions that may have data at these offsets."""
        return [span for span in self.aborted if span.first_offset < end_offset and span.end_offset > first_offset]

    def within(self, first_offset: int, end_offset: int) -> Transactions:
        """Return the transactions with data or a marker at these offsets, and the ABORT markers there."""
        return Transactions(
            tuple(span for span in self.aborted if span.first_offset < end_offset and span.end_offset >= first_offset),
            tuple(span for span in self.unmarked if span.first_offset < end_offset),
            frozenset(marker for marker in self.abort_markers if first_offset <= marker[1] < end_offset),
        )


NO_TRANSACTIONS = Transactions()


class Marks(NamedTuple):
    """Summary of a segment's batch headers."""

    rows: Rows
    """Its transactional batches."""
    record_count: int

    def to_bytes(self) -> bytes:
        return self.record_count.to_bytes(8) + self.rows.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Marks:
        return cls(np.frombuffer(data, ROWS, offset=8), int.from_bytes(data[:8]))


def marks_of(files: Files, segment: SegmentRef) -> Marks:
    """Read a segment's headers. Damage ends the read without an error, as the check of the segment reports it."""
    parts, record_count = [NO_ROWS], 0
    for window in WindowCursor(files, [segment], lambda _: None, checks_crc=False):
        parts.append(_rows_of_window(window))
        # An invalid count must not increase the sum.
        counts = np.clip(window.column("record_count"), 0, window.column("last_offset_delta") + 1)
        record_count += int(counts.sum())
    return Marks(np.concatenate(parts), record_count)


def fold(rows: Iterable[Rows]) -> Transactions:
    """Combine the rows of all segments, given in any order. A batch that occurs twice counts once."""
    every = np.concatenate([NO_ROWS, *rows])
    _, first = np.unique(every["base_offset"], return_index=True)
    begun: dict[int, tuple[int, int]] = {}
    """Producer id -> start and end of its data."""
    aborted, markers = [], set()
    for base_offset, last_offset, producer_id, kind in every[first].tolist():
        if kind == DATA:
            begun[producer_id] = begun.get(producer_id, (base_offset,))[0], last_offset + 1
        elif kind != OTHER:
            data = begun.pop(producer_id, None)
            if kind == ABORT:
                markers.add((producer_id, last_offset))
                if data is not None:
                    aborted.append(Span(producer_id, data[0], last_offset))
    unmarked = tuple(Span(producer_id, *data) for producer_id, data in begun.items())
    return Transactions(tuple(aborted), unmarked, frozenset(markers))


def is_aborted(window: BatchWindow, spans: Iterable[Span]) -> Bools:
    """Return which batches of a window are data of these transactions."""
    found = np.zeros(len(window), np.bool_)
    attributes, base_offsets = window.headers["attributes"], window.base_offsets
    is_data = (attributes & TRANSACTIONAL_BIT != 0) & (attributes & CONTROL_BIT == 0)
    if len(window) and is_data.any():
        producers, low, high = window.column("producer_id"), int(base_offsets[0]), int(base_offsets[-1])
        for span in spans:
            if span.first_offset <= high and span.end_offset > low:
                inside = (base_offsets >= span.first_offset) & (base_offsets < span.end_offset)
                found |= is_data & inside & (producers == span.producer_id)
    return found


def _rows_of_window(window: BatchWindow) -> Rows:
    attributes = window.headers["attributes"]
    chosen = window.only(attributes & (TRANSACTIONAL_BIT | CONTROL_BIT) != 0)
    rows = np.empty(len(chosen), ROWS)
    rows["base_offset"], rows["last_offset"] = chosen.base_offsets, chosen.last_offsets
    rows["producer_id"] = chosen.column("producer_id")
    rows["kind"] = DATA
    for row in np.flatnonzero(chosen.headers["attributes"] & CONTROL_BIT).tolist():
        rows["kind"][row] = _kind(RecordBatch(chosen.data, int(chosen.starts[row])))
    # Emptied batches contain no transaction data, and earlier data in them does not matter any more.
    meaningful: Rows = rows[(chosen.headers["record_count"] != 0) | (rows["kind"] != DATA)]
    return meaningful


def _kind(batch: RecordBatch) -> int:
    try:
        marker = read_marker(batch)
    except CorruptRecordError:
        return OTHER
    return {ABORT_MARKER: ABORT, COMMIT_MARKER: COMMIT}.get(-1 if marker is None else marker.kind, OTHER)
