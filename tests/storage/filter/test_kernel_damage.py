"""Damaged input to the kernel: any bytes give a result, never an access beyond a buffer, and both kernels agree.

Wrong memory accesses of the compiled one cannot be seen from here; they would crash this process.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.records import HEADER, HEADER_BYTES
from ottla.storage import kernel
from support.cleaner.kernels import INTERPRETED, both, needs_compiled
from support.sizes import size

SECRET = bytes(16)
LYING = [0, 1, 2, 5, 127, 128, 2**31 - 1, -1, -(2**31)]
ROOM_BYTES = 4_000
NO_VERSIONS = b"no such header"
"""Setting for maps without versions."""


def good(rng: random.Random) -> bytearray:
    """Return some batches back to back."""
    data = bytearray()
    for _ in range(rng.randrange(1, 4)):
        base = len(data)
        count = rng.randrange(1, 90)
        data += build_batch(
            [
                (
                    base + at,
                    rng.randrange(300),
                    rng.choice([None, b"k%d" % rng.randrange(9)]),
                    rng.choice([None, b"v" * 9]),
                    rng.choice([(), (("v", rng.randbytes(8)),), (("v", None), ("", b""))]),
                )
                for at in range(count)
            ],
            base_offset=base,
            delete_horizon_ms=rng.choice([None, 0, 10]),
        )
    return data


def random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(200))


def header_and_random_records(rng: random.Random) -> bytes:
    block = rng.choice([rng.randbytes(rng.randrange(200)), b"\xff" * 60, bytes(80), b"\x80" * 50])
    count = rng.choice([*LYING, rng.randrange(30)])
    length = rng.choice([49 + len(block)] * 9 + LYING)
    attributes = rng.choice([0, 0, 0, 0x08, 0x40, 0x10, 0x20, 0x03])
    return (
        HEADER.pack(
            rng.choice([0, 0, 7, -1, 2**63 - 1]),
            length,
            0,
            2,
            0,
            attributes,
            rng.choice(LYING),
            0,
            0,
            -1,
            -1,
            -1,
            count,
        )
        + block
    )


def flipped(rng: random.Random) -> bytes:
    data = good(rng)
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def long_number_somewhere(rng: random.Random) -> bytes:
    data = good(rng)
    at = rng.randrange(HEADER_BYTES, len(data))
    data[at : at + rng.randrange(1, 12)] = b"\xff" * rng.randrange(1, 12)
    return bytes(data)


def cut_short(rng: random.Random) -> bytes:
    data = good(rng)
    return bytes(data[: rng.randrange(len(data))])


def lying_count(rng: random.Random) -> bytes:
    data = good(rng)
    field = rng.choice([8, 23, 57])
    data[field : field + 4] = (rng.choice(LYING) & 0xFFFF_FFFF).to_bytes(4, "big")
    return bytes(data)


DAMAGE = [random_bytes, header_and_random_records, flipped, long_number_somewhere, cut_short, lying_count]


def results_of(
    module: ModuleType, data: bytes, *, start: int, latest: int, entries_max: int, header: bytes | None = NO_VERSIONS
) -> list[Any]:
    """Return all results of both classes for `data`: as whole batches, and as the records of a compressed one."""
    heard: list[Any] = []
    table = array("Q", bytes(16 * 500))
    versions = None if header == NO_VERSIONS else array("q", bytes(16 * 500))
    keys = module.KeyMap(table, 40, entries_max, start, SECRET, 2**32 - 2, versions, header)
    dead, tombstones = array("Q", bytes(8 * 5)), array("Q", bytes(8 * 5))
    keys.set_bits(dead, tombstones)
    heard.append(keys.build(data, 0, len(data)))
    head, block = header_of(data), data[HEADER_BYTES:]
    heard.append(keys.build_block(head, 0, block))
    if versions is not None:
        keys.looks_back, keys.visible_from = True, 3
        heard.append((keys.build(data, 0, len(data)), keys.build_block(header_of(data), 0, block)))
    heard.append((keys.records, keys.latest_offset, keys.keyless, keys.entries, dead.tolist(), tombstones.tolist()))
    arrays = (array("q", bytes(64)), *(array(code, bytes(32)) for code in "iiqi"), array("q", bytes(8)))
    records = module.RecordFilter(
        *(dead, tombstones, min(keys.records, 250), start, latest, table, 40, SECRET, 5, 50, array("q", [7]), arrays),
        versions,
        None if versions is None else array("Q", bytes(24) + b"\xff" * 16),
    )
    out = memoryview(bytearray(ROOM_BYTES))
    heard.append(records.filter(data, 0, len(data), out, 0))
    heard.append((records.ordinal, records.records_read, records.superseded, records.keyless, records.expired))
    for call in (records.filter_block, records.stamp):
        heard.append(call(head, 0, block, out[1_000:]))
    heard.append(bytes(out))
    return heard


def header_of(data: bytes) -> bytes:
    """Return the header of `data`, or another one if it is too short."""
    is_whole = len(data) >= HEADER_BYTES
    return data[:HEADER_BYTES] if is_whole else HEADER.pack(0, 49, 0, 2, 0, 3, 9, 0, 0, -1, -1, -1, 9)


def settings(rng: random.Random) -> dict[str, Any]:
    return {
        "header": rng.choice([NO_VERSIONS, NO_VERSIONS, None, b"v", b""]),
        "start": rng.choice([0, 5]),
        "latest": rng.choice([-1, 20, 1 << 40]),
        "entries_max": rng.choice([6, 300]),
    }


@both
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda each: each.__name__)
def test_any_bytes_give_a_result(kernel: ModuleType, damage: Any) -> None:
    rng = random.Random(damage.__name__)
    for _ in range(size(25, 150) if kernel is INTERPRETED else size(200, 3_000)):
        data = damage(rng)
        results_of(kernel, data, **settings(rng))


@needs_compiled
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda each: each.__name__)
def test_both_kernels_give_the_same_result(damage: Any) -> None:
    rng = random.Random(damage.__name__)
    for _ in range(size(25, 100)):
        data = damage(rng)
        chosen = settings(rng)
        assert results_of(INTERPRETED, data, **chosen) == results_of(kernel, data, **chosen)


@both
def test_positions_outside_the_buffer_are_refused(kernel: ModuleType) -> None:
    made = bytes(build_batch([(0, 0, b"k", b"v", ())]))
    keys = kernel.KeyMap(array("Q", bytes(64)), 2, 2, 0, SECRET, 10)
    keys.set_bits(array("Q", bytes(16)), array("Q", bytes(16)))
    arrays = (array("q", bytes(64)), *(array(code, bytes(32)) for code in "iiqi"), array("q", bytes(8)))
    records = kernel.RecordFilter(
        array("Q", bytes(8)),
        array("Q", bytes(8)),
        0,
        0,
        0,
        memoryview(bytes(32)).cast("Q"),
        1,
        SECRET,
        0,
        0,
        array("q"),
        arrays,
    )
    out = memoryview(bytearray(100))
    calls: list[Callable[[], object]] = [
        lambda: keys.build(made, 0, len(made) + 1),
        lambda: keys.build(made, -1, len(made)),
        lambda: keys.build_block(made, 10, made),
        lambda: keys.build_block(made, -1, made),
        lambda: records.filter(made, 0, len(made) + 1, out, 0),
        lambda: records.filter(made, -1, len(made), out, 0),
        lambda: records.filter(made, 0, len(made), out, 101),
        lambda: records.filter(made, 0, len(made), out, -1),
        lambda: records.filter_block(made, 10, made, out),
        lambda: records.stamp(made, -1, made, out),
    ]
    for call in calls:
        with pytest.raises(IndexError):
            call()
