"""Quotas in Python, HTTP, the shell and seeds: set, listed, removed; which clients wait, and why."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.server.runtime.errors import ControlError
from ottla.storage.topics.config import ConfigError
from support.broker.conversation import address, produce_request
from support.broker.raw_client import RawClient
from support.commands.command_runs import run_command
from support.logs.batches import batch

APP = {"client-id=app": {"producer_byte_rate": 1000.0}}


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ottla.Broker]:
    with ottla.Broker(tmp_path / "data", admin=0, quotas=APP) as broker:
        monkeypatch.setenv("OTTLA_ADMIN", str(broker.admin))
        yield broker


def test_a_broker_starts_with_its_quotas_and_can_change_them(broker: ottla.Broker) -> None:
    assert broker.quotas() == APP
    broker.set_quotas("user=<default>,client-id=app", consumer_byte_rate=5, request_percentage=0.5)
    broker.set_quotas("ip=127.0.0.1", connection_creation_rate=1000)
    broker.set_quotas("client-id=app", producer_byte_rate=None, consumer_byte_rate=7)
    assert broker.quotas() == {
        "client-id=app": {"consumer_byte_rate": 7},
        "ip=127.0.0.1": {"connection_creation_rate": 1000},
        "user=<default>,client-id=app": {"consumer_byte_rate": 5, "request_percentage": 0.5},
    }
    broker.remove_quotas("user=<default>,client-id=app", "request_percentage")
    broker.remove_quotas("ip=127.0.0.1")
    assert list(broker.quotas()) == ["client-id=app", "user=<default>,client-id=app"]
    broker.reset()
    assert broker.quotas() == APP


def test_throttled_clients_are_listed_with_the_reason(broker: ottla.Broker) -> None:
    broker.create_topic("t")
    broker.clock.freeze()
    with RawClient(*address(broker), client_id="app") as client:
        answer = client.ask(produce_request("t", batch(("k", b"v" * 20_000))), 12)
    (throttled,) = broker.throttled()
    assert throttled.left_ms == answer.throttle_time_ms > 0
    assert throttled.sentence.startswith(f"client-id app at node 0 is throttled for {throttled.left_ms} ms: 2,0")
    assert throttled.sentence.endswith("producer_byte_rate of client-id=app is 1000")
    metrics = {name: value for name, value in broker.metrics().items() if "type=Produce" in name}
    assert metrics["kafka.server:type=Produce,name=throttle-time,user=,client-id=app,node=0#Max"] == throttled.left_ms
    assert metrics["kafka.server:type=Produce,name=byte-rate,user=,client-id=app,node=0"] == throttled.measured
    broker.clock.advance(milliseconds=throttled.left_ms)
    assert broker.throttled() == ()


@pytest.mark.parametrize(
    ("entity", "quotas", "words"),
    [
        ("alice", {"producer_byte_rate": 1}, ["'alice'", "user=NAME"]),
        ("user=alice", {"producer_byte_rat": 1}, ["producer_byte_rat", "did you mean 'producer_byte_rate'?"]),
        ("user=alice", {"connection_creation_rate": 1}, ["connection_creation_rate", "quotas: producer_byte_rate"]),
        ("user=alice", {"producer_byte_rate": 0}, ["user=alice", "must be greater than 0"]),
        ("user=alice", {"producer_byte_rate": "many"}, ["expected a number", "'many'"]),
        ("ip=no.such.host.invalid", {"connection_creation_rate": 1}, ["no.such.host.invalid is not a valid IP"]),
    ],
)
def test_an_invalid_quota_is_refused_in_one_line(
    broker: ottla.Broker, entity: str, quotas: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(ControlError) as refusal:
        broker.set_quotas(entity, **quotas)
    assert all(word in str(refusal.value) for word in words) and "\n" not in str(refusal.value)
    assert broker.quotas() == APP


def test_a_missing_quota_cannot_be_removed(broker: ottla.Broker) -> None:
    with pytest.raises(ControlError, match="user=bob: quota not found"):
        broker.remove_quotas("user=bob")
    with pytest.raises(ControlError, match="consumer_byte_rate not found; quotas: producer_byte_rate"):
        broker.remove_quotas("client-id=app", "consumer_byte_rate")


@pytest.mark.parametrize("quotas", [{"alice": {"producer_byte_rate": 1}}, {"user=alice": {"zork": 1}}])
def test_a_broker_with_impossible_quotas_is_refused(quotas: dict[str, dict[str, float]]) -> None:
    with pytest.raises(ConfigError, match=r"^quotas: "):
        ottla.Broker(quotas=quotas)


def test_the_command_sets_lists_and_removes_quotas(broker: ottla.Broker) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        ran = run_command("quotas", *arguments)
        assert ran.code == code, ran
        return ran.out or ran.err

    assert "producer_byte_rate" in said("list")
    assert "1048576" in said("set", "user=alice", "producer_byte_rate=1048576", "request_percentage=12.5")
    assert "12.5" in said("list") and "alice" in said("list", "--json")
    assert "has no quotas" in said("remove", "user=alice")
    assert "no clients are throttled" in said("throttled")
    assert "did you mean" in said("set", "user=alice", "producer_byte_rat=5", code=1)
    assert "KEY=NUMBER" in said("set", "user=alice", "producer_byte_rate", code=2)
    said("remove", "client-id=app")
    assert "no quotas" in said("list")


def test_seeds_and_exports_contain_quotas(broker: ottla.Broker) -> None:
    seed: dict[str, Any] = {"topics": {"a": None}, "quotas": {"user=bob": {"request_percentage": 5}}}
    broker.seed(seed)
    assert broker.quotas() == APP | {"user=bob": {"request_percentage": 5.0}}
    assert broker.export_seed()["quotas"] == broker.quotas()
    for value in (math.inf, math.nan):
        with pytest.raises(ControlError, match="Quota request_percentage must be a finite number"):
            broker.set_quotas("user=odd", request_percentage=value)
    json.dumps(broker.export_seed(), allow_nan=False)
    for wrong in (
        {"user=bob": {"zork": 1}},
        {"bob": {"request_percentage": 5}},
        {"user=bob": {"request_percentage": "x"}},
    ):
        with pytest.raises(ControlError, match=r"quotas\."):
            broker.seed({"topics": {"b": None}, "quotas": wrong})
    with pytest.raises(ControlError, match="greater than 0"):
        broker.seed({"topics": {"b": None}, "quotas": {"user=bob": {"request_percentage": 0}}})
    assert "b" not in broker.export_seed()["topics"]
