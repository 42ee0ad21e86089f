"""Record batches as bytes, written and read by the published format without any of Ottla's code.

Both halves of the comparison use this: the histories are made of these bytes, and both brokers' dumps are read by the
same reader.
"""

import gzip
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from kafka import codec as codecs
from kafka.record.util import calc_crc32c

from ...support.logs.segment_files import HEADER, LOG_OVERHEAD_BYTES

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CRC_AT, CRC_FROM = 17, 21
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 1 << 3, 1 << 4, 1 << 5, 1 << 6

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": partial(gzip.compress, mtime=0),  # without the time of day a seed makes the same bytes
    "snappy": codecs.snappy_encode,
    "lz4": codecs.lz4_encode,
    "zstd": codecs.zstd_encode,
}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": codecs.gzip_decode,
    "snappy": codecs.snappy_decode,
    "lz4": codecs.lz4_decode,
    "zstd": codecs.zstd_decode,
}

Headers = tuple[tuple[str, bytes | None], ...]


class Sent(NamedTuple):
    """A record as a producer puts it into a batch; `timestamp` in ms, -1 for none."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class Record(NamedTuple):
    """A record as a reader gets it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True)
class Batch:
    """One batch; `raw` is left out when two are compared, for codecs of two libraries pack differently."""

    raw: bytes
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    """The base timestamp, or the delete horizon."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[Record, ...]

    @property
    def codec(self) -> str:
        return CODECS[self.attributes & 7]

    @property
    def horizon(self) -> int | None:
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    def fields(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name != "raw"}


def encode(
    records: Sequence[Sent],
    *,
    codec: str = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    base_timestamp: int | None = None,
) -> bytes:
    """Return a batch as a producer sends it, with base offset 0. `base_timestamp` is the first record's unless given."""
    first = records[0].timestamp if base_timestamp is None else base_timestamp
    body = b"".join(_encode_record(at, record, first) for at, record in enumerate(records))
    if codec != "none":
        body = PACK[codec](body)
    attributes = CODECS.index(codec) | (TRANSACTIONAL if transactional else 0)
    batch = bytearray(
        HEADER.pack(
            0,
            HEADER.size - LOG_OVERHEAD_BYTES + len(body),
            -1,
            2,
            0,
            attributes,
            len(records) - 1,
            first,
            max(record.timestamp for record in records),
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
        + body
    )
    struct.pack_into(">I", batch, CRC_AT, calc_crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)


def decode(log: bytes) -> Iterator[Batch]:
    """Yield the batches of a log. ValueError where one is damaged: cut off, wrong CRC, records that do not fill it."""
    at = 0
    while at < len(log):
        (
            base,
            length,
            epoch,
            magic,
            crc,
            attributes,
            last_delta,
            first,
            latest,
            producer,
            producer_epoch,
            sequence,
            count,
        ) = HEADER.unpack_from(log, at)
        raw = log[at : at + LOG_OVERHEAD_BYTES + length]
        if len(raw) != LOG_OVERHEAD_BYTES + length or magic != 2:
            raise ValueError(f"no whole batch at byte {at}")
        if calc_crc32c(memoryview(raw)[CRC_FROM:]) != crc:
            raise ValueError(f"batch {base} has a wrong CRC")
        body = raw[HEADER.size :]
        if attributes & 7 and body:
            body = UNPACK[CODECS[attributes & 7]](body)
        stamp = latest if attributes & LOG_APPEND_TIME else None
        yield Batch(
            raw,
            base,
            base + last_delta,
            epoch,
            attributes,
            first,
            latest,
            producer,
            producer_epoch,
            sequence,
            tuple(_decode_records(body, count, base, first, stamp)),
        )
        at += len(raw)


def _encode_record(offset_delta: int, record: Sent, base_timestamp: int) -> bytes:
    body = b"\0" + _varint(record.timestamp - base_timestamp) + _varint(offset_delta)
    body += _sized(record.key) + _sized(record.value) + _varint(len(record.headers))
    for name, value in record.headers:
        body += _sized(name.encode()) + _sized(value)
    return _varint(len(body)) + body


def _decode_records(body: bytes, count: int, base: int, first: int, stamp: int | None) -> Iterator[Record]:
    at = 0
    for _ in range(count):
        size, at = _read_varint(body, at)
        end = at + size
        time_delta, at = _read_varint(body, at + 1)
        offset_delta, at = _read_varint(body, at)
        key, at = _read_sized(body, at)
        value, at = _read_sized(body, at)
        header_count, at = _read_varint(body, at)
        headers = []
        for _ in range(header_count):
            name, at = _read_sized(body, at)
            text, at = _read_sized(body, at)
            headers.append(((name or b"").decode(), text))
        if at != end:
            raise ValueError(f"a record of batch {base} does not end where its length says")
        yield Record(base + offset_delta, first + time_delta if stamp is None else stamp, key, value, tuple(headers))
    if at != len(body):
        raise ValueError(f"batch {base} has bytes behind its records")


def _varint(number: int) -> bytes:
    """Encode a number as a zigzag varint, seven bits a byte, lowest first."""
    rest = (number << 1) ^ (number >> 63)
    rest &= (1 << 64) - 1
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _read_sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _read_varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)
