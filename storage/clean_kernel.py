"""The cleaner's inner loops over record bytes: every record of a dirty log passes through here at least once.

The three loops know the record format (`protocol.records` draws it) and nothing of batches, files or rules; the rest
of the cleaner never touches a record's bytes. They read as little as they can: keys and the length of values to fill
the map, record lengths and timestamps to copy survivors. All are bounded by the bytes given, never by a count, and
raise CorruptRecordError for anything that cannot be a records block.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from ..protocol.errors import CorruptRecordError
from ..protocol.varints import append_varint, read_varint, read_varlong

MapKey = bytes | int
"""What stands for a record's key in the offset map: the key itself where it is short, else its fingerprint."""

EXACT_KEY_BYTES_MAX = 40
"""Longer keys are kept as fingerprints, so that an entry's memory does not depend on the keys. An int never equals
bytes, so no fingerprint is taken for a key."""

SECRET_BYTES = 16

RECORD_BYTES_MIN = 7
"""Six one-byte fields and their length."""

# First byte of the zig-zag length of the longest key that is kept as it is.
_LONGEST_EXACT = EXACT_KEY_BYTES_MAX << 1
_LONG_SIGN = 1 << 63
_LONG_MASK = (1 << 64) - 1


class ScannedKeys(NamedTuple):
    """What the map wants to know of one batch. `keys` has None for a record without a key."""

    keys: list[MapKey | None]
    tombstones: list[int]
    """Indexes of the records without a value."""
    has_keyless: bool


class Survivors(NamedTuple):
    """Where the kept records of a batch lie: lists of equal length, one entry a record.

    A record begins at `starts` with its length; its bytes from the offset delta on are `data[rests[i]:stops[i]]`.
    """

    starts: list[int]
    rests: list[int]
    stops: list[int]
    timestamp_deltas: list[int]


def fingerprint(key: bytes, secret: bytes) -> int:
    """A 128-bit keyed digest. Whoever chose the keys did not know the secret, so no two of them collide."""
    return int.from_bytes(blake2b(key, digest_size=16, key=secret).digest())


def map_key(key: bytes, secret: bytes) -> MapKey:
    """What `scan_keys` gives for this key."""
    return key if len(key) <= EXACT_KEY_BYTES_MAX else fingerprint(key, secret)


def scan_keys(data: bytes, at: int, end: int, record_count: int, secret: bytes) -> ScannedKeys:
    """Read the keys of the records in `data[at:end]`.

    Raises:
        CorruptRecordError: A record or its key leaves its bounds, or there are not `record_count` records.
    """
    keys: list[MapKey | None] = []
    add = keys.append
    tombstones: list[int] = []
    has_keyless = False
    try:
        while at < end:
            size = data[at]
            at += 1
            if size > 127:
                byte = data[at]
                at += 1
                if byte > 127:
                    size, at = read_varint(data, at - 2)
                    size <<= 1
                else:
                    size = size & 127 | byte << 7
            stop = at + (size >> 1)
            at += 1  # attributes
            while data[at] > 127:  # timestamp delta
                at += 1
            at += 1
            while data[at] > 127:  # offset delta
                at += 1
            at += 1
            size = data[at]
            if size <= _LONGEST_EXACT and not size & 1:
                at += 1
                value_at = at + (size >> 1)
                add(data[at:value_at])
            else:
                size, at = read_varint(data, at)
                if size < 0:
                    if size != -1:
                        raise CorruptRecordError(f"key length of {size} before byte {at}")
                    value_at = at
                    has_keyless = True
                    keys.append(None)
                else:
                    value_at = at + size
                    if value_at >= stop:
                        raise CorruptRecordError(f"key at byte {at} leaves its record")
                    keys.append(map_key(data[at:value_at], secret))
            if value_at >= stop:
                raise CorruptRecordError(f"key at byte {at} leaves its record")
            if data[value_at] & 1:  # the sign of a zig-zag varint is its lowest bit
                tombstones.append(len(keys) - 1)
            at = stop
    except IndexError:
        raise CorruptRecordError("the records block ends inside a record") from None
    if at != end or len(keys) != record_count:
        raise CorruptRecordError(f"{record_count} records announced, {len(keys)} found, {at - end} bytes too far")
    return ScannedKeys(keys, tombstones, has_keyless)


def survivors(data: bytes, at: int, end: int, record_count: int, dead: int) -> Survivors:
    """Find the records in `data[at:end]` whose bit in `dead` (lowest bit: first record) is clear.

    Raises:
        CorruptRecordError: A record leaves the block, or there are not `record_count` records.
    """
    if record_count > (end - at) // RECORD_BYTES_MIN:
        raise CorruptRecordError(f"{record_count} records announced in a block of {end - at} bytes")
    starts: list[int] = []
    rests: list[int] = []
    stops: list[int] = []
    deltas: list[int] = []
    try:
        for is_dead in f"{dead:0{record_count}b}"[::-1]:
            start = at
            size = data[at]
            at += 1
            if size > 127:
                byte = data[at]
                at += 1
                if byte > 127:
                    size, at = read_varint(data, start)
                    size <<= 1
                else:
                    size = size & 127 | byte << 7
            stop = at + (size >> 1)
            if stop <= at or stop > end:
                raise CorruptRecordError(f"record at byte {start} leaves its batch")
            if is_dead == "0":
                raw = data[at + 1]
                if raw < 128:
                    deltas.append((raw >> 1) ^ -(raw & 1))
                    rests.append(at + 2)
                else:
                    delta, at = read_varlong(data, at + 1)
                    deltas.append(delta)
                    rests.append(at)
                starts.append(start)
                stops.append(stop)
            at = stop
    except IndexError:
        raise CorruptRecordError("the records block ends inside a record") from None
    if at != end:
        raise CorruptRecordError(f"{end - at} bytes follow the {record_count} records of a batch")
    return Survivors(starts, rests, stops, deltas)


def copy_records(data: bytes, kept: Survivors) -> bytes:
    """The kept records back to back, unchanged."""
    return b"".join([data[start:stop] for start, stop in zip(kept.starts, kept.stops, strict=True)])


def shift_records(data: bytes, kept: Survivors, timestamp_deltas: Sequence[int]) -> bytes:
    """The kept records back to back, each with its new timestamp delta and everything else unchanged."""
    out = bytearray()
    for rest, stop, delta in zip(kept.rests, kept.stops, timestamp_deltas, strict=True):
        body = bytearray(1)  # attributes: none are defined
        append_varint(body, delta)
        append_varint(out, len(body) + stop - rest)
        out += body
        out += data[rest:stop]
    return bytes(out)


def wrap_longs(values: list[int]) -> list[int]:
    """These as 64-bit integers, which is what any client computes from a batch's timestamps."""
    if min(values) >= -_LONG_SIGN and max(values) < _LONG_SIGN:
        return values
    return [((value + _LONG_SIGN) & _LONG_MASK) - _LONG_SIGN for value in values]


def bits_of(indexes: Iterable[int], count: int) -> int:
    """An int of `count` bits in which those at `indexes` are set."""
    bits = bytearray((count + 7) >> 3)
    for index in indexes:
        bits[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(bits, "little")
