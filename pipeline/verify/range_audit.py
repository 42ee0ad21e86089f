"""Audit of one range of a log: its batches by themselves, and against the original batches.

Both sides are read in parallel, a window of the originals at a time with the remaining batches of the result. Compaction never
joins or splits batches, so each batch of the result is one of the originals, with the same base offset.

Memory: a few windows of each side with their records, and ROWS_AT_ONCE rows of keys, however large the segment is; and
40 bytes for each of its batches.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ...protocol.records import CODEC_MASK, CONTROL_BIT, DELETE_HORIZON_BIT
from ...storage.disk.files import Files
from ..errors import CorruptSourceError
from ..records.batch_window import HEADER, BatchWindow, Bools, Int64s
from .findings import Finding
from .key_audit import KeyRows, KeyTable
from .log_view import Report, WindowCursor
from .promises import JudgedRange, Promises
from .record_table import NO_HORIZON, RecordTable, differing, table_of
from .segment_checks import BatchPlaces, check_epochs, check_fields, check_indexes, finding_at


@dataclass(slots=True)
class RangeResult:
    """Counts and findings of a range."""

    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    """The first FINDINGS_MAX findings."""
    batches: int = 0
    records: int = 0
    bytes: int = 0
    records_before: int = 0
    torn_bytes: int = 0
    end_offset: int = 0
    """Offset after the range's last batch; 0 if it has none."""


FINDINGS_MAX = 1_000
"""Number of a range's findings that are kept. All are counted."""

