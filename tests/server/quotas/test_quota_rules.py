"""Quotas that may be set and described, with Apache Kafka's errors, and the quota that applies to a client."""

from __future__ import annotations

import math

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.server.quotas.entities import Entity, QuotaLimits, Sharing, parse, read_facts
from ottla.server.quotas.filters import Component, filter_of
from ottla.server.quotas.table import entries_of, read_entries
from ottla.server.quotas.validation import Alteration, alter, is_literal_address
from support.noted import each_case

ALICE = Entity.from_parts({"user": "alice"})
BOUNDS: list[tuple[dict[str, str | None], str, float, str | None]] = [
    ({"user": "alice"}, "producer_byte_rate", 1.0, None),
    ({"user": "alice"}, "producer_byte_rate", 2.0**63, None),
    (
        {"user": "alice"},
        "producer_byte_rate",
        2.0**64,
        "Proposed value for producer_byte_rate is too large for a LONG.",
    ),
    ({"user": "alice"}, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
    ({"user": "alice"}, "producer_byte_rate", 1 + 1e-7, None),
    ({"user": "alice"}, "producer_byte_rate", math.inf, "Quota producer_byte_rate must be a finite number"),
    ({"user": "alice"}, "producer_byte_rate", -math.inf, "Quota producer_byte_rate must be a finite number"),
    ({"user": "alice"}, "producer_byte_rate", math.nan, "Quota producer_byte_rate must be a finite number"),
    ({"user": "alice"}, "producer_byte_rate", 1e300, "Proposed value for producer_byte_rate is too large for a LONG."),
    ({"user": "alice"}, "consumer_byte_rate", 0.0, "Quota consumer_byte_rate must be greater than 0"),
    ({"user": "alice"}, "consumer_byte_rate", -1.0, "Quota consumer_byte_rate must be greater than 0"),
    ({"user": "alice"}, "request_percentage", 0.25, None),
    ({"user": "alice"}, "controller_mutation_rate", 0.25, None),
    ({"user": "alice"}, "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
    ({"user": "alice"}, "zork", 1.0, "Invalid configuration key zork"),
    ({"client-id": None}, "request_percentage", math.inf, "Quota request_percentage must be a finite number"),
    ({"ip": "127.0.0.1"}, "connection_creation_rate", 5.0, None),
    ({"ip": None}, "connection_creation_rate", 5.0, None),
    (
        {"ip": "::1"},
        "connection_creation_rate",
        2.0**31,
        "Proposed value for connection_creation_rate is too large for an INT.",
    ),
    ({"ip": "127.0.0.1"}, "producer_byte_rate", 5.0, "Invalid configuration key producer_byte_rate"),
    ({"ip": "nowhere"}, "connection_creation_rate", 5.0, "nowhere is not a valid IP or resolvable host."),
    ({"ip": ""}, "connection_creation_rate", 5.0, "Empty ip not supported"),
    ({"user": ""}, "producer_byte_rate", 5.0, "Empty user not supported"),
    ({}, "producer_byte_rate", 5.0, "Invalid empty client quota entity"),
    ({"group": "g"}, "producer_byte_rate", 5.0, "Unhandled client quota entity type: group"),
    (
        {"ip": "127.0.0.1", "user": "alice"},
        "connection_creation_rate",
        5.0,
        "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
    ),
]


@each_case("entity, key, value, problem", BOUNDS)
def test_a_value_is_set_or_refused(entity: dict[str, str | None], key: str, value: float, problem: str | None) -> None:
    of = Entity.from_parts(entity)
    outcomes, changed = alter({}, [Alteration(of, [(key, value)])], is_literal_address)
    assert outcomes == {of: problem}
    assert changed == ({of: {key: value}} if problem is None else {})


def test_an_entity_named_twice_is_refused_after_its_first_alteration() -> None:
    both = Entity.from_parts({"user": "alice", "client-id": None})
    first, second = Alteration(both, [("request_percentage", 5.0)]), Alteration(both, [("request_percentage", 6.0)])
    outcomes, changed = alter({}, [first, second], is_literal_address)
    assert outcomes == {both: "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=alice})"}
    assert changed == {both: {"request_percentage": 5.0}}


def test_one_refused_key_keeps_all_values_of_its_entity() -> None:
    present = {ALICE: {"producer_byte_rate": 5.0}}
    wish = Alteration(ALICE, [("producer_byte_rate", None), ("consumer_byte_rate", 0.0)])
    assert alter(present, [wish], is_literal_address)[1] == {}
    assert alter(present, [Alteration(ALICE, [("producer_byte_rate", None)])], is_literal_address)[1] == {ALICE: {}}


FILTERS: list[tuple[list[Component], bool, list[str]]] = [
    ([], False, ["user=alice", "user=<default>", "user=alice,client-id=app", "client-id=app", "ip=::1"]),
    ([], True, []),
    ([Component("user", 0, "alice")], False, ["user=alice", "user=alice,client-id=app"]),
    ([Component("user", 0, "alice")], True, ["user=alice"]),
    ([Component("user", 1, None)], False, ["user=<default>"]),
    ([Component("user", 2, None)], True, ["user=alice", "user=<default>"]),
    ([Component("user", 2, None), Component("client-id", 0, "app")], True, ["user=alice,client-id=app"]),
    ([Component("ip", 2, None)], False, ["ip=::1"]),
]
ENTITIES = [
    ALICE,
    Entity.from_parts({"user": None}),
    Entity.from_parts({"user": "alice", "client-id": "app"}),
    Entity.from_parts({"client-id": "app"}),
    Entity.from_parts({"ip": "::1"}),
]


@pytest.mark.parametrize(("components", "strict", "expected"), FILTERS)
def test_a_filter_selects_entities(components: list[Component], strict: bool, expected: list[str]) -> None:
    wanted = filter_of(components, strict)
    assert [str(entity) for entity in ENTITIES if wanted.takes(entity)] == expected


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([Component("", 0, "x")], ErrorCode.INVALID_REQUEST),
        ([Component("user", 0, "x"), Component("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([Component("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([Component("user", 1, "x")], ErrorCode.INVALID_REQUEST),
        ([Component("user", 2, "x")], ErrorCode.INVALID_REQUEST),
        ([Component("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([Component("ip", 2, None), Component("user", 2, None)], ErrorCode.INVALID_REQUEST),
        ([Component("group", 2, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_contradicting_filter_is_refused(components: list[Component], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refusal:
        filter_of(components, False)
    assert refusal.value.code is code


LEVELS: list[tuple[dict[str, str | None], Sharing]] = [
    ({"user": "alice", "client-id": "app"}, Sharing("alice", "app")),
    ({"user": "alice", "client-id": None}, Sharing("alice", "app")),
    ({"user": "alice"}, Sharing("alice", "")),
    ({"user": None, "client-id": "app"}, Sharing("alice", "app")),
    ({"user": None, "client-id": None}, Sharing("alice", "app")),
    ({"user": None}, Sharing("alice", "")),
    ({"client-id": "app"}, Sharing("", "app")),
    ({"client-id": None}, Sharing("", "app")),
]
"""Quotas, the strongest first: an entity, and the clients that share its quota with alice's client `app`."""


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_quota_applies(first: int) -> None:
    limits = QuotaLimits((Entity.from_parts(entity), at + 1.0) for at, (entity, _) in enumerate(LEVELS) if at >= first)
    found = limits.find("alice", "app")
    assert found is not None
    assert (found.bound, found.sharing, found.entity) == (
        first + 1.0,
        LEVELS[first][1],
        Entity.from_parts(LEVELS[first][0]),
    )
    assert QuotaLimits([]).find("alice", "app") is None


def test_a_client_without_id_is_subject_only_to_user_quotas() -> None:
    assert QuotaLimits([(Entity.from_parts({"client-id": None}), 1.0)]).find("alice", "") is None
    both = Entity.from_parts({"user": "alice", "client-id": None})
    for quotas in ([(ALICE, 1.0)], [(ALICE, 1.0), (both, 2.0)]):
        found = QuotaLimits(quotas).find("alice", "")
        assert found is not None and found.sharing == Sharing("alice", "") and found.bound == 1.0


@pytest.mark.parametrize("bound", [math.inf, math.nan])
def test_a_quota_that_is_not_finite_limits_no_client(bound: float) -> None:
    assert QuotaLimits([(ALICE, bound)]).find("alice", "app") is None


def test_a_stored_value_that_is_not_finite_does_not_remove_the_other_limits() -> None:
    """An earlier version accepted such values."""
    bob = Entity.from_parts({"user": "bob"})
    quotas = {ALICE: {"producer_byte_rate": 5.0, "request_percentage": math.inf}, bob: {"request_percentage": math.nan}}
    stored = {key: facts for key, facts in entries_of(quotas, {}).items() if facts is not None}
    holding, problems = read_entries(stored)
    assert (holding.quotas, problems) == ({ALICE: {"producer_byte_rate": 5.0}}, [])


def test_entries_of_the_catalog_read_back() -> None:
    quotas = {entity: {"producer_byte_rate": 5.0} for entity in ENTITIES[:4]}
    quotas[Entity.from_parts({"ip": "here"})] = {"connection_creation_rate": 3.0}
    quotas[Entity.from_parts({"user": "a&b=c", "client-id": None})] = {"request_percentage": 0.5}
    entries = entries_of(quotas, {"here": "127.0.0.1"})
    assert len(entries) == len(quotas)
    holding, problems = read_entries({key: facts for key, facts in entries.items() if facts is not None})
    assert (holding.quotas, problems) == (quotas, [])
    assert holding.addresses == {"here": "127.0.0.1"} and holding.of_addresses.bound_of("127.0.0.1") == 3
    assert entries_of({ALICE: {}}, {}) == {"user=alice": None}


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"entity": {"user": 5}, "quotas": {}},
        {"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": "many"}},
        {"entity": {"user": "alice"}, "quotas": {"zork": 5}},
        {"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 10**400}},
        {"entity": {"ip": "nowhere"}, "quotas": {"connection_creation_rate": 5}},
    ],
)
def test_an_invalid_entry_is_reported_in_one_line(facts: dict[str, object]) -> None:
    holding, (problem,) = read_entries(
        {"k": facts, "user=bob": {"entity": {"user": "bob"}, "quotas": {"request_percentage": 1}}}
    )
    assert problem.startswith("stored quotas ignored: k: ") and "\n" not in problem
    assert list(holding.quotas) == [Entity.from_parts({"user": "bob"})]


def test_stored_facts_contain_the_set_values() -> None:
    entity, values = read_facts({"entity": {"user": None}, "quotas": {"request_percentage": 5}})
    assert (entity, values) == (Entity.from_parts({"user": None}), {"request_percentage": 5.0})


@pytest.mark.parametrize(
    "entity", [*ENTITIES, Entity.from_parts({"user": "a,b=c", "client-id": None}), Entity.from_parts({"ip": None})]
)
def test_an_entity_reads_back_as_written(entity: Entity) -> None:
    assert parse(str(entity)) == entity


@pytest.mark.parametrize("text", ["", "alice", "user", "user=", "users=alice", "user=a,user=b", "user=a,client-id="])
def test_an_invalid_entity_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="expected user=NAME"):
        parse(text)


ODD_NAMES: list[dict[str, str | None]] = [
    {"user": "<default>"},
    {"user": None},
    {"user": "a,client-id=b"},
    {"user": "a", "client-id": "b"},
    {"user": '"x"'},
    {"user": "x", "client-id": '"<default>"'},
    {"user": 'CN=a"b,OU=c'},
    {"user": "a\n,ip=x"},
]


def test_different_entities_have_different_texts_that_read_back() -> None:
    entities = [Entity.from_parts(names) for names in ODD_NAMES]
    assert [parse(str(entity)) for entity in entities] == entities
    assert len({str(entity) for entity in entities}) == len(entities)
