"""What `verify` says of topics over the wire: a report as that over directories, with what could not be known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..verify.findings import PartitionReport, VerifyReport


@dataclass(kw_only=True)
class WirePartition(PartitionReport):
    """One partition. `segments`, `batches` and `bytes` are not known over the wire: 0."""

    start_offset: int = 0
    end_offset: int = 0
    """It was read up to here (exclusive)."""
    keys: int = 0
    tombstones: int | None = None
    """Of a topic by itself; None where two are compared."""
    clean_end: int | None = None
    """Below it the partition was judged as compacted; None where two are compared."""
    clean_end_because: str = ""
    compacted_up_to: int | None = None
    """Below it no key is there twice; None if none is at all."""
    records_there: int | None = None
    keys_there: int | None = None

    def line(self, mode: str) -> str:
        text = f"{self.topic}-{self.partition}: {'FAILED' if self.finding_count else 'passed'}: offsets {self.start_offset} to"
        text += f" {self.end_offset}, {self.records} records, {self.keys} keys"
        if self.tombstones is not None:
            text += f", {self.tombstones} tombstones, {self.records - self.keys} superseded"
            twice = self.compacted_up_to
            text += "; no key is there twice" + ("" if twice is None else f" below offset {twice}")
            if self.clean_end:
                text += f"; judged as compacted below {self.clean_end} ({self.clean_end_because})"
        if self.records_there is not None:
            text += f" | {self.records_there} records, {self.keys_there} keys"
        return f"{text}; {self.finding_count} findings"


@dataclass(kw_only=True)
class WireReport(VerifyReport):
    """The result of `verify --bootstrap`."""

    partitions: Sequence[WirePartition]

    def to_dict(self) -> Mapping[str, Any]:
        return {**super().to_dict(), "notes": self.notes}
