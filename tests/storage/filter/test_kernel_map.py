"""The kernel's map compared with an exact one, and the one error that must not happen: taking two keys for one."""

from __future__ import annotations

import random
from array import array
from types import ModuleType

import pytest

from ottla.protocol.batch_builder import build_batch
from ottla.storage import kernel
from support.cleaner.kernels import both, needs_compiled

SECRET = bytes(range(16))
MASK = (1 << 64) - 1


class Map:
    """A KeyMap with memory of its own, and the batches that it received."""

    def __init__(
        self, module: ModuleType, *, slots: int, slack: int = 70, entries_max: int = 1 << 30, records_max: int = 1 << 31
    ) -> None:
        self.module = module
        self.table = array("Q", bytes(16 * (slots + slack)))
        self.dead = array("Q", bytes(8 * 1_000))
        self.keys = module.KeyMap(self.table, slots, entries_max, 0, SECRET, records_max)
        self.keys.set_bits(self.dead, array("Q", bytes(8 * 1_000)))

    def put(self, *keys: bytes | None) -> int:
        """Put one batch; return the Stop."""
        base = self.keys.latest_offset + 1
        made = build_batch([(base + at, 0, key, b"v", ()) for at, key in enumerate(keys)])
        stop: int = self.keys.build(made, 0, len(made))[1]
        return stop

    def is_dead(self, ordinal: int) -> bool:
        return self.dead[ordinal >> 6] >> (ordinal & 63) & 1 == 1

    @property
    def slots(self) -> dict[int, tuple[int, int]]:
        """Return place -> the two words of each slot in use."""
        words = iter(self.table)
        return {at: pair for at, pair in enumerate(zip(words, words, strict=True)) if pair[1]}


@both
@pytest.mark.parametrize(("slots", "batch_size"), [(1_500, 1), (1_500, 30), (700, 30), (350, 64), (2_000, 200)])
def test_the_newest_record_of_each_key_lives(kernel: ModuleType, slots: int, batch_size: int) -> None:
    rng = random.Random(slots + batch_size)
    keys = [
        rng.choice([b"", b"k%d" % rng.randrange(300), b"long" * 20 + b"%d" % rng.randrange(50)]) for _ in range(1_200)
    ]
    made = Map(kernel, slots=slots)
    for at in range(0, len(keys), batch_size):
        assert made.put(*keys[at : at + batch_size]) == kernel.Stop.DONE
    newest = {key: ordinal for ordinal, key in enumerate(keys)}
    assert [made.is_dead(at) for at in range(len(keys))] == [newest[key] != at for at, key in enumerate(keys)]
    assert made.keys.entries == len(newest)
    assert sorted((second & 0xFFFF_FFFF) - 1 for _, second in made.slots.values()) == sorted(newest.values())


@both
def test_slots_are_ordered_and_none_precedes_its_place(kernel: ModuleType) -> None:
    made = Map(kernel, slots=128)
    made.put(*[b"%d" % at for at in range(120)])
    found = made.slots
    fingerprints = [first for first, _ in found.values()]
    assert fingerprints == sorted(fingerprints)
    for at, (first, _) in found.items():
        home = (first >> 32) * 128 >> 32
        assert home <= at
        assert all(place in found for place in range(home, at))


@both
@pytest.mark.parametrize("entries_max", [1, 2, 3, 7, 10])
def test_a_map_that_fills_up_inside_a_batch_covers_the_inserted_keys(kernel: ModuleType, entries_max: int) -> None:
    """A full map does not accept known keys either, and keyless records after the last accepted one are not covered."""
    keys = [b"a", None, b"b", b"a", None, b"c", b"d", None, b"a", b"e", b"f", b"b", b"g", b"h", b"i", b"j", None]
    made = Map(kernel, slots=64, entries_max=entries_max)
    expected_latest = -1
    known: set[bytes] = set()
    for offset, key in enumerate(keys):
        if key is not None:
            if len(known) == entries_max:
                break
            known.add(key)
            expected_latest = offset
    else:
        expected_latest = len(keys) - 1
    stop = made.put(*keys)
    assert stop == (kernel.Stop.FULL if entries_max < 10 else kernel.Stop.DONE)
    assert made.keys.latest_offset == expected_latest
    assert made.keys.keyless == sum(key is None for key in keys[: expected_latest + 1])
    assert made.keys.records == len(keys)


