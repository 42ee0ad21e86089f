"""Schemas whose size is a bomb: each ends in `InvalidSchema` or in a result, within the processor time of a test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.server.registry.schemas import KINDS, InvalidSchema, Schema, find_incompatibilities, parse_schema
from ottla.server.registry.schemas.values import MAX_DEPTH, MAX_TEXT_BYTES, Budget, SchemaTooLarge, reached, run_walk
from support.noted import noted
from support.registry.verdict import parsed
from support.sizes import size

NEAR = MAX_TEXT_BYTES - 50_000
LONG = "n" * (MAX_TEXT_BYTES // 2)


def many(number: int) -> int:
    """Return a number of parts: a fifth in short runs, where a time that grows with the square is seen as well."""
    return number // size(5, 1)


def nested(opening: str, leaf: str, closing: str, levels: int) -> str:
    return opening * levels + leaf + closing * levels


def doubled(levels: int, record: str) -> str:
    """Records that use the one before twice: 2 to the power of `levels` ways to the first one."""
    records = [record % ("R0", '"int"', '"int"')]
    records += [record % (f"R{i}", f'"R{i - 1}"', f'"R{i - 1}"') for i in range(1, levels)]
    return f"[{','.join(records)}]"


RECORD = '{"type":"record","name":"%s","fields":[{"name":"a","type":%s},{"name":"b","type":%s}]}'
ANY_OF = {"anyOf": [{"type": "object", "properties": {f"p{i}": {}}} for i in range(800)]}
HOSTILE: list[tuple[str, str, str]] = [
    ("AVRO", "a long namespace", json.dumps({"type": "record", "name": "R", "namespace": LONG, "fields": []})),
    ("AVRO", "many fields", '{{"type":"record","name":"R","fields":[{}]}}'.format(",".join(f'{{"name":"f{i}","type":"int"}}' for i in range(many(15_000))))),
    ("AVRO", "many symbols", json.dumps({"type": "enum", "name": "E", "symbols": [f"S{i}" for i in range(many(59_000))]})),
    ("AVRO", "a wide union", json.dumps([{"type": "fixed", "name": f"F{i}", "size": i} for i in range(many(14_000))])),
    ("AVRO", "a use of a use", doubled(2_000, RECORD)),
    ("AVRO", "too many elements", f'[{"," * NEAR}]'),
    ("AVRO", "a long documentation", json.dumps({"type": "string", "doc2": "é" * (NEAR // 6)})),
    ("AVRO", "deep attributes", '{"type":"string","x":' + nested("[", "1", "]", MAX_DEPTH - 1) + "}"),
    ("JSON", "many properties", json.dumps({"properties": {f"p{i}": {"type": "string"} for i in range(many(15_000))}})),
    ("JSON", "a wide sum", json.dumps(ANY_OF)),
    ("JSON", "sums in sums", nested('{"anyOf":[{},', json.dumps({"title": "x" * (NEAR // 2)}), "]}", MAX_DEPTH // 2 - 1)),
    ("JSON", "many values", json.dumps({"enum": list(range(many(59_000)))})),
    ("JSON", "many patterns", json.dumps({"patternProperties": {f"(a|b{{1,{i % 9 + 1}}})*{i}": {} for i in range(many(20_000))}})),
    ("JSON", "a long identifier", json.dumps({"$id": f"http://e.org/{LONG}", "a": {"$id": "b"}})),
    ("JSON", "many identifiers", json.dumps({"$id": f"http://e.org/{'d' * 900}/", "a": [{"$id": f"i{i}", "$anchor": f"a{i}"} for i in range(many(14_000))]})),
    ("JSON", "many references", json.dumps({"definitions": {"a": {}}, "items": [{"$ref": "#/definitions/a"} for _ in range(many(29_000))]})),
    ("JSON", "a chain of references", json.dumps({"definitions": {f"d{i}": {"$ref": f"#/definitions/d{i + 1}"} for i in range(many(14_000))} | {f"d{many(14_000)}": {}}, "$ref": "#/definitions/d0"})),
    ("JSON", "an open string", '{"' * 300 + '\\"' * (NEAR // 2)),
    ("JSON", "one large number", '{"maximum":' + "9" * 4_000 + "}"),
    ("PROTOBUF", "many fields", "message M {{ {} }}".format(" ".join(f"optional int32 f{i} = {i + 1};" for i in range(many(14_000))))),
    ("PROTOBUF", "many messages", " ".join(f"message M{i} {{}}" for i in range(many(24_000)))),
    ("PROTOBUF", "deep messages", nested("message M { ", "optional int32 a = 1; enum E { A = 0; } ", "}", 64)),
    ("PROTOBUF", "a wide message in deep ones", nested("message M { ", " ".join(f"message N{i} {{}}" for i in range(many(24_000))), "}", 60)),
    ("PROTOBUF", "a long package", f"package {'a.' * (NEAR // 2)}a; message M {{}}"),
    ("PROTOBUF", "a long name", f"message {LONG} {{ message {LONG[:-99]} {{}} }}"),
    ("PROTOBUF", "many reserved numbers", "message M {{ {} {} }}".format("reserved 20000 to max;" * many(20_000), " ".join(f"optional int32 f{i} = {i + 1};" for i in range(many(9_000))))),
    ("PROTOBUF", "a type that is looked up in many scopes", "package {}; message M {{ {} }}".format(".".join("p" * 400), " ".join(f"optional M f{i} = {i + 1};" for i in range(many(15_000))))),
    ("PROTOBUF", "a long string", f"option a = '{LONG}' '{LONG[:-99]}';"),
    ("PROTOBUF", "only spaces", " " * NEAR + ";"),
    ("PROTOBUF", "an open comment", "/*" + "*" * NEAR),
    ("PROTOBUF", "an open string", "option a = '" + "\\\\" * (NEAR // 2)),
    ("PROTOBUF", "zeros in base64", "A" * (NEAR // 4 * 4)),
    ("PROTOBUF", "messages in base64", "IgAi" * (NEAR // 4)),
]  # fmt: skip


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
