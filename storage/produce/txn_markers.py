"""Marker that ends a transaction in a partition: a control batch with one record, written by coordinators.

    key    i16 version 0 | i16 kind             value  i16 version 0 | i32 coordinator epoch

The batch's header has the producer and its epoch. Source: KIP-98.
"""

import struct
from typing import NamedTuple

from ...protocol.batch_builder import build_batch
from ...protocol.errors import CorruptRecordError
from ...protocol.records import RecordBatch

ABORT_MARKER, COMMIT_MARKER = 0, 1

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0


class Marker(NamedTuple):
    """The record of an end-transaction control batch."""

    kind: int
    """ABORT_MARKER or COMMIT_MARKER."""
    coordinator_epoch: int
    timestamp: int


def build_marker(
    *, producer_id: int, producer_epoch: int, coordinator_epoch: int, commit: bool, now_ms: int
) -> bytearray:
    """Return the batch that commits or aborts the producer's transaction."""
    key = _KEY.pack(_VERSION, COMMIT_MARKER if commit else ABORT_MARKER)
    value = _VALUE.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [(0, now_ms, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(batch: RecordBatch) -> Marker | None:
    """Return the marker in a control batch; None if the cleaner emptied it, or it is of another kind.

    Raises:
        CorruptRecordError: The key or value is too short.
    """
    record = next(batch.records(), None)
    if record is None:
        return None
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptRecordError(f"control record at offset {record.offset} has no type")
    kind = _KEY.unpack_from(record.key)[1]
    if kind not in (ABORT_MARKER, COMMIT_MARKER):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptRecordError(f"transaction marker at offset {record.offset} has no coordinator epoch")
    return Marker(kind, _VALUE.unpack_from(record.value)[1], record.timestamp)
