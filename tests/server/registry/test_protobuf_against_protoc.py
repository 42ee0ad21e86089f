"""Protobuf's own compiler, `protoc`, accepts and refuses the same texts, and makes the same descriptors."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from ottla.protocol.schemas import InvalidSchema, parse_schema
from ottla.protocol.schemas.proto_descriptor import serialized
from support.noted import each_case
from support.registry.verdicts_protobuf import PAIRS, message, proto2, proto3

INCLUDE = Path(protoc.__file__).parent / "_proto"
EXTENDED = ("File", "Message", "Field", "Enum", "EnumValue")
META = (
    'syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";'
    "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }"
    + "".join(
        f"extend google.protobuf.{name}Options {{ Meta {name.lower().replace('value', '_value')}_meta = 1088; }}"
        for name in EXTENDED
    )
)
TEXTS = [
    *dict.fromkeys(text for pair in PAIRS for text in (pair.older, pair.newer)),
    proto3(
        "package a.b.c;", message("int32 foo_bar = 1; optional string x = 2; oneof o { bool y = 3; } repeated M m = 4;")
    ),
    proto3(
        message(
            "map<string, N> some_map = 1; N.E e = 2; "
            + message("enum E { X = 0; }", "N").replace("message M", "message N")
        )
    ),
    proto2(
        "optional string a = 1 [default = 'x', deprecated = true]; optional bool b = 2 [default = true, json_name = 'c'];"
    ),
    proto2(
        "optional E e = 1 [default = Y]; enum E { option allow_alias = true; X = 0; Y = 0; reserved 5 to 7, 9; reserved 'Z'; }"
    ),
    proto2(
        "reserved 1 to 3, 7, 100 to max; reserved 'a', 'b'; extensions 10 to 20, 30; extend M { optional int32 x = 10; }"
    ),
    proto2(
        "optional int32 a = 1 [default = -0x10]; optional uint64 b = 2 [default = 010]; optional bool c = 3 [default = true];"
    ),
    proto2("optional group Inner = 1 { repeated int32 a = 1 [packed = true]; }"),
    proto3(
        "import public 'google/protobuf/any.proto';",
        "import 'google/protobuf/empty.proto';",
        message("google.protobuf.Any a = 1;"),
    ),
    f"{proto3('int32 a = 1;')} option java_package = 'p'; option optimize_for = LITE_RUNTIME; option java_multiple_files = true;",
    proto3(
        message(),
        "service S { rpc A (M) returns (.M) { option idempotency_level = IDEMPOTENT; } rpc B (stream M) returns (stream M); }",
    ),
    proto3(
        "import 'confluent/meta.proto';",
        message(
            "option (confluent.message_meta) = { doc: 'd', params: [ { key: 'k', value: 'v' } ], tags: ['t', 'u'] }; int32 a = 1;"
        ),
    ),
    proto3("uint64 a = 1 [jstype = JS_STRING]; bytes b = 2 [ctype = CORD];"),
]
REFUSED = [
    "message M {",
    proto3("string a = 0;"),
    proto3("string a = 19500;"),
    proto3("string a = 1; int32 b = 1;"),
    proto3("string a = 1; int32 a = 2;"),
    proto3("Missing a = 1;"),
    proto3("reserved 1; string a = 1;"),
    proto3("reserved 'a'; string a = 1;"),
    proto3("required string a = 1;"),
    proto3("map<float, string> a = 1;"),
    proto3("repeated map<int32, string> a = 1;"),
    proto3(message("oneof o { }")),
    proto3(message("oneof o { repeated int32 a = 1; }")),
    proto3(message(), message()),
    proto3("enum E { }"),
    proto3("enum E { X = 1; }"),
    proto3("enum E { X = 0; Y = 0; }"),
    proto3("import 'missing.proto';"),
    proto3(message(), "service S { rpc Get (M) returns (N); }"),
    proto3("import 'google/protobuf/timestamp.proto';", message("Timestamp a = 1;")),
]


def compiled(text: str, folder: Path) -> descriptor_pb2.FileDescriptorProto | None:
    """Return what `protoc` makes of a text, None if it refuses it."""
    (folder / "confluent").mkdir(exist_ok=True)
    (folder / "confluent" / "meta.proto").write_text(META)
    (folder / "m.proto").write_text(text)
    out = folder / "out"
    out.unlink(missing_ok=True)
    includes = [f"-I{folder}", f"-I{INCLUDE}"]
    if protoc.main(["protoc", *includes, f"--descriptor_set_out={out}", str(folder / "m.proto")]) != 0:
        return None
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]


@each_case("text", TEXTS)
def test_descriptors_are_equal(text: str, tmp_path: Path) -> None:
    expected = compiled(text, tmp_path)
    assert expected is not None
    found = descriptor_pb2.FileDescriptorProto.FromString(
        base64.b64decode(serialized(parse_schema("PROTOBUF", text, {}), "m.proto"))
    )
    for each in (expected, found):  # The order of fields has no meaning there: ours of oneofs are the last ones.
        sort_fields(each.message_type)
    assert found == expected


def sort_fields(messages: object) -> None:
    for each in messages:  # type: ignore[attr-defined]  # repeated field of a generated class
        each.field.sort(key=lambda field: field.number)
        each.nested_type.sort(key=lambda nested: nested.name)
        sort_fields(each.nested_type)


@each_case("text", TEXTS)
def test_a_descriptor_of_protoc_is_the_same_schema(text: str, tmp_path: Path) -> None:
    data = compiled(text, tmp_path)
    assert data is not None
    again = parse_schema("PROTOBUF", base64.b64encode(data.SerializeToString()).decode(), {})
    assert again.normalized == parse_schema("PROTOBUF", text, {}).normalized


@each_case("text", REFUSED)
def test_texts_are_refused(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidSchema):
        parse_schema("PROTOBUF", text, {})
    assert compiled(text, tmp_path) is None
    capfd.readouterr()
