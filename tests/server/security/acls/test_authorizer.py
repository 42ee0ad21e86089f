"""Decisions: StandardAuthorizer's rules one by one, and any set of entries compared with a plain model."""

from __future__ import annotations

import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.server.security.acls.acl import Acl, parse
from ottla.server.security.acls.authorizer import MAX_CACHED, Authorizer
from ottla.server.security.acls.filters import AclFilter
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType
from ottla.server.security.principal import Principal
from ottla.storage.steps import to_the_end
from support.noted import each_case
from support.security.acl_model import allows, allows_any

ALICE = Principal("User", "alice")
HOST = "10.0.0.1"


def authorizer(*lines: str, allow_if_no_acl: bool = False, super_users: tuple[str, ...] = ()) -> Authorizer:
    made = Authorizer(super_users, allow_if_no_acl=allow_if_no_acl)
    for line in lines:
        for acl in parse(line):
            made.add(acl)
    return made


def may(by: Authorizer, operation: str, name: str, *, host: str = HOST, principal: Principal = ALICE) -> bool:
    return by.allows(principal, host, AclOperation[operation], ResourceType.TOPIC, name)


def may_any(by: Authorizer, operation: AclOperation = AclOperation.READ, principal: Principal = ALICE) -> bool:
    return to_the_end(by.allows_any(principal, HOST, operation, ResourceType.TOPIC))


RULES = {
    "a literal name": ("User:alice allow READ topic:orders", {"orders": True, "orders-1": False, "order": False}),
    "a prefix": ("User:alice allow READ topic:orders*", {"orders": True, "orders-1": True, "order": False}),
    "every name": ("User:alice allow READ topic:*", {"orders": True, "*": True}),
    "a name that ends with a star": (
        "User:alice allow READ topic:a* literal",
        {"a*": True, "ab": False},
    ),
    "a prefix of a star": ("User:alice allow READ topic:**", {"*x": True, "x": False}),
    "everybody": ("User:* allow READ topic:orders", {"orders": True}),
    "another": ("User:bob allow READ topic:orders", {"orders": False}),
    "another kind of principal": ("Group:alice allow READ topic:orders", {"orders": False}),
    "another kind of resource": ("User:alice allow READ group:orders", {"orders": False}),
    "her host": ("User:alice allow READ topic:orders from 10.0.0.1", {"orders": True}),
    "her network": ("User:alice allow READ topic:orders from 10.0.0.0/8", {"orders": True}),
    "another network": ("User:alice allow READ topic:orders from 11.0.0.0/8", {"orders": False}),
    "a network that is none": ("User:alice allow READ topic:orders from 10.0.0.0/99", {"orders": False}),
    "another host": ("User:alice allow READ topic:orders from 10.0.0.2", {"orders": False}),
    "all operations": ("User:alice allow ALL topic:orders", {"orders": True}),
    "another operation": ("User:alice allow WRITE topic:orders", {"orders": False}),
}


@each_case("line, said", RULES.values(), ids=RULES)
def test_an_entry_matches_by_kind_name_principal_host_and_operation(line: str, said: dict[str, bool]) -> None:
    by = authorizer(line)
    assert {name: may(by, "READ", name) for name in said} == said


@each_case("denial", ["topic:orders", "topic:ord*", "topic:*"])
@each_case("operation", ["READ", "ALL"])
@each_case("who", ["User:alice", "User:*"])
def test_a_denial_precedes_all_allowing_entries(denial: str, operation: str, who: str) -> None:
    allowing = ("User:alice allow ALL topic:*", "User:* allow READ topic:orders", "User:alice allow READ topic:orde*")
    by = authorizer(*allowing, f"{who} deny {operation} {denial}")
    assert not may(by, "READ", "orders")
    assert may(authorizer(*allowing), "READ", "orders")


@pytest.mark.parametrize("allowed", ["READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"])
def test_describe_follows_from_allowed_operations_and_not_from_denied_ones(allowed: str) -> None:
    assert may(authorizer(f"User:alice allow {allowed} topic:t"), "DESCRIBE", "t")
    by = authorizer("User:alice allow DESCRIBE topic:t", f"User:alice deny {allowed} topic:t")
    assert may(by, "DESCRIBE", "t") is (allowed not in ("DESCRIBE", "ALL"))


def test_describing_configs_follows_from_altering_them() -> None:
    by = authorizer("User:alice allow ALTER_CONFIGS topic:t")
    assert may(by, "DESCRIBE_CONFIGS", "t")
    assert not may(by, "DESCRIBE", "t")


def test_a_super_user_ignores_denials() -> None:
    by = authorizer("User:* deny ALL topic:*", super_users=("User:alice",))
    assert may(by, "READ", "t")
    assert may_any(by)
    assert by.allowed(ALICE, HOST, [AclOperation.READ], ResourceType.TOPIC, "t") == [AclOperation.READ]
    assert not may(by, "READ", "t", principal=Principal("User", "bob"))


def test_resources_without_entries_are_open_if_configured() -> None:
    by = authorizer("User:bob allow READ topic:orders", allow_if_no_acl=True)
    assert may(by, "READ", "other")
    assert not may(by, "READ", "orders")


def test_every_change_applies_to_the_next_decision() -> None:
    by = authorizer()
    [acl] = parse("User:alice allow READ topic:t")
    said = [may(by, "READ", "t")]
    by.add(acl)
    said += [may(by, "READ", "t"), may_any(by)]
    by.remove(acl)
    said += [may(by, "READ", "t"), may_any(by)]
    assert said == [False, True, True, False, False]


