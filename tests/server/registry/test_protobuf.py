"""Protobuf schemas: texts that are none, texts that are the same, descriptors, references, bounds."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.schemas import InvalidSchema, Schema, parse_schema
from ottla.protocol.schemas.proto_descriptor import json_name, serialized
from ottla.protocol.schemas.proto_text import MAX_NESTING, MAX_TOKENS
from ottla.server.registry.schemas import find_incompatibilities
from support.noted import each_case
from support.registry.verdict import parsed
from support.registry.verdicts_protobuf import PAIRS, message, proto2, proto3

INVALID = [
    ("hello {", "line 1: expected a message, an enum or another declaration, found 'hello'"),
    ("\n\nmessage M { string a = ; }", "line 3: expected an integer, found ';'"),
    ("message M { string a = 1 }", "line 1: expected ';', found '}'"),
    ("message M { string a = 1;", "line 1: expected a name, found the end"),
    ("message 3 {}", "line 1: expected a name, found '3'"),
    ("message M { string a = 1.5; }", "line 1: expected an integer, found '1.5'"),
    ("message M { string a = 99999999999999999999999; }", "line 1: expected an integer of at most 64 bits"),
    ("message M { string a = 1 [deprecated]; }", "line 1: expected '=', found ']'"),
    ("message M { % }", "line 1: unexpected character '%'"),
    ("message M { /* }", "line 1: unexpected character '*'"),
    ("option a = 1x;", "option: invalid number ('1x')"),
    ("option a = 0x;", "option: invalid number ('0x')"),
    ("option a = .x;", "option: invalid number ('.x')"),
    ("option a = 1_0;", "option: invalid number ('1_0')"),
    ("option a = 'x", 'line 1: unexpected character "\'"'),
    ("syntax = 'proto4';", "syntax: expected proto2 or proto3, found 'proto4'"),
    ("edition = 'x';", "edition: expected a year, found 'x'"),
    ("package a; package b;", "line 1: expected one package"),
    ("package a..b;", "line 1: expected a name, found '.'"),
    (proto3("Missing a = 1;"), "M.a: type not found ('Missing')"),
    (proto3("import 'google/protobuf/timestamp.proto';", message("Timestamp a = 1;")), "M.a: type not found"),
    (proto3("import 'other.proto';"), "import: not found ('other.proto'); name its schema in the references"),
    (proto3("string a = 0;"), "M.a: number 0 is out of range"),
    (proto3("string a = 536870912;"), "M.a: number 536870912 is out of range"),
    (proto3("string a = 19000;"), "M.a: number 19000 is out of range"),
    (proto3("string a = 1; int32 b = 1;"), "M.b: number 1 is that of a"),
    (proto3("string a = 1; int32 a = 2;"), "M.a: duplicate field"),
    (proto3(message("string a = 1; oneof a { int32 b = 2; }")), "M.a: name of a field and of a oneof"),
    (proto3(message("string a = 1; oneof o { int32 b = 1; }")), "M.b: number 1 is that of a"),
    (proto3(message("oneof o { }")), "M.o: a oneof needs a field"),
    (proto3(message("oneof o { repeated int32 a = 1; }")), "M.o: fields of a oneof have no label"),
    (proto3(message("oneof o { map<int32, int32> a = 1; }")), "M.o: fields of a oneof have no label, and are no maps"),
    (proto3("reserved 2 to 5; string a = 4;"), "M.a: number 4 is reserved"),
    (proto3("reserved 5 to 2;"), "M: reserved: first number after the last (5 to 2)"),
    (proto3("reserved 'a'; string a = 4;"), "M.a: the name is reserved"),
    (proto3("required string a = 1;"), "M.a: proto3 has no required fields and groups"),
    (proto3(message("optional group G = 1 { }")), "M.g: proto3 has no required fields and groups"),
    (proto3("map<double, string> a = 1;"), "M.a: type of a map's keys: expected an integer, bool or string"),
    (proto3("repeated map<int32, string> a = 1;"), "M.a: a map has no label (repeated)"),
    (proto3(message(), message()), "M: defined twice"),
    (proto3(message(), "enum M { X = 0; }"), "M: defined twice"),
    (proto3("enum E { }"), "E: an enum needs a value"),
    (proto3("enum E { X = 1; }"), "E: the first value of an enum of proto3 must be 0, found 1"),
    (proto3("enum E { X = 0; X = 1; }"), "E.X: duplicate value"),
    (proto3("enum E { X = 0; Y = 0; }"), "E.Y: number 0 is that of X, without allow_alias"),
    (proto3("enum E { X = 0; Y = 4294967296; }"), "E.Y: number 4294967296 is out of range"),
    (proto3("enum E { X = 0; reserved 1; Y = 1; }"), "E.Y: number 1 is reserved"),
    (proto3(message(), "enum E { X = 0; }", "service S { rpc Get (M) returns (E); }"), "S.Get: expected a message"),
    (proto3(message(), "service S { rpc Get (M) returns (N); }"), "Get: type not found ('N')"),
    (proto3(message(), "extend N { int32 a = 1; }"), "extend: type not found ('N')"),
    (message("", "x" * 2_000), ": name too long (2000 characters, limit 1000)"),
]


@each_case("text, reason", INVALID)
def test_an_invalid_schema_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema) as error:
        parsed("PROTOBUF", text)
    assert str(error.value).startswith(reason)


@each_case(
    "text, reason",
    [
        ("message M {" * 10_000, f"schema: nested too deeply (limit {MAX_NESTING} levels)"),
        ("option a = " + "{a:" * 10_000, f"schema: nested too deeply (limit {MAX_NESTING} levels)"),
        ("option a = " + "[" * 10_000, f"schema: nested too deeply (limit {MAX_NESTING} levels)"),
        ("message M { optional group G = 1 {" * 10_000, "schema: nested too deeply"),
        (";" * (MAX_TOKENS + 1), f"schema: too many tokens (limit {MAX_TOKENS})"),
        (" " * 500_000 + "{", "line 1: expected a message"),
        ("; // nothing", "schema: empty"),
        ("/*" * 250_000, "line 1: unexpected character '*'"),
        ("'" + "\\'" * 250_000, 'line 1: unexpected character "\'"'),
        ("hello", "schema: neither Protobuf's language nor base64"),
        ("abcd", "schema: neither Protobuf's language nor a serialized FileDescriptorProto"),
        ("A" * 100_000, "schema: neither Protobuf's language nor a serialized FileDescriptorProto"),
    ],
)
def test_a_text_that_exceeds_a_bound_or_is_junk_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema) as error:
        parse_schema("PROTOBUF", text, {})
    assert str(error.value).startswith(reason)


EVERYTHING = r"""
// A comment.
syntax = "proto2";
package a.b;
import "google/protobuf/descriptor.proto";
import public "confluent/meta.proto";
option java_package = "x\"y\n";
option optimize_for = CODE_SIZE;
option (confluent.file_meta) = { doc: "d", tags: ["t", "u"] };
message M {
  option deprecated = true;
  required string name = 1 [default = "x", deprecated = true];
  repeated .a.b.M.N items = 3 [(confluent.field_meta).tags = "PII"];
  map<string, E> values = 2;
  oneof choice { option (c) = 1; int32 left = 5; bytes right = 4; }
  optional group Result = 6 { optional int32 inner = 1; }
  message N { enum F { Z = -1; } optional F f = 1; }
  reserved 10, 20 to 30, 40 to max;
  reserved "old", 'older';
  extensions 100 to 199;
  extend M { optional float more = 100; }
}
enum E { option allow_alias = true; X = 0; Y = 0x1 [deprecated = true]; W = 0; }
extend google.protobuf.FieldOptions { optional string c = 50000; }
service S {
  rpc Get (M) returns (stream M.N);
  rpc Put (stream .a.b.M) returns (M) { option deprecated = true; }
}
"""
CANONICAL = r"""syntax = "proto2";
package a.b;

