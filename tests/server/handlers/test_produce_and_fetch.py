"""A running broker as a producer and a consumer see it, request by request."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import ForgottenTopic
from ottla.protocol.messages.produce import PartitionProduceResponse
from support.broker.conversation import (
    address,
    create_topic,
    fetch,
    fetch_request,
    list_offset,
    produce,
    produce_request,
    records_of,
)
from support.broker.raw_client import RawClient
from support.logs.batches import batch


def test_a_produced_batch_is_fetched_with_its_offsets(client: RawClient) -> None:
    create_topic(client, "t")
    assert produce(client, "t", ("a", "1"), ("b", "2")).base_offset == 0
    assert produce(client, "t", ("a", "3")).base_offset == 2
    data = fetch(client, "t", 0)
    assert records_of(data) == [(0, b"a", b"1"), (1, b"b", b"2"), (2, b"a", b"3")]
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (3, 3, 0)


@pytest.mark.parametrize("version", range(3, 13))
def test_every_produce_version_is_answered(client: RawClient, version: int) -> None:
    create_topic(client, "t")
    answer = client.ask(produce_request("t", batch(("k", "v"))), version)
    assert answer.responses[0].partition_responses[0].base_offset == 0


@pytest.mark.parametrize("version", range(4, 13))
def test_every_fetch_version_by_name_is_answered(client: RawClient, version: int) -> None:
    create_topic(client, "t")
    produce(client, "t", ("k", "v"))
    answer = client.ask(fetch_request("t", 0), version)
    assert records_of(answer.responses[0].partitions[0]) == [(0, b"k", b"v")]


def test_topic_ids_name_topics_in_the_newest_versions(client: RawClient) -> None:
    topic_id = create_topic(client, "t").topic_id
    request = produce_request(topic_id, batch(("k", "v")))
    assert client.ask(request, 13).responses[0].partition_responses[0].base_offset == 0
    answer = client.ask(fetch_request(topic_id, 0), 18)
    assert answer.responses[0].topic_id == topic_id
    assert records_of(answer.responses[0].partitions[0]) == [(0, b"k", b"v")]


def test_an_unknown_topic_id_is_its_own_error(client: RawClient) -> None:
    wanted = fetch_request(bytes(range(16)), 0)
    assert client.ask(wanted, 13).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_acks_zero_gets_no_answer_and_is_written(client: RawClient) -> None:
    create_topic(client, "t")
    client.send_without_answer(produce_request("t", batch(("k", "v")), acks=0), version=9)
    assert produce(client, "t", ("k2", "v2")).base_offset == 1


def test_a_failed_acks_zero_closes_the_connection(client: RawClient) -> None:
    client.send_without_answer(produce_request("missing", batch(("k", "v")), acks=0), version=9)
    assert client.is_closed_by_peer()


def damaged(records: bytearray) -> bytearray:
    records[-1] ^= 1
    return records


@pytest.mark.parametrize(
    ("records", "name"),
    [
        (lambda: damaged(batch(("k", "v"))), "t"),
        (lambda: b"", "t"),
        (lambda: batch(("k", "v")) + batch(("k", "v")), "t"),
        (lambda: batch((None, "v")), "compacted"),
        (lambda: batch(("k", "v")), "missing"),
    ],
)
@pytest.mark.parametrize("by_id", [False, True])
def test_the_log_gives_reason_and_partition_of_a_failed_acks_zero(
    client: RawClient, records: Callable[[], bytes], name: str, by_id: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The log is the only place for the error: such a request has no answer."""
    ids = {"t": create_topic(client, "t").topic_id}
    ids["compacted"] = create_topic(client, "compacted", cleanup_policy="compact").topic_id
    topic = ids.get(name, bytes(range(16))) if by_id else name
    with caplog.at_level(logging.WARNING):
        client.send_without_answer(produce_request(topic, records(), acks=0), version=13 if by_id else 9)
        assert client.is_closed_by_peer()
    told = topic.hex() if isinstance(topic, bytes) else topic
    assert re.search(rf"acks=0 produce to {told}-0 failed with [A-Z_]+: (?!None)\S", caplog.text)


