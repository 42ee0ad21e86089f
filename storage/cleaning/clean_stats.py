"""Figures of a clean pass, done or only tried. They import nothing of the cleaner, so showing them loads none of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..filter.removed import Removal, RemovedRecords


@dataclass(slots=True)
class CleanStats:
    """Figures of one clean pass."""

    map_bytes_read: int = 0
    map_record_count: int = 0
    """Records of the dirty part that are in the map."""
    map_entry_count: int = 0
    map_utilization: float = 0.0
    bytes_read: int = 0
    records_read: int = 0
    bytes_written: int = 0
    records_written: int = 0
    """All that stays, with tombstones and transaction markers."""
    tombstones_written: int = 0
    markers_written: int = 0
    segments_before: int = 0
    segments_after: int = 0
    removed: RemovedRecords = field(default_factory=RemovedRecords)
    oldest_kept_ms: int = 0
    """Least timestamp of the records that stay and may go for their age; the largest number: there are none; 0: it is unknown."""
    aged_up_to_ms: int = -1
    """Largest timestamp of the records that went for their age; -1: none did."""
    seconds: float = 0.0
    """Duration of the pass. A pass has no clock: its caller fills in the three times."""
    map_seconds: float = 0.0
    """Part of `seconds` until the map was built; see `on_map_built`."""
    throttled_seconds: float = 0.0
    """Part of `seconds` in which `checkpoint` waited for the throttler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPreview:
    """Neighbouring segments that a pass merges into one."""

    base_offset: int
    end_offset: int
    """Base offset of the segment after the group."""
    source_base_offsets: tuple[int, ...]
    source_bytes: tuple[int, ...]
    """Present size of each source segment."""
    bytes_before: int
    bytes_after: int
    records_before: int
    removed: RemovedRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class DryPass:
    """Result of a dry run. Offsets are those of `dirtiness`; sizes count record batches only."""

    first_dirty_offset: int
    upper_offset: int
    end_offset: int
    """First dirty offset after the pass: `upper_offset`, or lower if the map has no room for all keys."""
    stats: CleanStats
    """Counts as of a real pass; the times are 0."""
    groups: tuple[GroupPreview, ...]
    removals: tuple[Removal, ...]
    """The first records that would be removed, in the order of offsets."""
    are_all_listed: bool
    """Whether `removals` is complete."""
    segments_to_split: int = 0
    """Segments from another writer with too many offsets for one segment: a pass only splits them, and the next pass cleans."""
