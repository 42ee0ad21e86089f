"""Compaction and the clock over HTTP: the same as in Python, and each answer conforms to the document."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from support.broker.admin_calls import AdminCalls

DAY_MS = 86_400_000


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    """Run a broker with twenty records of two keys in a compacted topic's active segment, and a clock that stands still."""
    with ottla.Broker(admin="0", overrides={"log.cleaner.backoff.ms": "15000"}) as running:
        running.create_topic("t", configs={"cleanup.policy": "compact"})
        for number in range(20):
            running.produce("t", str(number), key=f"k{number % 2}")
        running.clock.freeze()
        yield running


def test_a_topic_is_compacted_as_by_kafka_and_by_force(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    (row,) = admin.post("/v1/topics/t/compact")["partitions"]
    assert (row["passes"], row["waits_for"]) == (0, "active_segment")
    (row,) = admin.post("/v1/topics/t/compact", force=True, partitions=[0])["partitions"]
    assert (row["passes"], row["records_removed"]["superseded"], row["first_dirty_offset"]) == (1, 18, 20)
    assert len(broker.records("t")) == 2


def test_roll_wait_and_retention_work_together(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    status, answer = admin.ask("GET", "/v1/topics/t/compacted?timeout_ms=10")
    assert status == 504
    assert answer["error"].startswith("t-0 is clean up to offset 0, not 20, after 0.01 s: ")
    (row,) = admin.post("/v1/topics/t/roll")["partitions"]
    assert (row["has_rolled"], row["active_segment"]) == (True, 20)
    admin.post("/v1/clock/advance", by_ms=15_000)
    (row,) = admin.get("/v1/topics/t/compacted")["partitions"]
    assert row["first_dirty_offset"] == 20
    rows = admin.post("/v1/retention")["partitions"]
    assert [(each["topic"], each["segments_deleted"]) for each in rows] == [("t", 0)]


def test_the_clock_is_read_moved_and_set(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    before = admin.get("/v1/clock")
    assert before == {"now_ms": broker.clock.now_ms(), "is_frozen": True}
    moved = admin.post("/v1/clock/advance", by_ms=8 * DAY_MS)
    assert moved["now_ms"] == before["now_ms"] + 8 * DAY_MS
    assert moved["rolled"] == [{"topic": "t", "partition": 0}]
    assert moved["is_settled"]
    answer = admin.ask("PUT", "/v1/clock", {"now_ms": before["now_ms"]})[1]
    assert (answer["now_ms"], answer["rolled"]) == (before["now_ms"], [])
    assert admin.post("/v1/clock/unfreeze")["is_frozen"] is False
    assert admin.post("/v1/clock/freeze")["is_frozen"] is True


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/v1/topics/tt/compact", {}, 404, "topic 'tt' not found; did you mean 't'?"),
        (
            "POST",
            "/v1/topics/t/compact",
            {"partitions": [1]},
            404,
            "partition 1 of topic t not found; it has only partition 0",
        ),
        ("POST", "/v1/topics/t/compact", {"forced": True}, 422, "forced"),
        ("POST", "/v1/topics/t/roll", {"partitions": []}, 422, "partitions"),
        ("POST", "/v1/retention", {"topic": "tt"}, 404, "topic 'tt' not found"),
        ("POST", "/v1/clock/advance", {"by_ms": -1}, 422, "by_ms"),
        ("PUT", "/v1/clock", {"now_ms": 10**15}, 422, "now_ms"),
    ],
)
def test_wrong_calls_are_refused(
    broker: ottla.Broker, method: str, path: str, body: object, status: int, says: str
) -> None:
    found, answer = AdminCalls.of(broker).ask(method, path, body)
    assert (found, says in answer["error"]) == (status, True), answer
