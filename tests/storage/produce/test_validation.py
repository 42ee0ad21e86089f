"""Batches that a leader accepts, its errors for others, and its changes to them: Apache Kafka's rules, case by case."""

import copy
import pickle
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.batch_builder import build_batch
from ottla.protocol.errors import CorruptRecordError, ErrorCode, KafkaError
from ottla.protocol.records import RecordBatch
from ottla.storage import kernel
from ottla.storage.disk.paths import TopicPartition
from ottla.storage.produce.record_checks import RECORD_ERRORS_MAX, InvalidRecordError, RecordError
from ottla.storage.produce.validation import AppendOrigin, ValidatedBatches, assign, check_batch
from ottla.storage.topics.config import LogConfig
from support.logs.batches import COMMIT, Pair, batch, broken, contents, marker
from support.noted import each_case
from support.sizes import size

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
CODECS = range(5)
CODEC_NAMES = ["uncompressed", "gzip", "snappy", "lz4", "zstd"]
COMPACT: dict[str, Any] = {"cleanup_policy": ("compact",)}
STAMPING: dict[str, Any] = {"message_timestamp_type": "LogAppendTime"}

EVERY_RECORD, WHERE_FORCED = "every record", "where something forces it"


@pytest.fixture(params=[EVERY_RECORD, WHERE_FORCED], autouse=True, scope="module")
def looked_at(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run with the checks of the compiled kernel, and with those of the interpreted one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "COMPILED", request.param == EVERY_RECORD)
        yield request.param


def validate(
    data: bytes | bytearray | memoryview,
    *,
    next_offset: int = 0,
    leader_epoch: int = 0,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    **config: Any,
) -> ValidatedBatches:
    checked = check_batch(
        data, topic_partition=TopicPartition("t", 0), config=LogConfig(**config), now_ms=NOW_MS, origin=origin
    )
    return assign(checked, next_offset=next_offset, now_ms=NOW_MS, leader_epoch=leader_epoch)


def refusal(data: bytes | bytearray, **options: Any) -> KafkaError:
    before = bytes(data)
    with pytest.raises(KafkaError) as refused:
        validate(data, **options)
    assert data == before, "a refused batch is left as it was"
    return refused.value


def produced(*pairs: Pair, timestamp: int | Iterable[int] = NOW_MS, **options: Any) -> bytearray:
    return batch(*pairs, timestamp=timestamp, **options)


# --- accepted batches -------------------------------------------------------------------------------------------


@each_case("codec", CODECS)
def test_a_batch_gets_its_offsets_and_leader_epoch_in_place(codec: int) -> None:
    data = produced(("a", "1"), (None, "2"), codec=codec)
    before = bytes(data)

    valid = validate(data, next_offset=2**40, leader_epoch=7)

    assert contents(data) == [(2**40, b"a", b"1"), (2**40 + 1, None, b"2")]
    assert valid.records.obj is data
    assert RecordBatch(data).partition_leader_epoch == 7
    assert data[8:12] + data[16:] == before[8:12] + before[16:]
    assert (valid.batches[0].base_offset, valid.batches[0].last_offset) == (2**40, 2**40 + 1)
    assert valid.batches[0].max_timestamp == NOW_MS
    assert valid.log_append_time_ms == -1


def test_the_returned_header_is_that_of_the_bytes() -> None:
    configs: list[dict[str, Any]] = [{}, STAMPING, {"compression_type": "zstd"}]
    for config in configs:
        valid = validate(produced(("a", "1")), next_offset=9, leader_epoch=3, **config)
        (given,) = valid.batches
        fresh = RecordBatch(valid.records)

        assert {name: getattr(given, name) for name in RecordBatch.__slots__} == {
            name: getattr(fresh, name) for name in RecordBatch.__slots__
        }


def test_read_only_bytes_are_copied() -> None:
    data = bytes(produced(("a", "1")))

    assert contents(validate(data, next_offset=5).records) == [(5, b"a", b"1")]
    assert contents(data) == [(0, b"a", b"1")]


