"""A hard case as data: what its log looks like, and what a right client reads of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

DAY_MS = 24 * 60 * 60 * 1000
FAR = 2**31 + 10
"""An offset that does not fit behind offset 0 in one segment, whose entries have 31 bits."""

Level = Literal["read_uncommitted", "read_committed"]
"""A consumer's `isolation.level`."""

AT_REST: dict[str, str] = {
    "compression.type": "producer",
    "delete.retention.ms": str(DAY_MS),
    "max.compaction.lag.ms": str(2**63 - 1),
    "message.timestamp.type": "CreateTime",
    # The dirty ratio is never above it: no pass of the broker's own changes the case. One on demand does.
    "min.cleanable.dirty.ratio": "1.0",
    "min.compaction.lag.ms": "0",
    "retention.bytes": "-1",
    "retention.ms": "-1",
}
"""With these options nothing happens to a log by itself, however long one looks at it."""
COMPACTED: Mapping[str, str] = AT_REST | {"cleanup.policy": "compact"}
PLAIN: Mapping[str, str] = AT_REST | {"cleanup.policy": "delete"}


@dataclass(frozen=True, slots=True)
class Expected:
    """A record that a consumer reads."""

    offset: int
    key: str
    value: str | None
    """None is a tombstone."""
    after_ms: int = 0
    """Its timestamp, from the time of the case on (`LoadedCase.time_ms`)."""
    is_committed: bool = True
    """Whether it is read with `read_committed`, too: it is of no transaction that was aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One hard case: a topic of one partition."""

    name: str
    looks_like: str
    """Offsets and batches, in one or two sentences."""
    reveals: str
    """What incorrect clients do."""
    threads: tuple[str, ...]
    """Where that was reported."""
    records: tuple[Expected, ...]
    """All that `read_uncommitted` reads, by offset."""
    start_offset: int = 0
    end_offset: int
    """The high watermark and the last stable offset: every transaction is decided."""
    position: int
    """What a consumer's position is at the end, inclusive of all batches: below `end_offset` where no batch reaches up to it."""
    producers: int = 0
    """How many producer ids its log needs."""
    begins_before_ms: int = 0
    """How much earlier than its load the time of the case is."""
    configs: Mapping[str, str]
    offsets_for_times: tuple[tuple[int, int | None], ...] = ()
    """(time, from the time of the case on; the first offset whose record is not older, None if there is none)."""
    group_epoch: int | None = None
    """The epoch of an empty consumer group of the new protocol (KIP-848) that comes with it."""

    def read_with(self, level: Level) -> tuple[Expected, ...]:
        """The records that a consumer with this isolation level reads."""
        return tuple(each for each in self.records if each.is_committed or level == "read_uncommitted")
