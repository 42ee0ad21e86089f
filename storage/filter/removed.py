"""What a pass took out: how many records, by reason, and of some which. The rules themselves are in `clean_rules`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class RemovedRecords:
    """Records that a pass took out, by reason."""

    superseded: int = 0
    """A newer record has their key."""
    keyless: int = 0
    tombstones: int = 0
    """At their delete horizon."""
    aborted: int = 0
    """Of aborted transactions."""
    markers: int = 0
    """At their delete horizon, too."""

    @property
    def total(self) -> int:
        return self.superseded + self.keyless + self.tombstones + self.aborted + self.markers


class Removal(NamedTuple):
    """A record that goes."""

    offset: int
    reason: str
    """The name of a count of `RemovedRecords`."""
    key: bytes | None
    """None also for a marker."""
