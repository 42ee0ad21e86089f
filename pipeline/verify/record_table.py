"""Records of some batches as columns, one row per record, for comparison by `verify`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...protocol.records import CONTROL_BIT, DELETE_HORIZON_BIT
from ...storage.topics.versions import VersionSource
from ..records.arrow import gather
from ..records.batch_window import BatchWindow, Bools, Int64s
from ..records.columns import RecordColumns
from ..records.versions import header_versions
from .log_view import Report, decoded
from .segment_checks import check_timestamps
from .txn_audit import Span, is_aborted

NO_HORIZON = -1


@dataclass
class RecordTable:
    """Records in the order of the log."""

    windows: list[BatchWindow] = field(default_factory=list)
    offsets: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    timestamps_ms: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    horizons_ms: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Delete horizon of the record's batch; NO_HORIZON if it has none."""
    is_data: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether the record is not in a control batch."""
    is_aborted: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    window: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    batch: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    """Place of the record's batch: row `batch` of window number `window`."""
    header_counts: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    keys: pa.Array = field(default_factory=lambda: pa.array([], pa.binary()))
    values: pa.Array = field(default_factory=lambda: pa.array([], pa.binary()))
    header_names: pa.Array = field(default_factory=lambda: pa.array([], pa.binary()))
    header_values: pa.Array = field(default_factory=lambda: pa.array([], pa.binary()))

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def is_keyless(self) -> Bools:
        return _mask(self.keys.is_null())

    @property
    def is_tombstone(self) -> Bools:
        return self.is_data & _mask(self.values.is_null())

    def place(self, row: int) -> tuple[BatchWindow, int]:
        """Return the window of a record's batch, and the batch's row in it."""
        return self.windows[int(self.window[row])], int(self.batch[row])

    def versions(self, source: VersionSource) -> Int64s:
        """Return the version of each record."""
        if source.header is None:
            return self.timestamps_ms
        return header_versions(source.header, self.header_counts, self.header_names, self.header_values)

    def headers_of(self, rows: NDArray[np.intp]) -> tuple[pa.Array, pa.Array]:
        """Return names and values of these records' headers, one after the other."""
        ends = np.cumsum(self.header_counts)
        starts = ends - self.header_counts
        if not len(self.header_names):
            return self.header_names, self.header_values
        chosen = pa.array(
            np.concatenate([np.arange(starts[row], ends[row]) for row in rows.tolist()] or [np.empty(0, np.int64)])
        )
        return self.header_names.take(chosen), self.header_values.take(chosen)


def table_of(windows: Sequence[BatchWindow], spans: Sequence[Span], report: Report) -> RecordTable:
    """Return the records of these windows. Batches that cannot be decoded or have wrong times are reported.

    Args:
        spans: Aborted transactions that may have data here.
    """
    table = RecordTable(windows=list(windows))
    parts: list[tuple[int, RecordColumns]] = []
    for number, window in enumerate(windows):
        for columns in decoded(window, report):
            check_timestamps(columns, report)
            # Decoding may have left batches out: rows refer to the decoded window.
            table.windows[number] = columns.window
            parts.append((number, columns))
    if not parts:
        return table
    table.offsets = np.concatenate([columns.offset for _, columns in parts])
    table.timestamps_ms = np.concatenate([columns.timestamp_ms for _, columns in parts])
    table.batch = np.concatenate([columns.batch for _, columns in parts])
    table.window = np.repeat([number for number, _ in parts], [len(columns) for _, columns in parts])
    table.header_counts = np.concatenate([columns.headers.counts for _, columns in parts])
    attributes = np.concatenate([columns.window.column("attributes")[columns.batch] for _, columns in parts])
    bases = np.concatenate([columns.window.column("base_timestamp")[columns.batch] for _, columns in parts])
    table.horizons_ms = np.where(attributes & DELETE_HORIZON_BIT != 0, bases, NO_HORIZON)
    table.is_data = attributes & CONTROL_BIT == 0
    table.is_aborted = np.concatenate([is_aborted(columns.window, spans)[columns.batch] for _, columns in parts])
    table.keys = _joined([gather(each.data, each.key_at, each.key_length) for _, each in parts])
    table.values = _joined([gather(each.data, each.value_at, each.value_length) for _, each in parts])
    headers = [(columns.data, columns.headers) for _, columns in parts]
    table.header_names = _joined([gather(data, each.name_at, each.name_length) for data, each in headers])
    table.header_values = _joined([gather(data, each.value_at, each.value_length) for data, each in headers])
    return table


def differing(one: pa.Array, other: pa.Array) -> Bools:
    """Return where two arrays of one length differ; null equals only null."""
    nulls = _mask(one.is_null()), _mask(other.is_null())
    same: Bools = _mask(pc.fill_null(pc.equal(one, other), False))
    found: Bools = ~(same | (nulls[0] & nulls[1]))
    return found


def _mask(array: pa.Array) -> Bools:
    mask: Bools = array.to_numpy(zero_copy_only=False).astype(np.bool_)
    return mask


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
