"""Schemas whose size is a bomb: each ends in `InvalidSchema` or in a result, within the processor time of a test."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.schemas import KINDS, InvalidSchema, Schema, parse_schema
from ottla.protocol.schemas.values import MAX_TEXT_BYTES, Budget, SchemaTooLarge, reached, run_walk
from ottla.server.registry.schemas import find_incompatibilities
from support.noted import noted
from support.registry.hostile_schemas import HOSTILE, RECORD, doubled, nested
from support.registry.verdict import parsed


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_schemas_end_in_an_error_or_a_result(kind: str) -> None:
    for each, name, text in HOSTILE:
        if each == kind:
            with noted(name):
                check(kind, text)


def check(kind: str, text: str) -> None:
    assert len(text.encode()) <= MAX_TEXT_BYTES
    try:
        found = parse_schema(kind, text, {})
    except InvalidSchema as error:
        assert len(str(error)) < 400
        return
    assert len(found.canonical.encode()) <= MAX_TEXT_BYTES
    again = parse_schema(kind, found.canonical, {})
    differences = find_incompatibilities("FULL", again, [found])
    assert differences in ([], ["Incompatible because the schemas are too large for a comparison"])


def test_a_canonical_text_that_grows_beyond_the_bound_is_refused() -> None:
    text = nested("message M{", " ".join(f"message N{i}{{}}" for i in range(9_000)), "}", 60)
    with pytest.raises(InvalidSchema, match=r"schema: too large \([0-9]{7} bytes"):
        parse_schema("PROTOBUF", text, {})


def test_a_type_that_is_used_often_is_reported_once_a_use() -> None:
    """All ways to the type that changed would be 2 to the power of 60."""
    older, newer = (
        parse_schema("AVRO", '"R59"', {"all": parse_schema("AVRO", doubled(60, RECORD).replace('"int"', kind), {})})
        for kind in ('"int"', '"string"')
    )
    assert 2 <= len(find_incompatibilities("BACKWARD", newer, [older])) <= 200


def test_a_value_that_many_parts_are_compared_with_is_written_once() -> None:
    older = {"anyOf": [{"enum": [i, "x"]} for i in range(300)]}
    newer = {"anyOf": [{"enum": ["y" * 100_000, i]} for i in range(5)]}
    assert find_incompatibilities("BACKWARD", parsed("JSON", newer), [parsed("JSON", older)])


def test_references_are_reached_once_a_name_those_first_that_others_need() -> None:
    def made(*needed: tuple[str, Schema]) -> Schema:
        return Schema("AVRO", "", "", "", dict(needed), None)

    leaf, other_leaf = made(), made()
    middle = made(("leaf", leaf))
    references = {"middle": middle, "leaf": other_leaf, "last": made(("middle", middle))}
    assert list(reached(references)) == [("leaf", leaf), ("middle", middle), ("last", references["last"])]
    for _ in range(2_000):
        middle = made(("m", middle), ("leaf", leaf))
    assert [name for name, _ in reached({"top": middle})] == ["leaf", "m", "top"]


def test_a_walk_is_as_deep_as_it_needs_to_be() -> None:
    def sum_to(number: int) -> Any:
        return number + (yield sum_to(number - 1)) if number else 0

    assert run_walk(sum_to(50_000), Budget()) == 50_000 * 50_001 // 2
    with pytest.raises(SchemaTooLarge):
        run_walk(sum_to(11), Budget(10))
