"""Schemas that are cheap to send: reading, writing and comparing them costs no more than their size and their steps.

Before each bound was there, its test took from ten seconds to hours.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.protocol.schemas import InvalidSchema, parse_schema, proto, proto_text
from ottla.protocol.schemas.values import MAX_NAMES, path_text, read_json, shown, write_json
from ottla.server.registry.schemas import find_incompatibilities
from support.noted import each_case
from support.registry.verdict import parsed
from support.registry.verdicts_avro import enum, field, record

COUNT = 10_000


def test_a_string_without_end_is_read_once() -> None:
    text = "[" + "[]," * 300 + '"' + '\\"' * 300_000
    with pytest.raises(InvalidSchema, match="invalid JSON"):
        read_json(text)


def test_numbers_at_the_greatest_depth_are_written_once() -> None:
    text = '{"title":' + "[" * 195 + ",".join(["1"] * 50_000) + "]" * 195 + "}"
    assert write_json(read_json(text)) == text


@each_case("value", [{}, [], {"b": [1, -2.5, True, None], "a": {"é\n": "\u2028☃"}}, "x", 0, False, {"": [[], {}]}])
def test_a_value_is_written_like_the_standard_library_does(value: Any) -> None:
    for sort_keys in (False, True):
        expected = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
        assert write_json(value, sort_keys=sort_keys) == expected


def test_names_in_one_object_or_list_are_bounded() -> None:
    names = [f"n{index}" for index in range(MAX_NAMES + 1)]
    with pytest.raises(InvalidSchema, match=r"schema: too many names in one object \(20001, limit 20000\)"):
        parsed("JSON", {"properties": dict.fromkeys(names, True)})
    with pytest.raises(InvalidSchema, match=r"R: aliases: too many \(20001, limit 20000\)"):
        parsed("AVRO", record(aliases=names))
    assert parsed("AVRO", enum(*names[:-1]))


@each_case(
    "kind, schema",
    [
        ("JSON", {"properties": {"x" * 500_000: 3}}),
        ("JSON", {"required": [[0.5] * 1_000] * 100}),
        ("AVRO", [3] * COUNT),
    ],
)
def test_a_message_shows_the_beginning_of_a_value(kind: str, schema: Any) -> None:
    with pytest.raises(InvalidSchema) as error:
        parsed(kind, schema)
    assert len(str(error.value)) < 400


def test_a_value_is_shown_without_all_that_it_contains() -> None:
    class Unshown(dict[str, int]):
        def __repr__(self) -> str:
            raise AssertionError("the whole value was written")

    assert shown(["a", {"b": 1}]) == "['a', {'b': 1}]"
    assert shown([1] * 10 + [Unshown()]) == "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ...]"


def test_a_type_that_is_named_twice_counts_once() -> None:
    properties: dict[str, Any] = {f"p{index}": {} for index in range(3_000)}
    once, often = ({"type": ["object", *types], "properties": properties} for types in ((), ["object"] * 3_000))
    assert find_incompatibilities("FULL", parsed("JSON", often), [parsed("JSON", once)]) == []


def test_required_names_are_compared_once() -> None:
    names = [f"p{index}" for index in range(COUNT)]
    older, newer = (
        parsed("JSON", {"properties": dict.fromkeys(names, kind), "required": names}) for kind in (False, True)
    )
    assert find_incompatibilities("BACKWARD", newer, [older]) == []


def test_a_chain_of_references_is_followed_once() -> None:
    chain: dict[str, Any] = {f"d{index}": {"$ref": f"#/definitions/d{index + 1}"} for index in range(COUNT)}
    older, newer = (
        parsed(
            "JSON",
            {
                "properties": {f"p{index}": {"$ref": "#/definitions/d0"} for index in range(4_000)},
                "definitions": {**chain, f"d{COUNT}": {"type": "string", "title": title}},
            },
        )
        for title in ("old", "new")
    )
    assert find_incompatibilities("BACKWARD", newer, [older]) == []


def test_aliases_count_as_steps_of_a_comparison() -> None:
    readers = [record(name=f"R{index}", aliases=[f"a{each}" for each in range(1_000)]) for index in range(50)]
    writers = [record(name=f"S{index}") for index in range(2_000)]
    expected = ["Incompatible because the schemas are too large for a comparison"]
    assert find_incompatibilities("BACKWARD", parsed("AVRO", readers), [parsed("AVRO", writers)]) == expected


def test_the_end_of_a_long_path_is_shown() -> None:
    path: Any = None
    for index in range(100_000):
        path = (path, f"/{index}")
    for _ in range(2_000):
        text = path_text(path)
    assert text.startswith("…/") and text.endswith("/99998/99999") and len(text) < 1_100
    assert path_text(((None, "#"), "/a")) == "#/a"


@each_case(
    "alias, written",
    [("n.A", "A"), ("A", "A"), ("n.x.A", "n.x.A"), ("m.A", "m.A")],
)
def test_an_alias_is_written_without_the_namespace_of_its_type_only(alias: str, written: str) -> None:
    schema = parsed("AVRO", record(name="n.R", aliases=[alias]))
    assert json.loads(schema.canonical)["aliases"] == [written]
    again = parse_schema("AVRO", schema.canonical, {})
    assert again.parsed.root.aliases == schema.parsed.root.aliases


@each_case("name", ["string", "int", "record", "array", "union", "map", "enum"])
def test_a_type_with_the_name_of_a_kind_is_written_with_its_namespace(name: str) -> None:
    schema = parsed("AVRO", record(field("a", record(name=name)), field("b", f"n.{name}"), name="n.R"))
    again = parse_schema("AVRO", schema.canonical, {})
    assert [each.type.kind for each in again.parsed.root.fields] == ["record", "record"]
    assert find_incompatibilities("FULL", again, [schema]) == []


def test_a_difference_that_only_an_assumption_hides_is_found() -> None:
    """While n.R0 is compared, m.R0 in it has no result. It differs, and with it all that contains it."""
    older = record(field("a", record(field("c", "R0"), name="R1")), field("b", "int"), name="R0")
    inner = record(field("a", "n.R1"), field("b", "string"), name="m.R0")
    newer = [record(field("a", record(field("c", inner), name="R1")), field("b", "int"), name="n.R0"), "m.R0"]
    found = find_incompatibilities("BACKWARD", parsed("AVRO", newer), [parsed("AVRO", older)])
    assert [each[: each.index(",")] for each in found] == ["{errorType:'MISSING_UNION_BRANCH'"]


class Kept(list[str]):
    """A list that shows whether it was copied, and how often it was searched."""

    searched = 0

    def __contains__(self, value: object) -> bool:
        self.searched += 1
        return super().__contains__(value)


def test_a_field_of_an_option_that_is_written_often_is_added_to_one_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(parser: Any) -> Any:
        found = value(parser)
        return Kept(found) if isinstance(found, list) else found

    value = proto_text._Parser._value
    monkeypatch.setattr(proto_text._Parser, "_value", kept)
    schema = parse_schema("PROTOBUF", "option (a) = {b: [1] b: 2 b: [3, 4] b: 5}; message M {}", {})
    found = schema.parsed.options[0][1]["b"]
    assert found == ["1", "2", "3", "4", "5"] and type(found) is Kept


def test_options_of_an_enum_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(checker: Any, enum: Any) -> None:
        enum.options = Kept(enum.options)
        check_enum(checker, enum)
        options.append(enum.options)

    options: list[Kept] = []
    check_enum = proto._Checker._check_enum
    monkeypatch.setattr(proto._Checker, "_check_enum", check)
    parse_schema("PROTOBUF", "enum E { option allow_alias = true; A = 0; B = 0; C = 0; }", {})
    assert [each.searched for each in options] == [1]