import "google/protobuf/descriptor.proto";
import public "confluent/meta.proto";

option java_package = "x\"y\n";
option optimize_for = CODE_SIZE;
option (confluent.file_meta) = {
  doc: "d",
  tags: [
    "t",
    "u"
  ]
};

message M {
  reserved 10, 20 to 30, 40 to max;
  reserved "old", "older";
  
  option deprecated = true;
  
  required string name = 1 [
    deprecated = true,
    default = "x"
  ];
  repeated .a.b.M.N items = 3 [(confluent.field_meta).tags = "PII"];
  map<string, E> values = 2;
  
  oneof choice {
    option (c) = 1;
    
    int32 left = 5;
    bytes right = 4;
  }
  
  optional group Result = 6 {
    optional int32 inner = 1;
  }
  
  extensions 100 to 199;
  
  extend M {
    optional float more = 100;
  }
  
  message N {
    optional F f = 1;
    
    enum F {
      Z = -1;
    }
  }
}
enum E {
  option allow_alias = true;
  X = 0;
  Y = 1 [deprecated = true];
  W = 0;
}

extend google.protobuf.FieldOptions {
  optional string c = 50000;
}

service S {
  rpc Get (M) returns (stream M.N);
  rpc Put (stream .a.b.M) returns (M) {
    option deprecated = true;
  };
}
"""


def test_the_canonical_text_has_one_layout() -> None:
    assert parsed("PROTOBUF", EVERYTHING).canonical == CANONICAL


def test_the_normalized_text_has_full_names_and_the_order_of_numbers() -> None:
    lines = [line.strip() for line in parsed("PROTOBUF", EVERYTHING).normalized.splitlines()]
    fields = [line for line in lines if " = " in line and line.endswith(";") and not line.startswith("option ")]
    assert fields[:4] == [
        "map<string, .a.b.E> values = 2;",
        'repeated .a.b.M.N items = 3 [(confluent.field_meta).tags = "PII"];',
        "bytes right = 4;",
        "int32 left = 5;",
    ]
    assert "rpc Put (stream .a.b.M) returns (.a.b.M) {" in lines
    assert "extend .google.protobuf.FieldOptions {" in lines
    assert not lines[0].startswith("syntax")


@each_case(
    "one, other",
    [
        (proto3("string a = 1; int32 b = 2;"), proto3("int32 b = 2; string a = 1;")),
        (proto3("package p;", message("M m = 1;")), proto3("package p;", message(".p.M m = 1;"))),
        (proto2("reserved 3, 1;"), proto2("reserved 1; reserved 3;")),
        (message("optional int32 a = 1;"), proto2("optional int32 a = 1;")),
        ("enum E { X = 0; Y = 1; }", "enum E { Y = 1; X = 0; }"),
        (
            "import 'google/protobuf/any.proto'; import 'google/protobuf/api.proto';",
            "import 'google/protobuf/api.proto'; import 'google/protobuf/any.proto';",
        ),
        (
            proto3("int32 a = 1 [deprecated = true, packed = true];"),
            proto3("int32 a = 1 [packed = true, deprecated = true];"),
        ),
    ],
)
def test_normalized_texts_are_equal_where_the_order_has_no_meaning(one: str, other: str) -> None:
    left, right = parsed("PROTOBUF", one), parsed("PROTOBUF", other)
    assert left.canonical != right.canonical
    assert left.normalized == right.normalized


def test_the_order_of_messages_stays() -> None:
    """Clients send the index of a message."""
    texts = proto3(message("", "A"), message("", "B")), proto3(message("", "B"), message("", "A"))
    assert len({parsed("PROTOBUF", text).normalized for text in texts}) == 2


@each_case(
    "text",
    [
        proto3(message("message.M a = 1;"), "message N {}").replace("message.M", "M"),
        proto3("string message = 1; string enum = 2; string oneof = 3; string reserved = 4; string option = 5;"),
        proto3("string optional = 1; string repeated = 2; string map = 3; string group = 4; string to = 5;"),
        proto3("string syntax = 1; string extend = 6; string rpc = 2; string package = 3; string import = 4;"),
        "edition = '2023'; message M { int32 a = 1 [features.field_presence = IMPLICIT]; reserved b, c; }",
        "enum option { option = 0; }",
        "message M { optional int32 a = 010 [default = -0x10]; optional double b = 2 [default = -1.5e3]; }",
        "message M { optional double a = 1 [default = inf]; optional string b = 2 [default = 'a' \"b\" '\\x41\\101\\u00e4']; }",
        "option (a).b.(c.d) = { a { b: 1 } [x.y/z]: < c: -2; > d: [1, { e: true }] a: {} };",
        ";;; message M { ; oneof o { ; int32 a = 1; ; } ; } ; service S { ; } enum E { ; X = 0; ; }",
        "import weak 'google/protobuf/any.proto';",
        "option a = .5; option b = 1.; option c = 1e+5; option d = 0XfF; option e = -inf; option f = 012; /**/ /***/ /* / * **/",
    ],
)
def test_corners_of_the_language(text: str) -> None:
    first = parsed("PROTOBUF", text)
    assert parsed("PROTOBUF", first.canonical).canonical == first.canonical
    assert parsed("PROTOBUF", first.normalized).normalized == first.normalized


def test_escapes_of_strings() -> None:
    schema = parsed("PROTOBUF", r"option a = '\a\b\f\n\r\t\v\\\'\"\?\x01\177\u00e4\U0001F600☃';")
    assert schema.canonical == '\noption a = "\\a\\b\\f\\n\\r\\t\\v\\\\\\\'\\"?\\001\\177ä😀☃";\n'
    assert parsed("PROTOBUF", schema.canonical).canonical == schema.canonical


@each_case(
    "name, expected", [("a", "a"), ("foo_bar", "fooBar"), ("foo__bar_", "fooBar"), ("_x1_y", "X1Y"), ("A_b", "AB")]
)
def test_json_names(name: str, expected: str) -> None:
    assert json_name(name) == expected


@each_case("text", [each for pair in PAIRS for each in (pair.older, pair.newer)])
def test_a_serialized_schema_is_the_same_schema(text: str) -> None:
    """Its types have full names, so the normalized texts are compared."""
    schema = parsed("PROTOBUF", text)
    again = parse_schema("PROTOBUF", serialized(schema), {})
    assert again.normalized == schema.normalized
    assert find_incompatibilities("FULL", again, [schema]) == []
    assert parse_schema("PROTOBUF", serialized(again), {}).canonical == again.canonical


def test_types_of_references_are_known() -> None:
    leaf = parse_schema("PROTOBUF", proto3("package l;", message("int32 a = 1;", "L")), {})
    middle = parse_schema(
        "PROTOBUF", proto3("package m;", "import 'leaf.proto';", message("l.L l = 1;", "N")), {"leaf.proto": leaf}
    )
    text = proto3("package t;", "import 'middle.proto';", message("m.N n = 1; l.L l = 2;"))
    top = parse_schema("PROTOBUF", text, {"middle.proto": middle})
    assert "message N" not in top.canonical
    assert "map<" not in top.normalized and ".m.N n = 1;" in top.normalized


@each_case(
    "field, is_compatible",
    [("int64 a = 1;", True), ("string a = 1;", False), ("int32 a = 1; string b = 2;", True), ("int32 z = 1;", True)],
)
def test_a_change_in_a_reference_is_a_change(field: str, is_compatible: bool) -> None:
    def top(of_leaf: str) -> Schema:
        leaf = parsed("PROTOBUF", proto3("package l;", message(of_leaf, "L")))
        text = proto3("import 'leaf.proto';", message("l.L l = 1;"))
        return parse_schema("PROTOBUF", text, {"leaf.proto": leaf})

    assert (find_incompatibilities("FULL", top(field), [top("int32 a = 1;")]) == []) == is_compatible


def test_a_message_may_move_to_another_package_of_a_reference() -> None:
    """Names are compared without package: this is what Confluent's registry does."""

    def top(package: str) -> Schema:
        leaf = parsed("PROTOBUF", proto3(f"package {package};", message("int32 a = 1;", "L")))
        text = proto3("import 'leaf.proto';", message(f"{package}.L l = 1;"))
        return parse_schema("PROTOBUF", text, {"leaf.proto": leaf})

    assert find_incompatibilities("FULL", top("q"), [top("p")]) == []


