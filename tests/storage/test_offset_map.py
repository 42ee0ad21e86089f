import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import CorruptRecordError
from ottla.protocol.records import HEADER_BYTES, RecordBatch
from ottla.storage.clean_kernel import (
    EXACT_KEY_BYTES_MAX,
    SECRET_BYTES,
    MapKey,
    ScannedKeys,
    bits_of,
    copy_records,
    fingerprint,
    map_key,
    scan_keys,
    shift_records,
    survivors,
    wrap_longs,
)
from ottla.storage.offset_map import BYTES_PER_SLOT, OffsetMap, RecordBits, entries_max
from support.batches import Pair, batch

SECRET = b"s" * SECRET_BYTES


def scanned(*keys: MapKey | None, tombstones: list[int] | None = None) -> ScannedKeys:
    return ScannedKeys(list(keys), tombstones or [], None in keys)


def dead_indexes(offsets: OffsetMap) -> list[int]:
    bits = offsets.dead(0, offsets.record_count)
    return [ordinal for ordinal in range(offsets.record_count) if bits >> ordinal & 1]


@pytest.mark.parametrize("count", [10, 100, 1000, 5000])
def test_every_key_that_went_in_is_found(count: int) -> None:
    offsets = OffsetMap(count)
    offsets.add(scanned(*[b"%d" % key for key in range(count)]))
    offsets.seal()
    assert all(b"%d" % key in offsets for key in range(count))
    assert b"another" not in offsets
    assert offsets.utilization == 1.0
    assert dead_indexes(offsets) == []


def test_an_older_record_of_a_key_is_dead_within_a_batch_and_across_batches() -> None:
    offsets = OffsetMap(10)
    offsets.add(scanned(b"a", b"b", b"a"))
    offsets.add(scanned(b"c", b"b"))
    offsets.seal()
    assert dead_indexes(offsets) == [0, 1]


def test_a_record_without_a_key_is_dead_and_takes_no_entry() -> None:
    offsets = OffsetMap(10)
    offsets.add(scanned(b"a", None, b"", None))
    offsets.seal()
    assert dead_indexes(offsets) == [1, 3]
    assert len(offsets) == 2
    assert not offsets.has_any([b"b"])
    assert offsets.has_any([b"b", b""])


def test_tombstones_are_remembered_by_ordinal() -> None:
    offsets = OffsetMap(10)
    offsets.add(scanned(b"a", b"b"))
    offsets.add(scanned(b"c", b"a", b"d", tombstones=[1]))
    offsets.put(b"e", is_tombstone=True)
    offsets.seal()
    assert offsets.tombstones(0, 6) == 0b101000
    assert offsets.tombstones(2, 3) == 0b010


def test_records_that_do_not_go_in_have_ordinals_all_the_same() -> None:
    offsets = OffsetMap(10)
    offsets.skip_records(3)
    offsets.put(b"a", is_tombstone=False)
    offsets.skip_records(2)
    offsets.seal()
    assert offsets.record_count == 6
    assert offsets.dead(3, 1) == 0


def test_an_empty_map_knows_no_offset_and_no_key() -> None:
    offsets = OffsetMap(2)
    offsets.seal()
    assert offsets.latest_offset == -1
    assert (len(offsets), offsets.free_entries, offsets.utilization) == (0, 2, 0.0)
    assert b"a" not in offsets


def test_a_full_map_takes_not_even_a_key_that_it_has() -> None:
    offsets = OffsetMap(2)
    offsets.add(scanned(b"a", b"b"))
    assert offsets.free_entries == 0


