"""Keys found and erased by a running broker, over its admin listener."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.storage.erasure.places import KEYS_MAX, KeyReport, Verdict, Why
from support.broker.admin_calls import AdminCalls
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.noted import each_case
from support.transactions.transactional_client import TransactionalClient

NEVER_MS = 10**14
MINUTE_MS = 60_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    """Run a broker that cleans nothing by itself."""
    with ottla.Broker(tmp_path, overrides={"log.cleaner.backoff.ms": NEVER_MS}, admin=0) as running:
        running.create_topic("t", 3, {"cleanup.policy": "compact", "file.delete.delay.ms": MINUTE_MS})
        yield running


def asked(broker: ottla.Broker, call: str, *keys: str, topic: str = "t", **fields: Any) -> tuple[int, Any]:
    return AdminCalls.of(broker).ask("POST", f"/v1/topics/{topic}/{call}", {"keys": list(keys), **fields})


def found(broker: ottla.Broker, *keys: str, **fields: Any) -> KeyReport:
    status, answer = asked(broker, "find-keys", *keys, **fields)
    assert status == 200, answer
    return KeyReport.from_json(answer)


def test_a_key_is_found_in_each_partition(broker: ottla.Broker) -> None:
    for partition in range(3):
        broker.produce("t", "v", key="17", partition=partition)
    report = found(broker, "17", "18")
    assert [(each.partition, each.why, each.values) for each in report.places] == [
        (partition, Why.LIVE, 1) for partition in range(3)
    ]
    assert [(each.key, each.values) for each in report.keys] == [("17", 3), ("18", 0)]
    assert len(report.sources) == 1 and report.unread == ()


def test_an_empty_topic_has_none_of_the_keys(broker: ottla.Broker) -> None:
    assert found(broker, "17").verdict is Verdict.GONE


def test_erased_keys_leave_nothing_and_other_tombstones_stay(broker: ottla.Broker) -> None:
    broker.produce_all("t", [("17", "new"), ("18", "new"), ("17", "paid"), ("17", None), ("18", None), ("19", "new")])
    status, done = asked(broker, "erase-keys", "17")
    assert status == 200 and done["is_forced"]
    assert {each.key for each in broker.records("t")} == {b"18", b"19"}
    assert [record.value for record in broker.records("t") if record.key == b"18"] == [None]
    report = found(broker, "17")
    assert {each.why for each in report.places} == {Why.DELETED_FILE}
    assert all(each.at_the_latest_ms == report.now_ms + MINUTE_MS for each in report.places)
    broker.clock.advance(minutes=1)
    assert found(broker, "17").verdict is Verdict.GONE


def test_a_live_value_is_never_removed(broker: ottla.Broker) -> None:
    broker.produce_all("t", [("17", "new"), ("17", None), ("17", "again")])
    asked(broker, "erase-keys", "17")
    assert [record.value for record in broker.records("t")] == [b"again"]
    assert {each.why for each in found(broker, "17").places} == {Why.DELETED_FILE, Why.LIVE}


def test_an_open_transaction_keeps_values(broker: ottla.Broker) -> None:
    with RawClient(*address(broker)) as client:
        producer = TransactionalClient(client, "x", version=2)
        producer.begin()
        producer.add("t", 0)
        producer.produce("t", ("17", "undecided"))
        broker.produce("t", None, key="17", partition=0)
        asked(broker, "erase-keys", "17", partitions=[0])
        report = found(broker, "17")
        assert {each.why for each in report.places} == {Why.OPEN_TRANSACTION}
        producer.end(commit=False)
        asked(broker, "erase-keys", "17", partitions=[0])
    broker.clock.advance(minutes=1)
    assert found(broker, "17").verdict is Verdict.GONE


REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    ("find-keys", {"keys": []}, 422, "keys: expected 1"),
    ("find-keys", {"keys": ["0"], "encoding": "hex"}, 422, "pairs of hexadecimal digits"),
    ("erase-keys", {"keys": ["="], "encoding": "base64"}, 422, "base64"),
    ("erase-keys", {"keys": ["17"], "partitions": [3]}, 404, "partition 3 of topic t not found"),
]


@each_case("call, fields, status, said", REFUSED)
def test_bad_calls_are_refused(broker: ottla.Broker, call: str, fields: dict[str, Any], status: int, said: str) -> None:
    found_status, answer = AdminCalls.of(broker).ask("POST", f"/v1/topics/t/{call}", fields)
    assert found_status == status and said in answer["error"]


def test_too_many_keys_are_refused(broker: ottla.Broker) -> None:
    status, answer = asked(broker, "find-keys", *["x"] * (KEYS_MAX + 1))
    assert status == 422 and f"1 to {KEYS_MAX} members" in answer["error"]


def test_topics_that_are_not_compacted_are_searched_and_not_cleaned(broker: ottla.Broker) -> None:
    broker.create_topic("plain", 1, {"cleanup.policy": "delete"})
    broker.produce("plain", "v", key="17")
    assert [each.why for each in found(broker, "17", topic="plain").places] == [Why.NOT_COMPACTED]
    status, answer = asked(broker, "erase-keys", "17", topic="plain")
    assert status == 409 and "is not compacted" in answer["error"]


def test_topics_with_versions_are_searched_and_not_erased(broker: ottla.Broker) -> None:
    """A value with a higher version would win against the tombstone."""
    broker.create_topic("versions", 1, {"cleanup.policy": "compact", "ottla.compaction.strategy": "timestamp"})
    broker.produce("versions", "v", key="17")
    assert [each.why for each in found(broker, "17", topic="versions").places] == [Why.VERSIONED]
    status, answer = asked(broker, "erase-keys", "17", topic="versions")
    assert status == 409 and "ottla.compaction.strategy=timestamp" in answer["error"]


def test_keys_of_any_bytes_are_given_in_base64(broker: ottla.Broker) -> None:
    broker.produce("t", "v", key=b"\xff\0")
    (place,) = found(broker, base64.b64encode(b"\xff\0").decode(), encoding="base64").places
    assert (place.key, place.key_encoding) == ("/wA=", "base64")
