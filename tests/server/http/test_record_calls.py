"""Records over HTTP: read as they are stored, appended as a producer appends them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer

import ottla
from support.broker.admin_calls import AdminCalls


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(admin="0", nodes=2) as broker:
        yield broker


@pytest.fixture
def admin(broker: ottla.Broker) -> Iterator[AdminCalls]:
    broker.create_topic("t", partitions=2, configs={"cleanup.policy": "compact"})
    yield AdminCalls.of(broker)
    broker.delete_topic("t")


def test_appended_records_are_readable_and_in_the_clients_partition(broker: ottla.Broker, admin: AdminCalls) -> None:
    done = admin.post("/v1/topics/t/records", key="k", value="v", headers={"h": "é"}, timestamp_ms=1_700_000_000_000)
    assert (done["offset"], done["timestamp_ms"]) == (0, 1_700_000_000_000)
    expected = broker.produce("t", "by a client", key="k")
    assert expected.partition == done["partition"]
    found = admin.get(f"/v1/topics/t/records?partition={done['partition']}")
    assert [(each["offset"], each["key"], each["value"]) for each in found["records"]] == [
        (0, "k", "v"),
        (1, "k", "by a client"),
    ]
    assert found["records"][0]["headers"] == [{"name": "h", "value": "é", "encoding": "text"}]
    assert (found["next_offset"], found["log_start_offset"], found["log_end_offset"]) == (2, 0, 2)
    (read,) = [each for each in broker.records("t") if each.offset == 0]
    assert (read.key, read.value, read.headers) == (b"k", b"v", (("h", "é".encode()),))


def test_binary_values_are_exchanged_as_base64_or_hex(broker: ottla.Broker, admin: AdminCalls) -> None:
    key, value = b"\xff\x00", b"\x80"
    admin.post(
        "/v1/topics/t/records",
        key=key.hex(),
        key_encoding="hex",
        value=base64.b64encode(value).decode(),
        value_encoding="base64",
        partition=1,
    )
    (read,) = broker.records("t", 1)
    assert (read.key, read.value) == (key, value)
    (record,) = admin.get("/v1/topics/t/records?partition=1")["records"]
    assert (record["key"], record["key_encoding"]) == (base64.b64encode(key).decode(), "base64")
    assert (record["value"], record["value_encoding"]) == (base64.b64encode(value).decode(), "base64")


def test_tombstones_markers_and_pages_are_returned(broker: ottla.Broker, admin: AdminCalls) -> None:
    admin.post("/v1/topics/t/records", key="k", partition=0)
    with KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="records") as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.send("t", b"x" * 100, key=b"k", partition=0).get()
            end()
    found = admin.get("/v1/topics/t/records?partition=0")["records"]
    assert [(each["value"], each["marker"], each["is_transactional"]) for each in found] == [
        (None, None, False),
        ("x" * 100, None, True),
        (found[2]["value"], "COMMIT", True),
        ("x" * 100, None, True),
        (found[4]["value"], "ABORT", True),
    ]
    at, seen = 0, []
    while at < 5:
        page = admin.get(f"/v1/topics/t/records?partition=0&count=2&offset={at}")
        seen += [each["offset"] for each in page["records"]]
        at = page["next_offset"]
    assert seen == [0, 1, 2, 3, 4]
    newest = admin.get("/v1/topics/t/records?partition=0&count=2")
    assert [each["offset"] for each in newest["records"]] == [3, 4]
    beyond = admin.get("/v1/topics/t/records?partition=0&offset=9")
    assert (beyond["records"], beyond["next_offset"]) == ([], 9)


def test_a_response_is_bounded_by_the_bytes_of_its_batches(broker: ottla.Broker, admin: AdminCalls) -> None:
    for _ in range(4):
        broker.produce("t", "x" * 500_000, key="k", partition=0)
    found = admin.get("/v1/topics/t/records?partition=0&offset=0")
    assert 1 <= len(found["records"]) < 4 and found["next_offset"] == len(found["records"])


def test_a_gap_is_skipped(broker: ottla.Broker, admin: AdminCalls) -> None:
    for number in range(6):
        broker.produce("t", str(number), key="k", partition=0)
    broker.compact("t", force=True)
    found = admin.get("/v1/topics/t/records?partition=0&offset=0")
    assert [each["offset"] for each in found["records"]] == [5]
    assert found["next_offset"] == 6


REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/v1/topics/t/records?count=0", None, 422, "count: expected an integer from 1 to 500"),
    ("GET", "/v1/topics/t/records?count=501", None, 422, "count: expected"),
    ("GET", "/v1/topics/t/records?offset=-1", None, 422, "offset: expected"),
    ("GET", "/v1/topics/t/records?partition=2", None, 404, "partition"),
    ("GET", "/v1/topics/u/records", None, 404, "topic 'u' not found"),
    ("POST", "/v1/topics/u/records", {"key": "k"}, 404, "topic 'u' not found"),
    ("POST", "/v1/topics/t/records", {"value": "v"}, 422, "key"),
    ("POST", "/v1/topics/t/records", {"key": "k", "partition": 2}, 404, "partition"),
    (
        "POST",
        "/v1/topics/t/records",
        {"key": "xyz", "key_encoding": "hex"},
        422,
        "key: expected pairs of hexadecimal digits, found 'xyz'",
    ),
    (
        "POST",
        "/v1/topics/t/records",
        {"key": "k", "value": "?", "value_encoding": "base64"},
        422,
        "value: expected base64",
    ),
    ("POST", "/v1/topics/t/records", {"key": "k", "value": "v" * 2_000_000}, 422, "max.message.bytes"),
    ("POST", "/v1/topics/t/records", {"key": "k", "value": "\ud800"}, 422, "value: expected a string of valid Unicode"),
]


@pytest.mark.parametrize(("method", "target", "fields", "status", "sentence"), REFUSED)
def test_invalid_requests_are_refused_and_nothing_is_written(
    broker: ottla.Broker, admin: AdminCalls, method: str, target: str, fields: Any, status: int, sentence: str
) -> None:
    found, answer = admin.ask(method, target, fields)
    assert (found, sentence in answer["error"]) == (status, True), answer
    assert broker.records("t") == []


def test_internal_topics_are_readable_but_not_writable(broker: ottla.Broker, admin: AdminCalls) -> None:
    broker.commit("g", {("t", 0): 0})
    status, answer = admin.ask("POST", "/v1/topics/__consumer_offsets/records", {"key": "k", "value": "v"})
    assert (status, answer["error"]) == (422, "__consumer_offsets is an internal topic; only the broker writes to it")
    assert admin.ask("GET", "/v1/topics/__consumer_offsets/records")[0] == 200


def test_a_partition_without_a_leader_refuses_records(broker: ottla.Broker, admin: AdminCalls) -> None:
    broker.stop_node(0)
    broker.stop_node(1)
    try:
        assert admin.ask("POST", "/v1/topics/t/records", {"key": "k", "value": "v"})[0] == 503
    finally:
        broker.start_node(0)
        broker.start_node(1)


def test_a_response_is_bounded_by_the_unpacked_size_of_its_batches(broker: ottla.Broker, admin: AdminCalls) -> None:
    with KafkaProducer(
        bootstrap_servers=broker.bootstrap, compression_type="gzip", max_request_size=10 << 20
    ) as producer:
        for _ in range(6):
            producer.send("t", b"x" * 900_000, key=b"k", partition=0).get()
    seen, at = 0, 0
    while at < 6:
        page = admin.get(f"/v1/topics/t/records?partition=0&offset={at}")
        assert 1 <= len(page["records"]) <= 2
        seen, at = seen + len(page["records"]), page["next_offset"]
    assert seen == 6


def test_a_long_key_is_in_the_clients_partition(broker: ottla.Broker, admin: AdminCalls) -> None:
    key = "k" * 500_001
    done = admin.post("/v1/topics/t/records", key=key, value="v")
    with KafkaProducer(bootstrap_servers=broker.bootstrap, max_request_size=10 << 20) as producer:
        assert producer.send("t", b"v", key=key.encode()).get().partition == done["partition"]
