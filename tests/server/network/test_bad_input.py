"""Connections that do not send Kafka's protocol are closed, and no other client notices."""

from __future__ import annotations

import logging
import random
import struct

import pytest

import ottla
from ottla.protocol.apis import APIS
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest
from support.broker.conversation import address, create_topic, produce, produce_request
from support.broker.raw_client import RawClient
from support.logs.batches import batch


def header(key: int, version: int, correlation_id: int = 5) -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, -1)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


MALFORMED = {
    "a negative size": struct.pack(">i", -1),
    "a size beyond socket.request.max.bytes": struct.pack(">i", 104857601),
    "the largest size": b"\x7f\xff\xff\xff",
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(64),
    "an empty frame": framed(b""),
    "half a header": framed(b"\0\x03\0"),
    "an API key that nobody has": framed(header(999, 0)),
    "a negative API key": framed(header(-1, 0)),
    "an API that is not served": framed(header(4, 0)),
    "a version of the future": framed(header(3, 99)),
    "a version that Kafka gave up": framed(header(1, 0)),
    "a header cut in the client id": framed(struct.pack(">hhih", 3, 1, 5, 50) + b"abc"),
    "a body of random bytes": framed(header(0, 3) + bytes(random.Random(4).randbytes(80))),
    "an array longer than the frame": framed(header(3, 1) + struct.pack(">i", 2**31 - 1)),
    "a long string that is not UTF-8": framed(header(3, 1) + struct.pack(">ih", 1, 1_025) + b"\xff" * 1_025),
}


@pytest.mark.parametrize("nonsense", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_bytes_close_that_connection_only_with_one_line(
    broker: ottla.Broker, client: RawClient, caplog: pytest.LogCaptureFixture, nonsense: bytes
) -> None:
    caplog.set_level(logging.WARNING)
    with RawClient(*address(broker)) as other:
        client.send_bytes(nonsense)
        assert client.is_closed_by_peer()
        create_topic(other, "t")
        assert produce(other, "t", ("k", "v")).error_code == ErrorCode.NONE
    assert len(caplog.records) == 1
    assert "Traceback" not in caplog.text


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(client: RawClient) -> None:
    client.send_bytes(framed(header(18, 99, correlation_id=77)))
    answer = client.receive_frame()
    assert struct.unpack_from(">ih", answer) == (77, ErrorCode.UNSUPPORTED_VERSION)
    assert struct.unpack_from(">ihhh", answer, 6) == (1, 18, 0, 5)
    assert client.ask(MetadataRequest(topics=None)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_client_that_disconnects_inside_a_frame_leaves_nothing(
    broker: ottla.Broker, client: RawClient, cut: int
) -> None:
    with RawClient(*address(broker)) as leaving:
        leaving.send_bytes(framed(header(3, 1) + bytes(40))[:cut])
    assert client.ask(MetadataRequest(topics=None)).error_code == ErrorCode.NONE


def test_pipelined_requests_are_answered_in_order(client: RawClient) -> None:
    create_topic(client, "t")
    for _ in range(50):
        client.send(produce_request("t", batch(("k", "v"))), version=9)
        client.send(MetadataRequest(topics=None))
    offsets = []
    for _ in range(50):
        offsets.append(client.receive().responses[0].partition_responses[0].base_offset)
        assert client.receive().topics
    assert offsets == list(range(50))


def test_bytes_after_a_request_are_ignored(client: RawClient) -> None:
    """librdkafka 2.16 sends three when it asks for all topics."""
    client.send_bytes(framed(header(3, 1) + struct.pack(">i", -1) + b"\0\0\0"))
    assert len(client.receive_frame()) > 20
    assert client.ask(MetadataRequest(topics=None)).error_code == ErrorCode.NONE


def test_every_api_answers_an_empty_body_or_closes_the_connection(
    broker: ottla.Broker,
) -> None:
    for api in APIS.values():
        for version in range(api.versions[0], api.versions[1] + 1):
            with RawClient(*address(broker)) as client:
                client.send_bytes(framed(header(api.key, version) + (b"\0" if api.is_flexible(version) else b"")))
                try:
                    client.receive_frame()
                except ConnectionError:
                    continue