SAME_FIELDS = ("last_offset_delta", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
"""Header fields that a remaining batch keeps, whatever happened to its records."""


def audit_range(of: JudgedRange, promises: Promises, files: Files) -> Generator[KeyRows, None, RangeResult]:
    """Judge a range: yield the rows of its keys, and return its result.

    Raises:
        CorruptSourceError: The originals are damaged.
    """
    return (yield from _Audit(of, promises.within(of), files).run())


class _Audit:
    def __init__(self, of: JudgedRange, promises: Promises, files: Files) -> None:
        self._of = of
        self._promises = promises
        self._files = files
        self._result = RangeResult()
        self._keys = KeyTable(
            clean_end=promises.clean_end,
            dirty_from=promises.dirty_from,
            has_versions=promises.version_source is not None,
        )
        self._places = BatchPlaces()
        self._epoch = -1
        self._pinned = np.array(sorted(promises.pinned), np.int64)

    def run(self) -> Generator[KeyRows, None, RangeResult]:
        of, result = self._of, self._result
        after = WindowCursor(self._files, [of.segment], self._report)
        for segment in of.before:
            sealed_ms = self._files.mtime_ms(segment.log_path)
            for window in WindowCursor(self._files, [segment], _refuse):
                starts = window.base_offsets
                inside = window.only((starts >= of.from_offset) & (starts < of.segment.end_offset))
                if len(inside):
                    self._compare(inside, list(after.below(int(inside.last_offsets[-1]) + 1)), sealed_ms)
                    yield self._keys.overflow()
        for window in after:
            self._judge_alone([window])
            yield self._keys.overflow()
        if of.segment.has_indexes and not of.segment.is_active:
            with suppress(FileNotFoundError):
                check_indexes(self._files, of.segment, self._places, self._promises.own_transactions, self._report)
        of.segment.check_is_there(self._files)  # otherwise these were another segment's indexes
        yield self._keys.remaining_rows()
        result.batches, result.bytes, result.torn_bytes = after.batches, after.bytes, after.torn_bytes
        return result

    def _report(self, finding: Finding) -> None:
        self._result.finding_count += 1
        if len(self._result.findings) < FINDINGS_MAX:
            self._result.findings.append(finding)

    def _table(self, windows: Sequence[BatchWindow]) -> RecordTable:
        """Judge batches of the result by themselves, and return their records."""
        for window in windows:
            check_fields(window, self._report)
            self._epoch = check_epochs(window, self._epoch, self._report)
            self._places.add(window)
            self._result.end_offset = int(window.last_offsets.max()) + 1
        table = self._records(windows, self._report)
        self._result.records += len(table)
        # Records hidden by DeleteRecords count as clean without a pass.
        promised = (table.offsets >= self._promises.log_start_offset) & (table.offsets < self._promises.clean_end)
        gone = table.is_aborted & promised
        self._report_each(
            table, gone, "data of aborted transactions is gone", "no data of an aborted transaction", "a record"
        )
        return table

    def _records(self, windows: Sequence[BatchWindow], report: Report) -> RecordTable:
        spans = []
        if windows:
            first, end = int(windows[0].base_offsets[0]), int(windows[-1].last_offsets[-1]) + 1
            spans = self._promises.transactions.aborted_in(first, end)
        return table_of(windows, spans, report)

    def _judge_alone(self, windows: Sequence[BatchWindow]) -> None:
        """Judge batches without originals."""
        table = self._table(windows)
        for window in windows:
            for row in np.flatnonzero(window.base_offsets < self._promises.before_end).tolist():
                rule = "batches are those of the originals"
                self._report(finding_at(rule, window, row, "no batch that begins here", "one"))
        known = self._keyed(table) & (table.offsets >= self._promises.before_end)
        self._note(table, known, np.ones(len(table), np.bool_), np.zeros(len(table), np.bool_))

    def _compare(self, before_window: BatchWindow, windows: Sequence[BatchWindow], sealed_ms: int) -> None:
        before = self._records([before_window], _refuse)
        after = self._table(windows)
        self._result.records_before += len(before)
        for window in windows:
            self._compare_headers(before_window, window)
        self._compare_gone(before_window, windows, sealed_ms)
        rows = np.minimum(np.searchsorted(before.offsets, after.offsets), max(len(before) - 1, 0))
        found = before.offsets[rows] == after.offsets if len(before) else np.zeros(len(after), np.bool_)
        rule = "records are those of the originals"
        self._report_each(after, ~found, rule, "no record at this offset", "one")
        self._compare_records(before, after, rows[found], np.flatnonzero(found))
        left = np.isin(before.offsets, after.offsets)
        excused = before.is_tombstone & self._is_due(before.horizons_ms, sealed_ms)
        is_aged = (before.timestamps_ms >= 0) & (before.timestamps_ms <= self._promises.aged_up_to_ms)
        excused |= before.is_data & ~before.is_tombstone & is_aged
        self._note(before, self._keyed(before), left, excused)
        if self._promises.is_exact:
            self._compare_exactly(before, after, left, excused)

    def _keyed(self, table: RecordTable) -> Bools:
        """Return which records count for their keys."""
        return table.is_data & ~table.is_aborted & ~table.is_keyless & (table.offsets >= self._promises.keys_from)

    def _note(self, table: RecordTable, chosen: Bools, left: Bools, excused: Bools) -> None:
        source = self._promises.version_source
        rows = np.flatnonzero(chosen)
        keys = table.keys if len(rows) == len(table) else table.keys.take(rows)
        versions = None if source is None else table.versions(source)[rows]
        self._keys.add(keys, table.offsets[rows], left[rows], excused[rows], versions)

    def _is_due(self, horizons_ms: Int64s, sealed_ms: int) -> Bools:
        """Return which tombstones and markers may have been removed, by the delete horizons of their batches."""
        promises = self._promises
        due: Bools = (horizons_ms != NO_HORIZON) & (horizons_ms <= promises.now_ms)
        if not promises.is_exact and sealed_ms + promises.delete_retention_ms <= promises.now_ms:
            due |= horizons_ms == NO_HORIZON  # one pass may have set a horizon since, and another one removed it
        return due

    def _compare_headers(self, before: BatchWindow, after: BatchWindow) -> None:
        bases, own = before.base_offsets, after.base_offsets
        rows = np.minimum(np.searchsorted(bases, own), len(bases) - 1)
        known = bases[rows] == own
        for row in np.flatnonzero(~known).tolist():
            self._report(
                finding_at("batches are those of the originals", after, row, "no batch that begins here", "one")
            )
        rows, own_rows = rows[known], np.flatnonzero(known)
        old, new = before.headers[rows], after.headers[own_rows]
        is_empty = new["record_count"] == 0
        ignored = DELETE_HORIZON_BIT | np.where(is_empty, CODEC_MASK, 0)  # Apache Kafka's empty batches have no codec
        self._differ(
            after, own_rows, "attributes", old["attributes"] & ~ignored, new["attributes"] & ~ignored, "attributes"
        )
        for name in SAME_FIELDS:
            self._differ(after, own_rows, name, old[name], new[name], name)
        stamped = new["attributes"] & DELETE_HORIZON_BIT != 0
        had = old["attributes"] & DELETE_HORIZON_BIT != 0
        rule = "a delete horizon stays what it was"
        chosen = np.flatnonzero(had & ~is_empty)
        horizons = np.where(stamped, new["base_timestamp"], NO_HORIZON)
        self._differ(after, own_rows[chosen], "horizon", old["base_timestamp"][chosen], horizons[chosen], rule)
        if self._promises.is_exact:
            chosen = np.flatnonzero(stamped & ~had)
            horizon_ms = min(self._promises.now_ms + self._promises.delete_retention_ms, 2**63 - 1)
            expected = np.full(len(chosen), horizon_ms)
            rule = "a new delete horizon is the pass's time and delete.retention.ms"
            self._differ(after, own_rows[chosen], "horizon", expected, horizons[chosen], rule)
        same_times = is_empty | (new["record_count"] == old["record_count"])
        chosen = np.flatnonzero(same_times)
        name = "max_timestamp"
        self._differ(after, own_rows[chosen], name, old[name][chosen], new[name][chosen], name)

    def _differ(
        self, window: BatchWindow, rows: Int64s, name: str, expected: Int64s, actual: Int64s, rule: str
    ) -> None:
        if rule == name or rule in HEADER.names:  # type: ignore[operator]
            rule = f"a batch keeps its {name.replace('_', ' ')}"
        for place in np.flatnonzero(expected != actual).tolist():
            self._report(
                finding_at(rule, window, int(rows[place]), f"{name} {int(expected[place])}", str(int(actual[place])))
            )

    def _compare_gone(self, before: BatchWindow, windows: Iterable[BatchWindow], sealed_ms: int) -> None:
        """Report removed batches that must not be removed for a reason other than the keys of their records."""
        left = np.concatenate([np.empty(0, np.int64), *[window.base_offsets for window in windows]])
        gone = ~np.isin(before.base_offsets, left) & (before.base_offsets >= self._promises.log_start_offset)
        attributes = before.headers["attributes"]
        bases = before.column("base_timestamp")
        horizons = np.where(attributes & DELETE_HORIZON_BIT != 0, bases, NO_HORIZON)
        is_marker = (attributes & CONTROL_BIT != 0) & (before.headers["record_count"] > 0)
        lost = gone & is_marker & ~self._is_due(horizons, sealed_ms)
        for row in np.flatnonzero(lost).tolist():
            self._report_missing("markers within their horizon are kept", before, row, "this marker")
        pinned = np.isin(before.last_offsets, self._pinned)
        for row in np.flatnonzero(gone & pinned).tolist():
            rule = "the last batch of a producer, and one that ends at the high watermark, is kept"
            self._report_missing(rule, before, row, "this batch, if without records")

    def _report_missing(self, rule: str, before: BatchWindow, row: int, expected: str) -> None:
        offset = int(before.base_offsets[row])
        self._report(Finding(rule, self._of.segment.log_path, None, offset, expected, "none"))

    def _compare_records(self, before: RecordTable, after: RecordTable, old: Int64s, new: Int64s) -> None:
        """Report remaining records that differ from the originals."""
        changed = {
            "timestamp": before.timestamps_ms[old] != after.timestamps_ms[new],
            "key": differing(before.keys.take(old), after.keys.take(new)),
            "value": differing(before.values.take(old), after.values.take(new)),
            "headers": before.header_counts[old] != after.header_counts[new],
        }
        if not changed["headers"].any() and len(before.header_names):
            one, other = before.headers_of(old), after.headers_of(new)
            of_record = np.repeat(np.arange(len(old)), before.header_counts[old])
            for each in zip(one, other, strict=True):
                changed["headers"][of_record[differing(*each)]] = True
        for what, broken in changed.items():
            mask = np.zeros(len(after), np.bool_)
            mask[new[broken]] = True
            self._report_each(after, mask, f"a record keeps its {what}", f"the {what} of the original", "another")

    def _compare_exactly(self, before: RecordTable, after: RecordTable, left: Bools, excused: Bools) -> None:
        """Report differences in what one pass removes and marks independently of the keys."""
        inside = before.is_data & (before.offsets < self._promises.clean_end)
        # With versions, a pass keeps a tombstone past its horizon that supersedes a later record.
        expired = excused & ~before.is_aborted & (self._promises.version_source is None)
        must_go = inside & (before.is_keyless | expired) & left
        self._report_each(
            before,
            must_go,
            "keyless records, tombstones past their horizon and aged records are gone",
            "no record",
            "this one",
        )
        unmarked = after.is_tombstone & (after.horizons_ms == NO_HORIZON) & (after.offsets < self._promises.clean_end)
        self._report_each(after, unmarked, "a tombstone that is kept has a delete horizon", "a delete horizon", "none")

    def _report_each(self, table: RecordTable, mask: Bools, rule: str, expected: str, actual: str) -> None:
        """Report one finding for each record that a mask selects."""
        for row in np.flatnonzero(mask).tolist():
            window, batch = table.place(row)
            position = window.position + int(window.starts[batch])
            key = table.keys[row].as_py()
            self._report(Finding(rule, window.file, position, int(table.offsets[row]), expected, actual, key))


def _refuse(finding: Finding) -> None:
    """Raise damage of the originals, as nothing can be compared then."""
    raise CorruptSourceError.from_position(
        finding.file, finding.position, finding.offset, expected=finding.expected, actual=finding.actual
    )