@pytest.mark.parametrize(
    ("records", "topic", "acks", "code", "log_start"),
    [
        (lambda: damaged(batch(("k", "v"))), "t", -1, ErrorCode.CORRUPT_MESSAGE, -1),
        (lambda: b"", "t", -1, ErrorCode.INVALID_RECORD, -1),
        (lambda: None, "t", -1, ErrorCode.INVALID_RECORD, -1),
        (lambda: batch(("k", "v")), "missing", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (lambda: batch(("k", "v")), "t", 2, ErrorCode.INVALID_REQUIRED_ACKS, -1),
        (lambda: batch((None, "v")), "compacted", -1, ErrorCode.INVALID_RECORD, 0),
        (lambda: batch(("k", "v" * 2000)), "small", -1, ErrorCode.MESSAGE_TOO_LARGE, -1),
    ],
)
def test_invalid_records_are_refused_and_the_next_produce_works(
    client: RawClient, records: Callable[[], bytes | None], topic: str, acks: int, code: ErrorCode, log_start: int
) -> None:
    create_topic(client, "t")
    create_topic(client, "compacted", cleanup_policy="compact")
    create_topic(client, "small", max_message_bytes=1000)
    answer = client.ask(produce_request(topic, records(), acks=acks), version=12)
    row = answer.responses[0].partition_responses[0]
    assert (row.error_code, row.base_offset, row.log_start_offset) == (code, -1, log_start)
    assert produce(client, "t", ("k", "v")).error_code == ErrorCode.NONE


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize(
    "records",
    [
        None,
        b"",
        b"nonsense",
        batch(("k", "v"))[:10],
        batch(("k", "v"))[:-1],
        batch(("k", "v")) + batch(("k", "v")),
        batch(("k", "v"))[:16] + b"\1" + batch(("k", "v"))[17:],
        batch(("k", "v"))[:16] + b"\0" + batch(("k", "v"))[17:],
    ],
)
def test_malformed_batches_are_refused_with_kafkas_exact_response(
    client: RawClient, records: bytes | None, acks: int
) -> None:
    create_topic(client, "t")
    for _ in range(3):
        assert client.ask(produce_request("t", batch(("k", "v")), acks=acks), version=9).responses
        row = client.ask(produce_request("t", records, acks=acks), version=9).responses[0].partition_responses[0]
        assert row == PartitionProduceResponse(
            index=0, error_code=ErrorCode.INVALID_RECORD, base_offset=-1, log_start_offset=-1
        )


def test_a_keyless_record_on_a_compacted_topic_is_reported(client: RawClient) -> None:
    create_topic(client, "t", cleanup_policy="compact")
    row = produce(client, "t", ("k", "v"), (None, "v"))
    assert row.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in row.record_errors] == [1]
    assert fetch(client, "t", 0).high_watermark == 0


def test_one_bad_partition_does_not_affect_the_others(client: RawClient) -> None:
    create_topic(client, "t", partitions=2)
    good, bad = produce_request("t", batch(("k", "v"))), produce_request("t", damaged(batch(("k", "v"))), partition=1)
    both = replace(good, topic_data=good.topic_data + bad.topic_data)
    rows = [topic.partition_responses[0] for topic in client.ask(both, version=9).responses]
    assert [row.error_code for row in rows] == [ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE]


def test_a_retried_batch_is_answered_with_its_first_offsets(client: RawClient) -> None:
    create_topic(client, "t")
    first = produce(client, "t", ("a", "1"), ("b", "2"), producer_id=7)
    again = produce(client, "t", ("a", "1"), ("b", "2"), producer_id=7)
    assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, ErrorCode.NONE)
    assert fetch(client, "t", 0).high_watermark == 2


