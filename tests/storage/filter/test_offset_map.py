"""The offset map of one pass, with batches put into it; `test_kernel_map` compares it with an oracle."""

import pytest

from ottla.storage.filter.offset_map import BYTES_PER_SLOT, SECRET_BYTES, OffsetMap, TableMemory, entries_max
from ottla.storage.kernel import Stop
from support.logs.batches import Pair, batch

SECRET = b"s" * SECRET_BYTES


def offset_map(entries: int = 1_000, *, slots_max: int = 1 << 20, end_offset: int = 1 << 20) -> OffsetMap:
    return OffsetMap(0, end_offset, slots_max=slots_max, entries_max=entries, secret=SECRET)


def put(offsets: OffsetMap, *keys: str | Pair | None, base_offset: int | None = None) -> int:
    """Put one batch; a bare key has a value. Return the Stop."""
    pairs = [key if isinstance(key, tuple) else (key, "v") for key in keys]
    made = batch(*pairs, base_offset=offsets.latest_offset + 1 if base_offset is None else base_offset)
    while (status := offsets.keys.build(made, 0, len(made))[1]) == Stop.GROW:
        offsets.grow(len(keys))
    return status


def dead(offsets: OffsetMap) -> list[int]:
    return [at for at in range(offsets.keys.records) if offsets.dead[at >> 6] >> (at & 63) & 1]


def tombstones(offsets: OffsetMap) -> list[int]:
    return [at for at in range(offsets.keys.records) if offsets.tombstones[at >> 6] >> (at & 63) & 1]


@pytest.mark.scenario(91, 94, 95, 96)
@pytest.mark.parametrize("count", [10, 100, 1000, 5000])
def test_every_inserted_key_is_found(count: int) -> None:
    offsets = OffsetMap(0, 2 * count, slots_max=count, entries_max=2 * count, secret=SECRET)
    keys = [f"k{number}" for number in range(count)]
    put(offsets, *keys)
    assert (dead(offsets), offsets.keys.entries, offsets.utilization, offsets.latest_offset) == (
        [],
        count,
        0.5,
        count - 1,
    )
    put(offsets, *keys, "another")
    assert (dead(offsets), offsets.keys.entries) == (list(range(count)), count + 1)


def test_an_older_record_of_a_key_is_dead_within_and_across_batches() -> None:
    offsets = offset_map()
    put(offsets, "a", "b", "a")
    put(offsets, "c", "b")
    assert (dead(offsets), offsets.keys.entries) == ([0, 1], 3)


def test_a_record_without_a_key_is_dead_and_takes_no_entry() -> None:
    offsets = offset_map()
    put(offsets, "a", None, "", None)
    assert (dead(offsets), offsets.keys.entries, offsets.keys.keyless) == ([1, 3], 2, 2)


def test_tombstones_are_remembered_by_the_number_of_the_record() -> None:
    offsets = offset_map()
    put(offsets, "a", "b")
    put(offsets, "c", ("a", None), (None, None), base_offset=1_000)
    assert tombstones(offsets) == [3, 4]
    assert dead(offsets) == [0, 4]


@pytest.mark.scenario(92)
def test_an_empty_map_knows_no_offset() -> None:
    offsets = OffsetMap(7, 7, slots_max=2, entries_max=2, secret=SECRET)
    assert (offsets.latest_offset, offsets.keys.entries, offsets.utilization) == (6, 0, 0.0)


@pytest.mark.scenario(93, 96)
def test_a_full_map_refuses_even_known_keys() -> None:
    offsets = offset_map(2)
    assert put(offsets, "a", "b") == Stop.DONE
    assert put(offsets, "b") == Stop.FULL
    assert (offsets.latest_offset, offsets.utilization, dead(offsets)) == (1, 1.0, [])


def test_keys_of_any_length_cost_the_same() -> None:
    offsets = offset_map()
    keys = ["k" * length for length in range(600)]
    put(offsets, *keys)
    put(offsets, *keys)
    assert (dead(offsets), offsets.keys.entries) == (list(range(600)), 600)


@pytest.mark.parametrize("slots", [50, 100])
def test_every_slot_may_be_filled(slots: int) -> None:
    """A load factor of 1 and more is safe: what has offset map too small in its place goes behind the others."""
    offsets = offset_map(100, slots_max=slots)
    for at in range(0, 100, 10):
        put(offsets, *[f"k{number}" for number in range(at, at + 10)])
    assert put(offsets, "more") == Stop.FULL
    assert (offsets.slots, offsets.utilization, dead(offsets)) == (slots, 1.0, [])


@pytest.mark.parametrize(("end_offset", "slots"), [(0, 1), (10, 20), (1 << 40, 500)])
def test_a_table_has_the_size_that_the_dirty_part_needs(end_offset: int, slots: int) -> None:
    assert offset_map(end_offset=end_offset, slots_max=500).slots == slots


def test_bitmaps_grow_with_the_records() -> None:
    offsets = offset_map(1 << 17)
    for _ in range(20):
        put(offsets, *[f"k{number}" for number in range(5_000)])
    assert dead(offsets) == list(range(95_000))


def test_the_number_of_entries_follows_from_buffer_and_load_factor() -> None:
    assert entries_max(128 << 20, 0.9) == int((128 << 20) // BYTES_PER_SLOT * 0.9)
    assert entries_max(2 * BYTES_PER_SLOT, 1.0) == 2


@pytest.mark.parametrize(("buffer_bytes", "load_factor"), [(0, 0.9), (BYTES_PER_SLOT, 1.0), (1 << 20, 0.0)])
def test_a_map_without_room_for_two_keys_is_refused(buffer_bytes: int, load_factor: float) -> None:
    with pytest.raises(ValueError, match="offset map too small"):
        entries_max(buffer_bytes, load_factor)


def test_a_tables_memory_is_reused_without_entries_of_the_earlier_map() -> None:
    memory = TableMemory()
    larger = memory.zeros(4096)
    larger[0] = larger[255] = larger[511] = 1
    smaller = memory.zeros(2048)
    assert not any(smaller)
    assert len(smaller) == 256
    smaller[3] = 7
    assert larger[3] == 7
    assert not any(memory.zeros(4096))
    memory.release()
    assert larger[3] == 0
    memory.zeros(2048)[3] = 5
    assert larger[3] == 0


def test_released_memory_is_inaccessible_through_existing_views() -> None:
    memory = TableMemory()
    words = memory.zeros(5 << 20)
    words[0] = words[300_000] = words[-1] = 1
    memory.release()
    assert memory.size_bytes == 0
    assert not any(words)