def test_references_that_define_a_type_twice_or_have_another_type_are_refused() -> None:
    leaf = parsed("PROTOBUF", proto3("string a = 1;"))
    with pytest.raises(InvalidSchema, match="M: defined twice"):
        parse_schema("PROTOBUF", proto3("string a = 1;"), {"leaf.proto": leaf})
    with pytest.raises(InvalidSchema, match="reference 'a': expected a schema of type PROTOBUF, found AVRO"):
        parse_schema("PROTOBUF", proto3("string a = 1;"), {"a": parsed("AVRO", "int")})


def test_a_chain_of_messages_is_compared_to_its_end() -> None:
    length = 3_000
    chains = []
    for last in ("int32", "string"):
        links = [message(f"M{index + 1} a = 1;", f"M{index}") for index in range(length)]
        chains.append(parsed("PROTOBUF", proto3(*links, message(f"{last} a = 1;", f"M{length}"))))
    found = find_incompatibilities("BACKWARD", chains[1], [chains[0]])
    assert "FIELD_SCALAR_KIND_CHANGED" in found[0]
    assert len(found) == length + 1


def test_many_differences_end_in_one() -> None:
    texts = [proto3(*[f"{kind} f{index} = {index + 1};" for index in range(15_000)]) for kind in ("int32", "string")]
    older, newer = (parsed("PROTOBUF", text) for text in texts)
    expected = ["Incompatible because the schemas are too large for a comparison"]
    assert find_incompatibilities("BACKWARD", newer, [older]) == expected


