"""Batches that no client should send, and a few good ones between them, each made byte by byte."""

import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from crc32c import crc32c

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[bytes | None, bytes | None]]]
"""(offset delta, timestamp delta, key, value, headers)."""

HEADER = struct.Struct(">qiibIhiqqqhii")
GZIP, LOG_APPEND_TIME = 1, 8
HOUR_MS = 3_600_000
I64_MAX = (1 << 63) - 1
ROWS: list[Row] = [
    (0, 0, b"a", b"one", []),
    (1, 5, b"b", None, [(b"h", b"v"), (b"null", None)]),
    (2, 3, b"", b"three" * 30, []),
]
RECORD_LENGTH = 1  # bytes of the length in front of the records of ROWS below


def varint(number: int) -> bytes:
    zigzag = (number << 1 ^ number >> 63) & (1 << 64) - 1
    out = bytearray()
    while zigzag > 127:
        out.append(zigzag & 127 | 128)
        zigzag >>= 7
    return bytes([*out, zigzag])


def field(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def record(row: Row, *, attributes: int = 0, header_count: int | None = None) -> bytes:
    offset_delta, timestamp_delta, key, value, headers = row
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta) + field(key) + field(value)
    body += varint(len(headers) if header_count is None else header_count)
    body += b"".join(field(name) + field(content) for name, content in headers)
    return varint(len(body)) + body


def block(rows: list[Row]) -> bytes:
    return b"".join(map(record, rows))


@dataclass(frozen=True)
class Case:
    """One batch and its topic; every value that is not given is valid."""

    records: bytes
    count: int = 3
    topic: str = "plain"
    """The topic's name in `TOPICS`."""
    behind_ms: int = 0
    """The age of the base timestamp."""
    base_timestamp: int | None = None
    max_timestamp_delta: int = 5
    attributes: int = 0
    is_packed: bool = False
    """`records` are the bytes to send, without compression."""

    def batch(self, codec: int, now_ms: int) -> bytes:
        """Return the batch as sent, with a correct CRC."""
        payload = gzip.compress(self.records, mtime=0) if codec and not self.is_packed else self.records
        base = now_ms - self.behind_ms if self.base_timestamp is None else self.base_timestamp
        newest = base + self.max_timestamp_delta
        newest = newest - (1 << 64) if newest > I64_MAX else newest
        head = [0, 49 + len(payload), -1, 2, 0, self.attributes | codec, self.count - 1, base, newest, -1, -1, -1]
        unsigned = HEADER.pack(*head, self.count) + payload
        head[4] = crc32c(unsigned[21:])
        return HEADER.pack(*head, self.count) + payload


TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "stamping": {"message.timestamp.type": "LogAppendTime"},
    "bounded": {"message.timestamp.before.max.ms": str(HOUR_MS), "message.timestamp.after.max.ms": "1000"},
    "packing": {"compression.type": "lz4"},
    "fitting": {"max.decompressed.message.bytes": "157"},  # the longest record of ROWS
    "short": {"max.decompressed.message.bytes": "156"},
    "packing-short": {"compression.type": "lz4", "max.decompressed.message.bytes": "156"},
}


def _with(at: int, what: bytes, *, instead_of: int = 1) -> bytes:
    """Return the records of ROWS with other bytes at `at` in the first one; its length prefix does not count for `at`."""
    first = record(ROWS[0])
    return first[: at + RECORD_LENGTH] + what + first[at + RECORD_LENGTH + instead_of :] + block(ROWS[1:])


def _refitted(at: int, what: bytes, *, instead_of: int) -> bytes:
    """Return the records of ROWS with `what` in the first one, like `_with`, and with its length corrected."""
    body = record(ROWS[0])[RECORD_LENGTH:]
    body = body[:at] + what + body[at + instead_of :]
    return varint(len(body)) + body + block(ROWS[1:])


def _first(**options: int) -> bytes:
    return record(ROWS[0], **options) + block(ROWS[1:])


def _numbered(*deltas: int) -> Case:
    return Case(block([(delta, *row[1:]) for delta, row in zip(deltas, ROWS, strict=True)]))


GOOD = block(ROWS)
KEYLESS = block([ROWS[0], (1, 0, None, b"v", []), (2, 0, None, None, [])])
# A record of ROWS: length | attributes | timestamp delta | offset delta | key length, key | value length, value | headers
KEY_AT, VALUE_AT, HEADERS_AT = 3, 5, 9
LENGTH_AT = -RECORD_LENGTH

