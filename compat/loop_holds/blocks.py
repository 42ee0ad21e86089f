"""Record batches that are expensive for their size: many records, much decompressed data, many empty frames."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable
from functools import cache

import lz4.frame
import zstandard
from crc32c import crc32c

from ottla.protocol.batch_builder import build_batch, seal_batch
from ottla.protocol.compression import Codec, compress
from ottla.protocol.records import HEADER_BYTES

CRC_AT, LENGTH_AT, OVERHEAD_BYTES = 17, 8, 12
MESSAGE_BYTES_MAX = 1_048_588
MADE_MS = int(time.time() * 1000)
"""The time of all records of `many_records` but the last, which is a millisecond later."""


def _varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes((value,))


@cache
def _records(count: int) -> bytes:
    """Return records without key and with an empty value, of which the last is later by a millisecond."""
    parts = []
    for number in range(count):
        body = b"\0" + (b"\2" if number == count - 1 else b"\0") + _varint(number) + b"\1\0\0"
        parts.append(_varint(len(body)) + body)
    return b"".join(parts)


def many_records(count: int, codec: Codec) -> bytes:
    """Return a batch of that many of the smallest records."""
    return bytes(
        seal_batch(
            _records(count),
            record_count=count,
            base_offset=0,
            last_offset_delta=count - 1,
            attributes=int(codec),
            base_timestamp=MADE_MS,
            max_timestamp=MADE_MS + 1,
        )
    )


def fullest(codec: Codec, at_most_bytes: int = MESSAGE_BYTES_MAX, most: int = 2_000_000) -> tuple[bytes, int]:
    """Return a batch with as many of the smallest records as a batch may have, and their number."""
    count = most
    while len(batch := many_records(count, codec)) > at_most_bytes:
        count = count * 2 // 3
    return batch, count


def much_that_unpacks(codec: Codec, raw_bytes: int) -> bytes:
    """Return a batch of one record, whose value is that many zeros."""
    return bytes(build_batch([(0, int(time.time() * 1000), b"k", bytes(raw_bytes), ())], codec=codec))


def frames_of_nothing(codec: Codec, size_bytes: int) -> bytes:
    """Return a batch with one record, whose compressed block is filled up with empty frames (members, chunks)."""
    plain = build_batch([(0, int(time.time() * 1000), b"k", b"v", ())])
    block = bytes(plain[HEADER_BYTES:])
    made: dict[Codec, Callable[[], tuple[bytes, bytes]]] = {
        Codec.GZIP: lambda: (_gzip(b""), _gzip(block)),
        Codec.LZ4: lambda: (lz4.frame.compress(b"", store_size=False), lz4.frame.compress(block, store_size=False)),
        Codec.ZSTD: lambda: (zstandard.ZstdCompressor().compress(b""), zstandard.ZstdCompressor().compress(block)),
        Codec.SNAPPY: lambda: (struct.pack(">i", 1) + b"\0", bytes(compress(Codec.SNAPPY, block))),
    }
    empty, whole = made[codec]()
    filling = empty * ((size_bytes - HEADER_BYTES - len(whole)) // len(empty))
    body = whole + filling if codec == Codec.SNAPPY else filling + whole
    batch = bytearray(build_batch([(0, int(time.time() * 1000), b"k", b"v", ())], codec=codec))[:HEADER_BYTES] + body
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - OVERHEAD_BYTES)
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[CRC_AT + 4 :])))
    return bytes(batch)


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()
