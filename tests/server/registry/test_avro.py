"""Avro schemas: texts that are none, texts that are the same, references, bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.schemas import InvalidSchema, Schema, parse_schema
from ottla.protocol.schemas.values import MAX_DEPTH, MAX_REFERENCES, MAX_TEXT_BYTES
from ottla.server.registry.schemas import find_incompatibilities
from support.noted import each_case
from support.registry.verdict import parsed
from support.registry.verdicts_avro import array, enum, field, fixed, record

INVALID: list[tuple[Any, str]] = [
    (3, "type: expected a string, an array or an object, found 3"),
    (None, "type: expected a string, an array or an object, found None"),
    ({}, "type: expected the name of a type in attribute 'type', found None"),
    ({"type": {"type": "int"}}, "type: expected the name of a type"),
    ("integer", "type: not defined ('integer')"),
    ({"type": "R"}, "type: not defined ('R')"),
    ({"type": "array"}, "array: attribute 'items' is missing"),
    ({"type": "map"}, "map: attribute 'values' is missing"),
    (["int", "int"], "union: duplicate branch (int)"),
    ([array("int"), array("string")], "union: duplicate branch (array)"),
    (["int", ["string"]], "union: a branch is a union"),
    ({"type": "record", "fields": []}, "record: name: expected a string, found None"),
    ({"type": "record", "name": "R"}, "R: fields: expected an array, found None"),
    (record(name="2R"), "name: invalid name ('2R'"),
    (record(name="a..R"), "name: invalid name ('a..R'"),
    (record(name="é"), "name: invalid name ('é'"),
    (record(name="int"), "record: name of a primitive type (int)"),
    (record(namespace=3), "namespace: expected a string, found 3"),
    (record(namespace="a-b"), "name: invalid name ('a-b.R'"),
    (record(aliases="A"), "R: aliases: expected an array of strings, found 'A'"),
    (record(aliases=["a b"]), "R: alias: invalid name ('a b'"),
    (record(3), "R: field: expected an object, found 3"),
    (record({"type": "int"}), "R: field: name: expected a string, found None"),
    (record(field("a b")), "R: field: invalid name ('a b'"),
    (record({"name": "a"}), "R.a: attribute 'type' is missing"),
    (record(field("a"), field("a")), "R.a: duplicate field"),
    (record(field("a", order="up")), "R.a: order: expected ascending, descending or ignore, found 'up'"),
    (record(field("a", aliases=[1])), "R.a: aliases: expected an array of strings"),
    (record(field("a", record())), "record: defined twice (R)"),
    (record(field("a", "int", default="x")), "R.a: default is not of the field's type ('x')"),
    (record(field("a", "int", default=1 << 31)), "R.a: default is not of the field's type (2147483648)"),
    (record(field("a", "int", default=True)), "R.a: default is not of the field's type (True)"),
    (record(field("a", "long", default=1 << 63)), "R.a: default is not of the field's type"),
    (record(field("a", "double", default="1")), "R.a: default is not of the field's type"),
    (record(field("a", "string", default=None)), "R.a: default is not of the field's type (None)"),
    (record(field("a", ["null", "int"], default="null")), "R.a: default is not of the field's type ('null')"),
    (record(field("a", array("int"), default=["x"])), "R.a: default is not of the field's type"),
    (record(field("a", record(field("b"), name="N"), default={})), "R.a: default is not of the field's type ({})"),
    ({"type": "enum", "name": "E"}, "E: symbols: expected an array of strings, found None"),
    (enum("X", "X"), "E: duplicate symbol (X)"),
    (enum("a-b"), "E: symbol: invalid name ('a-b'"),
    (enum("X", default="Y"), "E: default is not a symbol ('Y')"),
    ({"type": "fixed", "name": "F"}, "F: size: expected an integer from 0 to 2147483647, found None"),
    (fixed(-1), "F: size: expected an integer from 0 to 2147483647, found -1"),
    ({"type": "fixed", "name": "F", "size": True}, "F: size: expected an integer"),
]


@each_case("schema, message", INVALID)
def test_an_invalid_schema_is_refused_with_its_reason(schema: Any, message: str) -> None:
    with pytest.raises(InvalidSchema) as error:
        parsed("AVRO", schema)
    assert str(error.value).startswith(message)


@each_case(
    "text, message",
    [
        (" ", "schema: empty"),
        ("{", "schema: invalid JSON (Expecting property name"),
        ("NaN", "schema: invalid JSON (NaN is not a number of JSON)"),
        ('{"type":"int","x":1e999}', "schema: number out of range (1e999)"),
        ('"int" x', "schema: invalid JSON (Extra data"),
        ('{"type":"string","doc2":"\\ud800"}', "schema: invalid Unicode"),
        ('"\ud800"', "schema: invalid Unicode"),
        ("9" * 5_000, "schema: invalid JSON"),
        ("[" * 10_000, "schema: "),  # Whether the depth or the end is noticed first depends on Python.
        ("[" * 10_000 + "]" * 10_000, f"schema: nested too deeply (limit {MAX_DEPTH} levels)"),
        ('{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000, "schema: nested too deeply"),
        (f'"{"x" * MAX_TEXT_BYTES}"', f"schema: too large ({MAX_TEXT_BYTES + 2} bytes, limit {MAX_TEXT_BYTES})"),
    ],
)
def test_a_text_that_is_no_json_or_exceeds_a_bound_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSchema) as error:
        parse_schema("AVRO", text, {})
    assert str(error.value).startswith(message)


def test_brackets_in_strings_are_not_nested() -> None:
    assert parse_schema("AVRO", json.dumps(record(doc="[{" * MAX_DEPTH)), {})


def test_the_deepest_schema_is_parsed_written_and_compared() -> None:
    levels = MAX_DEPTH
    schemas = [
        parse_schema("AVRO", '{"type":"array","items":' * levels + f'"{kind}"' + "}" * levels, {})
        for kind in ("int", "long")
    ]
    assert not find_incompatibilities("BACKWARD", schemas[1], [schemas[0]])
    assert "items/items" in find_incompatibilities("FORWARD", schemas[1], [schemas[0]])[0]


def end_of_chain(length: int, last: str) -> Schema:
    """Return the last record of many, each with a field of the type of the one before: a flat text, types that are deep."""
    records = [record(field("a", last), name="R0")]
    records += [record(field("a", f"R{index - 1}"), name=f"R{index}") for index in range(1, length)]
    return parse_schema("AVRO", f'"R{length - 1}"', {"chain": parsed("AVRO", records)})


def test_a_chain_of_types_is_compared_to_its_end() -> None:
    older, newer = end_of_chain(5_000, "int"), end_of_chain(5_000, "long")
    assert find_incompatibilities("BACKWARD", newer, [older]) == []
    assert find_incompatibilities("FORWARD", newer, [older])[0].startswith("{errorType:'TYPE_MISMATCH'")


def test_a_comparison_that_is_too_long_says_so() -> None:
    many = parse_schema("AVRO", json.dumps([record(field("a"), name=f"R{index}") for index in range(2_000)]), {})
    others = parse_schema("AVRO", json.dumps([record(field("a"), name=f"S{index}") for index in range(2_000)]), {})
    expected = ["Incompatible because the schemas are too large for a comparison"]
    assert find_incompatibilities("BACKWARD", many, [others]) == expected


def test_a_default_that_takes_too_long_to_check_is_refused() -> None:
    wide = record(*[field(f"f{index}", default=0) for index in range(5_000)], name="W")
    uses = [field(f"u{index}", "W", default={}) for index in range(5_000)]
    with pytest.raises(InvalidSchema, match="too large to be checked"):
        parsed("AVRO", record(field("first", wide), *uses))


def test_a_default_of_unions_of_recursive_types_is_checked_once_a_type() -> None:
    """All combinations of branches would be 8 to the power of 40."""
    default: Any = "wrong"
    for _ in range(40):
        default = {"a": default}
    names = [f"N{index}" for index in range(8)]
    kinds = [record(field("a", ["null"], default=None), name=name) for name in names]
    kinds[-1] = record(field("a", ["null", *names], default=None), name=names[-1])
    with pytest.raises(InvalidSchema, match="default is not of"):
        parsed("AVRO", record(field("first", kinds), field("x", names[-1], default=default)))


def test_invalid_defaults_of_stored_schemas_are_accepted() -> None:
    """Registries before Confluent's 5.5 did not check defaults; such schemas are in topics."""
    text = json.dumps(record(field("a", ["null", "int"], default="null")))
    assert parse_schema("AVRO", text, {}, is_new=False).canonical == text.replace(" ", "")


