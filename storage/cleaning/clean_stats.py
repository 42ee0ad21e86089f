"""What a pass did, and what one would do: the figures, for those who show them and never run one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..filter.removed import Removal, RemovedRecords


@dataclass(slots=True)
class CleanStats:
    """What a pass did."""

    map_bytes_read: int = 0
    map_record_count: int = 0
    """Records of the dirty part that the map knows."""
    map_entry_count: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    records_read: int = 0
    bytes_written: int = 0
    records_written: int = 0
    segments_before: int = 0
    segments_after: int = 0
    removed: RemovedRecords = field(default_factory=RemovedRecords)
    seconds: float = 0.0
    """How long the pass took. A pass knows no clock: whoever calls it fills in the three times."""
    map_seconds: float = 0.0
    """Of which for the map; see `on_map_built`."""
    throttled_seconds: float = 0.0
    """Of which `checkpoint` waited to hold the rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPreview:
    """Neighbouring segments that would become one, or have."""

    base_offset: int
    end_offset: int
    """Where what follows begins."""
    source_base_offsets: tuple[int, ...]
    source_bytes: tuple[int, ...]
    """Of each, as it is now."""
    bytes_before: int
    bytes_after: int
    records_before: int
    removed: RemovedRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class DryPass:
    """What a pass would do. Offsets as in `dirtiness`; bytes are those of batches."""

    first_dirty_offset: int
    upper_offset: int
    end_offset: int
    """The first dirty offset after it: `upper_offset`, or less where the map has no room for all keys."""
    stats: CleanStats
    """Counted as by the pass; no time was taken."""
    groups: tuple[GroupPreview, ...]
    removals: tuple[Removal, ...]
    """The first of the records that would go, in order of their offsets."""
    are_all_listed: bool
    """Whether no other record would go."""
    segments_to_split: int = 0
    """Segments, written by others, whose offsets do not fit one: a pass splits these alone, and the next one cleans."""
