"""Records that a pass removed: counts by reason, and a list of some. The rules themselves are in `clean_rules`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class RemovedRecords:
    """Number of records that a pass removed, by reason."""

    superseded: int = 0
    """Records with a newer record of the same key."""
    keyless: int = 0
    tombstones: int = 0
    """Tombstones at their delete horizon."""
    aged: int = 0
    """Records with a value that are older than `ottla.key.retention.ms`."""
    aborted: int = 0
    """Records of aborted transactions."""
    markers: int = 0
    """Control records at their delete horizon."""

    @property
    def total(self) -> int:
        return self.superseded + self.keyless + self.tombstones + self.aged + self.aborted + self.markers


class Removal(NamedTuple):
    """A record that is removed."""

    offset: int
    reason: str
    """The name of a count of `RemovedRecords`."""
    key: bytes | None
    """None also for a marker."""
