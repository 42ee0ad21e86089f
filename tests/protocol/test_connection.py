"""Frames in both directions: headers, unknown APIs and versions, bytes too few and too many."""

import importlib
import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ottla.protocol.apis import APIS, Api
from ottla.protocol.codegen import FIXED_AT_ONCE, LONG_ARRAY
from ottla.protocol.connection import (
    CachedResponse,
    Request,
    encode_request,
    encode_response,
    parse_request,
    parse_response,
)
from ottla.protocol.errors import ErrorCode, LargeMessageError, ProtocolError
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.protocol.wire import NO_LIMIT
from support.noted import each_case, noted
from support.sizes import cuts_of
from support.strategies import all_versions, as_of, same, sample, seen_versions

API_VERSIONS, METADATA, PRODUCE, FETCH = APIS[18], APIS[3], APIS[0], APIS[1]
EACH_API = each_case("api", APIS.values())


def versions_of(api: Api) -> list[int]:
    return seen_versions(api, all_versions(api))


def frame_of(api: Api, version: int, body: Any, *, client_id: str | None = "client") -> bytearray:
    """Return a request frame without its size."""
    return bytearray(encode_request(api, version, 77, client_id, body)[4:])


@EACH_API
def test_a_request_and_its_response_arrive(api: Api) -> None:
    for version in versions_of(api):
        with noted(f"version {version}"):
            body, answer = as_of(sample(api.request), version), as_of(sample(api.response), version)

            request = parse_request(memoryview(frame_of(api, version, body)))
            sent = b"".join(encode_response(request, answer))

            assert (api, version, 77, "client") == (
                request.api,
                request.version,
                request.correlation_id,
                request.client_id,
            )
            assert same(body, request.body)
            assert len(sent) == 4 + int.from_bytes(sent[:4], "big")
            correlation_id, received = parse_response(api, version, sent[4:])
            assert correlation_id == 77
            assert same(answer, received)


@EACH_API
def test_reading_and_writing_stop_at_their_limits(api: Api) -> None:
    for version in versions_of(api):
        with noted(f"version {version}"):
            body, answer = as_of(sample(api.request), version), as_of(sample(api.response), version)
            frame = memoryview(frame_of(api, version, body))

            elements = parse_request(frame).elements
            request = parse_request(frame, elements)
            assert same(body, request.body)
            if elements:
                with pytest.raises(LargeMessageError, match=f"more than {elements - 1} elements"):
                    parse_request(frame, elements - 1)

            written = encode_response(request, answer)
            most = next(most for most in range(300) if _is_written(request, answer, most))
            assert encode_response(request, answer, most, 1 << 20) == written
            if most:
                with pytest.raises(LargeMessageError):
                    encode_response(request, answer, NO_LIMIT, 0)


def _is_written(request: Request, answer: Any, most_elements: int) -> bool:
    try:
        encode_response(request, answer, most_elements)
    except LargeMessageError:
        return False
    return True


@EACH_API
def test_frames_cut_anywhere_are_refused(api: Api) -> None:
    for version in versions_of(api):
        with noted(f"version {version}"):
            frame = frame_of(api, version, as_of(sample(api.request), version))
            for end in cuts_of(frame):
                with pytest.raises(ProtocolError):
                    parse_request(memoryview(frame)[:end])

            answer = b"".join(
                encode_response(Request(api, version, 77, None, ()), as_of(sample(api.response), version))
            )[4:]
            for end in cuts_of(answer):
                with pytest.raises(ProtocolError):
                    parse_response(api, version, answer[:end])
            with pytest.raises(ProtocolError, match="1 unexpected bytes after the response"):
                parse_response(api, version, answer + b"\0")


@EACH_API
def test_bytes_after_a_request_are_ignored_as_in_kafka(api: Api) -> None:
    """librdkafka 2.16 sends three zero bytes too many when it asks for the metadata of all topics."""
    for version in versions_of(api):
        with noted(f"version {version}"):
            body = as_of(sample(api.request), version)
            assert same(body, parse_request(memoryview(frame_of(api, version, body) + b"\0\0\0")).body)