def test_a_truncated_second_batch_is_ignored() -> None:
    first, second = produced(("a", "1")), produced(("b", "2"))
    for length in (1, 16, 60, len(second) - 1):
        assert contents(validate(first + second[:length]).records) == [(0, b"a", b"1")]


@settings(max_examples=size(10, 30), deadline=None)
@given(
    fields=st.lists(
        st.tuples(st.integers(0, NOW_MS), st.binary(max_size=9), st.none() | st.binary(max_size=9)), min_size=1
    ),
    codec=st.sampled_from(CODECS),
    to=st.sampled_from(["producer", *CODEC_NAMES]),
    policy=st.sampled_from(["compact", "delete"]),
    stamps=st.booleans(),
)
def test_records_pass_unchanged(fields: Any, codec: int, to: str, policy: str, stamps: bool) -> None:
    rows = [(at, timestamp, key, value, [("h", key)]) for at, (timestamp, key, value) in enumerate(fields)]
    data = build_batch(rows, codec=codec, producer_id=4, producer_epoch=5, base_sequence=6)
    stamp = STAMPING if stamps else {}

    valid = validate(data, next_offset=1_000, cleanup_policy=(policy,), compression_type=to, **stamp)
    written = RecordBatch(valid.records)

    assert [tuple(record)[:5] for record in written.records()] == [
        (1_000 + at, NOW_MS if stamps else timestamp, key, value, (("h", key),))
        for at, timestamp, key, value, _ in rows
    ]
    assert written.is_crc_valid()
    assert (written.producer_id, written.producer_epoch, written.base_sequence) == (4, 5, 6)
    assert written.codec == (codec if to == "producer" else CODEC_NAMES.index(to))
    assert (written.last_offset, written.max_timestamp) == (
        valid.batches[0].last_offset,
        valid.batches[0].max_timestamp,
    )


# --- the number of batches, and their header --------------------------------------------------------------------

OLD_FORMAT = bytes(8) + (20).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(15)
WRONG_NUMBER = {
    "nothing": b"",
    "too short for a length": b"\xff" * 11,
    "too short for a magic": bytes(8) + (40).to_bytes(4, "big") + bytes(4),
    "a batch cut off": produced(("a", "1"))[:-1],
    "two batches": produced(("a", "1")) + produced(("b", "2")),
    "magic 1": OLD_FORMAT,
    "magic 0": OLD_FORMAT[:16] + b"\0" + OLD_FORMAT[17:],
    "magic 1 behind magic 2": produced(("a", "1")) + OLD_FORMAT,
}


@each_case("data", WRONG_NUMBER.values(), ids=[name.replace(" ", "_") for name in WRONG_NUMBER])
def test_everything_except_one_batch_of_magic_2_is_an_invalid_record(data: bytes) -> None:
    assert refusal(data).code == ErrorCode.INVALID_RECORD


NO_BATCH = {
    "nothing but zeros": bytes(12),
    "length too small for any record": bytes(8) + (13).to_bytes(4, "big") + bytes(40),
    "negative length": bytes(8) + b"\xff" * 4 + bytes(40),
    "magic 3": bytes(8) + (40).to_bytes(4, "big") + bytes(4) + b"\x03" + bytes(40),
    "magic -1": bytes(8) + (40).to_bytes(4, "big") + bytes(4) + b"\xff" + bytes(40),
    "no room for a header": bytes(8) + (48).to_bytes(4, "big") + bytes(4) + b"\x02" + bytes(60),
    "rubbish behind the batch": produced(("a", "1")) + b"\xee" * 40,
}


@each_case("data", NO_BATCH.values(), ids=[name.replace(" ", "_") for name in NO_BATCH])
def test_bytes_that_cannot_be_batches_are_corrupt(data: bytes) -> None:
    assert refusal(data).code == ErrorCode.CORRUPT_MESSAGE


