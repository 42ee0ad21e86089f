"""Hard cases read over the wire by a client that does exactly what a correct client must do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, RecordBatch, batches
from support.broker.conversation import fetch
from support.broker.raw_client import RawClient


@dataclass
class Read:
    """The result of reading a partition from an offset to its end."""

    records: list[Record] = field(default_factory=list)
    position: int = 0
    """The offset that is read next."""
    bases: list[int] = field(default_factory=list)
    """Base offsets of the received batches."""


def read_from(client: RawClient, topic: str, offset: int, *, committed: bool) -> Read:
    """Read until a fetch returns nothing. Records below the position are skipped; aborted ones and markers are left out."""
    read = Read(position=offset)
    while True:
        answer = fetch(client, topic, read.position, committed=committed)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        found = list(batches(answer.records or b""))  # type: ignore[arg-type]
        if not found:
            return read
        for batch in _without_aborted(found, answer, committed=committed):
            read.records += [record for record in batch.records() if record.offset >= read.position]
        read.bases += [batch.base_offset for batch in found]
        assert found[-1].next_offset > read.position, "a fetch brings on whoever asked"
        read.position = found[-1].next_offset


def _without_aborted(found: list[RecordBatch], answer: Any, *, committed: bool) -> Iterator[RecordBatch]:
    aborted = (
        sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ()) if committed else []
    )
    in_aborted: set[int] = set()
    for batch in found:
        while aborted and aborted[0][0] <= batch.base_offset:
            in_aborted.add(aborted.pop(0)[1])
        if batch.is_control:
            in_aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in in_aborted):
            yield batch
