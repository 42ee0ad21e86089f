"""What the broker tells of the cleaner's work on a partition: `Broker.cleaner_status`, `ottla topics status`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

# At run time: the schema of the control API reads these hints.
from ...storage.cleaning.clean_stats import CleanStats
from ...storage.cleaning.eligibility import Eligibility


@dataclass(frozen=True, slots=True)
class LastPass:
    """The last completed pass over a partition."""

    end_offset: int
    """First dirty offset after the pass."""
    ended_at_ms: int
    stats: CleanStats


@dataclass(frozen=True, slots=True)
class CleanerStatus:
    """Cleaner state of one partition, and its passes since the broker started."""

    eligibility: Eligibility
    passes: int = 0
    """Number of completed passes."""
    last_pass: LastPass | None = None

    def as_json(self) -> dict[str, Any]:
        """For `json.dumps`: the fields of the eligibility, `passes`, and `last_pass` as an object or null."""
        last_pass = None if self.last_pass is None else asdict(self.last_pass)
        return asdict(self.eligibility) | {"passes": self.passes, "last_pass": last_pass}
