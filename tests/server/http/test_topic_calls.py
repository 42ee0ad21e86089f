"""Topics over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import ottla
from support.broker.admin_calls import AdminCalls


@pytest.fixture
def admin() -> Iterator[AdminCalls]:
    with ottla.Broker(admin="0") as broker:
        yield AdminCalls.of(broker)


def test_a_topic_is_created_listed_and_deleted(admin: AdminCalls) -> None:
    made = admin.post("/v1/topics", topic="b", partitions=3, configs={"cleanup.policy": "compact"})
    assert (made["name"], made["partitions"], made["configs"]) == ("b", 3, {"cleanup.policy": "compact"})
    admin.post("/v1/topics", topic="a")
    assert [topic["name"] for topic in admin.get("/v1/topics")["topics"]] == ["a", "b"]
    assert admin.get("/v1/topics/b") == made
    assert admin.ask("DELETE", "/v1/topics/b") == (200, {"name": "b", "topic_id": made["topic_id"]})
    assert [topic["name"] for topic in admin.get("/v1/topics?internal=true")["topics"]] == ["a"]


REFUSED = [
    ({"topic": "there"}, 409, "Topic 'there' already exists."),
    ({"topic": "a/b"}, 422, "Topic name is invalid: 'a/b' contains"),
    ({"topic": "t", "partitions": 0}, 422, "partitions: expected an integer from 1 to 10000, found 0"),
    ({"topic": "t", "replicas": 2}, 422, "only 1 broker(s) are registered"),
    ({"topic": "t", "configs": {"cleanup.polcy": "x"}}, 422, "cleanup.polcy"),
    ({"topic": "t", "configs": {"retention.ms": 7}}, 422, "configs.retention.ms: expected a string, found 7"),
    ({"topic": "__cluster_metadata"}, 422, "prohibited"),
    ({"tpoic": "t"}, 422, "unknown field 'tpoic'; did you mean 'topic'?"),
]


@pytest.mark.parametrize(("fields", "status", "sentence"), REFUSED)
def test_an_invalid_topic_is_refused(admin: AdminCalls, fields: dict[str, object], status: int, sentence: str) -> None:
    admin.post("/v1/topics", topic="there")
    found, answer = admin.ask("POST", "/v1/topics", fields)
    assert (found, sentence in answer["error"]) == (status, True), answer
    assert [topic["name"] for topic in admin.get("/v1/topics")["topics"]] == ["there"]


def test_the_nearest_topic_is_suggested(admin: AdminCalls) -> None:
    admin.post("/v1/topics", topic="orders")
    for method in ("GET", "DELETE"):
        assert admin.ask(method, "/v1/topics/order") == (
            404,
            {"error": "topic 'order' not found; did you mean 'orders'?"},
        )


def test_options_are_set_unset_and_shown_with_their_source(admin: AdminCalls) -> None:
    admin.post("/v1/topics", topic="t", configs={"segment.ms": "5"})

    def option(name: str) -> dict[str, object]:
        return next(each for each in admin.get("/v1/topics/t/configs")["configs"] if each["name"] == name)

    assert option("retention.ms") == {
        "name": "retention.ms",
        "value": "604800000",
        "source": "default",
        "default": "604800000",
        "type": "long",
        "bound": "Value must be at least -1",
        "doc": option("retention.ms")["doc"],
    }
    answer = admin.post("/v1/topics/t/configs", configs={"retention.ms": "7", "segment.ms": None})
    assert answer == admin.get("/v1/topics/t/configs")
    assert (option("retention.ms")["value"], option("retention.ms")["source"]) == ("7", "topic")
    assert option("segment.ms")["source"] == "default"
    assert admin.get("/v1/topics/t")["configs"] == {"retention.ms": "7"}


@pytest.mark.parametrize(
    ("topic", "configs", "status", "sentence"),
    [
        ("t", {"retention.ms": "many"}, 422, "Invalid value many for configuration retention.ms"),
        ("t", {"retention.ms": "1", "cleanup.polcy": "compact"}, 422, "did you mean 'cleanup.policy'?"),
        ("t", {"x" * 300: None}, 422, "configs: topic option 'xxx"),
        ("u", {"retention.ms": "1"}, 404, "topic 'u' not found"),
    ],
)
def test_refused_options_change_nothing(
    admin: AdminCalls, topic: str, configs: dict[str, str | None], status: int, sentence: str
) -> None:
    admin.post("/v1/topics", topic="t")
    found, answer = admin.ask("POST", f"/v1/topics/{topic}/configs", {"configs": configs})
    assert (found, sentence in answer["error"]) == (status, True), answer
    assert admin.get("/v1/topics/t")["configs"] == {}