def test_a_wrong_crc_is_corrupt_for_damage_anywhere() -> None:
    data = produced(("key", "value"))
    for at in [*range(17, 57), len(data) - 1]:  # not the count, whose check needs a valid CRC, nor offset and epoch
        assert refusal(broken(data, at, flip=0x10)).code == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_over_max_message_bytes_is_too_large_even_if_corrupt() -> None:
    data = produced(("key", "value"))

    assert validate(copy.copy(data), max_message_bytes=len(data)).batches[0].last_offset == 0
    assert refusal(data, max_message_bytes=len(data) - 1).code == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(broken(data, 30), max_message_bytes=len(data) - 1).code == ErrorCode.MESSAGE_TOO_LARGE


INVALID_FROM_CLIENTS = {
    "a base offset": produced(("a", "1"), base_offset=1),
    "more offsets than records": produced(("a", "1"), last_offset_delta=1),
    "fewer offsets than records": produced(("a", "1"), ("b", "2"), last_offset_delta=0),
    "a negative range of offsets": produced(("a", "1"), last_offset_delta=-1),
    "no records": produced(),
    "a marker": marker(COMMIT, producer_id=1, timestamp=NOW_MS),
    "a producer without sequence": produced(("a", "1"), producer_id=1, base_sequence=-1),
}


@each_case("data", INVALID_FROM_CLIENTS.values(), ids=[name.replace(" ", "_") for name in INVALID_FROM_CLIENTS])
def test_headers_that_clients_must_not_send_are_invalid_records(data: bytearray) -> None:
    assert refusal(data).code == ErrorCode.INVALID_RECORD


def test_coordinators_write_markers_and_batches_without_sequence() -> None:
    for data in (marker(COMMIT, producer_id=1), produced(("a", "1"), producer_id=1, base_sequence=-1)):
        valid = validate(data, origin=AppendOrigin.COORDINATOR, next_offset=3, **COMPACT)
        assert valid.batches[0].last_offset == 3


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused_at_once(codec: int) -> None:
    data = produced(("a", "1"))
    data[22] |= codec

    assert refusal(with_crc(data)).code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


# --- compacted topics -------------------------------------------------------------------------------------------

KEYLESS = "Compacted topic cannot accept message without key in topic partition t-0"


@pytest.mark.scenario(151)
@each_case("codec", CODECS)
@each_case("policy", [("compact",), ("compact", "delete")])
def test_a_compacted_topic_refuses_the_batch_and_names_each_record_without_key(
    codec: int, policy: tuple[str, ...]
) -> None:
    error = refusal(produced(("a", "1"), (None, "2"), ("", "3"), (None, None), codec=codec), cleanup_policy=policy)

    assert isinstance(error, InvalidRecordError)
    assert error.code == ErrorCode.INVALID_RECORD
    assert error.record_errors == (RecordError(1, KEYLESS), RecordError(3, KEYLESS))
    assert error.message == (
        "One or more records have been rejected due to 2 record errors in total, and only showing the first three"
        f" errors at most: [RecordError(batchIndex=1, message='{KEYLESS}'), RecordError(batchIndex=3,"
        f" message='{KEYLESS}')]"
    )


def test_the_message_shows_three_records_at_most() -> None:
    error = refusal(produced(*[(None, "v")] * 5), **COMPACT)

    assert isinstance(error, InvalidRecordError)
    assert (len(error.record_errors), error.message.count("RecordError(")) == (5, 3)
    assert "due to 5 record errors" in error.message


def test_the_number_of_records_named_is_limited() -> None:
    error = refusal(produced(*[(None, "v")] * (RECORD_ERRORS_MAX + 1)), **COMPACT)

    assert isinstance(error, InvalidRecordError)
    assert len(error.record_errors) == RECORD_ERRORS_MAX


def test_tombstones_with_keys_are_accepted_on_compacted_topics() -> None:
    assert contents(validate(produced(("a", None), ("", "")), **COMPACT).records) == [
        (0, b"a", None),
        (1, b"", b""),
    ]


def with_crc(data: bytearray) -> bytearray:
    data[17:21] = RecordBatch(data).computed_crc().to_bytes(4, "big")
    return data


@each_case("codec", CODECS)
def test_unreadable_records_are_invalid_where_keys_are_read(codec: int) -> None:
    data = produced(("a", "1"), codec=codec)
    data[61:] = b"\xee" * (len(data) - 61)

    assert refusal(with_crc(data), **COMPACT).code == ErrorCode.INVALID_RECORD


