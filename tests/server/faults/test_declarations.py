"""What may not be declared is refused in one line that says what may."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ottla.protocol.apis import APIS
from ottla.protocol.errors import ErrorCode
from ottla.server.faults.declaration import Declaration, check
from ottla.server.faults.places import ERROR_PLACES
from ottla.server.faults.table import FAULTS_MAX, Faults
from ottla.server.runtime.errors import ControlError
from support.noted import each_case
from support.sizes import some

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "a fault needs one of error, disconnect, drop_response, corrupt_batch, delay_ms and disk"),
    ({"api": "Produce"}, "a fault needs one of error, disconnect, drop_response, corrupt_batch, delay_ms and disk"),
    ({"api": "Prduce", "delay_ms": 1}, "api: there is no 'Prduce'; did you mean 'Produce'?"),
    ({"api": "offset-commit", "delay_ms": 1}, "api: there is no 'offset-commit'; did you mean 'OffsetCommit'?"),
    ({"api": "ControlledShutdown", "delay_ms": 1}, "api: there is no 'ControlledShutdown'"),
    (
        {"api": "Fetch", "error": "NOT_LEADER"},
        "error: there is no 'NOT_LEADER'; did you mean 'NOT_LEADER_OR_FOLLOWER'?",
    ),
    ({"api": "Fetch", "error": "NONE"}, "error: there is no 'NONE'"),
    ({"error": "UNKNOWN_SERVER_ERROR"}, "error UNKNOWN_SERVER_ERROR needs an api: each has its own place for it"),
    (
        {"api": "Heartbeat", "topic": "t", "error": "NOT_COORDINATOR"},
        "a request of Heartbeat names no topic, but group; client_id and node fit every api",
    ),
    (
        {"api": "CreateTopics", "topic": "t", "partition": 0, "delay_ms": 1},
        "a request of CreateTopics names no partition, but topic; client_id and node fit every api",
    ),
    (
        {"api": "ListGroups", "group": "g", "delay_ms": 1},
        "a request of ListGroups names no group, but nothing of the kind; client_id and node fit every api",
    ),
    ({"partition": 1, "delay_ms": 1}, "partition 1 of which topic?"),
    ({"topic": "t", "partition": -1, "delay_ms": 1}, "partition is -1; allowed are 0 to 2147483647"),
    ({"version": 3, "delay_ms": 1}, "version 3 of which api?"),
    ({"api": "Produce", "version": 14, "delay_ms": 1}, "version of Produce is 14; allowed are 3 to 13"),
    ({"api": "Produce", "corrupt_batch": True}, "Produce returns no batches; corrupt_batch is for Fetch"),
    (
        {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "drop_response": True},
        "one fault cannot have both error and drop_response; declare two",
    ),
    ({"disconnect": "during"}, "disconnect is 'during'; allowed are before, after"),
    (
        {"after": True, "delay_ms": 1},
        "after goes with error; a connection that is closed afterwards is disconnect='after'",
    ),
    ({"delay_ms": -1}, "delay_ms is -1; allowed are 0 to 86400000"),
    ({"delay_ms": 86_400_001}, "delay_ms is 86400001; allowed are 0 to 86400000"),
    ({"delay_ms": 1.5}, "delay_ms is 1.5; expected a whole number"),
    ({"delay_ms": True}, "delay_ms is True; expected a whole number"),
    ({"topic": b"t", "delay_ms": 1}, "topic is b't'; expected a text"),
    ({"drop_response": 2}, "drop_response is 2; expected True or False"),
    ({"delay_ms": 1, "count": 0}, "count is 0; allowed are 1 to 2147483647"),
    ({"delay_ms": 1, "skip": -1}, "skip is -1; allowed are 0 to 2147483647"),
    ({"delay_ms": 1, "data_dir": "/d"}, "data_dir goes with disk"),
    ({"disk": "ful"}, "disk is 'ful'; allowed are full, slow, failed"),
    ({"disk": "slow"}, "a slow disk needs delay_ms: how much longer each operation takes"),
    ({"disk": "full", "delay_ms": 1}, "delay_ms goes with a slow disk, not with one that is full"),
    ({"disk": "full", "count": 2}, "count goes with requests; a disk is full until the fault is removed"),
    ({"disk": "failed", "topic": "t"}, "topic goes with requests; a disk is failed until the fault is removed"),
]


@each_case("said, why", WRONG, ids=[str(said) for said, _ in WRONG])
def test_a_declaration_that_cannot_be_is_refused_in_one_line(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ControlError) as refused:
        check(Declaration(**said))
    assert str(refused.value) == why


def test_every_field_of_a_declaration_is_refused_with_a_wrong_type() -> None:
    for field in fields(Declaration):
        said: dict[str, Any] = {"delay_ms": 1, field.name: [1]}
        with pytest.raises(ControlError, match=f"^{field.name} is "):
            check(Declaration(**said))


def test_every_api_that_is_served_can_have_every_error() -> None:
    assert {APIS[key].name for key in ERROR_PLACES} == {api.name for api in APIS.values()}
    for name in (api.name for api in APIS.values()):
        for code in some((code for code in ErrorCode if code is not ErrorCode.NONE), 12):
            check(Declaration(api=name, error=code.name))


def test_a_table_has_an_end() -> None:
    faults = Faults()
    for _ in range(FAULTS_MAX):
        faults.declare(Declaration(delay_ms=1))
    with pytest.raises(ControlError, match=r"^1000 faults are declared, and no more can be; remove some$"):
        faults.declare(Declaration(delay_ms=1))
    assert faults.clear() == FAULTS_MAX and len(faults) == 0


def test_nothing_is_declared_where_something_is_wrong() -> None:
    faults = Faults()
    with pytest.raises(ControlError):
        faults.declare(Declaration(api="Prduce", delay_ms=1))
    assert len(faults) == 0


def test_removing_all_tells_those_who_watch_once() -> None:
    faults, told = Faults(), []
    for _ in range(FAULTS_MAX):
        faults.declare(Declaration(delay_ms=1))
    with faults.watched_by(lambda now: told.append(len(now.active()))):
        assert faults.clear() == FAULTS_MAX
    assert told == [FAULTS_MAX, 0]
