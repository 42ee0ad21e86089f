"""Checks of one log by itself, segment by segment: consistent batch fields, and indexes that match the log.

Rules are tables of (rule, fields, condition that breaks it): masks over the columns of many batches at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from ...protocol.compression import Codec
from ...protocol.records import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    NO_PRODUCER_ID,
    TRANSACTIONAL_BIT,
)
from ...storage.disk import paths
from ...storage.disk.files import DamagedFileError, Files
from ...storage.segment.index import TransactionIndex
from ..records.batch_window import BatchWindow, Bools, Int64s
from ..records.columns import RecordColumns
from .findings import Finding
from .log_view import Report, SegmentRef
from .txn_audit import Transactions

_KNOWN_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME_BIT | TRANSACTIONAL_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


def _is(window: BatchWindow, bit: int) -> Bools:
    has: Bools = window.headers["attributes"] & bit != 0
    return has


def _no_producer(window: BatchWindow) -> Bools:
    has_none: Bools = window.column("producer_id") == NO_PRODUCER_ID
    return has_none


FIELD_RULES: tuple[tuple[str, tuple[str, ...], Callable[[BatchWindow], Bools]], ...] = (
    (
        "attributes are known ones",
        ("attributes",),
        lambda window: (
            (window.column("attributes") & ~_KNOWN_ATTRIBUTES != 0)
            | (window.column("attributes") & CODEC_MASK > max(Codec))
        ),
    ),
    (
        "a batch without a producer has no epoch, no sequence and no transaction",
        ("producer_id", "producer_epoch", "base_sequence"),
        lambda window: (
            _no_producer(window)
            & (
                (window.column("producer_epoch") != -1)
                | (window.column("base_sequence") != -1)
                | (_is(window, TRANSACTIONAL_BIT) & ~_is(window, CONTROL_BIT))
            )
        ),
    ),
    (
        "a batch of a producer has its epoch and its sequence",
        ("producer_id", "producer_epoch", "base_sequence"),
        lambda window: (
            ~_no_producer(window)
            & (
                (window.column("producer_id") < 0)
                | (window.column("producer_epoch") < 0)
                | ((window.column("base_sequence") < 0) & ~_is(window, CONTROL_BIT))
            )
        ),
    ),
    (
        "a control batch has one record at most, and no sequence",
        ("record_count", "base_sequence"),
        lambda window: (
            _is(window, CONTROL_BIT) & ((window.column("record_count") > 1) | (window.column("base_sequence") >= 0))
        ),
    ),
    (
        "a batch has no more records than offsets",
        ("record_count", "last_offset_delta"),
        lambda window: window.column("record_count") > window.column("last_offset_delta") + 1,
    ),
    (
        "timestamps are not negative",
        ("base_timestamp", "max_timestamp"),
        lambda window: (
            (window.column("max_timestamp") < -1)
            | (_is(window, DELETE_HORIZON_BIT) & (window.column("base_timestamp") < 0))
        ),
    ),
)
"""(rule, its fields, mask of the batches that break it)."""


def check_fields(window: BatchWindow, report: Report) -> None:
    """Report batch headers with inconsistent fields."""
    for rule, names, breaks in FIELD_RULES:
        for row in np.flatnonzero(breaks(window)).tolist():
            actual = ", ".join(f"{name} {int(window.headers[name][row])}" for name in names)
            report(finding_at(rule, window, row, "fields that agree", actual))


def check_epochs(window: BatchWindow, epoch: int, report: Report) -> int:
    """Report leader epochs that decrease. `epoch` is the last one before the window; that of its last batch is returned."""
    epochs = window.column("leader_epoch")
    before = np.maximum.accumulate(np.concatenate(([epoch], epochs)))[:-1]
    for row in np.flatnonzero(epochs < before).tolist():
        report(
            finding_at(
                "leader epochs never fall", window, row, f"leader epoch {before[row]} or later", str(int(epochs[row]))
            )
        )
    return int(max(epoch, epochs.max(initial=epoch)))


def check_timestamps(records: RecordColumns, report: Report) -> None:
    """Report batches whose max timestamp is not that of their latest record."""
    window = records.window
    latest = np.full(len(window), np.iinfo(np.int64).min)
    np.maximum.at(latest, records.batch, records.timestamp_ms)
    stated = window.column("max_timestamp")
    wrong = (latest != stated) & (latest > np.iinfo(np.int64).min)
    for row in np.flatnonzero(wrong).tolist():
        rule = "a batch's max timestamp is its latest record's"
        report(finding_at(rule, window, row, f"max timestamp {latest[row]}", str(int(stated[row]))))


def finding_at(
    rule: str, window: BatchWindow, row: int, expected: str, actual: str, key: bytes | None = None
) -> Finding:
    """Return a finding about the batch in this row."""
    damage = window.damage(row, expected, actual)
    return Finding(rule, damage.file, damage.position, damage.offset, expected, actual, key)


class BatchPlaces:
    """Places of the batches of one segment, to judge its indexes."""

    def __init__(self) -> None:
        self._parts: list[tuple[Int64s, Int64s, Int64s, Int64s]] = []

    def add(self, window: BatchWindow) -> None:
        self._parts.append(
            (
                window.position + window.starts,
                window.base_offsets,
                window.last_offsets,
                window.column("max_timestamp"),
            )
        )

    def columns(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Return positions, base offsets, last offsets, max timestamps."""
        if not self._parts:
            empty = np.empty(0, np.int64)
            return empty, empty, empty, empty
        positions, bases, lasts, timestamps = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return positions, bases, lasts, timestamps


