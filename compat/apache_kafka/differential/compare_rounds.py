"""The comparisons of each round of a transactional history: producer snapshots, segments, transaction indexes."""

from pathlib import Path

from ottla.storage.logs.log import Log

from ...support.logs.segment_files import base_offset, segments
from .compare import Findings, compare_logs
from .history import Step

SNAPSHOT_PREFIX_BYTES, SNAPSHOT_ENTRY_BYTES = 2 + 4 + 4, 46


def compare_producers(findings: Findings, step: Step, folder: Path) -> None:
    """Compare the producer snapshots that Kafka had before the pass with those of the same offset in Ottla's folder."""
    for offset, theirs in step["producers"].items():
        ours = folder / f"{int(offset):020d}.snapshot"
        if ours.exists():
            found = _snapshot_entries(ours.read_bytes())
            findings.equal(f"producers at {offset}", _snapshot_entries(bytes.fromhex(theirs)), found)


def _snapshot_entries(snapshot: bytes) -> list[bytes]:
    """Return the producers of a snapshot, whatever their order."""
    body = snapshot[SNAPSHOT_PREFIX_BYTES:]
    return sorted(body[at : at + SNAPSHOT_ENTRY_BYTES] for at in range(0, len(body), SNAPSHOT_ENTRY_BYTES))


def compare_left(findings: Findings, step: Step, folder: Path, aborted: list[list[list[int]]]) -> None:
    """Compare the result of the pass: every batch of every segment, and the transaction indexes."""
    findings.dumps += 1
    ours = {base_offset(path): path.read_bytes() for path in segments(folder)}
    findings.equal("segments", [base for base, _ in step["segments"]], list(ours))
    for base, theirs in step["segments"]:
        compare_logs(findings, bytes.fromhex(theirs), ours.get(base, b""))
    findings.equal("aborted transactions", step["aborted"], aborted)


def aborted_in(log: Log) -> list[list[list[int]]]:
    """Return the transaction index of each segment."""
    return [
        [
            [txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset]
            for txn in segment.txn_index.entries()
        ]
        for segment in log.segments
    ]