WORDS = st.sampled_from(
    [
        "message",
        "enum",
        "oneof",
        "map",
        "<",
        ">",
        ",",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "=",
        ";",
        ".",
        "1",
        "2",
        "-1",
        "0",
        "M",
        "N",
        "a",
        "b",
        "string",
        "int32",
        "optional",
        "repeated",
        "option",
        "reserved",
        "to",
        "max",
        "group",
        "service",
        "rpc",
        "returns",
        "stream",
        "import",
        "public",
        "extend",
        "extensions",
        "'x'",
        '"y"',
        "//",
        "/*",
        "*/",
        "\n",
        "syntax",
        "'proto3'",
        "'proto2'",
        "package",
        "deprecated",
        "true",
    ]
)
MEMBERS = st.sampled_from(
    [
        "string a = 1;",
        "M m = 2;",
        "oneof o { int32 b = 3; }",
        "map<string, M> c = 4;",
        "message N { }",
        "enum E { X = 0; }",
    ]
)


@given(
    st.lists(WORDS, max_size=30).map(" ".join)
    | st.lists(MEMBERS | WORDS, max_size=6).map(lambda found: message(" ".join(found)))
    | st.text(max_size=20)
)
def test_junk_is_refused_or_parsed_to_a_text_that_stays(text: str) -> None:
    try:
        found = parse_schema("PROTOBUF", text, {})
    except InvalidSchema as error:
        assert 0 < len(str(error)) < 400
        return
    again = parse_schema("PROTOBUF", found.canonical, {})
    assert (again.canonical, again.normalized) == (found.canonical, found.normalized)
    assert find_incompatibilities("FULL_TRANSITIVE", again, [found]) == []