def test_a_bomb_is_too_large() -> None:
    data = produced(("k", "v" * 20), codec=2)
    data[61:66] = b"\xff\xff\xff\xff\x0f"  # raw snappy, whose header claims 4 GB of content

    assert refusal(with_crc(data), **COMPACT).code == ErrorCode.MESSAGE_TOO_LARGE


def test_refusals_survive_copying_and_pickling() -> None:
    error = refusal(produced((None, "1")), **COMPACT)

    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert isinstance(twin, InvalidRecordError)
        assert isinstance(error, InvalidRecordError)
        assert (twin.code, twin.message, twin.record_errors) == (error.code, error.message, error.record_errors)


# --- timestamps -------------------------------------------------------------------------------------------------


@each_case("codec", CODECS)
def test_timestamps_out_of_bounds_are_refused_and_reported(codec: int) -> None:
    times = [NOW_MS - HOUR_MS - 1, NOW_MS - HOUR_MS, -1, NOW_MS + 60_000, NOW_MS + 60_001]
    error = refusal(
        produced(*[("k", "v")] * 5, timestamp=times, codec=codec),
        message_timestamp_before_max_ms=HOUR_MS,
        message_timestamp_after_max_ms=60_000,
    )

    assert isinstance(error, InvalidRecordError)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    bounds = f"is out of range. The timestamp should be within [{NOW_MS - HOUR_MS}, {NOW_MS + 60_000}]"
    assert error.record_errors == (
        RecordError(0, f"Timestamp {times[0]} of message with offset 0 {bounds}"),
        RecordError(4, f"Timestamp {times[4]} of message with offset 4 {bounds}"),
    )


def test_the_number_of_timestamps_named_is_limited() -> None:
    count = RECORD_ERRORS_MAX + 1
    error = refusal(produced(*[("k", "v")] * count, timestamp=NOW_MS + 2 * HOUR_MS))

    assert isinstance(error, InvalidRecordError)
    assert len(error.record_errors) == RECORD_ERRORS_MAX


def test_by_default_an_hour_ahead_and_any_past_time_is_valid() -> None:
    assert validate(produced(("a", "1"), ("b", "2"), timestamp=[0, NOW_MS + HOUR_MS])).batches[0].last_offset == 1
    assert refusal(produced(("a", "1"), timestamp=NOW_MS + HOUR_MS + 1)).code == ErrorCode.INVALID_TIMESTAMP


def test_a_keyless_record_is_named_while_another_records_timestamp_decides_the_error() -> None:
    late = NOW_MS + 2 * HOUR_MS
    error = refusal(produced((None, "1"), ("b", "2"), timestamp=late), **COMPACT)
    keyless = refusal(produced((None, "1"), timestamp=late), **COMPACT)

    assert isinstance(error, InvalidRecordError)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [(each.batch_index, each.message == KEYLESS) for each in error.record_errors] == [(0, True), (1, False)]
    assert keyless.code == ErrorCode.INVALID_RECORD


def test_a_max_timestamp_above_the_records_is_corrected() -> None:
    data = build_batch([(0, NOW_MS, b"k", b"v", ())], max_timestamp=NOW_MS + 2 * HOUR_MS)
    valid = validate(data)

    assert valid.batches[0].max_timestamp == NOW_MS
    assert RecordBatch(valid.records).is_crc_valid()


@each_case("codec", CODECS)
def test_a_stamping_topic_gives_every_record_the_brokers_time(codec: int) -> None:
    data = produced(("a", "1"), ("b", "2"), timestamp=[5, NOW_MS + 2 * HOUR_MS], codec=codec)
    valid = validate(data, **STAMPING)
    written = RecordBatch(data)

    assert written.is_crc_valid()
    assert [record.timestamp for record in written.records()] == [NOW_MS, NOW_MS]
    assert (valid.log_append_time_ms, valid.batches[0].max_timestamp) == (NOW_MS, NOW_MS)