def test_names_are_compared_with_denied_prefixes_in_pieces_on_a_snapshot() -> None:
    denied = [f"User:alice deny READ topic:{'d' * length}{letter}*" for length in range(1, 4) for letter in "abcde"]
    by = authorizer(*denied, *(f"User:alice allow READ topic:ddda{number}" for number in range(500)))
    steps = by.allows_any(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC)
    for _ in range(400):
        next(steps)
    [allowed] = parse("User:alice allow READ topic:other")
    by.add(allowed)
    assert to_the_end(steps) is False
    assert may_any(by) is True


def test_names_are_compared_with_denied_names_in_pieces() -> None:
    """Joining and comparing sets of a hundred thousand names takes 20 ms at once."""
    names = [f"topic:t{number}" for number in range(500)]
    denied = [f"User:alice deny {operation} {name}" for name in names for operation in ("READ", "ALL")]
    by = authorizer(*denied, *(f"User:alice allow READ {name}" for name in names))
    steps = by.allows_any(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC)
    for _ in names:
        next(steps)
    assert to_the_end(steps) is False


def test_entries_of_one_name_are_collected_without_an_object_each() -> None:
    """A hundred thousand entries may concern one name: creating and freeing their tuples took 20 ms."""
    by = authorizer(*(f"User:u{number} allow READ topic:orders" for number in range(500)))
    before = sys.getallocatedblocks()
    found = AclFilter(name="orders").candidates(by.index)
    assert sys.getallocatedblocks() - before < 100
    assert len(list(found)) == 500


def test_hostile_names_use_no_memory() -> None:
    by = authorizer("User:alice allow READ topic:t*")
    for number in range(3 * MAX_CACHED):
        by.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, f"t{number}")
    by.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "t" * 30_000)
    by.allows(Principal("User", "u" * 30_000), HOST, AclOperation.READ, ResourceType.TOPIC, "t", is_attempt=False)
    to_the_end(by.allows_any(Principal("User", "u" * 30_000), HOST, AclOperation.READ, ResourceType.TOPIC))
    remembered = {**by._decided, **by._decided_before}
    assert len(remembered) <= 2 * MAX_CACHED
    assert max(len(str(key)) for key in remembered) < 1_000


def test_a_refusal_is_logged_once_with_the_deciding_entry(caplog: pytest.LogCaptureFixture) -> None:
    by = authorizer("User:* deny ALL topic:secret*")
    mallory = Principal("User", "m\nallory")
    with caplog.at_level(logging.DEBUG, "ottla.authorizer"):
        for _ in range(2):
            may(by, "READ", "secrets")
        may(by, "READ", "secrets", principal=mallory)
    assert caplog.messages == [
        "User:alice is not authorized to READ topic:secrets from 10.0.0.1: User:* deny ALL topic:secret*",
        '"User:m\\nallory" is not authorized to READ topic:secrets from 10.0.0.1: User:* deny ALL topic:secret*',
    ]


def test_an_attempt_after_an_unasked_refusal_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    by = authorizer("User:alice allow WRITE topic:open")
    with caplog.at_level(logging.DEBUG, "ottla.authorizer"):
        for _ in range(2):
            assert not by.allows(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "open", is_attempt=False)
        assert not caplog.messages
        for _ in range(2):
            assert not may(by, "READ", "open")
    assert caplog.messages == ["User:alice is not authorized to READ topic:open from 10.0.0.1: NO_MATCH"]


def test_stored_entries_that_this_version_refuses_are_reported_and_ignored() -> None:
    by = Authorizer()
    [acl] = parse("User:alice allow READ topic:t")
    problems = by.load(
        {"a": acl.facts(), "b": acl.facts() | {"operation": "FLY"}, "c": {}, "d": acl.facts() | {"name": 5}}
    )
    assert problems == [
        "stored ACL 'b' ignored: 'FLY' is unknown",
        "stored ACL 'c' ignored: 'resource_type' is unknown",
        "stored ACL 'd' ignored: name, principal and host must be strings",
    ]
    assert by.index.all() == [acl]


NAMES = st.sampled_from(["*", "a", "ab", "abc", "b", "hardcode", "h", "a*"])
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*"])
HOSTS = st.sampled_from(["*", HOST, "10.0.0.2", "10.0.0.0/31", "10.0.0.2/31", "10.0.0.0/33"])
OPERATIONS = st.sampled_from([each for each in AclOperation if each > AclOperation.ANY])
ACLS = st.builds(
    Acl,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


@given(st.lists(ACLS, max_size=12), st.lists(st.integers(0, 11), max_size=4), st.booleans(), OPERATIONS, NAMES)
def test_any_entries_decide_like_a_simple_model(
    acls: list[Acl], taken_away: list[int], default: bool, operation: AclOperation, name: str
) -> None:
    by = Authorizer(allow_if_no_acl=default)
    for acl in acls:
        by.add(acl)
    gone = {acls[number] for number in taken_away if number < len(acls)}
    for acl in gone:
        by.remove(acl)
    left = [acl for acl in acls if acl not in gone]
    for principal in (ALICE, Principal("User", "bob")):
        asked = (str(principal), HOST, operation, ResourceType.TOPIC)
        allowed = allows(left, *asked, name, default)
        assert by.allows(principal, HOST, operation, ResourceType.TOPIC, name) is allowed
        decision = by.decide(principal, HOST, operation, ResourceType.TOPIC, name)
        assert decision.is_allowed is allowed
        assert decision.acl is None or decision.acl in left
        assert (operation in by.allowed(principal, HOST, list(AclOperation), ResourceType.TOPIC, name)) is allowed
        assert may_any(by, operation, principal) is allows_any(left, *asked, default)
    assert sorted(map(str, by.index.all())) == sorted(set(map(str, left)))