def test_the_number_of_entries_follows_from_buffer_and_load_factor() -> None:
    assert entries_max(128 << 20, 0.9) == int((128 << 20) // BYTES_PER_SLOT * 0.9)
    assert entries_max(2 * BYTES_PER_SLOT, 1.0) == 2


@pytest.mark.parametrize(("buffer_bytes", "load_factor"), [(0, 0.9), (BYTES_PER_SLOT, 1.0), (1 << 20, 0.0)])
def test_a_map_without_room_for_two_keys_is_refused(buffer_bytes: int, load_factor: float) -> None:
    with pytest.raises(ValueError, match="no room"):
        entries_max(buffer_bytes, load_factor)


@given(st.sets(st.integers(0, 200)), st.integers(0, 150), st.integers(0, 60))
def test_a_window_of_bits_is_what_was_set_there(set_bits: set[int], first: int, count: int) -> None:
    bits = RecordBits()
    bits.grow(300)
    for ordinal in set_bits:
        bits.set(ordinal)
    want = sum(1 << (ordinal - first) for ordinal in set_bits if first <= ordinal < first + count)
    assert bits.window(first, count) == want
    assert bits.inverted().window(first, count) == want ^ ((1 << count) - 1)


@given(st.lists(st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c", b"d"])), max_size=40), st.integers(1, 7))
def test_dead_means_superseded_or_keyless(keys: list[bytes | None], batch_size: int) -> None:
    offsets = OffsetMap(100)
    for at in range(0, len(keys), batch_size):
        offsets.add(scanned(*keys[at : at + batch_size]))
    offsets.seal()
    assert dead_indexes(offsets) == [index for index, key in enumerate(keys) if key is None or key in keys[index + 1 :]]


def scan(made: bytearray) -> ScannedKeys:
    found = RecordBatch(made)
    return scan_keys(bytes(made), HEADER_BYTES, len(made), found.record_count, SECRET)


keys_and_values = st.lists(
    st.tuples(st.one_of(st.none(), st.binary(max_size=90)), st.one_of(st.none(), st.binary(max_size=20_000))),
    max_size=8,
)
timestamps = st.integers(-(2**62), 2**62)


@given(keys_and_values, st.data())
def test_scanning_finds_what_a_reader_of_the_batch_finds(pairs: list[Pair], data: st.DataObject) -> None:
    times = data.draw(st.lists(timestamps, min_size=len(pairs), max_size=len(pairs)))
    made = batch(*pairs, timestamp=times, headers=(("h", None),))
    found = scan(made)
    assert found.keys == [None if key is None else map_key(as_is(key), SECRET) for key, _ in pairs]
    assert found.tombstones == [index for index, (_, value) in enumerate(pairs) if value is None]
    assert found.has_keyless == any(key is None for key, _ in pairs)


def as_is(key: str | bytes) -> bytes:
    assert isinstance(key, bytes)
    return key


def test_long_keys_are_kept_as_fingerprints_that_depend_on_the_secret() -> None:
    short, long = b"k" * EXACT_KEY_BYTES_MAX, b"k" * (EXACT_KEY_BYTES_MAX + 1)
    assert scan(batch((short, b"v"), (long, b"v"))).keys == [short, fingerprint(long, SECRET)]
    assert fingerprint(long, SECRET) != fingerprint(long, bytes(SECRET_BYTES))
    assert fingerprint(long, SECRET) >> 128 == 0


@given(st.binary(max_size=60), st.integers(0, 5))
def test_scanning_any_bytes_gives_keys_or_a_corrupt_record_error(data: bytes, count: int) -> None:
    try:
        found = scan_keys(data, 0, len(data), count, SECRET)
    except CorruptRecordError:
        return
    assert len(found.keys) == count


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_batch_never_gives_keys_beyond_its_end(at: int, byte: int) -> None:
    made = batch(*[(b"key-%d" % index, b"value") for index in range(8)])
    behind = batch(*[(b"other-%d" % index, b"value") for index in range(8)])
    count = RecordBatch(made).record_count
    end = len(made)
    made[HEADER_BYTES + at % (end - HEADER_BYTES)] = byte
    try:
        found = scan_keys(bytes(made + behind), HEADER_BYTES, end, count, SECRET)
        kept = survivors(bytes(made + behind), HEADER_BYTES, end, count, 0)
    except CorruptRecordError:
        return
    assert not any(b"other" in key for key in found.keys if isinstance(key, bytes))
    assert kept.stops[-1] == end


@given(keys_and_values.filter(bool), st.data())
def test_surviving_records_are_copied_or_shifted_to_another_base_timestamp(
    pairs: list[Pair], data: st.DataObject
) -> None:
    times = data.draw(st.lists(timestamps, min_size=len(pairs), max_size=len(pairs)))
    dead = data.draw(st.integers(0, (1 << len(pairs)) - 1))
    made = batch(*pairs, timestamp=times, headers=(("h", b"1"),))
    records = list(RecordBatch(made).records())
    live = [record for index, record in enumerate(records) if not dead >> index & 1]

    kept = survivors(bytes(made), HEADER_BYTES, len(made), len(pairs), dead)

    base = times[0]
    assert [base + delta for delta in kept.timestamp_deltas] == [record.timestamp for record in live]
    parts = [(record.offset, record.timestamp, record.key, record.value, record.headers) for record in live]
    for new_base, block in [
        (base, copy_records(bytes(made), kept)),
        (base - 5, shift_records(bytes(made), kept, [delta + 5 for delta in kept.timestamp_deltas])),
    ]:
        again = build_batch(parts, base_offset=0, base_timestamp=new_base)
        assert block == bytes(again[HEADER_BYTES:])


def test_more_records_announced_than_bytes_could_hold_cost_no_memory() -> None:
    with pytest.raises(CorruptRecordError, match="announced"):
        survivors(b"\x0c" + bytes(6), 0, 7, 2**31 - 1, 0)


@pytest.mark.parametrize(
    ("value", "wrapped"),
    [(0, 0), (-1, -1), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (-(2**63) - 1, 2**63 - 1), (3 << 64, 0)],
)
def test_timestamps_wrap_like_64_bit_integers(value: int, wrapped: int) -> None:
    assert wrap_longs([value, 5]) == [wrapped, 5]


@given(st.sets(st.integers(0, 99)))
def test_bits_of_indexes(indexes: set[int]) -> None:
    assert bits_of(indexes, 100) == sum(1 << index for index in indexes)
