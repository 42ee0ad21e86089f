"""Schemas whose size is a bomb, within the limits of a text. Short runs have a fifth of each."""

from __future__ import annotations

import json

from ottla.protocol.schemas.values import MAX_DEPTH, MAX_TEXT_BYTES
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
