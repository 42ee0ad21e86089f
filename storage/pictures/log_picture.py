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
    """A segment, or neighbours of one part that stand for so many."""

    part: Part
    base_offset: int
    end_offset: int
    size_bytes: int
    segments: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Horizon:
    """The earliest of the delete horizons in a log: from when on a pass takes the tombstones and markers of a batch."""

    at_ms: int
    offset: int
    """Of the first batch that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPicture:
    """Neighbouring segments that become one, or neighbouring groups that stand for so many."""

    base_offset: int
    end_offset: int
    segments_before: int
    segments_after: int
    source_bytes: tuple[int, ...]
    """Of the segments, in order; where there are very many, of neighbours together."""
    bytes_before: int
    bytes_after: int | None
    """None: nobody has tried."""
    records_before: int
    records_after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPicture:
    """A pass: one that came to its end, or one that was only tried."""

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
    """Records that went, or would: reason and count, without those that are 0."""
    ended_at_ms: int | None = None
    """None: it was only tried."""
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPass:
    """A pass that is under way, as far as it is."""

    phase: Phase
    begun_at_ms: int
    is_forced: bool
    first_dirty_offset: int
    upper_offset: int
    map_offset: int
    """Keys of the dirty part below it are in the map."""
    map_bytes: int
    map_bytes_read: int
    group: int
    """The one that is being copied, from 1 on; 0: none yet."""
    group_count: int
    """0: not known yet."""
    group_base_offset: int
    group_end_offset: int
    group_bytes: int
    group_bytes_read: int
    bytes_to_read: int
    """Of all groups."""
    bytes_read: int
    bytes_written: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPicture:
    """One partition."""

    topic: str
    partition: int
    cleanup_policy: tuple[str, ...]
    bars: tuple[Bar, ...]
    """All segments, the active one last; where there are very many, neighbours together."""
    segments: int
    size_bytes: int
    log_start_offset: int
    first_dirty_offset: int
    """The cleaner's checkpoint, or what stands for it."""
    upper_offset: int
    """Where a pass would end."""
    first_uncleanable_offset: int
    bound_by: str
    """Why nothing may be cleaned from there on: `active_segment`, `open_transaction`, `min_compaction_lag`, `damage`."""
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    dirty_ratio: float
    min_cleanable_dirty_ratio: float
    eligible: bool
    """Whether the next round of the cleaner may take it."""
    waits_for: Waits | None
    """What is missing; None if it is eligible."""
    explanation: str
    """The same in a sentence."""
    eligible_at_ms: int | None
    """From when on it is eligible if nothing but time passes; None: at once, or never so."""
    horizon: Horizon | None
    """As far as somebody has looked at the files; None: nobody has, or there is none."""
    passes: int
    """How many came to their end since the start."""
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
    """Neighbouring offsets."""

    from_offset: int
    to_offset: int
    """Exclusive."""
    records: int
    """Those that are there."""
    tombstones: int
    """Of these."""
    markers: int
    """Control records of transactions, which count among `records`, too."""

    @property
    def offsets(self) -> int:
        return self.to_offset - self.from_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Survivors and gaps of a range of offsets."""

    from_offset: int
    to_offset: int
    buckets: tuple[Bucket, ...]
    """The range in equal parts, as far as it was looked at."""
    looked_at_to_offset: int
    """As `to_offset`; less if there was too much to read."""
    records: int
    horizon: Horizon | None
    """Of what was looked at."""
