"""Damaged TLS: what a client sends, with its bits, lengths and records changed on their way."""

import random
from collections.abc import Callable

HEADER_BYTES = 5
BYTES_MAX = 64 << 10


def records(data: bytes) -> list[bytes]:
    """Return the records in `data`; a record that is cut short at the end counts as one."""
    found = []
    while data:
        size = HEADER_BYTES + int.from_bytes(data[3:5], "big")
        found.append(data[:size])
        data = data[size:]
    return found


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 4, 32))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set_bytes(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    value = rng.choice((b"\0", b"\xff", b"\x7f\xff", b"\xff\xff\xff", b"\x80", rng.randbytes(4)))
    return data[:at] + value + data[at + len(value) :]


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 3, 100, 5_000))) + data[at:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    begin = rng.randrange(len(data))
    end = rng.randrange(begin, len(data)) + 1
    return data[:end] + data[begin:end] * rng.choice((1, 2, 50)) + data[end:]


def _of_records(change: Callable[[random.Random, list[bytes]], None]) -> Callable[[random.Random, bytes], bytes]:
    def changed(rng: random.Random, data: bytes) -> bytes:
        parts = records(data)
        change(rng, parts)
        return b"".join(parts)

    return changed


def _drop(rng: random.Random, parts: list[bytes]) -> None:
    del parts[rng.randrange(len(parts))]


def _again(rng: random.Random, parts: list[bytes]) -> None:
    parts.insert(rng.randrange(len(parts) + 1), rng.choice(parts))


def _shuffle(rng: random.Random, parts: list[bytes]) -> None:
    rng.shuffle(parts)


def _header(rng: random.Random, parts: list[bytes]) -> None:
    at = rng.randrange(len(parts))
    kind = rng.choice((parts[at][:1], b"\x14", b"\x15", b"\x16", b"\x17", b"\x18", b"\0", b"\xff"))
    version = rng.choice((parts[at][1:3], b"\x03\x00", b"\x03\x03", b"\x02\x00", b"\xff\xff"))
    size = rng.choice((parts[at][3:5], b"\0\0", b"\x40\x00", b"\x48\x00", b"\xff\xff"))
    parts[at] = kind + version + size + parts[at][HEADER_BYTES:]


def _plain(rng: random.Random, parts: list[bytes]) -> None:
    """A record that is not encrypted: alerts, empty ones by the hundred, heartbeats, hellos, application data."""
    record = rng.choice(
        (
            b"\x15\x03\x03\0\2\1\0",
            b"\x15\x03\x03\0\2\2\x28",
            b"\x15\x03\x03\0\2\1\x5a" * 40,
            b"\x14\x03\x03\0\1\1" * rng.choice((1, 200)),
            b"\x16\x03\x03\0\0" * rng.choice((1, 100)),
            b"\x17\x03\x03\0\0" * rng.choice((1, 100)),
            b"\x18\x03\x03\0\3\1\x40\0",
            b"\x16\x03\x03\0\4\0\0\0\0",
            b"\x17\x03\x03\0\x10" + bytes(16),
        )
    )
    parts.insert(rng.randrange(len(parts) + 1), record)


def _noise(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(rng.choice((1, 5, 100, 20_000)))


DAMAGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _flip,
    _flip,
    _set_bytes,
    _cut,
    _insert,
    _repeat,
    _of_records(_drop),
    _of_records(_again),
    _of_records(_shuffle),
    _of_records(_header),
    _of_records(_header),
    _of_records(_plain),
    _of_records(_plain),
    _noise,
)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return `data`, changed in one or two ways; at most BYTES_MAX of it."""
    for _ in range(rng.choice((1, 1, 2))):
        if data:
            data = rng.choice(DAMAGES)(rng, data)
    return data[:BYTES_MAX]