@both
def test_a_batch_that_does_not_fit_gets_no_numbers(kernel: ModuleType) -> None:
    made = Map(kernel, slots=64, entries_max=2)
    made.put(b"a", b"b")
    assert made.put(None, b"a") == kernel.Stop.FULL
    assert (made.keys.records, made.keys.latest_offset, made.keys.keyless) == (2, 1, 0)


@both
@pytest.mark.parametrize("slack", [2, 3, 5])
def test_a_map_without_room_after_its_slots_is_full(kernel: ModuleType, slack: int) -> None:
    made = Map(kernel, slots=4, slack=slack)
    put = 0
    while made.put(b"%d" % put) == kernel.Stop.DONE:
        put += 1
    assert put <= 4 + slack - 1
    assert (made.keys.entries, made.keys.latest_offset) == (put, put - 1)
    assert made.table[-1] == made.table[-2] == 0
    assert made.put(b"0") == kernel.Stop.FULL


@both
def test_numbers_end_before_they_overflow(kernel: ModuleType) -> None:
    made = Map(kernel, slots=64, records_max=5)
    assert made.put(b"a", b"b", b"c") == kernel.Stop.DONE
    assert made.put(b"d", b"e", b"f") == kernel.Stop.FULL
    assert (made.keys.records, made.keys.latest_offset) == (3, 2)


@both
def test_half_equal_fingerprints_are_different_keys(kernel: ModuleType) -> None:
    """The first 64 bits alone do not identify a key: the table contains one with the same 64 and 32 different bits."""
    made = Map(kernel, slots=64)
    made.put(b"a")
    ((at, (first, second)),) = made.slots.items()
    made.table[2 * at + 1] = second ^ 1 << 63
    made.put(b"a")
    assert not made.is_dead(0)
    assert [pair[0] for pair in made.slots.values()] == [first, first]
    made.put(b"a")
    assert [made.is_dead(at) for at in range(3)] == [False, True, False]
    assert made.keys.entries == 2


@both
@pytest.mark.parametrize(("slots", "words"), [(0, 4), (1, 2), (2, 4), (1 << 32, 4)])
def test_a_table_without_a_free_slot_at_its_end_is_refused(kernel: ModuleType, slots: int, words: int) -> None:
    with pytest.raises(ValueError, match="free slot"):
        kernel.KeyMap(array("Q", bytes(8 * words)), slots, 10, 0, SECRET, 10)


def siphash_128(key: bytes, data: bytes, rounds: int, final_rounds: int) -> tuple[int, int]:
    """Return SipHash as its paper defines it, with a result of 128 bits."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotated(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & MASK

    def mix(times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = rotated(v[1], 13) ^ v[0]
            v[0] = rotated(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = rotated(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = rotated(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = rotated(v[1], 17) ^ v[2]
            v[2] = rotated(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 255])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        mix(rounds)
        v[0] ^= word
    v[2] ^= 0xEE
    mix(final_rounds)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    mix(final_rounds)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def test_our_siphash_gives_the_published_result() -> None:
    first, second = siphash_128(SECRET, b"", 2, 4)
    assert (first.to_bytes(8, "little") + second.to_bytes(8, "little")).hex() == "a3817f04ba25a8e66df67214c7550293"


@needs_compiled
def test_fingerprints_are_siphash_1_3() -> None:
    """Keys of any length have the right fingerprint, wherever they end in the buffer."""
    for length in [*range(40), 255, 256, 1_000]:
        key = bytes(at * 7 & 255 for at in range(length))
        made = Map(kernel, slots=16)
        made.put(key)
        ((found, rest),) = made.slots.values()
        first, second = siphash_128(SECRET, key, 1, 3)
        assert (found, rest >> 32) == (first, second >> 32)
