"""Report of `verify` on topics over the wire: as that on directories, with notes about what is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..verify.findings import PartitionReport, VerifyReport


@dataclass(kw_only=True)
class WirePartition(PartitionReport):
    """Result of one partition. `segments`, `batches` and `bytes` are unknown over the wire: 0."""

    start_offset: int = 0
    end_offset: int = 0
    """End of the read range (exclusive)."""
    keys: int = 0
    tombstones: int | None = None
    """Number of tombstones of a single topic; None if two are compared."""
    clean_end: int | None = None
    """Offset below which the partition was judged as compacted; None if two are compared."""
    clean_end_because: str = ""
    compacted_up_to: int | None = None
    """Offset below which no key occurs twice; None if none occurs twice at all."""
    records_there: int | None = None
    keys_there: int | None = None

    def line(self, mode: str) -> str:
        text = f"{self.topic}-{self.partition}: {'FAILED' if self.finding_count else 'passed'}: offsets {self.start_offset} to"
        text += f" {self.end_offset}, {self.records} records, {self.keys} keys"
        if self.tombstones is not None:
            text += f", {self.tombstones} tombstones, {self.records - self.keys} superseded"
            twice = self.compacted_up_to
            text += "; no key occurs twice" + ("" if twice is None else f" below offset {twice}")
            if self.clean_end:
                text += f"; judged as compacted below {self.clean_end} ({self.clean_end_because})"
        if self.records_there is not None:
            text += f" | {self.records_there} records, {self.keys_there} keys"
        return f"{text}; {self.finding_count} findings"


@dataclass(kw_only=True)
class WireReport(VerifyReport):
    """Result of `verify --bootstrap`."""

    partitions: Sequence[WirePartition]

    def to_dict(self) -> Mapping[str, Any]:
        return {**super().to_dict(), "notes": self.notes}
