"""Findings of `verify`: each names the rule, and the place where it is broken; a report has those of one run.

orders-3: a key's newest value is gone: /data/orders-3/00000000000000000310.log, byte 16384, offset 402, key b'k7':
expected this record, or a later one of its key, found neither
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ...storage.disk.paths import LOG, TopicPartition
from ..errors import VerifyFailedError

FINDINGS_MAX = 100
"""Number of findings of one partition that a report names. All are counted."""

_KEY_BYTES_SHOWN = 100


class Finding(NamedTuple):
    """One broken rule."""

    rule: str
    """The rule that is broken, in a few words that never change."""
    file: str
    """The segment file in which to look."""
    position: int | None
    """Byte in the file where the batch or entry begins; None for the file as a whole."""
    offset: int
    """Offset of the record or batch; -1 if it has none."""
    expected: str
    actual: str
    key: bytes | None = None
    """Key of the record; None if the rule is not about one, or it has no key."""

    def __str__(self) -> str:
        place = self.file + ("" if self.position is None else f", byte {self.position}")
        place += "" if self.offset < 0 else f", offset {self.offset}"
        place += "" if self.key is None else f", key {format_key(self.key)}"
        return f"{self.rule}: {place}: expected {self.expected}, found {self.actual}"


def format_key(key: bytes) -> str:
    """Return a key in Python's notation, shortened if it is long."""
    return repr(key) if len(key) <= _KEY_BYTES_SHOWN else f"{key[:_KEY_BYTES_SHOWN]!r}… ({len(key)} bytes)"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by offset; for one offset places in the log come first, then indexes, then findings without a place."""
    return sorted(findings, key=_order)


def _order(finding: Finding) -> tuple[object, ...]:
    is_in_log = finding.file.endswith(LOG) and finding.position is not None
    return finding.offset, not is_in_log, finding.position is None, finding.file, finding.position or 0, finding.rule


@dataclass(kw_only=True)
class PartitionReport:
    """Counts and findings of one partition."""

    topic: str
    partition: int
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    records_before: int = 0
    """Number of records in the originals, if there are originals to compare with."""
    torn_bytes: int = 0
    """Size of an incompletely written batch at the end of the last segment, which is not damage."""
    finding_count: int = 0
    findings: list[Finding] = field(default_factory=list)
    """The first FINDINGS_MAX, in order."""

    def line(self, mode: str) -> str:
        """Return a line for people."""
        return (
            f"{self.topic}-{self.partition}: {'FAILED' if self.finding_count else 'passed'} ({mode}):"
            f" {self.segments} segments, {self.batches} batches, {self.records} records, {self.bytes} bytes,"
            f" {self.finding_count} findings"
        )

    def to_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["findings"] = [_as_dict(each) for each in self.findings]
        return fields


@dataclass(kw_only=True)
class VerifyReport:
    """Result of `verify`."""

    mode: str
    """`alone`, `against DIR` or `plan ID`."""
    partitions: Sequence[PartitionReport]
    notes: Sequence[str] = ()
    """Statements about what could not be judged over the wire, and why."""

    @property
    def finding_count(self) -> int:
        return sum(each.finding_count for each in self.partitions)

    @property
    def passed(self) -> bool:
        return self.finding_count == 0

    @property
    def first(self) -> tuple[TopicPartition, Finding] | None:
        """The first finding of the first partition that has one."""
        for each in self.partitions:
            if each.findings:
                return TopicPartition(each.topic, each.partition), each.findings[0]
        return None

    def check(self) -> None:
        """Raise the first finding.

        Raises:
            VerifyFailedError: There are findings; the text has the first one and their number.
        """
        if (first := self.first) is not None:
            more = f" (and {self.finding_count - 1} more)" if self.finding_count > 1 else ""
            raise VerifyFailedError(f"{first[0]}: {first[1]}{more}")

    def lines(self) -> Iterator[str]:
        """Yield lines for people: each partition, and its first findings."""
        for each in self.partitions:
            yield each.line(self.mode)
            yield from (f"  {finding}" for finding in each.findings[:10])

    def to_dict(self) -> Mapping[str, Any]:
        """Return the fields for JSON, with keys of records both readable and in hexadecimal."""
        return {
            "mode": self.mode,
            "passed": self.passed,
            "findings": self.finding_count,
            "partitions": [each.to_dict() for each in self.partitions],
        }

    def to_json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(self.to_dict(), indent=1) + "\n"


def _as_dict(finding: Finding) -> dict[str, Any]:
    fields = finding._asdict()
    if finding.key is not None:
        fields["key"], fields["key_hex"] = format_key(finding.key), finding.key.hex()
    return fields
