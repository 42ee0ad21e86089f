"""Access control entries from Python, over HTTP, from a shell and in seeds: output, effect, and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.storage.topics.config import ConfigError
from support.broker.admin_calls import AdminCalls
from support.broker.conversation import address
from support.broker.raw_client import RawClient
from support.commands.command_runs import run_command

LINES = ("User:ANONYMOUS allow DESCRIBE topic:orders*", "User:bob deny ALL topic:u from 10.0.0.7")


@pytest.fixture
def guarded() -> Iterator[ottla.Broker]:
    with ottla.Broker(acls=LINES, admin="0") as broker:
        yield broker


def code_of(broker: ottla.Broker, topic: str) -> ErrorCode:
    with RawClient(*address(broker)) as client:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        return ErrorCode(client.ask(request).topics[0].error_code)


def test_a_host_may_be_a_network(guarded: ottla.Broker) -> None:
    line = "User:ANONYMOUS allow DESCRIBE topic:other from 127.0.0.0/8"
    guarded.add_acls(line)
    assert code_of(guarded, "other") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    guarded.remove_acls(line)
    assert code_of(guarded, "other") is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    wrong, why = line.replace("/8", "/33"), r"Invalid CIDR notation '127\.0\.0\.0/33': Value \[33\] not in range"
    with pytest.raises(ottla.ControlError, match=why):
        guarded.add_acls(wrong)
    with pytest.raises(ConfigError, match=why):
        ottla.Broker(acls=[wrong])


def test_entries_of_the_start_apply_to_the_first_client(guarded: ottla.Broker) -> None:
    assert code_of(guarded, "orders-1") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(guarded, "other") is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_entries_are_added_listed_and_removed_by_their_lines(guarded: ottla.Broker) -> None:
    assert guarded.acls() == list(LINES)
    guarded.add_acls("User:* allow DESCRIBE,READ topic:other", LINES[0])
    assert code_of(guarded, "other") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert guarded.acls(principal="User:*") == ["User:* allow DESCRIBE topic:other", "User:* allow READ topic:other"]
    assert guarded.acls(resource="topic:orders-1") == [LINES[0]]
    guarded.remove_acls("User:* allow DESCRIBE,READ topic:other")
    assert guarded.acls() == list(LINES)
    assert code_of(guarded, "other") is ErrorCode.TOPIC_AUTHORIZATION_FAILED


WHY = {
    "an entry": (("User:ANONYMOUS", "describe", "topic:orders"), True, "ALLOWED_BY", LINES[0]),
    "a denial": (("User:bob", "READ", "topic:u"), False, "DENIED_BY", LINES[1]),
    "none of them": (("User:eve", "READ", "topic:u"), False, "NO_MATCH", "none allows it"),
    "none at all": (("User:eve", "READ", "group:g"), False, "NO_ACL", "allow.everyone.if.no.acl.found is false"),
}


@pytest.mark.parametrize(("asked", "is_allowed", "reason", "said"), WHY.values(), ids=WHY)
def test_the_reason_for_a_decision_is_explained(
    guarded: ottla.Broker, asked: tuple[str, str, str], is_allowed: bool, reason: str, said: str
) -> None:
    decision = guarded.why_allowed(*asked, host="10.0.0.7")
    assert (decision.is_allowed, decision.reason) == (is_allowed, reason)
    assert said in decision.sentence
    assert "\n" not in decision.sentence


def test_super_users_and_absent_authorizers_are_explained() -> None:
    with ottla.Broker(acls=[], overrides={"super.users": "User:root"}) as broker:
        assert broker.why_allowed("User:root", "ALTER", "cluster").reason == "SUPER_USER"
    with ottla.Broker() as broker:
        assert broker.why_allowed("User:a", "READ", "topic:t").reason == "NO_AUTHORIZER"
        with pytest.raises(
            ottla.ControlError, match=r"no authorizer is configured; start the broker with authorizer\.class\.name"
        ):
            broker.add_acls("User:a allow READ topic:t")


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "a text": ("User:a allow READ topic:t", TypeError, "acls: expected list, found 'User:a"),
    "a number": (5, TypeError, "acls: expected Iterable or None, found 5"),
    "of numbers": ([5], TypeError, "acls: 0: expected str, found 5"),
    "half a line": (["User:a allow READ"], ConfigError, "expected PRINCIPAL allow|deny OPERATIONS TYPE:NAME"),
}


@pytest.mark.parametrize(("acls", "kind", "said"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_list_of_entries_is_refused_before_a_start(acls: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as refusal:
        ottla.Broker(acls=acls)
    assert said in str(refusal.value)


def test_an_invalid_or_missing_line_changes_nothing(guarded: ottla.Broker) -> None:
    for lines, said in (
        (["User:a allow READ topic:t", "User:a allow REED topic:t"], "did you mean READ?"),
        (["User:a allow READ topic:t", "User:a allow READ topic:"], "Invalid empty resource name"),
    ):
        with pytest.raises(ottla.ControlError, match=said):
            guarded.add_acls(*lines)
    with pytest.raises(
        ottla.ControlError, match="ACL 'User:bob deny ALL topic:u' not found; did you mean 'User:bob deny"
    ):
        guarded.remove_acls(LINES[0], "User:bob deny ALL topic:u")
    assert guarded.acls() == list(LINES)


def test_entries_can_be_managed_over_http(guarded: ottla.Broker) -> None:
    assert guarded.admin is not None
    calls = AdminCalls(guarded.admin)
    status, answer = calls.ask("POST", "/v1/acls", {"acls": ["User:a allow READ topic:t"]})
    assert (status, answer) == (200, {"added": ["User:a allow READ topic:t"]})
    status, answer = calls.ask("GET", "/v1/acls?principal=User:a")
    assert [row["acl"] for row in answer["acls"]] == ["User:a allow READ topic:t"]
    status, answer = calls.ask("DELETE", "/v1/acls?acls=User:a%20allow%20READ%20topic:t")
    assert (status, answer) == (200, {"removed": ["User:a allow READ topic:t"]})
    status, answer = calls.ask("GET", "/v1/acls/why?principal=User:a&operation=READ&resource=topic:t")
    assert (status, answer["is_allowed"]) == (200, False)
    assert calls.ask("POST", "/v1/acls", {"acls": ["nonsense"]})[0] == 422
    assert calls.ask("POST", "/v1/acls", {"acls": []})[0] == 422


COMMANDS = [
    (["list"], 0, "\n".join(LINES)),
    (["add", "User:x allow READ topic:y"], 0, "added User:x allow READ topic:y"),
    (["add", "User:x allow READ topic:y"], 0, "nothing added: all of these ACLs exist already"),
    (["why", "User:x", "READ", "topic:y"], 0, "User:x may READ on topic:y from 127.0.0.1: User:x allow READ topic:y"),
    (["why", "User:x", "WRITE", "topic:y"], 1, "User:x may not WRITE on topic:y"),
    (["list", "--resource", "topic:y"], 0, "User:x allow READ topic:y"),
    (["remove", "User:x allow READ topic:y"], 0, "removed User:x allow READ topic:y"),
    (["remove", "User:x allow READ topic:y"], 1, "not found"),
    (["list", "--principal", "User:x"], 0, "no matching ACLs"),
    (["list", "--principal", "x"], 1, "'x': invalid principal; expected TYPE:NAME"),
    (["why", "User:x", "READ", "topik:y"], 1, "'topik': invalid resource type"),
]


def test_entries_can_be_managed_from_a_shell(guarded: ottla.Broker) -> None:
    assert guarded.admin is not None
    admin = ["--admin", guarded.admin]
    for words, code, said in COMMANDS:
        ran = run_command("acls", *words, *admin)
        assert (words, ran.code) == (words, code)
        assert said in ran.out + ran.err
    told = json.loads(run_command("acls", "list", "--json", *admin).out)
    assert [row["acl"] for row in told] == list(LINES)


def test_seeds_and_exports_contain_entries(tmp_path: Path) -> None:
    seed = {"topics": {"t": {}}, "acls": ["User:a allow READ,WRITE topic:t"]}
    with ottla.Broker(str(tmp_path), acls=[], seed=seed) as broker:
        exported = broker.export_seed()
        assert exported["acls"] == ["User:a allow READ topic:t", "User:a allow WRITE topic:t"]
        assert broker.seed({"acls": ["User:b allow READ topic:t", *exported["acls"]]}).acls == (
            "User:b allow READ topic:t",
        )
    with ottla.Broker(str(tmp_path), acls=[], seed=seed) as broker:
        assert len(broker.acls()) == 3
    with (
        ottla.Broker() as broker,
        pytest.raises(ottla.ControlError, match=r"seed: acls\[0\]: no authorizer is configured"),
    ):
        broker.seed(seed)
