"""A Produce that repeats the one before: whatever its bytes are, the fast path reads it as any other, or not at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.protocol.apis import APIS
from ottla.protocol.connection import Request, encode_request, encode_response, parse_request
from ottla.protocol.errors import ProtocolError
from ottla.protocol.last_produce import COMPARED_BYTES, HEAD_BYTES_MAX, SHARED_MAX, LastProduce
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from support.noted import each_case

PRODUCE = APIS[0]
EACH_VERSION = each_case("version", range(3, 14))
TOPIC_IDS_SINCE, OFFSETS_SINCE = 13, 5
TOPIC_ID = bytes(range(16))


def topic_data(*partitions: PartitionProduceData) -> TopicProduceData:
    return TopicProduceData(name="orders", topic_id=TOPIC_ID, partition_data=partitions)


def body_of(records: bytes | None, *, index: int = 3, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=records)
    return ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=(topic_data(data),))


def frame_of(
    version: int, body: ProduceRequest, *, correlation_id: int = 77, client_id: str | None = "client"
) -> memoryview:
    return memoryview(bytearray(encode_request(PRODUCE, version, correlation_id, client_id, body)[4:]))


def read(frame: memoryview) -> Any:
    """Return the content of a request, or None for an invalid one."""
    try:
        return content_of(parse_request(frame))
    except ProtocolError:
        return None


def content_of(request: Request) -> Any:
    """Return the content of a request without its size, which `parse_request` ignores."""
    return dataclasses.replace(request, size_bytes=0)


def last_of(version: int, records: bytes = bytes(range(100))) -> LastProduce:
    frame = frame_of(version, body_of(records))
    last = LastProduce.from_frame(frame, parse_request(frame))
    assert last is not None
    return last


@EACH_VERSION
def test_clients_with_like_requests_share_one_object(version: int) -> None:
    last = last_of(version)
    assert last_of(version, b"other records") is last
    for number in range(SHARED_MAX + 1):
        frame = frame_of(version, body_of(bytes(10), index=number), client_id="another")
        other = LastProduce.from_frame(frame, parse_request(frame))
        assert other is not None
        read = other.parse(frame)
        assert read is not None
        assert content_of(read) == content_of(parse_request(frame))
    assert last_of(version) is not last, "it was forgotten"


@EACH_VERSION
def test_different_records_are_read(version: int) -> None:
    last = last_of(version)
    for size_bytes in (1, 61, 100, 126, 127, 128, 16_382, 16_383, 16_384, 70_000):
        frame = frame_of(version, body_of(bytes(size_bytes)), correlation_id=-size_bytes)

        request = last.parse(frame)

        assert request is not None
        assert content_of(request) == read(frame)
        assert request.size_bytes == len(frame)
        records = request.body.topic_data[0].partition_data[0].records
        records[0] = 0xEE
        assert 0xEE in frame, "records are a view, which the log patches"


def test_each_request_is_independent_of_the_last() -> None:
    last = last_of(9)
    first, second = (last.parse(frame_of(9, body_of(records))) for records in (b"one", b"two"))

    assert first is not None
    assert second is not None
    assert first.body.topic_data[0].partition_data[0].records == b"one"
    assert second.body.topic_data[0].partition_data[0].records == b"two"


@EACH_VERSION
@pytest.mark.parametrize("size_bytes", [20, 130])
def test_changed_bytes_are_read_the_same_or_not_at_all(version: int, size_bytes: int) -> None:
    last, original = last_of(version), frame_of(version, body_of(bytes(size_bytes)))
    read_again = 0
    for frame in damaged(original):
        try:
            request = last.parse(frame)
        except ProtocolError:
            assert read(frame) is None
            continue
        if request is not None:
            read_again += 1
            assert content_of(request) == read(frame)

    assert read_again >= 4 * 3, "the correlation id may differ"


def damaged(original: memoryview) -> Iterator[memoryview]:
    """Yield damaged copies: each byte changed, cut after each byte, a byte inserted anywhere after the header."""
    size_bytes = len(original)
    for at in range(size_bytes):
        for byte in {0, 1, 0x7F, 0x80, 0xFF} - {original[at]}:
            frame = bytearray(original)
            frame[at] = byte
            yield memoryview(frame)
        yield original[:at]
        yield memoryview(bytearray(bytes(original[:at]) + b"\1" + bytes(original[at:])))
    for more in (b"\0", b"\0\0\0", b"\1\0\0"):
        yield memoryview(bytearray(bytes(original) + more))


@EACH_VERSION
def test_another_kind_of_request_is_not_cached(version: int) -> None:
    data = PartitionProduceData(index=0, records=b"x" * 61)
    different_responses = {
        "no topic": ProduceRequest(),
        "no partition": ProduceRequest(topic_data=(topic_data(),)),
        "two partitions": ProduceRequest(topic_data=(topic_data(data, data),)),
        "two topics": ProduceRequest(topic_data=(topic_data(data), topic_data(data))),
        "two topics, one of them empty": ProduceRequest(topic_data=(topic_data(data), topic_data())),
        "no records": body_of(None),
        "empty records": body_of(b""),
    }
    for what, body in different_responses.items():
        frame = frame_of(version, body)
        assert LastProduce.from_frame(frame, parse_request(frame)) is None, what


def test_a_request_with_tagged_fields_or_a_longer_varint_is_not_cached() -> None:
    plain = bytes(frame_of(9, body_of(bytes(100))))
    end = len(plain)
    tagged = [plain[:at] + b"\1\x05\1x" + plain[at + 1 :] for at in (end - 3, end - 2, end - 1)]
    longer = plain[: end - 104] + b"\xe5\0" + plain[end - 103 :]
    # As `longer`, in the count of the last tags, where the records begin with what looks like their length.
    records = bytes([102]) + bytes(99) + b"\0"
    shifted = bytes(frame_of(9, body_of(records)))[:-3] + b"\x80\0\0\0"
    assert read(memoryview(shifted)) is not None
    assert read(memoryview(longer)) is not None

    for frame in [memoryview(bytearray(each)) for each in (*tagged, longer, shifted)]:
        assert LastProduce.from_frame(frame, parse_request(frame)) is None


def test_bytes_after_the_body_do_not_prevent_the_next_fast_read() -> None:
    frame = memoryview(bytearray(bytes(frame_of(7, body_of(bytes(100)))) + b"more"))

    last = LastProduce.from_frame(frame, parse_request(frame))

    assert last is not None
    assert last.parse(frame) is None
    following = frame_of(7, body_of(bytes(90)))
    request = last.parse(following)
    assert request is not None
    assert content_of(request) == read(following)


def answer_of(version: int, *offsets: int, error_code: int = 0, throttle_time_ms: int = 0) -> ProduceResponse:
    base_offset, log_append_time_ms, log_start_offset = offsets
    partition = PartitionProduceResponse(
        index=3,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )
    named = {"topic_id": TOPIC_ID} if version >= TOPIC_IDS_SINCE else {"name": "orders"}
    topic = TopicProduceResponse(partition_responses=(partition,), **named)
    return ProduceResponse(responses=(topic,), throttle_time_ms=throttle_time_ms)


@EACH_VERSION
def test_responses_equal_those_of_any_request(version: int) -> None:
    last = last_of(version)
    for number, offsets in enumerate([(0, -1, 0), (5, 1_700_000_000_000, 2), (2**62, -1, 2**62), (-2, -3, -4)]):
        request = last.parse(frame_of(version, body_of(b"records"), correlation_id=number))
        assert request is not None
        answer = answer_of(version, *offsets)

        parts = last.encode(request, answer)

        if version < OFFSETS_SINCE:
            assert parts is None
        else:
            assert parts is not None
            assert b"".join(parts) == b"".join(encode_response(request, answer))


def test_responses_that_differ_beyond_offsets_are_left_to_the_general_path() -> None:
    last = last_of(9)
    request = last.parse(frame_of(9, body_of(b"records")))
    assert request is not None

    for _ in range(2):  # before and after an answer has been kept
        assert last.encode(request, answer_of(9, -1, -1, -1, error_code=3)) is None
        assert last.encode(request, answer_of(9, 1, -1, 0, throttle_time_ms=5)) is None
        for other in different_responses(answer_of(9, 1, -1, 0)):
            assert last.encode(request, other) is None
        assert last.encode(request, answer_of(9, 1, -1, 0)) is not None


def different_responses(answer: ProduceResponse) -> Iterator[ProduceResponse]:
    """Yield answers to something else, or to nothing."""
    topic = answer.responses[0]
    partition = topic.partition_responses[0]
    yield dataclasses.replace(answer, responses=())
    yield dataclasses.replace(answer, responses=(topic, topic))
    for changes in (
        {"name": "different_responses"},
        {"topic_id": TOPIC_ID},
        {"partition_responses": ()},
        {"partition_responses": (partition, partition)},
        {"partition_responses": (dataclasses.replace(partition, index=4),)},
    ):
        yield dataclasses.replace(answer, responses=(dataclasses.replace(topic, **changes),))


def test_long_names_are_not_cached() -> None:
    for client_id in ("c" * 900, "c" * 2_000):
        frame = frame_of(9, body_of(bytes(100)), client_id=client_id)
        last = LastProduce.from_frame(frame, parse_request(frame))
        assert (last is None) == (len(client_id) > HEAD_BYTES_MAX)


def test_no_part_of_the_frame_is_kept() -> None:
    buffer = bytearray(frame_of(9, body_of(bytes(100))))
    frame = memoryview(buffer)
    request = parse_request(frame)
    last = LastProduce.from_frame(frame, request)
    assert last is not None
    frame.release()
    del frame, request

    buffer.clear()  # BufferError while a view of it exists

    assert last.parse(frame_of(9, body_of(bytes(100)))) is not None


@EACH_VERSION
def test_only_the_begin_of_long_records_is_compared(version: int) -> None:
    """Views of many megabytes take a tenth of a second to compare."""
    frame = frame_of(version, body_of(bytes(3 * COMPARED_BYTES)))
    request = parse_request(frame)
    for different_at, is_taken in ((0, False), (COMPARED_BYTES - 1, False), (COMPARED_BYTES, True)):
        other = bytearray(3 * COMPARED_BYTES)
        other[different_at] = 1
        request.body = body_of(bytes(other))
        assert (LastProduce.from_frame(frame, request) is not None) is is_taken