CASES: dict[str, Case] = {
    "good": Case(GOOD),
    "a record longer than its fields": Case(_with(LENGTH_AT, varint(11))),
    "a record shorter than its fields": Case(_with(LENGTH_AT, varint(9))),
    "a record of no bytes": Case(_with(LENGTH_AT, varint(0))),
    "a record of a negative number of bytes": Case(_with(LENGTH_AT, varint(-5))),
    "a record that leaves the batch": Case(_with(LENGTH_AT, varint(5_000))),
    "a length that does not end": Case(_with(LENGTH_AT, b"\xff" * 6)),
    "a timestamp that does not end": Case(_refitted(1, b"\xff" * 11, instead_of=1)),
    "an offset delta that does not end": Case(_refitted(2, b"\xff" * 6, instead_of=1)),
    "a key longer than its record": Case(_with(KEY_AT, varint(20))),
    "a key longer than the batch": Case(_with(KEY_AT, varint(50_000))),
    "a key of -2 bytes": Case(_refitted(KEY_AT, varint(-2), instead_of=2)),
    "a value longer than its record": Case(_with(VALUE_AT, varint(9))),
    "a value longer than the batch": Case(_with(VALUE_AT, varint(50_000))),
    "a value shorter than its record": Case(_with(VALUE_AT, varint(1))),
    "a value of -2 bytes": Case(_refitted(VALUE_AT, varint(-2), instead_of=4)),
    "headers of a negative number": Case(_first(header_count=-1)),
    "headers that are not there": Case(_first(header_count=1)),
    "more headers than bytes": Case(_first(header_count=10_000)),
    "a header without a name": Case(block([(0, 0, b"a", b"1", [(None, b"v")]), *ROWS[1:]])),
    "a header that is no text": Case(block([(0, 0, b"a", b"1", [(b"\xff\xfe", b"v")]), *ROWS[1:]])),
    "attributes of a record": Case(_first(attributes=0x55)),
    "fewer records than the header says": Case(GOOD, count=4),
    "more records than the header says": Case(GOOD, count=2),
    "bytes behind the records": Case(GOOD + b"\0"),
    "no bytes at all": Case(b""),
    "a record cut short": Case(GOOD[:-1]),
    "packed rubbish": Case(b"\xee" * 80, is_packed=True),
    "offsets in another order": _numbered(0, 2, 1),
    "offsets all the same": _numbered(0, 0, 0),
    "offsets with a hole": _numbered(0, 1, 5),
    "offsets that begin later": _numbered(1, 2, 3),
    "offsets that are negative": _numbered(-1, 0, 1),
    "a max timestamp that is too large": Case(GOOD, max_timestamp_delta=500),
    "a max timestamp that is too small": Case(GOOD, max_timestamp_delta=0),
    "a max timestamp far ahead of the records": Case(GOOD, max_timestamp_delta=3 * HOUR_MS),
    "no timestamps": Case(block([(row[0], 0, *row[2:]) for row in ROWS]), base_timestamp=-1, max_timestamp_delta=0),
    "negative timestamps": Case(GOOD, base_timestamp=-1_000),
    "timestamps beyond 64 bits": Case(GOOD, base_timestamp=I64_MAX - 3),
    "timestamps two hours ahead": Case(GOOD, behind_ms=-2 * HOUR_MS),
    "one timestamp two hours ahead": Case(block([*ROWS[:2], (2, 2 * HOUR_MS, b"c", b"v", [])])),
    "timestamps two hours ago": Case(GOOD, behind_ms=2 * HOUR_MS),
    "bounded: timestamps two hours ago": Case(GOOD, topic="bounded", behind_ms=2 * HOUR_MS),
    "bounded: one timestamp two hours ago": Case(
        block([ROWS[0], (1, -2 * HOUR_MS, b"b", b"v", []), ROWS[2]]), topic="bounded", max_timestamp_delta=3
    ),
    "bounded: one record damaged, one two hours ago": Case(
        block([(0, -2 * HOUR_MS, b"a", b"v", [])]) + _with(LENGTH_AT, varint(11)), topic="bounded", count=4
    ),
    "stamped by the producer": Case(GOOD, attributes=LOG_APPEND_TIME),
    "stamped by the producer, two hours ahead": Case(GOOD, attributes=LOG_APPEND_TIME, behind_ms=-2 * HOUR_MS),
    "stamping: good": Case(GOOD, topic="stamping", behind_ms=-2 * HOUR_MS),
    "stamping: stamped by the producer": Case(GOOD, topic="stamping", attributes=LOG_APPEND_TIME),
    "stamping: a record longer than its fields": Case(_with(LENGTH_AT, varint(11)), topic="stamping"),
    "compacted: good": Case(GOOD, topic="compacted"),
    "compacted: no keys": Case(KEYLESS, topic="compacted", max_timestamp_delta=0),
    "compacted: keys of -2 bytes": Case(_refitted(KEY_AT, varint(-2), instead_of=2), topic="compacted"),
    "compacted: no keys, and bytes behind the records": Case(KEYLESS + b"\0", topic="compacted", max_timestamp_delta=0),
    "compacted: a value longer than its record": Case(_with(VALUE_AT, varint(9)), topic="compacted"),
    "compacted: no keys, and two hours ahead": Case(
        block([(0, 2 * HOUR_MS, None, b"v", []), (1, 2 * HOUR_MS, b"k", b"v", []), (2, 0, None, None, [])]),
        topic="compacted",
        max_timestamp_delta=2 * HOUR_MS,
    ),
    "packing: good": Case(GOOD, topic="packing"),
    "packing: offsets with a hole": Case(_numbered(0, 1, 5).records, topic="packing"),
    "packing: a record longer than its fields": Case(_with(LENGTH_AT, varint(11)), topic="packing"),
    "packing: a max timestamp that is too small": Case(GOOD, topic="packing", max_timestamp_delta=0),
    "fitting: a record as long as is allowed": Case(GOOD, topic="fitting"),
    "short: a record that is too long": Case(GOOD, topic="short"),
    "short: records that are not too long": Case(block(ROWS[:2]), topic="short", count=2),
    "short: a record that claims to be too long": Case(_with(LENGTH_AT, varint(157)), topic="short"),
    "packing-short: a record that is too long": Case(GOOD, topic="packing-short"),
}
CODECS: dict[str, int] = {"none": 0, "gzip": GZIP}

Builder = Callable[[int], bytes]


def table() -> dict[str, tuple[str, Builder]]:
    """Return name -> (topic, from the time now to the batch), every case in every codec."""
    return {
        f"{name} ({codec_name})": (case.topic, partial(case.batch, codec))
        for name, case in CASES.items()
        for codec_name, codec in CODECS.items()
    }
