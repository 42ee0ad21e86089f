"""Faults, and moves of leaders, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ottla
from support.broker.admin_calls import AdminCalls
from support.broker.conversation import address, create_topic, produce
from support.broker.raw_client import RawClient

NOT_LEADER = {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER"}


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(admin="0", nodes=2) as broker:
        with RawClient(*address(broker)) as client:
            create_topic(client, "t")
        broker.move_leader("t", 0, 0)
        yield broker


@pytest.fixture
def admin(broker: ottla.Broker) -> AdminCalls:
    return AdminCalls.of(broker)


def ask(broker: ottla.Broker) -> int:
    with RawClient(*address(broker)) as client:
        code: int = produce(client, "t", ("k", "v")).error_code
        return code


def test_a_fault_is_declared_hit_and_removed(broker: ottla.Broker, admin: AdminCalls) -> None:
    declared = admin.post("/v1/faults", **NOT_LEADER, topic="t", count=2)
    here = f"/v1/faults/{declared['fault_id']}"
    assert (declared["hits"], declared["left"], declared["is_active"]) == (0, 2, True)
    assert declared["declaration"]["topic"] == "t"
    assert ask(broker) == 6
    assert admin.get(here)["hits"] == 1
    assert [each["fault_id"] for each in admin.get("/v1/faults")["faults"]] == [declared["fault_id"]]
    assert admin.ask("DELETE", here)[1]["is_active"] is False
    assert ask(broker) == 0
    assert admin.ask("GET", here) == (404, {"error": f"fault {declared['fault_id']} not found; no faults exist"})


def test_a_null_count_affects_all_requests(broker: ottla.Broker, admin: AdminCalls) -> None:
    admin.post("/v1/faults", **NOT_LEADER, count=None)
    assert [ask(broker) for _ in range(3)] == [6, 6, 6]
    assert admin.ask("DELETE", "/v1/faults") == (200, {"removed": 1})
    assert ask(broker) == 0


def test_a_wait_ends_with_the_request(broker: ottla.Broker, admin: AdminCalls) -> None:
    here = f"/v1/faults/{admin.post('/v1/faults', **NOT_LEADER)['fault_id']}"
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(admin.get, f"{here}/wait?timeout_ms=60000")
        assert ask(broker) == 6
        assert waiting.result()["hits"] == 1
    assert admin.get(f"{here}/wait?timeout_ms=60000")["hits"] == 1, "it has been met"
    assert admin.get(f"{here}/wait?hits=2&timeout_ms=1")["hits"] == 1, "the time is over"


def test_a_wait_ends_with_the_fault(admin: AdminCalls) -> None:
    here = f"/v1/faults/{admin.post('/v1/faults', **NOT_LEADER)['fault_id']}"
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(admin.get, f"{here}/wait?timeout_ms=60000")
        assert admin.ask("DELETE", here)[0] == 200
        try:
            assert waiting.result()["is_active"] is False
        except AssertionError as refused:  # it had been removed before
            assert "fault 1 not found" in str(refused)


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({}, 422, "a fault requires one of error, disconnect, drop_response, corrupt_batch, delay_ms, disk"),
    ({"api": "Prduce", "delay_ms": 1}, 422, "api: 'Prduce' not found; did you mean 'Produce'?"),
    ({"api": "Produce", "delay": 1}, 422, "unknown field 'delay'; did you mean 'delay_ms'?"),
    ({"node": 7, "delay_ms": 1}, 404, "node 7 not found; nodes: 0, 1"),
]


@pytest.mark.parametrize(("said", "status", "why"), WRONG)
def test_an_invalid_declaration_is_refused(said: dict[str, Any], status: int, why: str, admin: AdminCalls) -> None:
    assert admin.ask("POST", "/v1/faults", said) == (status, {"error": why})
    assert admin.get("/v1/faults") == {"faults": []}


def test_a_leader_can_be_moved(broker: ottla.Broker, admin: AdminCalls) -> None:
    moved = admin.post("/v1/topics/t/partitions/0/leader", node=1)
    assert (moved["was"], moved["leader"], moved["replicas"]) == (0, 1, [1])
    assert ask(broker) == 6
    assert admin.ask("POST", "/v1/topics/x/partitions/0/leader", {"node": 1})[0] == 404


def test_a_coordinator_can_be_moved(admin: AdminCalls) -> None:
    for node in (0, 1, 0):
        assert admin.post("/v1/coordinators", node=node, group="g")["leader"] == node
    both = {"node": 0, "group": "g", "transactional_id": "x"}
    for wrong in ({"node": 0}, both):
        why = {"error": "expected either a group or a transactional_id"}
        assert admin.ask("POST", "/v1/coordinators", wrong) == (422, why)
