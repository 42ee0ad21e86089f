"""Record batches: read and written against kafka-python and aiokafka, and refused if damaged."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.batch_builder import (
    append_records,
    assign_in_place,
    build_batch,
    seal_batch,
    set_timestamp_type_in_place,
)
from ottla.protocol.errors import CorruptRecordError
from ottla.protocol.records import (
    HEADER_BYTES,
    Record,
    RecordBatch,
    RecordSpan,
    batches,
    null_key_indexes,
    sequence_after,
)
from support import oracles
from support.logs.batches import ABORT, batch, broken, contents, marker
from support.noted import each_case
from support.sizes import size

CODECS = range(5)
IMPLEMENTATIONS = sorted(oracles.IMPLEMENTATIONS)

BYTES = st.none() | st.binary(max_size=40)
TIMESTAMPS = st.integers(0, 2**62)
HEADERS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), BYTES), max_size=3)
FIELDS = st.lists(st.tuples(TIMESTAMPS, BYTES, BYTES, HEADERS), min_size=1, max_size=20)


def rows_of(fields: list[tuple[int, bytes | None, bytes | None, Any]], base_offset: int = 0) -> list[oracles.Row]:
    return [(offset, *rest) for offset, rest in enumerate(fields, base_offset)]


def as_row(record: Record) -> oracles.Row:
    return (record.offset, record.timestamp, record.key, record.value, list(record.headers))


def packed(*records: bytes) -> bytearray:
    """Return a batch around hand-made records, each given without its length."""
    payload = b"".join(bytes([len(record) * 2]) + record for record in records)
    return around(payload, len(records))


def around(payload: bytes, record_count: int) -> bytearray:
    return seal_batch(
        payload,
        record_count=record_count,
        base_offset=0,
        last_offset_delta=max(record_count - 1, 0),
        attributes=0,
        base_timestamp=0,
        max_timestamp=0,
    )


# --- against others ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@settings(max_examples=size(5, 20), deadline=None)
@given(fields=FIELDS)
def test_batches_of_other_producers_are_read(name: str, codec: int, fields: Any) -> None:
    rows = rows_of(fields)
    read = RecordBatch(
        oracles.build(name, rows, codec=codec, producer_id=7, producer_epoch=3, base_sequence=9, transactional=True)
    )

    assert read.is_crc_valid()
    assert [as_row(record) for record in read.records()] == rows
    assert (read.is_transactional, read.is_control) == (True, False)
    assert read.codec in (codec, 0)  # kafka-python sends uncompressed what would grow
    assert (read.producer_id, read.producer_epoch, read.base_sequence) == (7, 3, 9)
    assert (read.base_offset, read.last_offset, read.record_count) == (0, len(rows) - 1, len(rows))
    assert (read.base_timestamp, read.max_timestamp) == (rows[0][1], max(row[1] for row in rows))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", IMPLEMENTATIONS)
@settings(max_examples=size(5, 20), deadline=None)
@given(fields=FIELDS)
def test_other_consumers_read_our_batches(name: str, codec: int, fields: Any) -> None:
    rows = rows_of(fields, base_offset=1_000)
    ours = build_batch(rows, codec=codec, producer_id=7, producer_epoch=3, base_sequence=9, transactional=True)

    header, records = oracles.read(name, bytes(ours))

    assert records == rows
    assert header == {
        "base_offset": 1_000,
        "attributes": codec | 0x10,
        "last_offset_delta": len(rows) - 1,
        "max_timestamp": max(row[1] for row in rows),
        "producer_id": 7,
        "producer_epoch": 3,
        "base_sequence": 9,
        "is_transactional": True,
        "is_control_batch": False,
    }


@settings(deadline=None)
@given(fields=FIELDS)
def test_uncompressed_batches_equal_kafka_pythons_byte_for_byte(fields: Any) -> None:
    rows = rows_of(fields)

    assert build_batch(rows) == oracles.build("kafka-python", rows)


# --- the fields of a header -------------------------------------------------------------------------------------


def test_every_header_field_is_read() -> None:
    data = batch(
        ("a", "1"),
        ("b", None),
        base_offset=5,
        timestamp=[10, 30],
        producer_id=1,
        producer_epoch=2,
        base_sequence=3,
        partition_leader_epoch=4,
    )
    read = RecordBatch(data)

    assert (read.base_offset, read.last_offset, read.next_offset) == (5, 6, 7)
    assert (read.size_bytes, read.partition_leader_epoch, read.magic) == (len(data), 4, 2)
    assert (read.base_timestamp, read.max_timestamp) == (10, 30)
    assert (read.producer_id, read.producer_epoch, read.base_sequence, read.last_sequence) == (1, 2, 3, 4)
    assert (read.has_producer, read.is_whole, read.delete_horizon_ms) == (True, True, None)
    assert read.crc == read.computed_crc()
    assert "offsets 5-6" in repr(read)


@pytest.mark.parametrize(
    ("bit", "name"), [(0x08, "is_log_append_time"), (0x10, "is_transactional"), (0x20, "is_control")]
)
def test_each_attribute_bit_has_one_meaning(bit: int, name: str) -> None:
    read = RecordBatch(broken(batch(("k", "v")), 22, flip=bit))

    assert [(other, getattr(read, other)) for other in ("is_log_append_time", "is_transactional", "is_control")] == [
        (other, other == name) for other in ("is_log_append_time", "is_transactional", "is_control")
    ]


def test_a_batch_without_producer_has_no_sequence() -> None:
    read = RecordBatch(batch(("a", "1"), ("b", "2")))

    assert (read.has_producer, read.base_sequence, read.last_sequence) == (False, -1, -1)
    assert [record.sequence for record in read.records()] == [-1, -1]


def test_sequences_wrap_from_the_largest_int_to_zero() -> None:
    read = RecordBatch(batch(("a", "1"), ("b", "2"), ("c", "3"), producer_id=1, base_sequence=2**31 - 2))

    assert [record.sequence for record in read.records()] == [2**31 - 2, 2**31 - 1, 0]
    assert read.last_sequence == 0
    assert sequence_after(0, -1) == 2**31 - 1


def test_under_log_append_time_every_record_has_the_max_timestamp() -> None:
    read = RecordBatch(batch(("a", "1"), ("b", "2"), timestamp=[1, 2], log_append_time=True))

    assert [record.timestamp for record in read.records()] == [2, 2]


def test_a_delete_horizon_replaces_the_base_timestamp_and_keeps_record_timestamps() -> None:
    read = RecordBatch(batch(("a", None), ("b", "2"), timestamp=[10, 20], delete_horizon_ms=5_000))

    assert (read.delete_horizon_ms, read.base_timestamp, read.max_timestamp) == (5_000, 5_000, 20)
    assert [record.timestamp for record in read.records()] == [10, 20]


def test_timestamps_may_precede_the_base_timestamp() -> None:
    read = RecordBatch(build_batch([(0, 10, b"a", b"1", ())], base_timestamp=50, max_timestamp=70))

    assert (read.base_timestamp, read.max_timestamp) == (50, 70)
    assert [record.timestamp for record in read.records()] == [10]


def test_offsets_may_have_gaps_inside_and_at_both_ends() -> None:
    data = batch(("a", "1"), ("b", "2"), base_offset=10, offsets=[12, 15], last_offset_delta=9)
    read = RecordBatch(data)

    assert contents(data) == [(12, b"a", b"1"), (15, b"b", b"2")]
    assert (read.base_offset, read.last_offset) == (10, 19)


@pytest.mark.parametrize("codec", CODECS)
def test_an_emptied_batch_has_61_bytes_and_no_records_with_any_codec(codec: int) -> None:
    data = batch(base_offset=7, last_offset_delta=3, codec=codec)
    data = data if codec == 0 else broken(data, 22, flip=codec)  # Kafka clears the codec; other clients might not
    read = RecordBatch(data)

    assert (len(data), read.record_count, read.last_offset) == (HEADER_BYTES, 0, 10)
    assert (list(read.records()), list(read.spans())) == ([], [])


def test_a_marker_is_a_control_batch_of_one_record() -> None:
    read = RecordBatch(marker(ABORT, producer_id=3, producer_epoch=1, base_offset=8, coordinator_epoch=2))

    assert (read.is_control, read.is_transactional, read.base_sequence) == (True, True, -1)
    assert [(r.offset, r.key, r.value) for r in read.records()] == [(8, bytes(4), b"\0\0\0\0\0\x02")]


# --- views ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_batch_is_a_view_at_any_position_of_any_buffer(kind: Any) -> None:
    first, second = batch(("a", "1")), batch(("b", "2"), base_offset=1)
    data = kind(bytes(first + second + b"rest"))
    read = RecordBatch(data, len(first))

    assert read.view == second
    assert contents(read.view) == [(1, b"b", b"2")]


def test_a_header_can_be_read_without_its_records() -> None:
    data = batch(("key", "value"), base_offset=9)
    read = RecordBatch(data[:HEADER_BYTES])

    assert (read.base_offset, read.size_bytes, read.is_whole) == (9, len(data), False)


def test_consecutive_batches_are_found() -> None:
    data = batch(("a", "1"), codec=1) + batch(base_offset=1) + batch(("b", "2"), base_offset=2)

    assert [(each.base_offset, each.record_count) for each in batches(data)] == [(0, 1), (1, 0), (2, 1)]
    assert list(batches(b"")) == []


def test_the_payload_is_read_in_place_when_it_is_not_compressed() -> None:
    data = batch(("key", "value"))
    payload = RecordBatch(data).payload()
    data[-2] = ord("X")

    assert bytes(payload).endswith(b"valuX\0")


# --- in place ---------------------------------------------------------------------------------------------------


def test_place_and_leader_epoch_are_assigned_without_touching_the_crc() -> None:
    data = batch(("a", "1"), ("b", "2"))
    crc = RecordBatch(data).crc
    assign_in_place(memoryview(data), 2**40, 17)
    read = RecordBatch(data)

    assert (read.base_offset, read.partition_leader_epoch, read.crc) == (2**40, 17, crc)
    assert read.is_crc_valid()
    assert contents(data) == [(2**40, b"a", b"1"), (2**40 + 1, b"b", b"2")]


@pytest.mark.parametrize("codec", CODECS)
def test_the_timestamp_type_is_set_and_reset_with_a_new_crc(codec: int) -> None:
    data = batch(("a", "1"), ("b", "2"), timestamp=[5, 6], codec=codec)
    before = bytes(data)

    set_timestamp_type_in_place(data, log_append_time=True, max_timestamp=99)
    stamped = RecordBatch(data)
    assert (stamped.is_log_append_time, stamped.max_timestamp, stamped.base_timestamp) == (True, 99, 5)
    assert stamped.is_crc_valid()
    assert [record.timestamp for record in stamped.records()] == [99, 99]

    set_timestamp_type_in_place(data, log_append_time=False, max_timestamp=6)
    assert data == before


# --- damage -----------------------------------------------------------------------------------------------------

A = b"\0\0\0"  # attributes, timestamp delta 0, offset delta 0
WHOLE = A + b"\x02k\x02v\0"

DAMAGED: dict[str, bytearray] = {
    "record longer than the batch": around(b"\x20" + WHOLE, 1),
    "record of negative length": around(b"\x01" + WHOLE, 1),
    "record of no length": around(b"\x00" + WHOLE, 1),
    "length of six bytes": around(b"\x90\x80\x80\x80\x80\x00" + WHOLE, 1),
    "timestamp of eleven bytes": packed(b"\0" + b"\x80" * 10 + b"\0" + b"\0\x02k\x02v\0"),
    "offset of six bytes": packed(b"\0\0" + b"\x80" * 5 + b"\0" + b"\x02k\x02v\0"),
    "key beyond the record": packed(A + b"\x20k\x02v\0", WHOLE * 3),
    "key up to the end": packed(A + b"\x08kkkk", WHOLE),
    "no value": packed(A + b"\x02k", WHOLE),
    "fewer records than announced": around(bytes([len(WHOLE) * 2]) + WHOLE, 2),
    "more records than announced": around((bytes([len(WHOLE) * 2]) + WHOLE) * 2, 1),
    "a byte behind the records": around(bytes([len(WHOLE) * 2]) + WHOLE + b"\0", 1),
    "records where none are announced": broken(packed(WHOLE), 60, flip=1),
    "negative count": around(b"", 0)[:57] + b"\xff\xff\xff\xff",
}
DAMAGED_INSIDE: dict[str, bytearray] = {
    "value beyond the record": packed(A + b"\x02k\x20v\0", WHOLE * 3),
    "no headers": packed(A + b"\x02k\x02v", WHOLE),
    "a byte behind the headers": packed(WHOLE + b"\0"),
    "header missing": packed(A + b"\x02k\x02v\x02", WHOLE),
    "more headers than bytes": packed(A + b"\x02k\x02v\x7e"),
    "negative number of headers": packed(A + b"\x02k\x02v\x01"),
    "header without a name": packed(A + b"\x02k\x02v\x02\x01\x02h"),
    "header value beyond the record": packed(A + b"\x02k\x02v\x02\x02n\x20h", WHOLE * 3),
    "last varint cut": packed(A + b"\x02k\x02v\x80"),
}


@each_case("data", DAMAGED.values(), ids=[name.replace(" ", "_") for name in DAMAGED])
def test_structural_damage_is_found_by_every_reader(data: bytearray) -> None:
    read = RecordBatch(data)
    with pytest.raises(CorruptRecordError):
        list(read.records())
    with pytest.raises(CorruptRecordError):
        list(read.spans())
    with pytest.raises(CorruptRecordError):
        null_key_indexes(read.payload(), read.record_count)


@pytest.mark.parametrize("data", DAMAGED_INSIDE.values(), ids=[name.replace(" ", "_") for name in DAMAGED_INSIDE])
def test_damage_after_the_key_is_found_when_records_are_read(data: bytearray) -> None:
    read = RecordBatch(data)
    with pytest.raises(CorruptRecordError):
        list(read.records())


def test_an_undamaged_hand_made_batch_is_read() -> None:
    assert contents(packed(WHOLE, WHOLE)) == [(0, b"k", b"v"), (0, b"k", b"v")]


def test_a_header_name_in_invalid_utf_8_does_not_hide_the_record() -> None:
    (record,) = RecordBatch(packed(A + b"\x02k\x02v\x02\x02\xff\x02h")).records()

    assert record.headers == (("\N{REPLACEMENT CHARACTER}", b"h"),)


def test_a_count_beyond_the_block_costs_nothing() -> None:
    data = packed(WHOLE)
    data[57:61] = b"\x7f\xff\xff\xff"
    for read in (RecordBatch(data).records, RecordBatch(data).spans):
        with pytest.raises(CorruptRecordError):
            list(read())
    with pytest.raises(CorruptRecordError):
        null_key_indexes(RecordBatch(data).payload(), 2**31 - 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(60),
        broken(batch(("k", "v")), 16, flip=3),
        broken(batch(("k", "v")), 16, flip=2),
        batch()[:8] + (48).to_bytes(4, "big") + batch()[12:],
        batch()[:8] + (-1).to_bytes(4, "big", signed=True) + batch()[12:],
    ],
    ids=["nothing", "short header", "magic 1", "magic 0", "too small a length", "negative length"],
)
def test_bytes_that_cannot_start_a_batch_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        RecordBatch(data)


def test_a_truncated_last_batch_is_corrupt() -> None:
    data = batch(("a", "1")) + batch(("b", "2"))
    whole = len(batch(("a", "1")))
    for length in range(whole + 1, len(data)):
        with pytest.raises(CorruptRecordError):
            list(batches(data[:length]))


def test_every_flipped_bit_under_the_crc_is_noticed() -> None:
    data = batch(("key", "value"), producer_id=3)
    for at in range(17, len(data)):
        assert not RecordBatch(broken(data, at, flip=1 << (at % 8))).is_crc_valid()
    for at in [*range(8), *range(12, 16)]:
        assert RecordBatch(broken(data, at, flip=1)).is_crc_valid()


@settings(max_examples=size(20, 150), deadline=None)
@given(fields=FIELDS, codec=st.sampled_from(CODECS), changes=st.lists(st.tuples(st.integers(57), st.integers(0, 255))))
def test_any_damage_gives_records_or_corrupt_and_nothing_else(fields: Any, codec: int, changes: Any) -> None:
    data = build_batch(rows_of(fields), codec=codec)
    for at, byte in changes:
        data[57 + at % (len(data) - 57)] = byte
    read = RecordBatch(data)
    for walk in (read.records, read.spans):
        try:
            list(walk(max_bytes=100_000) if walk == read.records else walk())
        except CorruptRecordError:
            continue


# --- all ways of iterating agree --------------------------------------------------------------------------------


@settings(max_examples=size(20, 50), deadline=None)
@given(fields=FIELDS, codec=st.sampled_from(CODECS), padding=st.integers(0, 20_000))
def test_spans_and_null_keys_match_the_records(fields: Any, codec: int, padding: int) -> None:
    fields = [*fields, (0, bytes(100), bytes(padding), [])]  # lengths of more than one byte
    read = RecordBatch(build_batch([(100 + 3 * at, *rest) for at, rest in enumerate(fields)], codec=codec))
    payload = read.payload()
    records, spans = list(read.records()), list(read.spans(payload))

    assert [(s.offset, read.base_timestamp + s.timestamp_delta, s.key, s.has_value) for s in spans] == [
        (r.offset, r.timestamp, r.key, r.value is not None) for r in records
    ]
    assert null_key_indexes(payload, len(records)) == [at for at, r in enumerate(records) if r.key is None]
    assert [payload[s.start : s.end] for s in spans] == [written(r, read) for r in records]


def written(record: Record, of: RecordBatch) -> bytes:
    out = bytearray()
    append_records(out, [record[:5]], of.base_offset, of.base_timestamp)
    return bytes(out)


def test_spans_are_adjacent() -> None:
    read = RecordBatch(batch(("a", "1"), (None, None)))

    assert list(read.spans()) == [
        RecordSpan(0, 0, b"a", True, 0, 9),
        RecordSpan(1, 0, None, False, 9, 16),
    ]


def test_the_search_for_null_keys_stops_at_the_limit() -> None:
    payload = RecordBatch(batch(*[(None, "v")] * 50)).payload()

    assert null_key_indexes(payload, 50, at_most=3) == [0, 1, 2]


def test_an_empty_key_is_a_key_and_an_empty_value_a_value() -> None:
    read = RecordBatch(batch(("", "")))

    assert null_key_indexes(read.payload(), 1) == []
    assert [(span.key, span.has_value) for span in read.spans()] == [(b"", True)]


def test_every_reader_treats_a_long_null_key_as_null() -> None:
    read = RecordBatch(packed(A + b"\x81\x00\x02v\0"))

    assert null_key_indexes(read.payload(), 1) == [0]
    assert [record.key for record in read.records()] == [None]
