"""Compressed batches that take long are checked in pieces: with the result of a whole check, and one piece in memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.compression import PIECE_BYTES, Codec
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import HEADER_BYTES, RecordBatch
from ottla.storage import kernel as installed
from ottla.storage.kernel import Found
from ottla.storage.produce.validation import check_batch
from ottla.storage.segment.timestamp_search import first_record_from
from ottla.storage.steps import to_the_end
from ottla.storage.topics.config import LogConfig
from support.cleaner.kernels import both, needs_compiled
from support.noted import each_case
from support.sizes import FULL, size

CODECS = (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
NOW_MS = 1_000
EVER = (-(1 << 63), (1 << 63) - 1)
MEGABYTE = 1 << 20
BOMB_MEGABYTES = size(12, 24)

# --- the walk ---------------------------------------------------------------------------------------------------


def block_of(rng: random.Random) -> tuple[bytes, int, int]:
    """Return records, their claimed number, and their base timestamp; some are damaged."""
    base = rng.choice([0, 500, EVER[1]])
    rows: Any = [
        (
            at,
            rng.choice([-1, 5, 700, 2**40]),
            rng.choice([None, b"", b"key", bytes(200)]),
            rng.choice([None, b"", b"value", bytes(300)]),
            [("h" * rng.randrange(3), rng.choice([None, b"", bytes(70)])) for _ in range(rng.choice([0, 0, 1, 3]))],
        )
        for at in range(rng.randrange(1, 6))
    ]
    block = bytearray(build_batch(rows, base_offset=0, base_timestamp=0)[HEADER_BYTES:])
    for _ in range(rng.choice([0, 0, 1, 3])):
        block[rng.randrange(len(block))] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
    cut = rng.choice([0, 0, 0, 1, rng.randrange(len(block))])
    return bytes(block[: len(block) - cut]), max(0, len(rows) + rng.choice([0, 0, 0, 0, -1, 1])), base


def pieces_of(rng: random.Random, block: bytes) -> list[bytes]:
    cuts = sorted(rng.randrange(len(block) + 1) for _ in range(rng.choice([0, 1, 4, 60])))
    return [block[a:b] for a, b in pairwise([0, *cuts, len(block)])]


def stops(
    kernel: ModuleType, block: bytes, count: int, base: int, bounds: tuple[int, int], keys: bool
) -> Iterator[Any]:
    found, at, number, timestamp = kernel.check_records(block, 0, 0, count, base, *bounds, keys, -1, True)
    top = -1
    while True:
        if found not in (Found.KEYLESS, Found.UNTIMELY):
            yield found, number
            return
        yield found, number, timestamp if found == Found.UNTIMELY else None
        found, at, number, timestamp = kernel.check_records(block, at, number, count, base, *bounds, keys, top, True)


def stops_in_pieces(
    kernel: ModuleType, pieces: list[bytes], count: int, base: int, bounds: tuple[int, int], keys: bool
) -> Iterator[Any]:
    walk = kernel.RecordWalk(count, base, *bounds, keys)
    for piece in pieces:
        at, found = 0, Found.KEYLESS
        while found in (Found.KEYLESS, Found.UNTIMELY):
            found, at, timestamp = walk.feed(piece, at)
            if found in (Found.KEYLESS, Found.UNTIMELY):
                yield found, walk.number, timestamp if found == Found.UNTIMELY else None
        if found != Found.SOUND:
            yield found, walk.number
            return
    yield walk.end(), walk.number


@both
@pytest.mark.parametrize("seed", range(12))
def test_pieces_give_the_result_of_a_whole_check(kernel: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(size(10, 40)):
        block, count, base = block_of(rng)
        rules = count, base, rng.choice([EVER, (0, 2**39)]), rng.random() < 0.5
        whole = list(stops(installed, block, *rules))
        assert list(stops_in_pieces(kernel, pieces_of(rng, block), *rules)) == whole
        assert list(stops_in_pieces(kernel, [block[at : at + 1] for at in range(len(block))], *rules)) == whole


@both
@pytest.mark.parametrize("seed", range(10))
def test_both_searches_find_the_same_record_from_a_timestamp(kernel: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        count = rng.randrange(1, 8)
        times = [rng.randrange(100) for _ in range(count)]
        block = bytes(
            build_batch([(at * 3, times[at], None, b"v" * 9, ()) for at in range(count)], base_timestamp=0)[
                HEADER_BYTES:
            ]
        )
        earliest, least_delta = rng.randrange(110), rng.randrange(3 * count)
        walk = kernel.RecordWalk(count, 0, *EVER, False)
        walk.seek(earliest, least_delta)
        found: Any = None
        for piece in pieces_of(rng, block):
            stop, _, timestamp = walk.feed(piece, 0)
            if stop == Found.SOUGHT:
                found = stop, walk.offset_delta, timestamp
                break
        whole = installed.find_record(block, count, 0, earliest, least_delta)
        assert whole[0] in (Found.SOUGHT, Found.SOUND)
        assert (found or walk.end()) == (whole if whole[0] == Found.SOUGHT else Found.SOUND)


@both
def test_no_piece_is_read_outside_its_bounds(kernel: ModuleType) -> None:
    for at in (-1, 2):
        with pytest.raises(IndexError):
            kernel.RecordWalk(1, 0, *EVER, False).feed(b"a", at)


# --- memory -----------------------------------------------------------------------------------------------------


@cache
def packed(codec: Codec, kind: str, megabytes: int) -> bytes:
    if kind == "one record":
        rows: Any = [(0, NOW_MS, b"k", bytes(megabytes * MEGABYTE), ())]
    elif kind == "one key":
        rows = [(0, NOW_MS, bytes(megabytes * MEGABYTE), b"", ())]
    else:
        rows = [(at, NOW_MS, b"k", bytes(100_000), ()) for at in range(megabytes * 10)]
    return bytes(build_batch(rows, codec=codec))


def bomb(codec: Codec, kind: str, megabytes: int = BOMB_MEGABYTES) -> bytearray:
    return bytearray(packed(codec, kind, megabytes))


@contextmanager
def holding_at_most(size_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= size_bytes


# A recompressed batch needs memory next to the input: 24 MiB of zeros become 1.1 MB of snappy, which is copied twice.
HELD_BYTES_MAX = size(6, 10) * MEGABYTE

KINDS = ("one record", "one key", "many records")
STORED = ("producer", "gzip", "snappy", "lz4", "zstd")
BOMBS = [
    (codec, kind, stored)
    for at, codec in enumerate(CODECS)
    for behind, kind in enumerate(KINDS)
    for number, stored in enumerate(STORED)
    if FULL or (at + behind + number) % 3 == 0  # each combination of two occurs
]


@needs_compiled
@each_case("codec, kind, stored", BOMBS)
def test_a_check_holds_one_unpacked_piece_at_a_time(codec: Codec, kind: str, stored: str) -> None:
    data = bomb(codec, kind)
    config = LogConfig(compression_type=stored, max_message_bytes=16 * MEGABYTE)
    with holding_at_most(HELD_BYTES_MAX):
        checked = check_batch(data, topic_partition="t-0", config=config, now_ms=NOW_MS)
    assert sum(len(piece) for piece in checked.batch.pieces()) == sum(
        len(piece) for piece in RecordBatch(data).pieces()
    )


@needs_compiled
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_recompression_makes_too_large_is_not_held(codec: Codec) -> None:
    data = bomb(codec, "many records")
    config = LogConfig(compression_type="uncompressed", max_message_bytes=3 * MEGABYTE)
    with holding_at_most(HELD_BYTES_MAX), pytest.raises(KafkaError) as raised:
        check_batch(data, topic_partition="t-0", config=config, now_ms=NOW_MS)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert (
        "compression.type=uncompressed" in raised.value.message and "max.message.bytes=3145728" in raised.value.message
    )


@needs_compiled
@pytest.mark.parametrize("codec", CODECS)
def test_a_search_by_timestamp_holds_one_piece(codec: Codec) -> None:
    batch, last = RecordBatch(bomb(codec, "many records")), 10 * BOMB_MEGABYTES - 1
    with holding_at_most(HELD_BYTES_MAX):
        found = to_the_end(first_record_from(NOW_MS, last, [(0, batch)], None))  # type: ignore[arg-type]  # it is whole
    assert found == (NOW_MS, last)


@pytest.mark.parametrize("codec", CODECS)
def test_pieces_have_at_most_their_declared_size(codec: Codec) -> None:
    pieces = [len(piece) for piece in RecordBatch(bomb(codec, "many records", 3)).pieces()]
    assert max(pieces) <= PIECE_BYTES and len(pieces) >= 3
