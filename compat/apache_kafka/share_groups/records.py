"""The record batches of an answer, by their headers alone."""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER_BYTES = 61
_TRANSACTIONAL_BITS = 0x30


class Batch(NamedTuple):
    """A record batch. The CRC of a transaction's batch is 0 here, as brokers assign their own producer ids."""

    base_offset: int
    last_offset: int
    size_bytes: int
    records: int
    attributes: int
    crc: int


def whole_batches(records: bytes) -> tuple[Batch, ...]:
    """Return the batches that are complete."""
    found = []
    at = 0
    while at + HEADER_BYTES <= len(records):
        base_offset, length = struct.unpack_from(">qi", records, at)
        size = 12 + length
        if at + size > len(records):
            break
        crc, attributes, delta = struct.unpack_from(">Ihi", records, at + 17)
        (count,) = struct.unpack_from(">i", records, at + 57)
        if attributes & _TRANSACTIONAL_BITS:
            crc = 0
        found.append(Batch(base_offset, base_offset + delta, size, count, attributes, crc))
        at += size
    return tuple(found)
