"""Progress of a clean pass. Only the pass writes it, in its thread; other threads may read it, and see each field whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # Loaded with the cleaner.
    from .clean_stats import GroupPreview


class Phase(StrEnum):
    """Phases of a clean pass, in order."""

    PREPARING = "preparing"
    """Syncing what is not on the disk yet."""
    MAP = "map"
    """Reading the dirty part, to learn the newest record of each key."""
    GROUPS = "groups"
    """Copying what stays, group of segments by group."""


class GroupAt(NamedTuple):
    """A group that is being copied."""

    number: int
    """From 1 on."""
    base_offset: int
    end_offset: int
    """Exclusive."""
    size_bytes: int
    begun_at_bytes: int
    """`PassProgress.bytes_read` as it began."""


@dataclass(slots=True)
class PassProgress:
    """One pass; see the module. Bytes are those of batches."""

    phase: Phase = Phase.PREPARING
    map_bytes: int = 0
    """Size of the segments that the map is built from."""
    map_bytes_read: int = 0
    map_offset: int = -1
    """Keys below it are in the map."""
    group_count: int = 0
    group: GroupAt | None = None
    bytes_to_read: int = 0
    """Size of all groups."""
    bytes_read: int = 0
    bytes_written: int = 0
    done: list[GroupPreview] = field(default_factory=list)
    """Groups that have taken the place of their sources."""
