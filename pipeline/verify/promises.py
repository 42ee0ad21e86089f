"""What `verify` is to look at, segment by segment, and what is promised of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from .log_view import SegmentRef
from .txn_audit import NO_TRANSACTIONS, Transactions


class JudgedRange(NamedTuple):
    """A segment that is judged, and what of the originals belongs to it."""

    segment: SegmentRef
    from_offset: int
    """Where the range begins: the segment's base, less where segments before it are missing."""
    before: tuple[SegmentRef, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """What a log has to hold."""

    clean_end: int
    """Below it the log is compacted."""
    log_start_offset: int
    now_ms: int
    delete_retention_ms: int
    before_end: int = 0
    """Where the originals end (exclusive); 0 if there are none."""
    dirty_from: int = 0
    """Records below it go only for one at or above it."""
    is_exact: bool = False
    """The result is that of one pass at `now_ms`: what may go has gone, and what got a horizon got this one."""
    pinned: frozenset[int] = frozenset()
    """Batches that end with these offsets stay, if without their records."""
    transactions: Transactions = NO_TRANSACTIONS
    """By the markers of both sides."""
    own_transactions: Transactions = NO_TRANSACTIONS
    """By those of the log that is judged."""

    def within(self, of: JudgedRange) -> Promises:
        """The same, with only those aborted transactions that have to do with a range."""
        return replace(
            self,
            transactions=self.transactions.within(of.from_offset, of.segment.end_offset),
            own_transactions=self.own_transactions.within(of.from_offset, of.segment.end_offset),
        )