def check_indexes(
    files: Files, segment: SegmentRef, places: BatchPlaces, transactions: Transactions, report: Report
) -> None:
    """Report errors in the index files of a sealed segment. A missing or empty one is no finding, as any server rebuilds it."""
    for finding in (
        *_offset_index(files, segment, places),
        *_time_index(files, segment, places),
        *_txn_index(files, segment, transactions),
    ):
        report(finding)


_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


def _offset_index(files: Files, segment: SegmentRef, places: BatchPlaces) -> Iterable[Finding]:
    path = paths.offset_index_path(segment.directory, segment.base_offset)
    entries = _entries(files, path, _OFFSET_ENTRY)
    positions, bases, lasts, _ = places.columns()
    if not len(entries) or not len(positions):
        return
    offsets, found = entries["offset"].astype(np.int64) + segment.base_offset, entries["position"].astype(np.int64)
    place = np.minimum(np.searchsorted(positions, found), len(positions) - 1)
    rises = np.diff(offsets, prepend=segment.base_offset - 1) > 0
    wrong = (positions[place] != found) | (bases[place] > offsets) | (offsets > lasts[-1]) | ~rises
    for slot in np.flatnonzero(wrong)[:1].tolist():
        yield Finding(
            "offset index entries point to their batches",
            path,
            slot * _OFFSET_ENTRY.itemsize,
            int(offsets[slot]),
            f"a rising offset, and the position of a batch (one begins at byte {positions[place[slot]]})",
            f"offset {offsets[slot]} at byte {found[slot]}",
        )


def _time_index(files: Files, segment: SegmentRef, places: BatchPlaces) -> Iterable[Finding]:
    path = paths.time_index_path(segment.directory, segment.base_offset)
    entries = _entries(files, path, _TIME_ENTRY)
    _, _, lasts, timestamps = places.columns()
    if not len(entries) or not len(lasts):
        return
    times, offsets = entries["timestamp"].astype(np.int64), entries["offset"].astype(np.int64) + segment.base_offset
    latest = np.concatenate(([-1], np.maximum.accumulate(timestamps)))
    before = latest[np.searchsorted(lasts, offsets)]  # latest timestamp of the batches that end below
    through = latest[np.minimum(np.searchsorted(lasts, offsets) + 1, len(lasts))]
    rises = (np.diff(times, prepend=-2) > 0) & (np.diff(offsets, prepend=segment.base_offset - 1) >= 0)
    wrong = (times < before) | (times > through) | (offsets > lasts[-1]) | ~rises
    wrong[-1] |= times[-1] != latest[-1]
    for slot in np.flatnonzero(wrong)[:1].tolist():
        yield Finding(
            "time index entries are the latest timestamps so far",
            path,
            slot * _TIME_ENTRY.itemsize,
            int(offsets[slot]),
            f"rising, a timestamp from {before[slot]} to {through[slot]}, the last one {latest[-1]}",
            f"timestamp {times[slot]} at offset {offsets[slot]}",
        )


def _txn_index(files: Files, segment: SegmentRef, transactions: Transactions) -> Iterable[Finding]:
    path = paths.txn_index_path(segment.directory, segment.base_offset)
    rule = "the transaction index lists the aborted transactions"
    try:
        found = TransactionIndex(files, path, segment.base_offset).entries()
    except DamagedFileError as error:
        yield Finding(rule, path, None, -1, "entries that agree with each other", str(error))
        return
    for txn in found:
        if (txn.producer_id, txn.last_offset) not in transactions.abort_markers:
            expected = f"an ABORT marker of producer {txn.producer_id} at its last offset"
            yield Finding(rule, path, None, txn.last_offset, expected, "none")
    listed = {(txn.producer_id, txn.last_offset): txn.first_offset for txn in found}
    for span in transactions.aborted:
        if segment.base_offset <= span.end_offset < segment.end_offset:
            first = listed.get((span.producer_id, span.end_offset))
            if first is None or first > span.first_offset:
                expected = f"producer {span.producer_id}, aborted from {span.first_offset} to {span.end_offset}"
                yield Finding(
                    rule, path, None, span.first_offset, expected, "none" if first is None else f"from {first}"
                )


def _entries(files: Files, path: str, entry: np.dtype[np.void]) -> NDArray[np.void]:
    if not files.exists(path):
        return np.empty(0, entry)
    file = files.open(path)
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    entries: NDArray[np.void] = np.frombuffer(data, entry, len(data) // entry.itemsize)
    # Apache Kafka preallocates: zeros at the end are not entries.
    used = np.flatnonzero(np.frombuffer(data, np.uint8)[: len(entries) * entry.itemsize])
    return entries[: (int(used[-1]) // entry.itemsize + 1 if used.size else 0)]
