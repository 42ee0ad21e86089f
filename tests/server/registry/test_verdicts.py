"""Compatibility of schemas: tables of changes by the rules of each specification."""

from __future__ import annotations

import re

from ottla.protocol.schemas import Schema, parse_schema
from ottla.server.registry.schemas import find_incompatibilities
from support.noted import each_case
from support.registry import verdicts_avro, verdicts_json, verdicts_protobuf
from support.registry.verdict import FULL, LEVELS_OF, Pair, parsed, permitted

TABLES = {"AVRO": verdicts_avro.PAIRS, "JSON": verdicts_json.PAIRS, "PROTOBUF": verdicts_protobuf.PAIRS}
PAIRS = [(kind, pair) for kind, pairs in TABLES.items() for pair in pairs]
IDS = [f"{kind}: {pair.reason}" for kind, pair in PAIRS]


@each_case("kind, pair", PAIRS, IDS)
def test_a_change_is_permitted_by_the_levels_of_its_direction(kind: str, pair: Pair) -> None:
    older, newer = parsed(kind, pair.older), parsed(kind, pair.newer)
    assert permitted(older, newer) == LEVELS_OF[pair.change]
    assert find_incompatibilities("NONE", newer, [older]) == []


@each_case("kind, pair", [each for each in PAIRS if each[1].differences])
def test_a_refused_change_is_named(kind: str, pair: Pair) -> None:
    found = find_incompatibilities("FULL", parsed(kind, pair.newer), [parsed(kind, pair.older)])
    assert tuple(re.findall(r"errorType:['\"](\w+)", "\n".join(found))) == pair.differences


@each_case("kind, pair", PAIRS, IDS)
def test_the_opposite_change_is_permitted_by_the_opposite_levels(kind: str, pair: Pair) -> None:
    older, newer = parsed(kind, pair.older), parsed(kind, pair.newer)
    opposite = {"backward": "forward", "forward": "backward"}.get(pair.change, pair.change)
    assert permitted(newer, older) == LEVELS_OF[opposite]


@each_case("kind, pair", PAIRS, IDS)
def test_no_change_is_permitted_by_all_levels(kind: str, pair: Pair) -> None:
    for schema in (pair.older, pair.newer):
        assert permitted(parsed(kind, schema), parsed(kind, schema)) == LEVELS_OF[FULL]


@each_case("kind, pair", PAIRS, IDS)
def test_a_canonical_text_and_a_normalized_text_stay_as_they_are(kind: str, pair: Pair) -> None:
    for schema in (pair.older, pair.newer):
        first = parsed(kind, schema)
        for text in (first.canonical, first.normalized):
            again = parse_schema(kind, text, {})
            assert (again.canonical, again.normalized) == (text, first.normalized)
            assert permitted(first, again) == LEVELS_OF[FULL]


LENIENT = {
    f"{keyword}_PROPERTIES_{change}" for keyword in ("ADDITIONAL", "UNEVALUATED") for change in ("NARROWED", "REMOVED")
} | {
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
}
"""Differences that Confluent's policy LENIENT allows."""


def kinds(level: str, newer: Schema, older: Schema, *, is_lenient: bool) -> set[str]:
    found = find_incompatibilities(level, newer, [older], is_lenient=is_lenient)
    return set(re.findall(r"errorType:['\"](\w+)", "\n".join(found)))


@each_case("kind, pair", PAIRS, IDS)
def test_a_lenient_check_allows_differences_of_properties_of_json_schemas(kind: str, pair: Pair) -> None:
    older, newer = parsed(kind, pair.older), parsed(kind, pair.newer)
    for level in ("BACKWARD", "FORWARD"):
        strict = kinds(level, newer, older, is_lenient=False)
        lenient = kinds(level, newer, older, is_lenient=True)
        assert lenient <= strict - LENIENT
        assert strict & LENIENT or lenient == strict


def test_each_difference_that_a_lenient_check_allows_is_in_the_table() -> None:
    pairs = [(parsed("JSON", each.newer), parsed("JSON", each.older)) for each in verdicts_json.PAIRS]
    found = [kinds("FULL", *pair, is_lenient=False) for pair in pairs]
    assert set().union(*found) >= LENIENT
