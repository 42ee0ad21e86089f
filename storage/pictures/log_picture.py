"""Picture of a log as data: it is drawn, sent as JSON, and compared to detect changes.

    log start          first dirty        upper         first uncleanable     LSO = high watermark = log end
    | clean     | clean | dirty   | dirty   | held          | active            |

Offsets are those of records; an end is exclusive. Sizes count batches only. Times are ms since 1970, by the broker's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..cleaning.eligibility import BlockedReason
from ..cleaning.progress import Phase
from ..logs.record_counts import RecordCounts


class Part(StrEnum):
    """State of a segment for the cleaner."""

    CLEAN = "clean"
    """Below the first dirty offset: one record per key, except records that later ones have superseded since."""
    DIRTY = "dirty"
    """The next pass reads it, to learn the newest record of each key."""
    HELD = "held"
    """Dirty, but not cleanable yet: too young, or after an open transaction."""
    ACTIVE = "active"
    """The segment that takes appends. No pass touches it."""
    CLOSED = "closed"
    """Sealed segment of a log that is not compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A segment, or `segments` neighbours of the same part."""

    part: Part
    base_offset: int
    end_offset: int
    size_bytes: int
    segments: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The earliest delete horizon in a log: the time from which on a pass may remove a batch's tombstones and markers."""

    at_ms: int
    offset: int
    """Base offset of the first batch that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPicture:
    """Neighbouring segments that become one, or several neighbouring groups together."""

    base_offset: int
    end_offset: int
    segments_before: int
    segments_after: int
    source_bytes: tuple[int, ...]
    """Sizes of the segments, in order; of very many segments, those of neighbours together."""
    bytes_before: int
    bytes_after: int | None
    """Size after the pass; None if no dry run was made."""
    records_before: int
    records_after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPicture:
    """A pass that is finished, or a dry run."""

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
    """Removed records, or those that a pass would remove: (reason, count), without counts of 0."""
    ended_at_ms: int | None = None
    """End of the pass; None for a dry run."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPass:
    """A running pass and its progress."""

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
    """Number of the group that is being copied, from 1 on; 0: none yet."""
    group_count: int
    """Number of groups; 0: not known yet."""
    group_base_offset: int
    group_end_offset: int
    group_bytes: int
    group_bytes_read: int
    bytes_to_read: int
    """Size of all groups."""
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPicture:
    """Picture of one partition."""

    topic: str
    partition: int
    cleanup_policy: tuple[str, ...]
    bars: tuple[Bar, ...]
    """All segments, the active one last; of very many segments, neighbours together."""
    segments: int
    size_bytes: int
    log_start_offset: int
    first_dirty_offset: int
    """The cleaner's checkpoint, or the offset that is used instead."""
    upper_offset: int
    """End of the next pass."""
    first_uncleanable_offset: int
    bound_by: str
    """Why nothing is cleanable from there on: `active_segment`, `open_transaction`, `min_compaction_lag`, `damage`."""
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    counts: RecordCounts
    dirty_ratio: float
    min_cleanable_dirty_ratio: float
    eligible: bool
    """Whether the next round of the cleaner may take the log."""
    waits_for: BlockedReason | None
    """Reason why it is not eligible; None if it is."""
    explanation: str
    """The reason in a sentence."""
    eligible_at_ms: int | None
    """Time from which on it is eligible if nothing but time passes; None: at once, or never by time alone."""
    horizon: Horizon | None
    """The earliest known delete horizon; None if the files were not read, or have none."""
    passes: int
    """Number of finished passes since the start."""
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
    """A range of offsets in `Contents`."""

    from_offset: int
    to_offset: int
    """End of the range, exclusive."""
    records: int
    """Number of surviving records."""
    tombstones: int
    """Number of tombstones among `records`."""
    markers: int
    """Number of transaction markers among `records`."""

    @property
    def offsets(self) -> int:
        return self.to_offset - self.from_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Remaining records and gaps in a range of offsets."""

    from_offset: int
    to_offset: int
    buckets: tuple[Bucket, ...]
    """Equal parts of the range, up to `looked_at_to_offset`."""
    looked_at_to_offset: int
    """End of what was read: `to_offset`, or less if that was too much to read."""
    records: int
    horizon: Horizon | None
    """The earliest delete horizon in what was read."""