@each_case(
    "default, kind",
    [
        (None, "null"),
        (True, "boolean"),
        (-(1 << 31), "int"),
        ((1 << 63) - 1, "long"),
        (1, "float"),
        (1.5, "double"),
        ("\u00ff", "bytes"),
        ("x", "string"),
        ("X", enum("X")),
        ("\u0000", fixed(1)),
        ([1, 2], array("int")),
        ({"k": [None]}, {"type": "map", "values": array("null")}),
        (None, ["null", "int"]),
        (3, ["null", "int"]),
        ({"b": 1}, record(field("b"), name="N")),
        ({}, record(field("b", default=2), name="N")),
    ],
)
def test_valid_defaults(default: Any, kind: Any) -> None:
    assert parsed("AVRO", record(field("a", kind, default=default)))


@each_case(
    "schema, canonical",
    [
        ({"type": "int"}, '"int"'),
        ({"type": "int", "logicalType": "date"}, '{"type":"int","logicalType":"date"}'),
        (["null", {"type": "string"}], '["null","string"]'),
        (
            {"fields": [], "doc": "d", "namespace": "n", "name": "R", "type": "record", "x": {"b": 1, "a": 2}},
            '{"type":"record","name":"R","namespace":"n","doc":"d","fields":[],"x":{"b":1,"a":2}}',
        ),
        (
            record(name="n.R", aliases=["n.A", "B", "m.C"]),
            '{"type":"record","name":"R","namespace":"n","fields":[],"aliases":["A","B","m.C"]}',
        ),
        (
            record(field("a", aliases=["z", "b"], order="DESCENDING", default=1, doc="d", x=None)),
            (
                '{"type":"record","name":"R","fields":[{"name":"a","type":"int","doc":"d","default":1,'
                '"order":"descending","aliases":["z","b"],"x":null}]}'
            ),
        ),
        (enum("X", "Y", default="X"), '{"type":"enum","name":"E","symbols":["X","Y"],"default":"X"}'),
        (fixed(4, namespace=""), '{"type":"fixed","name":"F","size":4}'),
        (
            record(field("a", enum("X", name="E", namespace="")), name="n.R"),
            (
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":'
                '{"type":"enum","name":"E","namespace":"","symbols":["X"]}}]}'
            ),
        ),
        (
            record(field("a", record(name="N")), field("b", "N"), field("c", "m.R"), name="m.R"),
            (
                '{"type":"record","name":"R","namespace":"m","fields":[{"name":"a","type":'
                '{"type":"record","name":"N","fields":[]}},{"name":"b","type":"N"},{"name":"c","type":"R"}]}'
            ),
        ),
        ({"type": "string", "doc2": "ä☃"}, '{"type":"string","doc2":"ä☃"}'),
    ],
)
def test_canonical_texts(schema: Any, canonical: str) -> None:
    assert parsed("AVRO", schema).canonical == canonical


