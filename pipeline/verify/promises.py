"""Promises that `verify` checks, and the segments that it judges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ...storage.topics.versions import VersionSource
from .log_view import SegmentRef
from .txn_audit import NO_TRANSACTIONS, Transactions


class JudgedRange(NamedTuple):
    """A segment that is judged, with its part of the originals."""

    segment: SegmentRef
    from_offset: int
    """Start of the range: the segment's base offset, or lower if segments before it are missing."""
    before: tuple[SegmentRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """Properties that a log must have."""

    clean_end: int
    """Offset below which the log is compacted."""
    log_start_offset: int
    keys_from: int
    """Offset from which on records count for their keys: those before it are neither missed nor supersede others."""
    now_ms: int
    delete_retention_ms: int
    before_end: int = 0
    """End of the originals (exclusive); 0 without originals."""
    dirty_from: int = 0
    """Records below it are removed only for one at or above it."""
    is_exact: bool = False
    """Whether the result must be that of one pass at `now_ms`: everything removable was removed, with this pass's horizons."""
    pinned: frozenset[int] = frozenset()
    """Last offsets of batches that must stay, even without their records."""
    version_source: VersionSource | None = None
    """Where the versions are that decide which record of a key is its newest; None: the offset decides."""
    aged_up_to_ms: int = -1
    """Largest timestamp of records with a value that a pass removes for their age; -1: of none."""
    transactions: Transactions = NO_TRANSACTIONS
    """Transactions by the markers of both sides."""
    own_transactions: Transactions = NO_TRANSACTIONS
    """Transactions by the markers of the judged log."""

    def within(self, of: JudgedRange) -> Promises:
        """Return the same promises with only those transactions that affect a range."""
        return replace(
            self,
            transactions=self.transactions.within(of.from_offset, of.segment.end_offset),
            own_transactions=self.own_transactions.within(of.from_offset, of.segment.end_offset),
        )
