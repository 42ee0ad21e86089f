"""Declarations of faults that are refused, in one line that says what is allowed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ottla.protocol.apis import APIS
from ottla.protocol.errors import ErrorCode
from ottla.server.faults.declaration import Declaration, check
from ottla.server.faults.error_fields import ERROR_FIELDS
from ottla.server.faults.table import FAULTS_MAX, Faults
from ottla.server.runtime.errors import ControlError
from support.noted import each_case
from support.sizes import some

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "a fault requires one of error, disconnect, drop_response, corrupt_batch, delay_ms, disk"),
    ({"api": "Produce"}, "a fault requires one of error, disconnect, drop_response, corrupt_batch, delay_ms, disk"),
    ({"api": "Prduce", "delay_ms": 1}, "api: 'Prduce' not found; did you mean 'Produce'?"),
    ({"api": "offset-commit", "delay_ms": 1}, "api: 'offset-commit' not found; did you mean 'OffsetCommit'?"),
    ({"api": "ControlledShutdown", "delay_ms": 1}, "api: 'ControlledShutdown' not found"),
    (
        {"api": "Fetch", "error": "NOT_LEADER"},
        "error: 'NOT_LEADER' not found; did you mean 'NOT_LEADER_OR_FOLLOWER'?",
    ),
    ({"api": "Fetch", "error": "NONE"}, "error: 'NONE' not found"),
    (
        {"error": "UNKNOWN_SERVER_ERROR"},
        "error UNKNOWN_SERVER_ERROR requires api: its location in the response depends on the API",
    ),
    (
        {"api": "Heartbeat", "topic": "t", "error": "NOT_COORDINATOR"},
        "Heartbeat requests contain no topic, but group; client_id and node apply to every api",
    ),
    (
        {"api": "CreateTopics", "topic": "t", "partition": 0, "delay_ms": 1},
        "CreateTopics requests contain no partition, but topic; client_id and node apply to every api",
    ),
    (
        {"api": "ListGroups", "group": "g", "delay_ms": 1},
        "ListGroups requests contain no group, but nothing comparable; client_id and node apply to every api",
    ),
    ({"partition": 1, "delay_ms": 1}, "partition 1 requires topic"),
    ({"topic": "t", "partition": -1, "delay_ms": 1}, "invalid partition -1; must be from 0 to 2147483647"),
    ({"version": 3, "delay_ms": 1}, "version 3 requires api"),
    ({"api": "Produce", "version": 14, "delay_ms": 1}, "invalid version of Produce 14; must be from 3 to 13"),
    ({"api": "Produce", "corrupt_batch": True}, "Produce returns no batches; corrupt_batch requires Fetch"),
    (
        {"api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "drop_response": True},
        "a fault cannot combine error and drop_response; declare two faults",
    ),
    ({"disconnect": "during"}, "invalid disconnect 'during'; must be one of: before, after"),
    (
        {"after": True, "delay_ms": 1},
        "after requires error; to close the connection afterwards, use disconnect='after'",
    ),
    ({"delay_ms": -1}, "invalid delay_ms -1; must be from 0 to 86400000"),
    ({"delay_ms": 86_400_001}, "invalid delay_ms 86400001; must be from 0 to 86400000"),
    ({"delay_ms": 1.5}, "invalid delay_ms 1.5; expected an integer"),
    ({"delay_ms": True}, "invalid delay_ms True; expected an integer"),
    ({"topic": b"t", "delay_ms": 1}, "invalid topic b't'; expected a string"),
    ({"drop_response": 2}, "invalid drop_response 2; expected True or False"),
    ({"delay_ms": 1, "count": 0}, "invalid count 0; must be from 1 to 2147483647"),
    ({"delay_ms": 1, "skip": -1}, "invalid skip -1; must be from 0 to 2147483647"),
    ({"delay_ms": 1, "data_dir": "/d"}, "data_dir requires disk"),
    ({"disk": "ful"}, "invalid disk 'ful'; must be one of: full, slow, failed"),
    ({"disk": "slow"}, "disk slow requires delay_ms, the additional duration of each operation"),
    ({"disk": "full", "delay_ms": 1}, "delay_ms requires disk slow, not full"),
    ({"disk": "full", "count": 2}, "count is only for requests; disk full lasts until the fault is removed"),
    ({"disk": "failed", "topic": "t"}, "topic is only for requests; disk failed lasts until the fault is removed"),
]


@each_case("said, why", WRONG, ids=[str(said) for said, _ in WRONG])
def test_a_declaration_that_cannot_be_is_refused_in_one_line(said: dict[str, Any], why: str) -> None:
    with pytest.raises(ControlError) as refused:
        check(Declaration(**said))
    assert str(refused.value) == why


def test_every_field_of_a_declaration_is_refused_with_a_wrong_type() -> None:
    for field in fields(Declaration):
        said: dict[str, Any] = {"delay_ms": 1, field.name: [1]}
        with pytest.raises(ControlError, match=f"^invalid {field.name} "):
            check(Declaration(**said))


def test_every_api_that_is_served_can_have_every_error() -> None:
    assert {APIS[key].name for key in ERROR_FIELDS} == {api.name for api in APIS.values()}
    for name in (api.name for api in APIS.values()):
        for code in some((code for code in ErrorCode if code is not ErrorCode.NONE), 12):
            check(Declaration(api=name, error=code.name))


def test_a_table_has_an_end() -> None:
    faults = Faults()
    for _ in range(FAULTS_MAX):
        faults.declare(Declaration(delay_ms=1))
    with pytest.raises(ControlError, match=r"^too many faults \(limit 1000\); remove some first$"):
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