DESCRIPTOR = base64.b64decode(serialized(parsed("PROTOBUF", EVERYTHING)))


@given(
    st.binary(max_size=40)
    | st.tuples(st.integers(0, len(DESCRIPTOR) - 1), st.binary(min_size=1, max_size=3)).map(
        lambda found: DESCRIPTOR[: found[0]] + found[1] + DESCRIPTOR[found[0] + len(found[1]) :]
    )
    | st.integers(0, len(DESCRIPTOR)).map(lambda length: DESCRIPTOR[:length])
)
def test_damaged_descriptors_are_refused_or_parsed(data: bytes) -> None:
    try:
        found = parse_schema("PROTOBUF", base64.b64encode(data).decode(), {})
        parse_schema("PROTOBUF", found.canonical, {})
    except InvalidSchema as error:
        assert 0 < len(str(error)) < 600


def test_a_deeply_nested_descriptor_is_refused() -> None:
    def field(number: int, data: bytes) -> bytes:
        length = len(data)
        size = bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
        return bytes([number << 3 | 2]) + size + data

    data = b""
    for _ in range(10_000):
        data = field(3, data) if len(data) < 1 << 20 else data
    text = base64.b64encode(field(4, data)).decode()
    with pytest.raises(InvalidSchema, match=r"nested too deeply|too large to be checked"):
        parse_schema("PROTOBUF", text, {})
