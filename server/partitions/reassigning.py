"""Other replicas for a partition that it is on its way to (KIP-455).

All replicas are one log, so nothing is copied. What is played is the time: a new replica is in step when the throttle
would have let the log's bytes through.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(slots=True)
class Reassigning:
    """What becomes of a partition's replicas, of which both of these are a part until it has become so."""

    adding: tuple[int, ...]
    removing: tuple[int, ...]
    copied_bytes: dict[int, float]
    """By node, of those of `adding` that are not in step yet: how much each has caught up."""

    @property
    def lagging(self) -> Collection[int]:
        """Those of `adding` that are not in step yet."""
        return self.copied_bytes.keys()