def test_damaged_frames_are_parsed_or_refused_but_nothing_else() -> None:
    """Any bytes give a request or ProtocolError."""
    dice = random.Random(20)
    for api in APIS.values():
        for version in versions_of(api):
            frame = frame_of(api, version, as_of(sample(api.request), version))
            for _ in range(20):
                mangled = bytearray(frame)
                for _ in range(dice.randrange(1, 4)):
                    mangled[dice.randrange(len(mangled))] = dice.randrange(256)
                try:
                    assert isinstance(parse_request(memoryview(mangled)), Request)
                except ProtocolError as refused:
                    assert str(refused)


@each_case(
    "frame, why",
    [
        (b"", "a request of 0 bytes has no header"),
        (b"\0\x12\0\0\0\0\0", "a request of 7 bytes has no header"),
        (bytes.fromhex("03e7 0000 00000001 ffff"), "unknown API key 999"),
        (bytes.fromhex("ffff 0000 00000001 ffff"), "unknown API key -1"),
        (bytes.fromhex("0000 0002 00000001 ffff"), r"Produce version 2 is not supported, only 3 to 13"),
        (bytes.fromhex("0003 000e 00000001 ffff"), "Metadata version 14 is not supported"),
        (bytes.fromhex("0003 ffff 00000001 ffff"), "Metadata version -1 is not supported"),
        (bytes.fromhex("0003 0000 00000001 0005 6162"), "truncated client ID"),
        (bytes.fromhex("0003 0000 00000001 0401") + b"\xff" * 0x401, "client ID: 'utf-8'"),
        (bytes.fromhex("0003 0009 00000001 ffff"), "header: truncated tagged fields"),
        (bytes.fromhex("0003 0009 00000001 ffff 01 00 05 00"), "header: truncated tagged fields"),
        (bytes.fromhex("0003 0009 00000001 ffff 01 00"), "header: truncated tagged fields"),
        (bytes.fromhex("0003 0009 00000001 ffff ffffffff0f"), "header: too many tagged fields .4294967295"),
        (
            bytes.fromhex("0003 0009 00000001 ffff 8102" + "0000" * 257),
            "header: too many tagged fields .257, limit 256",
        ),
        (bytes.fromhex("0012 0005 00000001 0005 61"), "truncated client ID"),
    ],
)
def test_invalid_frames_are_refused(frame: bytes, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        parse_request(memoryview(frame))


def test_tagged_fields_of_the_header_are_skipped() -> None:
    frame = bytes.fromhex("0003 0009 00000001 ffff 02 00 01 ff 8101 02 0000  00 01 00 00 00")
    assert parse_request(memoryview(frame)).body == MetadataRequest(topics=None, allow_auto_topic_creation=True)


@pytest.mark.parametrize("version", [6, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_with_the_supported_ones(version: int) -> None:
    """KIP-511: the client's first request may be newer than the broker. Its body cannot be read, but is answered in
    version 0 with the versions of this one API.
    """
    frame = version.to_bytes(2, "big", signed=True)
    request = parse_request(memoryview(b"\0\x12" + frame + bytes.fromhex("00000007 0001 63 deadbeef")))

    sent = b"".join(encode_response(request, None))

    assert (version, 7, "c", None) == (request.version, request.correlation_id, request.client_id, request.body)
    assert sent == bytes.fromhex("00000010 00000007 0023 00000001 0012 0000 0005")
    mine = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert b"".join(encode_response(request, mine)) == bytes.fromhex("0000000a 00000007 0023 00000000")


def test_responses_of_api_versions_keep_the_oldest_header() -> None:
    request = parse_request(memoryview(frame_of(API_VERSIONS, 3, ApiVersionsRequest(client_software_name="x"))))
    assert b"".join(encode_response(request, ApiVersionsResponse())) == bytes.fromhex(
        "0000000c 0000004d 0000 01 00000000 00"
    )


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_a_cached_response_is_written_once_per_version(version: int) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class KeptAnswer(ApiVersionsResponse, CachedResponse):
        written: dict[int, bytes] = field(init=False, compare=False, default_factory=dict)

    row = ApiVersion(api_key=18, max_version=4)
    plain, kept = ApiVersionsResponse(api_keys=(row,)), KeptAnswer(api_keys=(row,))
    for correlation_id in (1, 2):
        request = Request(API_VERSIONS, version, correlation_id, None, ApiVersionsRequest())
        assert b"".join(encode_response(request, kept)) == b"".join(encode_response(request, plain))
    assert list(kept.written) == [version]
    throttled, told = (b"".join(encode_response(request, replace(of, throttle_time_ms=5))) for of in (kept, plain))
    assert throttled == told


def test_a_request_without_client_id_is_parsed() -> None:
    frame = frame_of(METADATA, 12, MetadataRequest(), client_id=None)
    assert parse_request(memoryview(frame)).client_id is None


def test_records_of_a_request_are_views_into_the_frame() -> None:
    partition = PartitionProduceData(index=0, records=b"batch")
    frame = frame_of(PRODUCE, 9, ProduceRequest(topic_data=(TopicProduceData(partition_data=(partition,)),)))

    records = parse_request(memoryview(frame)).body.topic_data[0].partition_data[0].records
    records[0] = ord("B")

    assert b"Batch" in frame


def test_records_of_a_response_stay_separate_parts() -> None:
    first, second = b"first batch", memoryview(b"second")
    partitions = tuple(PartitionData(partition_index=n, records=r) for n, r in enumerate((first, b"", second)))
    response = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=partitions),))
    request = Request(FETCH, 4, 1, None, ())

    parts = encode_response(request, response)

    assert parts[1] is first and parts[3] is second and len(parts) == 4
    assert sum(map(len, parts)) == 4 + int.from_bytes(parts[0][:4], "big")
    _, received = parse_response(FETCH, 4, b"".join(parts)[4:])
    assert same(response, received)


