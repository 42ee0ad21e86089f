"""Compares what the two brokers left, batch for batch, and counts what was compared."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from .batches import Batch, decode
from .look import Dump


@dataclass
class Findings:
    """Differences so far, each with its place, and what was compared."""

    place: str = ""
    differences: list[str] = field(default_factory=list)
    passes: int = 0
    dumps: int = 0
    batches: int = 0
    records: int = 0
    same_bytes: int = 0
    """Batches of which every byte was equal."""

    def at(self, place: str) -> "Findings":
        self.place = place
        return self

    def add(self, other: "Findings") -> None:
        """Count in what another one counted."""
        for name in ("passes", "dumps", "batches", "records", "same_bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def counts(self) -> str:
        return (
            f"{self.passes} passes, {self.dumps} logs with {self.batches} batches ({self.same_bytes} of them to the last"
            f" byte) and {self.records} records"
        )

    def equal(self, what: str, kafka: object, ottla: object) -> bool:
        if kafka != ottla:
            self.differences.append(f"{self.place}: {what}: Kafka {kafka}, Ottla {ottla}")
        return kafka == ottla


def compare_dumps(findings: Findings, kafka: Dump, ottla: Dump) -> None:
    """Compare two dumps as `look.dump` makes them."""
    findings.dumps += 1
    for name in kafka:
        if name != "log":
            findings.equal(name, kafka[name], ottla[name])
    compare_logs(findings, bytes.fromhex(kafka["log"]), bytes.fromhex(ottla["log"]))


def compare_logs(findings: Findings, kafka: bytes, ottla: bytes) -> None:
    """Compare logs as bytes; where no codec is used, every byte counts."""
    compare_batches(findings, list(decode(kafka)), list(decode(ottla)))


def compare_batches(findings: Findings, kafka: Sequence[Batch], ottla: Sequence[Batch]) -> None:
    for theirs, ours in zip_longest(kafka, ottla):
        if theirs is None or ours is None:
            extra = theirs or ours
            who = "Ottla lacks" if ours is None else "Ottla alone has"
            findings.differences.append(f"{findings.place}: {who} the batch {extra.base_offset}–{extra.last_offset}")
            return
        findings.batches += 1
        findings.records += len(theirs.records)
        findings.same_bytes += theirs.raw == ours.raw
        expected, actual = theirs.fields(), ours.fields()
        names = [name for name in expected if expected[name] != actual[name]]
        if names:
            first, second = ({name: each[name] for name in names} for each in (expected, actual))
            findings.equal(f"batch {theirs.base_offset}", first, second)
            return
        if theirs.codec == "none" and not findings.equal(f"bytes of batch {theirs.base_offset}", theirs.raw, ours.raw):
            return