def test_a_normalized_text_has_no_order_of_attributes_and_aliases() -> None:
    one = {"type": "bytes", "z": 1, "scale": 2, "precision": 9, "logicalType": "decimal", "a": 2}
    other = {"a": 2, "z": 1, "logicalType": "decimal", "precision": 9, "scale": 2, "type": "bytes"}
    left, right = (
        parsed("AVRO", record(field("f", kind, aliases=aliases), aliases=aliases, doc=""))
        for kind, aliases in ((one, ["y", "x"]), (other, ["x", "y", "x"]))
    )
    assert left.canonical != right.canonical
    assert left.normalized == right.normalized
    assert '{"type":"bytes","logicalType":"decimal","precision":9,"scale":2,"a":2,"z":1}' in left.normalized
    assert '"doc"' not in left.normalized


def referencing(name: str, *references: Schema) -> Schema:
    text = json.dumps(record(*[field(f"f{i}", each.parsed.root.name) for i, each in enumerate(references)], name=name))
    return parse_schema("AVRO", text, {each.parsed.root.name: each for each in references})


def test_types_of_references_are_known_and_stay_out_of_the_canonical_text() -> None:
    leaf = parsed("AVRO", enum("X"))
    top = referencing("T", referencing("M", leaf), leaf)
    assert top.canonical == (
        '{"type":"record","name":"T","fields":[{"name":"f0","type":"M"},{"name":"f1","type":"E"}]}'
    )


