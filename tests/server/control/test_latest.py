"""The newest record of each key over HTTP: equal to the table of the client, one page after the other."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from heapq import nsmallest
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import ottla
from ottla.server.control import latest
from support.broker.admin_calls import AdminCalls
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.noted import each_case
from support.sizes import size
from support.transactions.transactional_client import TransactionalClient


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(tmp_path, overrides={"log.cleaner.backoff.ms": 10**14}, admin=0) as running:
        running.create_topic("t", 2, {"cleanup.policy": "compact", "delete.retention.ms": 0})
        yield running


def asked(broker: ottla.Broker, **fields: Any) -> tuple[int, Any]:
    return AdminCalls.of(broker).ask("GET", f"/v1/topics/t/latest?{urlencode(fields)}")


def newest(broker: ottla.Broker, partition: int, **fields: Any) -> dict[str, tuple[int, str]]:
    """Return offset and value by key, from all pages."""
    found: dict[str, tuple[int, str]] = {}
    offset = 0
    while True:
        status, answer = asked(broker, partition=partition, offset=offset, **fields)
        assert status == 200, answer
        for each in answer["records"]:
            assert each["key"] not in found
            found[each["key"]] = each["offset"], each["value"]
        offset = answer["next_offset"]
        if offset == answer["log_end_offset"]:
            return found


STRATEGIES: dict[str, dict[str, str | int]] = {
    "offset": {},
    "timestamp": {"ottla.compaction.strategy": "timestamp", "delete.retention.ms": 86_400_000},
}
"""Options; a table keeps the versions of tombstones that a pass has removed, so here none is."""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_histories_match_the_table(broker: ottla.Broker, strategy: str) -> None:
    rng = random.Random(7)
    broker.set_configs("topic", "t", STRATEGIES[strategy])
    with RawClient(*address(broker)) as client, broker.table("t") as table:
        producer = TransactionalClient(client, "x", version=2)
        for _ in range(size(16, 200)):
            action = rng.choice(["put", "put", "transaction", "compact"])
            pairs = [(rng.choice("abcde"), None if rng.random() < 0.3 else str(rng.random())) for _ in range(3)]
            if action == "put":
                records = [
                    ottla.NewRecord(value, key, partition=rng.randrange(2), timestamp_ms=rng.randrange(10))
                    for key, value in pairs
                ]
                broker.produce_all("t", records)
            elif action == "compact":
                broker.compact("t", force=True)
            else:
                producer.begin()
                partition = rng.randrange(2)
                producer.add("t", partition)
                producer.produce("t", *pairs, partition=partition)
                if rng.random() < 0.3:
                    continue  # the next begin aborts it
                producer.end(commit=rng.random() < 0.6)
            expected: list[dict[str, tuple[int, str]]] = [{}, {}]
            for each in table.records():
                assert each.key is not None and each.value is not None
                expected[each.partition][each.key.decode()] = each.offset, each.value.decode()
            assert [newest(broker, each, count=rng.choice([1, 2, 100])) for each in range(2)] == expected


def test_one_key_is_found_in_its_partition(broker: ottla.Broker) -> None:
    broker.produce_all("t", [(f"k{number}", f"v{number}") for number in range(20)])
    status, answer = asked(broker, key="k7")
    assert status == 200 and [each["value"] for each in answer["records"]] == ["v7"]
    status, answer = asked(broker, key="6b37", encoding="hex")
    assert [each["value"] for each in answer["records"]] == ["v7"]
    assert asked(broker, key="absent")[1]["records"] == []
    found = newest(broker, 0, key_prefix="k1") | newest(broker, 1, key_prefix="k1")
    assert sorted(found) == sorted(["k1", *(f"k1{number}" for number in range(10))])


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"partition": 2}, 404, "partition 2 of topic t not found"),
    ({"count": 0}, 422, "count"),
    ({"key": "0", "encoding": "hex"}, 422, "pairs of hexadecimal digits"),
]


@each_case("fields, status, said", REFUSED)
def test_bad_calls_are_refused(broker: ottla.Broker, fields: dict[str, Any], status: int, said: str) -> None:
    found, answer = asked(broker, **fields)
    assert found == status and said in answer["error"]


def test_too_many_keys_are_refused(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.produce_all("t", [ottla.NewRecord("v", f"k{number}", partition=0) for number in range(4)])
    monkeypatch.setattr(latest, "KEYS_MAX", 3)
    status, answer = asked(broker)
    assert status == 422 and "too many live keys (limit 3)" in answer["error"]
    assert len(asked(broker, key_prefix="k1")[1]["records"]) == 1


def test_the_highest_version_counts_and_deleted_keys_are_bounded_as_well(
    broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.set_configs("topic", "t", {"ottla.compaction.strategy": "timestamp"})
    for key, value, at_ms in (("k", "high", 2), ("k", "low", 1), ("l", None, 2), ("l", "low", 1)):
        broker.produce("t", value, key=key, partition=0, timestamp_ms=at_ms)
    assert newest(broker, 0) == {"k": (0, "high")}
    monkeypatch.setattr(latest, "KEYS_MAX", 1)
    status, answer = asked(broker)
    assert status == 422 and "too many keys (limit 1)" in answer["error"]
    assert newest(broker, 0, key_prefix="k") == {"k": (0, "high")}
    monkeypatch.setattr(latest, "KEY_BYTES_MAX", 0)
    status, answer = asked(broker, key_prefix="k")
    assert status == 422 and "keys too large (limit 0 bytes together)" in answer["error"]


def test_keys_that_are_too_large_are_refused_and_deleted_ones_do_not_count(
    broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "KEY_BYTES_MAX", 1_000)
    for number in range(50):
        pairs = [("v", f"{number:0500}"), (None, f"{number:0500}")]
        broker.produce_all("t", [ottla.NewRecord(value, key, partition=0) for value, key in pairs])
    broker.produce("t", "v", key="k", partition=0)
    assert [each["key"] for each in asked(broker)[1]["records"]] == ["k"]
    for number in range(5):
        broker.produce("t", "v", key=f"{number:0500}", partition=0)
    status, answer = asked(broker)
    assert status == 422 and "live keys too large (limit 1000 bytes together)" in answer["error"]
    assert len(asked(broker, key_prefix="k")[1]["records"]) == 1


def test_the_keys_are_sorted_in_a_thread(broker: ottla.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million of them take half a second."""
    seen: list[threading.Thread] = []

    def noting(*arguments: Any) -> list[int]:
        seen.append(threading.current_thread())
        return nsmallest(*arguments)

    monkeypatch.setattr(latest, "nsmallest", noting)
    broker.produce("t", "v", key="k", partition=0)
    assert len(asked(broker)[1]["records"]) == 1
    assert [each.name.startswith("Trio thread") for each in seen] == [True]
