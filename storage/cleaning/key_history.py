"""The history of one key in a log: each of its records, their states, and what the next pass does with them.

For people who ask why a value is still there, or is not. The log is read from its start, since no index finds a key. A
search runs in steps, in any thread. The facts about the cleaner are those of the moment at which it was begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ...protocol.records import RecordBatch
from ..logs.log import Log
from ..segment.index import AbortedTxn
from ..segment.segment import LogSegment
from ..steps import Steps
from .dirtiness import BoundBy


class TransactionOutcome(StrEnum):
    """State of a record's transaction."""

    NONE = "none"
    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


_COUNTS = (TransactionOutcome.NONE, TransactionOutcome.COMMITTED)


class RemovalReason(StrEnum):
    """Reason why the next pass removes a record: the counts of `RemovedRecords`."""

    SUPERSEDED = "superseded"
    TOMBSTONE = "tombstones"
    AGED = "aged"
    ABORTED = "aborted"


class RetentionReason(StrEnum):
    """Reason why the next pass keeps a record."""

    NEWEST = "newest"
    """The record is the newest of its key."""
    BOUND = "bound"
    """The record is beyond the end of what a pass may touch now."""
    SUPERSEDED_BEYOND_BOUND = "superseded_beyond_bound"
    """The newer record is beyond the end of what a pass may touch now."""
    SUPERSEDED_IN_CLEAN_PART = "superseded_in_clean_part"
    """The newer record is in the clean part, which a pass does not read into its map. A pass without the checkpoint
    would remove this record.
    """
    DELETE_HORIZON = "delete_horizon"
    """The record is a tombstone whose delete horizon has not been reached."""
    NO_HORIZON_YET = "no_horizon_yet"
    """The record is a tombstone that the next pass gives a delete horizon."""
    SUPERSEDES_NOW = "supersedes_now"
    """The record is a tombstone past its delete horizon, or past its age, on a topic with versions: this pass may remove later
    records of its key for it, and the next pass removes it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """One record of the key."""

    offset: int
    timestamp_ms: int
    """Set by the producer or the broker; -1: none."""
    value_bytes: int | None
    """None for a tombstone."""
    segment_base_offset: int
    is_in_clean_part: bool
    """Whether a pass has covered it, according to the checkpoint."""
    producer_id: int | None
    transaction: TransactionOutcome
    superseded_by: int | None
    """Offset of the next newer record of the key that is not aborted and not in an open transaction. With
    `ottla.compaction.strategy`, the one with the next higher version is newer."""
    goes: RemovalReason | None
    """Why the next pass removes it; None: it is kept."""
    stays: RetentionReason | None
    delete_horizon_ms: int | None
    """For a tombstone, time from which a pass removes it, in ms since 1970; None: not seen by a pass yet, or not a tombstone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHistory:
    """The records of a key in a log, and which of them a pass would remove now."""

    key: bytes
    records: tuple[KeyRecord, ...]
    """In the order of offsets; if there are too many, only the newest."""
    record_count: int
    """Total number of records of the key."""
    first_dirty_offset: int
    upper_offset: int
    """Where a pass would end, exclusive."""
    bound_by: BoundBy
    log_start_offset: int
    log_end_offset: int
    delete_retention_ms: int
    key_retention_ms: int
    """`ottla.key.retention.ms`; -1: no limit."""