def test_a_change_in_a_reference_is_a_change() -> None:
    older, newer = (referencing("T", referencing("M", parsed("AVRO", enum(*names)))) for names in ("X", "XY"))
    assert older.canonical == newer.canonical
    assert find_incompatibilities("BACKWARD", newer, [older]) == []
    assert "'/fields/0/type/fields/0/type/symbols'" in find_incompatibilities("FORWARD", newer, [older])[0]


def test_a_type_that_a_reference_defines_cannot_be_defined_again() -> None:
    with pytest.raises(InvalidSchema, match=r"enum: defined twice \(E\)"):
        parse_schema("AVRO", json.dumps(enum("X")), {"E": parsed("AVRO", enum("X"))})
    with pytest.raises(InvalidSchema, match=r"reference 'b': defines a type that another reference defines \(E\)"):
        parse_schema("AVRO", '"E"', {"a": parsed("AVRO", enum("X")), "b": parsed("AVRO", enum("X"))})


def test_references_are_bounded() -> None:
    wide = {f"N{index}": parsed("AVRO", record(name=f"N{index}")) for index in range(MAX_REFERENCES + 1)}
    with pytest.raises(InvalidSchema, match="references: too many"):
        parse_schema("AVRO", '"int"', wide)
    large: dict[str, Schema] = {}
    for index in range(4):
        text = json.dumps(record(name=f"L{index}", doc="x" * (MAX_TEXT_BYTES - 100)))
        large = {f"l{index}": parse_schema("AVRO", text, large)}
    with pytest.raises(InvalidSchema, match="references: too many"):
        parse_schema("AVRO", f'"{"L" * 1_000}"', large)


def test_a_long_chain_of_references_is_followed() -> None:
    last = parsed("AVRO", record(name="N0"))
    for index in range(1, 300):
        text = json.dumps(record(field("f", f"N{index - 1}"), name=f"N{index}"))
        last = parse_schema("AVRO", text, {"last": last})
        assert last.references["last"] is not last
    assert parse_schema("AVRO", '"N299"', {"last": last}).canonical == '"N299"'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "name", "fields", "items", "values", "symbols", "size", "default", "aliases", "doc"]
            ),
            inner | st.sampled_from(["record", "enum", "fixed", "array", "map", "int", "R", "n.R", "error"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON | st.text(max_size=20))
def test_junk_is_refused_or_parsed_to_a_text_that_stays(junk: Any) -> None:
    text = junk if isinstance(junk, str) else json.dumps(junk)
    try:
        found = parse_schema("AVRO", text, {})
    except InvalidSchema as error:
        assert 0 < len(str(error)) < 400
        return
    again = parse_schema("AVRO", found.canonical, {})
    assert (again.canonical, again.normalized) == (found.canonical, found.normalized)
    assert [each for each in find_incompatibilities("FULL", again, [found]) if "AMBIGUOUS_ALIASES" not in each] == []


@each_case(
    "schema",
    [
        {
            "type": "record",
            "name": "a-b.$c",
            "aliases": ["1"],
            "fields": [{"name": "x y", "type": "int", "default": ""}],
        },
        {"type": "enum", "name": "E", "namespace": "-", "symbols": ["A-B", ""]},
        {"type": "fixed", "name": "..", "size": 1},
        ["null", {"type": "record", "name": "Ünï", "fields": [{"name": "n", "type": ["null", "Ünï"]}]}],
    ],
)
def test_stored_schemas_have_any_names(schema: Any) -> None:
    text = json.dumps(schema)
    with pytest.raises(InvalidSchema, match="invalid name"):
        parse_schema("AVRO", text, {})
    stored = parse_schema("AVRO", text, {}, is_new=False)
    again = parse_schema("AVRO", stored.canonical, {}, is_new=False)
    assert again.canonical == stored.canonical
    assert find_incompatibilities("FULL", again, [stored]) == []
    with pytest.raises(InvalidSchema, match="name too long"):
        parse_schema("AVRO", json.dumps(record(name="x-" * 1_000)), {}, is_new=False)