@pytest.mark.parametrize("offset", [-1, 3, 100])
def test_an_offset_outside_the_log_is_out_of_range(client: RawClient, offset: int) -> None:
    create_topic(client, "t")
    produce(client, "t", ("a", "1"), ("b", "2"))
    assert fetch(client, "t", offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetch_at_the_end_waits_and_is_woken_by_a_produce(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t")
    with RawClient(*address(broker)) as producer:
        client.send(fetch_request("t", 0, max_wait_ms=60_000), version=12)
        # Each check is a request, so the broker makes progress between them.
        assert any(list_offset(producer, "t", -1) and broker.run(parked_fetches, broker) for _ in range(1000))
        produce(producer, "t", ("k", "v"))
        # Without a wake-up it would come after a minute; the client waits ten seconds.
        assert records_of(client.receive().responses[0].partitions[0]) == [(0, b"k", b"v")]


async def parked_fetches(broker: ottla.Broker) -> int:
    return len(broker.inner.waits)


def test_a_fetch_waits_for_min_bytes_and_then_gets_all(broker: ottla.Broker, client: RawClient) -> None:
    create_topic(client, "t")
    with RawClient(*address(broker)) as producer:
        client.send(fetch_request("t", 0, max_wait_ms=60_000, min_bytes=150), version=12)
        produce(producer, "t", ("k", "v"))
        produce(producer, "t", ("k", "v"))
        produce(producer, "t", ("k", "v"))
        assert len(records_of(client.receive().responses[0].partitions[0])) >= 3


def test_a_fetch_ends_after_its_maximum_wait(client: RawClient) -> None:
    create_topic(client, "t")
    data = fetch(client, "t", 0, max_wait_ms=20)
    assert (records_of(data), data.error_code, data.high_watermark) == ([], ErrorCode.NONE, 0)


def test_a_batch_larger_than_every_limit_is_returned(client: RawClient) -> None:
    create_topic(client, "t")
    produce(client, "t", ("k", "v" * 5000))
    produce(client, "t", ("k2", "v2"))
    assert [offset for offset, _, _ in records_of(fetch(client, "t", 0, max_bytes=1))] == [0]


@pytest.mark.parametrize(("epoch", "code"), [(5, ErrorCode.UNKNOWN_LEADER_EPOCH), (0, ErrorCode.NONE)])
def test_the_leader_epoch_that_a_client_claims_is_checked(client: RawClient, epoch: int, code: ErrorCode) -> None:
    create_topic(client, "t")
    assert fetch(client, "t", 0, leader_epoch=epoch).error_code == code


def test_a_session_returns_only_changes(client: RawClient) -> None:
    create_topic(client, "a")
    create_topic(client, "b")
    both = fetch_request("a", 0).topics + fetch_request("b", 0).topics
    opened = client.ask(replace(fetch_request("a", 0), topics=both, session_epoch=0), 12)
    assert opened.session_id > 0 and len(opened.responses) == 2
    produce(client, "b", ("k", "v"))
    later = replace(fetch_request("a", 0), topics=(), session_id=opened.session_id)
    news = client.ask(replace(later, session_epoch=1), 12)
    assert [topic.topic for topic in news.responses] == ["b"]
    forget_b = (ForgottenTopic(topic="b", partitions=(0,)),)
    assert client.ask(replace(later, session_epoch=2, forgotten_topics_data=forget_b), 12).responses == ()
    assert client.ask(replace(later, session_epoch=7), 12).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_partitions_of_a_session_rotate_from_the_second_response(client: RawClient) -> None:
    for topic in ("a", "b"):
        create_topic(client, topic)
        produce(client, topic, ("k", "v"))
    both = fetch_request("a", 0).topics + fetch_request("b", 0).topics
    # Each answer has room for one batch, and no position is acknowledged.
    opened = client.ask(replace(fetch_request("a", 0), topics=both, session_epoch=0, max_bytes=1), 12)
    assert [len(topic.partitions[0].records or b"") > 0 for topic in opened.responses] == [True, False]
    later = replace(fetch_request("a", 0), topics=(), session_id=opened.session_id, max_bytes=1)
    first = [
        [topic.topic for topic in client.ask(replace(later, session_epoch=epoch), 12).responses] for epoch in (1, 2, 3)
    ]
    assert first == [["a"], ["b"], ["a"]]


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (-1, (ErrorCode.NONE, 3)),
        (-2, (ErrorCode.NONE, 0)),
        (-3, (ErrorCode.NONE, 1)),
        (-4, (ErrorCode.NONE, 0)),
        (-5, (ErrorCode.NONE, -1)),
        (0, (ErrorCode.NONE, 0)),
        (2000, (ErrorCode.NONE, 1)),
        (9000, (ErrorCode.NONE, 1)),
        (9001, (ErrorCode.NONE, -1)),
        (-7, (ErrorCode.UNSUPPORTED_VERSION, -1)),
    ],
)
def test_offsets_are_found_by_timestamp_and_by_name(
    client: RawClient, timestamp: int, expected: tuple[ErrorCode, int]
) -> None:
    create_topic(client, "t")
    produce(client, "t", ("a", "1"), ("b", "2"), ("c", "3"), timestamp=[1000, 9000, 3000])
    assert list_offset(client, "t", timestamp) == expected


def test_a_request_newer_than_the_version_is_refused(client: RawClient) -> None:
    create_topic(client, "t")
    assert list_offset(client, "t", -3, version=6) == (ErrorCode.UNSUPPORTED_VERSION, -1)
