"""Damaged batches: changes that verification has to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from crc32c import crc32c

from ottla.protocol.batch_builder import build_batch, seal_batch
from ottla.protocol.records import ATTRIBUTES_POSITION, CRC_POSITION, HEADER_BYTES, Record, RecordBatch
from ottla.protocol.records import batches as batches_of

Change = Callable[[RecordBatch], Sequence[bytes]]
"""A function that returns the replacement of a batch."""


def changed(data: bytes, offset: int, change: Change) -> bytes:
    """Return a log file with other batches in place of the one that holds `offset`."""
    found = bytearray()
    for each in batches_of(data):
        for part in change(each) if each.base_offset <= offset <= each.last_offset else [bytes(each.view)]:
            found += part
    return bytes(found)


def header(**fields: int) -> Change:
    """Return a change to other header fields, with a correct CRC."""

    def change(batch: RecordBatch) -> Sequence[bytes]:
        known: dict[str, Any] = {
            name: getattr(batch, name)
            for name in (
                *("record_count", "base_offset", "last_offset_delta", "attributes", "base_timestamp"),
                *("max_timestamp", "producer_id", "producer_epoch", "base_sequence", "partition_leader_epoch"),
            )
        }
        known |= fields
        made = seal_batch(bytes(batch.view[HEADER_BYTES:]), **known | {"attributes": 0})  # compressed already
        made[ATTRIBUTES_POSITION : ATTRIBUTES_POSITION + 2] = known["attributes"].to_bytes(2)
        made[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(made[ATTRIBUTES_POSITION:]).to_bytes(4)
        return [bytes(made)]

    return change


def records(change_record: Callable[[Record], Record | None], **fields: Any) -> Change:
    """Return a change of the records; those that become None are left out."""

    def change(batch: RecordBatch) -> Sequence[bytes]:
        kept = [changed for each in batch.records() if (changed := change_record(each)) is not None]
        made = build_batch(
            [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in kept],
            base_offset=batch.base_offset,
            codec=batch.codec,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=batch.is_transactional,
            partition_leader_epoch=batch.partition_leader_epoch,
            last_offset_delta=batch.last_offset_delta,
            delete_horizon_ms=batch.delete_horizon_ms,
        )
        return [bytes(made)]

    return change


def without(offset: int) -> Change:
    return records(lambda record: None if record.offset == offset else record)


def gone(_: RecordBatch) -> Sequence[bytes]:
    return []


def twice(batch: RecordBatch) -> Sequence[bytes]:
    return [bytes(batch.view)] * 2


def value(text: bytes) -> Callable[[Record], Record]:
    return lambda record: record._replace(value=text)


def recoded(batch: RecordBatch) -> Sequence[bytes]:
    plain = build_batch(
        [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in batch.records()],
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
    )
    return [bytes(plain)]


def garbage(batch: RecordBatch) -> Sequence[bytes]:
    return header()(RecordBatch(bytes(batch.view[:HEADER_BYTES]) + b"\x80" * (batch.size_bytes - HEADER_BYTES)))
