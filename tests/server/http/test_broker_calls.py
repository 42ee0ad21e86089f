"""The broker as a whole, and its nodes, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kafka import KafkaProducer

import ottla
from support.broker.admin_calls import AdminCalls
from support.broker.conversation import create_topic
from support.broker.raw_client import RawClient


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ottla.Broker]:
    with ottla.Broker(str(tmp_path), admin="0", nodes=2) as running:
        yield running


def make_topic(broker: ottla.Broker, partitions: int = 1) -> None:
    for address in broker.bootstrap.split(","):  # one of them is the controller
        host, port = address.rsplit(":", 1)
        with RawClient(host, int(port)) as client:
            create_topic(client, "t", partitions)


def test_the_broker_describes_itself(broker: ottla.Broker, tmp_path: Path) -> None:
    make_topic(broker, partitions=3)
    broker.advance_clock(1_000_000)
    found = AdminCalls.of(broker).get("/v1/broker")
    assert found["bootstrap"] == broker.bootstrap
    assert (found["version"], found["profile"]) == (ottla.__version__, "dev")
    assert found["data_dirs"] == [{"path": str(tmp_path), "is_offline": False}]
    assert (found["topics"], found["partitions"]) == (1, 3)
    assert 0 <= found["serves_since_s"] < 600
    assert abs(found["now_ms"] - broker.inner.clock.now_ms()) < 60_000


def test_nodes_can_be_stopped_and_started(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    for _ in range(2):  # any number of times
        assert admin.post("/v1/nodes/1/stop")["is_alive"] is False
    assert [node["is_alive"] for node in admin.get("/v1/nodes")["nodes"]] == [True, False]
    for _ in range(2):
        assert admin.post("/v1/nodes/1/start")["is_alive"] is True
    assert [node["listeners"][0]["address"] for node in admin.get("/v1/nodes")["nodes"]] == broker.bootstrap.split(",")


def test_an_unknown_node_is_reported_with_the_existing_ones(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    for verb in ("stop", "start"):
        assert admin.ask("POST", f"/v1/nodes/7/{verb}") == (404, {"error": "node 7 not found; nodes: 0, 1"})
    assert admin.ask("POST", "/v1/nodes/x/stop")[0] == 422
    assert admin.ask("POST", "/v1/nodes/1/stop", {"node_id": 0})[0] == 422
    assert all(node["is_alive"] for node in admin.get("/v1/nodes")["nodes"])


@pytest.mark.parametrize("verb", ["restart", "crash", "reset"])
def test_the_next_run_uses_the_same_addresses(broker: ottla.Broker, verb: str) -> None:
    admin = AdminCalls.of(broker)
    make_topic(broker)
    before = admin.get("/v1/broker")
    after = admin.post(f"/v1/{verb}")
    assert after["bootstrap"] == before["bootstrap"] and after["serves_since_s"] <= before["serves_since_s"] + 60
    assert (after["topics"], after["cluster_id"] == before["cluster_id"]) == (
        (0, False) if verb == "reset" else (1, True)
    )
    assert broker.state == "serving"


def test_requests_between_two_runs_are_answered_by_the_next(broker: ottla.Broker) -> None:
    admin = AdminCalls.of(broker)
    with ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(admin.ask, "POST", f"/v1/{verb}") for verb in ("reset", "restart", "reset", "crash")]
        asked = [threads.submit(admin.ask, "GET", "/v1/broker") for _ in range(40)]
    assert {each.result()[0] for each in calls} == {200}
    assert {each.result()[0] for each in asked} <= {200, 503}
    assert admin.get("/readyz") == "ready\n"


def test_a_run_that_cannot_start_is_reported_and_another_may_follow(broker: ottla.Broker, tmp_path: Path) -> None:
    admin = AdminCalls.of(broker)
    catalog = tmp_path / "ottla.json"
    make_topic(broker)
    whole = catalog.read_text()

    catalog.write_text("{")
    status, answer = admin.ask("POST", "/v1/crash")
    assert status == 500 and "ottla.json" in answer["error"] and answer["error"].endswith("; the broker is down")
    assert admin.ask("GET", "/readyz")[0] == 503
    assert admin.ask("GET", "/v1/broker")[0] == 503
    catalog.write_text(whole)
    assert admin.post("/v1/restart")["topics"] == 1


@pytest.mark.parametrize("end", ["restart", "crash", "reset", "stop"])
def test_waiting_calls_are_notified_of_the_end_of_a_run(broker: ottla.Broker, end: str) -> None:
    admin = AdminCalls.of(broker)
    fault = admin.post("/v1/faults", api="Produce", error="NOT_LEADER_OR_FOLLOWER")
    calls = broker._supervisor
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(admin.ask, "GET", f"/v1/faults/{fault['fault_id']}/wait?timeout_ms=600000")
        while not calls._calls:
            time.sleep(0)
        getattr(broker, end)()
        status, answer = waiting.result()
    assert (status, answer["error"]) == (503, "the broker was stopped or restarted before the call completed")


def test_a_connected_client_is_listed_with_its_library_and_name() -> None:
    with ottla.Broker(admin="0", users={"alice": "wonder<land>"}) as broker:
        admin = AdminCalls.of(broker)
        assert admin.get("/v1/connections") == {"connections": [], "count": 0}
        with KafkaProducer(bootstrap_servers=broker.bootstrap, **broker.sasl("alice").kafka_python()) as producer:
            producer.partitions_for("t")
            found = admin.get("/v1/connections")
            assert found["count"] == len(found["connections"]) >= 1
            one = found["connections"][0]
            assert (one["principal"], one["node"]) == ("User:alice", 0)
            assert one["mechanism"] in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
            assert one["security_protocol"] == "SASL_PLAINTEXT" and one["software"].startswith("kafka-python")
            assert "wonder" not in str(found)