def test_producers_must_not_stamp_batches_on_a_stamping_topic() -> None:
    error = refusal(produced(("a", "1"), ("b", "2"), log_append_time=True), **STAMPING)

    assert isinstance(error, InvalidRecordError)
    assert error.code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in error.record_errors] == [0, 1]


def test_on_other_topics_a_producers_stamp_is_removed() -> None:
    valid = validate(produced(("a", "1"), ("b", "2"), timestamp=[5, 6], log_append_time=True))
    written = RecordBatch(valid.records)

    assert not written.is_log_append_time
    assert written.is_crc_valid()
    assert [record.timestamp for record in written.records()] == [5, 6]
    assert refusal(produced(("a", "1"), timestamp=-1, log_append_time=True)).code == ErrorCode.INVALID_TIMESTAMP


# --- recompression ----------------------------------------------------------------------------------------------


@each_case("codec", CODECS)
@each_case("to", CODECS)
def test_a_topic_stores_its_own_codec(codec: int, to: int) -> None:
    data = produced(*[(str(at), "v" * 50) for at in range(20)], codec=codec)
    valid = validate(data, compression_type=CODEC_NAMES[to], next_offset=5)

    assert RecordBatch(valid.records).codec == to
    assert contents(valid.records) == [(5 + at, str(at).encode(), b"v" * 50) for at in range(20)]
    assert (valid.records.obj is data) == (codec == to)


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_the_topics_level_is_used(name: str) -> None:
    data = produced(*[(str(at * at), f"value {at % 7}") for at in range(3_000)])
    levels: list[dict[str, Any]] = [{f"compression_{name}_level": level} for level in (1, 8)]
    sizes = [len(validate(data, compression_type=name, **level).records) for level in levels]

    assert sizes[1] < sizes[0]


def test_markers_stay_uncompressed() -> None:
    data = marker(COMMIT, producer_id=1)
    valid = validate(data, origin=AppendOrigin.COORDINATOR, compression_type="gzip")

    assert RecordBatch(valid.records).codec == 0


def test_a_batch_that_recompression_grows_beyond_max_message_bytes_is_too_large() -> None:
    data = produced(("k", "v" * 5_000), codec=4)

    assert refusal(data, compression_type="uncompressed", max_message_bytes=1_000).code == ErrorCode.MESSAGE_TOO_LARGE


def test_damaged_records_are_found_only_if_inspected(looked_at: str) -> None:
    data = produced(("key", "value"))
    data[61] ^= 0x02
    with_crc(data)

    assert refusal(data, compression_type="gzip").code == ErrorCode.INVALID_RECORD
    if looked_at == EVERY_RECORD:
        assert refusal(data).code == ErrorCode.INVALID_RECORD
    else:
        assert validate(data).batches[0].last_offset == 0


def test_a_wrong_max_timestamp_is_corrected_only_if_records_are_inspected(looked_at: str) -> None:
    for stated in (NOW_MS - 5, NOW_MS + 5):
        valid = validate(build_batch([(0, NOW_MS, b"k", b"v", ())], max_timestamp=stated))

        assert valid.batches[0].max_timestamp == (NOW_MS if looked_at == EVERY_RECORD else stated)
        assert RecordBatch(valid.records).is_crc_valid()


# --- random input -----------------------------------------------------------------------------------------------


@settings(max_examples=size(25, 200), deadline=None)
@given(
    data=st.binary(max_size=150),
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    codec=st.sampled_from(CODECS),
    repair_crc=st.booleans(),
    policy=st.sampled_from(["compact", "delete"]),
)
def test_any_bytes_are_accepted_or_refused(
    data: bytes, changes: Any, codec: int, repair_crc: bool, policy: str
) -> None:
    sent = produced(("key", data), ("k2", None), codec=codec) + data
    for at, byte in changes:
        sent[at % len(sent)] = byte
    if repair_crc:
        with suppress(CorruptRecordError):
            with_crc(sent)
    try:
        valid = validate(sent, cleanup_policy=(policy,))
    except KafkaError:
        return
    assert RecordBatch(valid.records).is_crc_valid()
