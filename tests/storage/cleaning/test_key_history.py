"""A search for a key finds it wherever its bytes lie. A batch is decompressed in pieces, and a key may span many of them."""

from __future__ import annotations

import random
from itertools import pairwise

import cramjam

from ottla.protocol.batch_builder import seal_batch
from ottla.protocol.compression import PIECE_BYTES, Codec
from ottla.protocol.records import HEADER_BYTES
from ottla.storage.cleaning.dirtiness import BoundBy
from ottla.storage.cleaning.key_history import KeySearch
from ottla.storage.logs.log import Log
from ottla.storage.steps import to_the_end
from support.logs.batches import batch
from support.logs.make_log import make_log
from support.noted import each_case

XERIAL = bytes.fromhex("82534e4150505900 00000001 00000001")


def count_of(log: Log, key: bytes) -> int:
    search = KeySearch(
        log, key, 0, first_dirty_offset=0, upper_offset=0, bound_by=BoundBy.ACTIVE_SEGMENT, records_max=10
    )
    return to_the_end(search.steps()).record_count


def text(rng: random.Random, size_bytes: int) -> bytes:
    """Return a text whose pieces all differ, and which compresses fast, unlike random bytes."""
    block = rng.randbytes(997)
    return (block * (size_bytes // len(block) + 1))[:size_bytes]


@each_case("codec", Codec)
@each_case("key_bytes", [0, 1, 2, 40_000, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_a_key_of_any_length_is_found(codec: Codec, key_bytes: int) -> None:
    rng = random.Random(key_bytes)
    log, key = make_log(max_message_bytes=100 << 20), text(rng, key_bytes)
    before = text(rng, PIECE_BYTES // 2)
    log.append(memoryview(batch(("other", before), (key, "value"), codec=codec)), now_ms=1_000)
    assert count_of(log, key) == 1
    assert count_of(log, key + b"x") == 0


@each_case("seed", range(60))
def test_a_key_is_found_in_pieces_of_any_length(seed: int) -> None:
    rng = random.Random(seed)
    key = rng.randbytes(rng.randrange(1, 40))
    plain = batch((rng.randbytes(20), rng.randbytes(20)), (key, b"v"), (rng.randbytes(20), None))
    records = bytes(plain[HEADER_BYTES:])
    cuts = sorted(rng.randrange(len(records) + 1) for _ in range(rng.choice([0, 1, 10, 100])))
    blocks = [bytes(cramjam.snappy.compress_raw(records[a:b])) for a, b in pairwise([0, *cuts, len(records)])]
    packed = seal_batch(
        XERIAL + b"".join(len(each).to_bytes(4, "big") + each for each in blocks),
        record_count=3,
        base_offset=0,
        last_offset_delta=2,
        attributes=Codec.SNAPPY,
        base_timestamp=1_000,
        max_timestamp=1_000,
        is_packed=True,
    )
    log = make_log()
    log.append(memoryview(packed), now_ms=1_000)
    assert count_of(log, key) == 1
