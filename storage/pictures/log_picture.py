"""The picture of a log, as data: what is drawn, told as JSON, and compared by those who ask whether something has changed.

    log start          first dirty        upper         first uncleanable     LSO = high watermark = log end
    | clean     | clean | dirty   | dirty   | held          | active            |

Offsets are those of records; an end is exclusive. Bytes are those of batches. Times are ms since 1970, by the broker's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..cleaning.eligibility import Waits
from ..cleaning.progress import Phase


class Part(StrEnum):
    """What the cleaner thinks of a segment."""

    CLEAN = "clean"
    """Below the first dirty offset: one record a key, but for those that are superseded further up."""
    DIRTY = "dirty"
    """The next pass reads it, to learn the newest record of each key."""
    HELD = "held"
    """Dirty, and not to be cleaned yet: too young, or behind an open transaction."""
    ACTIVE = "active"
    """Appended to. No pass touches it."""
    CLOSED = "closed"
    """Of a log that is not compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A segment, or several adjacent segments of the same kind."""

    part: Part
    base_offset: int
    end_offset: int
    size_bytes: int
    segments: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The earliest delete horizon in a log: time from which a pass removes the tombstones and markers of a batch."""

    at_ms: int
    offset: int
    """Offset of the first batch with this horizon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPicture:
    """Adjacent segments that become one, or several adjacent groups."""

    base_offset: int
    end_offset: int
    segments_before: int
    segments_after: int
    source_bytes: tuple[int, ...]
    """Sizes of the segments, in order; if there are very many, adjacent ones are added up."""
    bytes_before: int
    bytes_after: int | None
    """None: not computed."""
    records_before: int
    records_after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPicture:
    """A completed pass, or a dry run."""

    first_dirty_offset: int
    upper_offset: int
    groups: tuple[GroupPicture, ...]
    segments_before: int
    segments_after: int
    bytes_before: int
    bytes_after: int | None
    records_before: int
    records_after: int | None
    removed: tuple[tuple[str, int], ...]
    """Reason and number of removed records, without reasons with 0 records."""
    ended_at_ms: int | None = None
    """None for a dry run."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPass:
    """Progress of a running pass."""

    phase: Phase
    begun_at_ms: int
    is_forced: bool
    first_dirty_offset: int
    upper_offset: int
    map_offset: int
    """Keys of the dirty part below this offset are in the map."""
    map_bytes: int
    map_bytes_read: int
    group: int
    """Number of the group that is being copied, starting at 1; 0: none yet."""
    group_count: int
    """0 if not known yet."""
    group_base_offset: int
    group_end_offset: int
    group_bytes: int
    group_bytes_read: int
    bytes_to_read: int
    """Total of all groups."""
    bytes_read: int
    bytes_written: int

    @property
    def part_done(self) -> float:
        """How much of the reading is done: 0 to 1, both halves together."""
        whole = self.map_bytes + self.bytes_to_read
        if self.phase is not Phase.GROUPS:  # the groups are not counted yet
            return 0.5 * self.map_bytes_read / self.map_bytes if self.map_bytes else 0.0
        return (self.map_bytes + self.bytes_read) / whole if whole else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPicture:
    """One partition."""

    topic: str
    partition: int
    cleanup_policy: tuple[str, ...]
    bars: tuple[Bar, ...]
    """All segments, the active one last; if there are very many, adjacent ones are joined."""
    segments: int
    size_bytes: int
    log_start_offset: int
    first_dirty_offset: int
    """The cleaner checkpoint, or the offset that is used instead."""
    upper_offset: int
    """Where a pass would end."""
    first_uncleanable_offset: int
    bound_by: str
    """Why the log cannot be cleaned from this offset: `active_segment`, `open_transaction`, `min_compaction_lag`, `damage`."""
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    dirty_ratio: float
    min_cleanable_dirty_ratio: float
    eligible: bool
    """Whether the next round of the cleaner may clean it."""
    waits_for: Waits | None
    """What it is waiting for; None if it is eligible."""
    explanation: str
    """The same as a sentence."""
    eligible_at_ms: int | None
    """Time from which it is eligible without further changes; None: eligible now, or not without changes."""
    horizon: Horizon | None
    """Earliest delete horizon found so far; None if none is known."""
    passes: int
    """Number of completed passes since the start."""
    running: RunningPass | None
    last_pass: PassPicture | None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Adjacent offsets."""

    from_offset: int
    to_offset: int
    """Exclusive."""
    records: int
    """Number of records that remain."""
    tombstones: int
    """Number of tombstones among the records."""
    markers: int
    """Control records of transactions, which are included in `records`."""

    @property
    def offsets(self) -> int:
        return self.to_offset - self.from_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Remaining records and gaps in a range of offsets."""

    from_offset: int
    to_offset: int
    buckets: tuple[Bucket, ...]
    """Equal parts of the range, up to the offset that was searched."""
    looked_at_to_offset: int
    """Equal to `to_offset`, or lower if there was too much to read."""
    records: int
    horizon: Horizon | None
    """Earliest delete horizon in the searched range."""