class _Found(NamedTuple):
    offset: int
    timestamp_ms: int
    value_bytes: int | None
    segment_base_offset: int
    producer_id: int | None
    fate: TransactionOutcome
    delete_horizon_ms: int | None
    version: int
    """The offset, unless the topic has versions."""

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key: the record of a key with the highest rank is the newest."""
        return self.version, self.offset


class KeySearch:
    """A search in progress; it may be given up between two steps."""

    def __init__(
        self,
        log: Log,
        key: bytes,
        now_ms: int,
        *,
        first_dirty_offset: int,
        upper_offset: int,
        bound_by: BoundBy,
        records_max: int,
    ) -> None:
        """Start a search; on the thread that owns the log.

        Args:
            upper_offset, bound_by: As they were measured.
            records_max: Maximum number of records in the result, the newest.
        """
        self._log = log
        self._key = key
        self._now_ms = now_ms
        self._dirty_from = first_dirty_offset
        self._upper = upper_offset
        self._bound_by = bound_by
        self._start, self._end = log.log_start_offset, log.log_end_offset
        self._segments: Sequence[LogSegment] = list(log.segments)
        self._open = {producer_id: first for first, producer_id in log.producers.open_transactions()}
        self._found: deque[_Found] = deque(maxlen=records_max)
        self._count = 0
        self._versions = log.config.version_source
        self._best: _Found | None = None
        """The newest record that a pass can reach."""
        self._is_any_dirty = False
        """Whether a pass would have the key in its map."""

    def steps(self) -> Steps[KeyHistory]:
        """Read the log; yield after each batch.

        Raises:
            CorruptRecordError: A batch cannot be read.
            OSError: The disk refused.
        """
        ends = [segment.base_offset for segment in self._segments[1:]] + [self._end]
        for segment, end in zip(self._segments, ends, strict=True):
            aborted: list[AbortedTxn] | None = None
            for _, batch in segment.batches():
                if batch.base_offset >= self._end:
                    break
                if not batch.is_control and batch.last_offset >= self._start and may_hold(batch, (self._key,)):
                    if aborted is None and batch.is_transactional:
                        aborted = self._log.aborted_transactions(segment.base_offset, end)
                    self._take(segment, batch, aborted or ())
                yield
        return self._history()

    def _take(self, segment: LogSegment, batch: RecordBatch, aborted: Sequence[AbortedTxn]) -> None:
        fate = self._fate(batch, aborted)
        for record in batch.records():
            if record.key == self._key and self._start <= record.offset < self._end:
                self._count += 1
                versions = self._versions
                found = _Found(
                    record.offset,
                    record.timestamp,
                    None if record.value is None else len(record.value),
                    segment.base_offset,
                    batch.producer_id if batch.has_producer else None,
                    fate,
                    batch.delete_horizon_ms,
                    record.offset if versions is None else versions.version(record.timestamp, record.headers),
                )
                self._found.append(found)
                if fate in _COUNTS and found.offset < self._upper:
                    self._is_any_dirty |= found.offset >= self._dirty_from
                    if self._best is None or found.rank > self._best.rank:
                        self._best = found

    def _fate(self, batch: RecordBatch, aborted: Sequence[AbortedTxn]) -> TransactionOutcome:
        if not batch.is_transactional:
            return TransactionOutcome.NONE
        if batch.base_offset >= self._open.get(batch.producer_id, self._end):
            return TransactionOutcome.OPEN
        is_aborted = any(
            txn.producer_id == batch.producer_id and txn.first_offset <= batch.base_offset < txn.last_offset
            for txn in aborted
        )
        return TransactionOutcome.ABORTED if is_aborted else TransactionOutcome.COMMITTED

    def _history(self) -> KeyHistory:
        following: int | None = None
        records: list[KeyRecord] = []
        for each in sorted(self._found, key=lambda found: found.rank, reverse=True):
            goes, stays = self._outlook(each, following)
            records.append(
                KeyRecord(
                    offset=each.offset,
                    timestamp_ms=each.timestamp_ms,
                    value_bytes=each.value_bytes,
                    segment_base_offset=each.segment_base_offset,
                    is_in_clean_part=each.offset < self._dirty_from,
                    producer_id=each.producer_id,
                    transaction=each.fate,
                    superseded_by=following,
                    goes=goes,
                    stays=stays,
                    delete_horizon_ms=each.delete_horizon_ms if each.value_bytes is None else None,
                )
            )
            if each.fate in _COUNTS:
                following = each.offset
        return KeyHistory(
            key=self._key,
            records=tuple(sorted(records, key=lambda record: record.offset)),
            record_count=self._count,
            first_dirty_offset=self._dirty_from,
            upper_offset=self._upper,
            bound_by=self._bound_by,
            log_start_offset=self._start,
            log_end_offset=self._end,
            delete_retention_ms=self._log.config.delete_retention_ms,
            key_retention_ms=self._log.config.ottla_key_retention_ms,
        )

    def _outlook(self, each: _Found, superseded_by: int | None) -> tuple[RemovalReason | None, RetentionReason | None]:
        horizon_ms = each.delete_horizon_ms
        if each.offset >= self._upper:
            return (
                None,
                RetentionReason.NEWEST if superseded_by is None and each.fate in _COUNTS else RetentionReason.BOUND,
            )
        if each.fate is TransactionOutcome.ABORTED:
            return RemovalReason.ABORTED, None
        if self._is_any_dirty and self._best is not None and each.rank < self._best.rank:
            return RemovalReason.SUPERSEDED, None
        if each.value_bytes is None:
            if horizon_ms is None:
                return None, RetentionReason.NO_HORIZON_YET
            if horizon_ms > self._now_ms:
                return None, RetentionReason.DELETE_HORIZON
            if self._versions is not None and self._is_any_dirty:
                return None, RetentionReason.SUPERSEDES_NOW
            return RemovalReason.TOMBSTONE, None
        if 0 <= each.timestamp_ms <= self._log.config.aged_up_to_ms(self._now_ms):
            if self._versions is not None and self._is_any_dirty:
                return None, RetentionReason.SUPERSEDES_NOW
            return RemovalReason.AGED, None
        if superseded_by is None:
            return None, RetentionReason.NEWEST
        is_beyond = superseded_by >= self._upper
        return None, RetentionReason.SUPERSEDED_BEYOND_BOUND if is_beyond else RetentionReason.SUPERSEDED_IN_CLEAN_PART


def may_hold(batch: RecordBatch, keys: Collection[bytes]) -> bool:
    """Return whether the bytes of a key occur in those of the batch, of which only one piece is unpacked at a time."""
    kept = max(map(len, keys), default=1) - 1
    end = b""
    for piece in batch.pieces():
        text = end + bytes(piece)
        if any(key in text for key in keys):
            return True
        end = text[max(0, len(text) - kept) :]
    return False
