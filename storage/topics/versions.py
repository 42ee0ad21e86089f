"""Versions of records, by which a compacted topic may choose the record of a key that stays (KIP-280).

The highest version wins, and the offset decides between equal ones. `kernel.KeyMap` has the same rule for whole batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

STRATEGY, STRATEGY_HEADER = "ottla.compaction.strategy", "ottla.compaction.strategy.header"
"""Names of the options."""
BY_OFFSET, BY_TIMESTAMP, BY_HEADER = "offset", "timestamp", "header"
"""Values of STRATEGY."""
NO_VERSION = -(1 << 63)
"""Version of a record without a valid header: it loses against all others."""

_VERSION_BYTES = 8


class VersionSource(NamedTuple):
    """The place of a record's version."""

    header: bytes | None
    """Name of a header with a signed 64-bit number, big-endian; of several the last one counts. None: the timestamp."""

    def version(self, timestamp_ms: int, headers: Iterable[tuple[str | bytes, bytes | None]]) -> int:
        """Return the version of a record with this timestamp and these headers."""
        if self.header is None:
            return timestamp_ms
        found: bytes | None = None
        for name, value in headers:
            if (name.encode() if isinstance(name, str) else name) == self.header:
                found = value
        is_valid = found is not None and len(found) == _VERSION_BYTES
        return int.from_bytes(found or b"", signed=True) if is_valid else NO_VERSION


def version_source(strategy: str, header: str) -> VersionSource | None:
    """Return the place of the versions for values of STRATEGY and STRATEGY_HEADER; None: the newest record of a key stays."""
    if strategy == BY_HEADER:
        return VersionSource(header.encode())
    return VersionSource(None) if strategy == BY_TIMESTAMP else None