@pytest.mark.parametrize("flexible", [False, True])
@pytest.mark.parametrize("client_id", [None, "", "ä"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_headers_equal_those_of_kafka_python(flexible: bool, client_id: str | None) -> None:
    headers = importlib.import_module("kafka.protocol.api_header")
    version = 9 if flexible else 8
    frame = frame_of(METADATA, version, MetadataRequest(), client_id=client_id)

    theirs = headers.RequestHeader(
        request_api_key=3, request_api_version=version, correlation_id=77, client_id=client_id
    ).encode(flexible=flexible)
    answer = headers.ResponseHeader(correlation_id=77).encode(flexible=flexible)

    assert bytes(frame[: len(theirs)]) == bytes(theirs)
    request = Request(METADATA, version, 77, None, ())
    sent = b"".join(encode_response(request, as_of(sample(METADATA.response), version)))
    assert sent[4:].startswith(bytes(answer))
    correlation_id, _ = parse_response(METADATA, version, sent[4:])
    assert correlation_id == 77


def test_a_response_too_short_for_its_header_is_refused() -> None:
    for frame in (b"", b"\0\0\0"):
        with pytest.raises(ProtocolError, match="has no header"):
            parse_response(METADATA, 12, frame)


def markers_request(markers: int, partitions: int) -> WriteTxnMarkersRequest:
    topics = (WritableTxnMarkerTopic(name="t", partition_indexes=tuple(range(partitions))),)
    marker = WritableTxnMarker(producer_id=1, producer_epoch=2, transaction_result=True, topics=topics)
    return WriteTxnMarkersRequest(markers=(marker,) * markers)


@pytest.mark.parametrize(
    "markers, partitions",
    [(1, count) for count in (FIXED_AT_ONCE, FIXED_AT_ONCE + 1, 3 * FIXED_AT_ONCE - 1, LONG_ARRAY - 1, LONG_ARRAY)]
    + [(LONG_ARRAY - 1, 0), (LONG_ARRAY, 0)],
)
def test_long_arrays_are_lists_and_otherwise_as_short_ones(markers: int, partitions: int) -> None:
    body = markers_request(markers, partitions)
    frame = encode_request(APIS[27], 1, 1, "c", body)

    read = parse_request(memoryview(frame)[4:]).body

    indexes = read.markers[0].topics[0].partition_indexes
    for array in (read.markers, indexes):
        assert isinstance(array, list if len(array) >= LONG_ARRAY else tuple)
    assert tuple(indexes) == tuple(range(partitions))
    assert encode_request(APIS[27], 1, 1, "c", read) == frame
