"""JSON Schemas: texts that are none, texts that are the same, references, bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.schemas import InvalidSchema, parse_schema
from ottla.protocol.schemas.values import MAX_DEPTH, MAX_TEXT_BYTES
from ottla.server.registry.schemas import find_incompatibilities
from support.noted import each_case
from support.registry.verdict import parsed
from support.registry.verdicts_json import INTEGER, NEW, NUMBER, STRING, anything, array, closed, new, opened


@each_case(
    "schema, message",
    [
        (3, "schema: expected a schema, an object or a boolean, found 3"),
        ([], "schema: expected a schema, an object or a boolean, found []"),
        ({"type": "text"}, "type: expected names of types, found 'text'"),
        ({"type": ["string", 3]}, "type: expected names of types"),
        ({"type": {"a": 1}}, "type: expected names of types"),
        ({"enum": "x"}, "enum: expected an array, found 'x'"),
        ({"allOf": {}}, "allOf: expected an array, found {}"),
        ({"oneOf": [3]}, "oneOf: expected a schema, an object or a boolean, found 3"),
        ({"not": []}, "not: expected a schema"),
        ({"if": 3}, "if: expected a schema"),
        ({"properties": []}, "properties: expected an object, found []"),
        ({"properties": {"a": "string"}}, "a: expected a schema, an object or a boolean, found 'string'"),
        ({"patternProperties": {"a": 3}}, "a: expected a schema"),
        ({"additionalProperties": "no"}, "additionalProperties: expected a schema"),
        ({"required": True}, "required: expected an array of strings, found True"),
        ({"required": [1]}, "required: expected an array of strings"),
        ({"dependencies": []}, "dependencies: expected an object"),
        ({"dependencies": {"a": [1]}}, "dependencies: expected arrays of strings"),
        ({"dependentRequired": {"a": {}}}, "dependentRequired: expected arrays of strings"),
        ({"dependentSchemas": {"a": []}}, "a: expected a schema"),
        ({"minProperties": -1}, "minProperties: expected a count, found -1"),
        ({"minItems": 1.5}, "minItems: expected a count, found 1.5"),
        ({"maxLength": True}, "maxLength: expected a count, found True"),
        ({"maximum": "3"}, "maximum: expected a number, found '3'"),
        ({"multipleOf": True}, "multipleOf: expected a number, found True"),
        ({"pattern": 3}, "pattern: expected a string, found 3"),
        (array([3]), "items: expected a schema"),
        ({"prefixItems": {}}, "prefixItems: expected an array"),
        ({"$ref": "#/definitions/a"}, "$ref: not found ('#/definitions/a')"),
        ({"$ref": "#a"}, "$ref: not found ('#a')"),
        ({"$ref": "other.json"}, "$ref: not found ('other.json'); name its schema in the references"),
        ({"$ref": "http://example.com/a.json"}, "$ref: not found ('http://example.com/a.json')"),
        ({"$ref": "#/title", "title": "x"}, "$ref: expected a schema, an object or a boolean, found 'x'"),
        ({"$id": "http://e.org/", "$ref": "http://[::1#a"}, "URI: invalid ('http://[::1'"),
        ({"$id": "http://e.org/", "definitions": {"a": {"$id": "http://[::1"}}}, "URI: invalid ('http://[::1'"),
        ({"$ref": "#"}, "$ref: leads back to itself ('#')"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
            "$ref: leads back to itself",
        ),
        (opened({"a": {"$ref": "#/properties/a"}}), "$ref: leads back to itself"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_reason(schema: Any, message: str) -> None:
    with pytest.raises(InvalidSchema) as error:
        parsed("JSON", schema)
    assert str(error.value).startswith(message)


@each_case(
    "text, message",
    [
        ("", "schema: empty"),
        ('{"not":' * 10_000 + "{}" + "}" * 10_000, f"schema: nested too deeply (limit {MAX_DEPTH} levels)"),
        ('{"title":"\\ud800"}', "schema: invalid Unicode"),
        ('{"minimum":1e999}', "schema: number out of range (1e999)"),
        (f'{{"title":"{"x" * MAX_TEXT_BYTES}"}}', "schema: too large"),
    ],
)
def test_a_text_that_is_no_json_or_exceeds_a_bound_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema) as error:
        parse_schema("JSON", text, {})
    assert str(error.value).startswith(message)


def test_the_canonical_text_keeps_the_order_of_names_and_the_normalized_one_sorts_them() -> None:
    schema = parse_schema("JSON", ' {"type": "object", "properties": {"b": {}, "a": true} } ', {})
    assert schema.canonical == '{"type":"object","properties":{"b":{},"a":true}}'
    assert schema.normalized == '{"properties":{"a":true,"b":{}},"type":"object"}'


@each_case(
    "schema",
    [
        {"$ref": "#/definitions/a", "definitions": {"a": INTEGER}},
        {"$ref": "#/$defs/a", "definitions": {"a": INTEGER}},
        {"$ref": "#/definitions/a~1b~0c%20d", "definitions": {"a/b~c d": INTEGER}},
        {"$ref": "#/items/1", "items": [{}, INTEGER]},
        {"$ref": "#here", "definitions": {"a": {"$id": "#here", **INTEGER}}},
        {"$ref": "#here", "definitions": {"a": {"$anchor": "here", **INTEGER}}},
        new({"$dynamicRef": "#here", "$defs": {"a": {"$dynamicAnchor": "here", **INTEGER}}}),
        {
            "$id": "http://e.org/root.json",
            "$ref": "http://e.org/root.json#/definitions/a",
            "definitions": {"a": INTEGER},
        },
        {"$id": "http://e.org/root.json", "$ref": "a.json", "definitions": {"a": {"$id": "a.json", **INTEGER}}},
        {
            "$id": "http://e.org/root.json",
            "$ref": "d/a.json",
            "definitions": {
                "a": {"$id": "d/a.json", "$ref": "b.json"},
                "b": {"$id": "d/b.json", **INTEGER},
            },
        },
        {"id": "http://e.org/root.json", "$ref": "#/definitions/a", "definitions": {"a": INTEGER}},
    ],
)
def test_references_inside_a_schema(schema: Any) -> None:
    assert find_incompatibilities("FULL", parsed("JSON", schema), [parsed("JSON", INTEGER)]) == []
    assert find_incompatibilities("FULL", parsed("JSON", schema), [parsed("JSON", STRING)]) != []


@each_case(
    "reference, name, other",
    [
        ("other.json", "other.json", INTEGER),
        ("other.json#/definitions/a", "other.json", {"definitions": {"a": INTEGER}}),
        ("other.json#here", "other.json", {"definitions": {"a": {"$anchor": "here", **INTEGER}}}),
        ("http://e.org/other.json", "http://e.org/other.json", INTEGER),
        ("http://e.org/other.json", "some-name", {"$id": "http://e.org/other.json", **INTEGER}),
        ("other.json", "other.json", {"$ref": "#/definitions/a", "definitions": {"a": INTEGER}}),
    ],
)
def test_references_to_other_schemas(reference: str, name: str, other: Any) -> None:
    schema = parse_schema("JSON", json.dumps(opened({"a": {"$ref": reference}})), {name: parsed("JSON", other)})
    assert find_incompatibilities("FULL", schema, [parsed("JSON", opened({"a": INTEGER}))]) == []
    assert find_incompatibilities("FULL", schema, [parsed("JSON", opened({"a": NUMBER}))]) != []


def test_a_relative_reference_is_one_to_the_same_place() -> None:
    text = json.dumps({"$id": "http://e.org/d/root.json", **opened({"a": {"$ref": "other.json"}})})
    for name in ("other.json", "http://e.org/d/other.json"):
        assert parse_schema("JSON", text, {name: parsed("JSON", INTEGER)})


def test_a_schema_of_a_schema_needs_no_reference() -> None:
    for name in ("http://json-schema.org/draft-07/schema#", NEW):
        assert parsed("JSON", opened({"a": {"$ref": name}}))


def test_references_of_references_have_their_own_names() -> None:
    """The middle schema resolves its reference in its own way, the top one in another."""
    middle = parse_schema("JSON", json.dumps(opened({"m": {"$ref": "leaf"}})), {"leaf": parsed("JSON", INTEGER)})
    top = parse_schema("JSON", json.dumps(opened({"t": {"$ref": "middle"}, "l": {"$ref": "leaf"}})), {"middle": middle})
    expected = parsed("JSON", opened({"t": opened({"m": INTEGER}), "l": INTEGER}))
    assert find_incompatibilities("FULL", top, [expected]) == []
    wider = parsed("JSON", opened({"t": opened({"m": NUMBER}), "l": INTEGER}))
    assert "'#/properties/t/properties/m'" in find_incompatibilities("BACKWARD", top, [wider])[0]


def test_a_reference_to_a_schema_of_another_type_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="reference 'a': expected a schema of type JSON, found AVRO"):
        parse_schema("JSON", '{"$ref":"a"}', {"a": parsed("AVRO", "int")})


def test_a_schema_of_the_greatest_depth_is_compared() -> None:
    levels = MAX_DEPTH - 1
    deep = [
        parse_schema("JSON", '{"not":' * levels + json.dumps(kind) + "}" * levels, {}) for kind in (INTEGER, NUMBER)
    ]
    assert len(find_incompatibilities("FULL", deep[0], deep[1:])) == 1


def test_a_chain_of_references_is_compared_to_its_end() -> None:
    length = 3_000
    chains = []
    for last in (INTEGER, NUMBER):
        links: dict[str, Any] = {f"d{index}": array({"$ref": f"#/definitions/d{index + 1}"}) for index in range(length)}
        chains.append(parsed("JSON", {"$ref": "#/definitions/d0", "definitions": {**links, f"d{length}": last}}))
    assert find_incompatibilities("BACKWARD", chains[1], [chains[0]]) == []
    assert len(found := find_incompatibilities("FORWARD", chains[1], [chains[0]])) == 1
    assert len(found[0]) < 2_000


def test_combinations_of_combinations_are_compared_in_bounded_time() -> None:
    """Without results that are kept this takes all ways through the levels."""
    definitions = {f"d{i}": anything(*[{"$ref": f"#/definitions/d{i + 1}"}, STRING, closed()]) for i in range(60)}
    texts = []
    for last in (INTEGER, NUMBER):
        texts.append({"$ref": "#/definitions/d0", "definitions": {**definitions, "d60": last}})
    older, newer = (parsed("JSON", text) for text in texts)
    assert find_incompatibilities("BACKWARD", newer, [older]) == []


def test_a_comparison_that_is_too_long_says_so() -> None:
    wide = [anything(*[opened({f"{name}{index}": STRING}) for index in range(700)]) for name in "ab"]
    older, newer = (parsed("JSON", schema) for schema in wide)
    expected = ["Incompatible because the schemas are too large for a comparison"]
    assert find_incompatibilities("BACKWARD", newer, [older]) == expected


@each_case(
    "pattern, is_covered",
    [
        ("^p$", True),
        ("p|q", True),
        ("^q", False),
        ("(a+)+$", False),
        ("(?!x)p", False),
        ("(", False),
        ("\ud800", False),
        ("p" * 5_000, False),
    ],
)
def test_a_pattern_covers_a_property_where_it_is_found_in_its_name(pattern: str, is_covered: bool) -> None:
    """Lookahead is not supported: such a pattern covers nothing. Time is linear, whatever the pattern."""
    if pattern == "\ud800":
        with pytest.raises(InvalidSchema, match="invalid Unicode"):
            parsed("JSON", closed(patternProperties={pattern: STRING}))
        return
    older = parsed("JSON", closed({"p": STRING, "a" * 50: STRING}, patternProperties={pattern: STRING}))
    newer = parsed("JSON", closed({"a" * 50: STRING}, patternProperties={pattern: STRING}))
    assert (find_incompatibilities("BACKWARD", newer, [older]) == []) == is_covered


KEYWORDS = [
    "type",
    "properties",
    "items",
    "additionalProperties",
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "const",
    "minimum",
    "multipleOf",
    "pattern",
    "$ref",
    "$id",
    "$anchor",
    "$schema",
    "definitions",
    "dependencies",
    "prefixItems",
    "unevaluatedProperties",
    "contains",
    "if",
    "patternProperties",
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([*KEYWORDS, "#", "#/definitions/a", NEW, "string"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYWORDS, "a"]), inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["properties", "definitions"]), st.dictionaries(st.just("a"), inner), max_size=2
        )
    ),
    max_leaves=15,
)


@given(VALUES | st.text(max_size=20), VALUES)
def test_junk_is_refused_or_parsed_to_a_text_that_stays(junk: Any, other: Any) -> None:
    text = junk if isinstance(junk, str) else json.dumps(junk)
    try:
        found = parse_schema("JSON", text, {})
        again = parse_schema("JSON", found.canonical, {})
    except InvalidSchema as error:
        assert 0 < len(str(error)) < 400
        return
    assert (again.canonical, again.normalized) == (found.canonical, found.normalized)
    assert find_incompatibilities("FULL_TRANSITIVE", again, [found]) == []
    try:
        changed = parse_schema("JSON", json.dumps(other), {})
    except InvalidSchema:
        return
    both = [find_incompatibilities(level, changed, [found]) for level in ("BACKWARD", "FORWARD")]
    assert bool(find_incompatibilities("FULL", changed, [found])) == any(both)
