"""Whether two cleaned partition directories hold the same records."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from ottla.protocol.records import RecordBatch, batches


def first_difference(one: Path, other: Path) -> str | None:
    """Return the first difference in the records of two directories (offset, timestamp, key, value, headers), or None.

    Batches with equal bytes before compression are not decoded; of the others the records are compared.
    """
    for left, right in zip_longest(_batches(one), _batches(other)):
        if left is None or right is None:
            return f"one ends before {left or right}"
        if _identity(left) == _identity(right) and left.payload() == right.payload():
            continue
        if (left.base_offset, left.last_offset) != (right.base_offset, right.last_offset):
            return f"{left} and {right}"
        for record, its_peer in zip_longest(left.records(), right.records()):
            if record != its_peer:
                return f"{record} and {its_peer}"
    return None


def _batches(directory: Path) -> Iterator[RecordBatch]:
    for segment in sorted(directory.glob("*.log")):
        yield from batches(segment.read_bytes())


def _identity(batch: RecordBatch) -> tuple[int, ...]:
    """Return the fields that a batch's records are relative to, their number, and their producer."""
    return (
        batch.base_offset,
        batch.last_offset_delta,
        batch.attributes,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
    )
