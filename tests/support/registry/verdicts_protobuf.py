"""Changes of Protobuf schemas, by what is on the wire, as Confluent's registry judges them."""

from __future__ import annotations

from .verdict import BACKWARD, FORWARD, FULL, NONE, Pair

PROTO3 = 'syntax = "proto3";\n'


def message(body: str = "", name: str = "M") -> str:
    return f"message {name} {{ {body} }}\n"


def proto3(*declarations: str) -> str:
    """A file of proto3 with these declarations, or with one message of these fields."""
    if not any("{" in each or each.startswith(("package", "import")) for each in declarations):
        declarations = (message(" ".join(declarations)),)
    return PROTO3 + "".join(declarations)


def proto2(*fields: str) -> str:
    return 'syntax = "proto2";\n' + message(" ".join(fields))


A, B = "string a = 1;", "int32 b = 2;"
NUMBERS = ("int32", "int64", "uint32", "uint64", "bool")
OTHER = {
    "sint32": "sint64",
    "fixed32": "sfixed32",
    "fixed64": "sfixed64",
    "string": "bytes",
}
"""Scalar type -> the other one of its group."""
ALONE = ("int32", "sint32", "string", "fixed32", "fixed64", "float", "double")
"""One type of each group."""
ENUM = "enum E { X = 0; }\n"

PAIRS = [
    # Fields.
    Pair("the same message", proto3(A, B), proto3(A, B), FULL),
    Pair("order of fields", proto3(A, B), proto3(B, A), FULL),
    Pair("comments and layout", proto3(A), f"// c\n{PROTO3} /* d */ message M {{string a=1;}}", FULL),
    Pair("a field is added", proto3(A), proto3(A, B), FULL),
    Pair("a field is removed", proto3(A, B), proto3(A), FULL),
    Pair("all fields are removed", proto3(A, B), proto3(message()), FULL),
    Pair("a field is renamed", proto3(A), proto3("string z = 1;"), FULL),
    Pair("the number of a field changes", proto3(A), proto3("string a = 3;"), FULL),
    Pair(
        "two fields of one group swap their numbers",
        proto3("int32 a = 1; bool b = 2;"),
        proto3("int32 a = 2; bool b = 1;"),
        FULL,
    ),
    Pair(
        "two fields of different groups swap their numbers",
        proto3(A, B),
        proto3("string a = 2; int32 b = 1;"),
        NONE,
        ("FIELD_SCALAR_KIND_CHANGED",) * 4,
    ),
    Pair("a removed field is reserved", proto3(A, B), proto3(A, "reserved 2; reserved 'b';"), FULL),
    Pair("options of a field", proto3(A), proto3("string a = 1 [deprecated = true, json_name = 'x'];"), FULL),
    Pair(
        "options of a file and a message",
        proto3(A),
        f"{PROTO3} option java_package = 'x'; {message('option deprecated = true;' + A)}",
        FULL,
    ),
    Pair("proto2 becomes proto3", proto2("optional int32 a = 1;"), proto3("optional int32 a = 1;"), FULL),
    Pair("no syntax is proto2", message("optional int32 a = 1;"), proto2("optional int32 a = 1;"), FULL),
    # Scalar types: those of one group are read as each other.
    *[
        Pair(f"{old} is read as {new}", proto3(f"{old} a = 1;"), proto3(f"{new} a = 1;"), FULL)
        for old in NUMBERS
        for new in NUMBERS
    ],
    *[
        Pair(f"{old} is read as {new}", proto3(f"{old} a = 1;"), proto3(f"{new} a = 1;"), FULL)
        for old, new in OTHER.items()
    ],
    *[
        Pair(
            f"{old} is not read as {new}",
            proto3(f"{old} a = 1;"),
            proto3(f"{new} a = 1;"),
            NONE,
            ("FIELD_SCALAR_KIND_CHANGED",) * 2,
        )
        for index, old in enumerate(ALONE)
        for new in ALONE[index + 1 :]
    ],
    Pair("an enum is read as a number", proto3(ENUM, message("E a = 1;")), proto3(message("int32 a = 1;")), FULL),
    Pair("an enum is read as bool", proto3(ENUM, message("E a = 1;")), proto3(message("bool a = 1;")), FULL),
    Pair(
        "an enum is read as another enum",
        proto3(ENUM, message("E a = 1;")),
        proto3("enum F { Y = 0; }", message("F a = 1;")),
        FULL,
    ),
    Pair("an enum is not read as a string", proto3(ENUM, message("E a = 1;")), proto3(message("string a = 1;")), NONE),
    Pair(
        "an enum is not read as a zigzag number",
        proto3(ENUM, message("E a = 1;")),
        proto3(message("sint32 a = 1;")),
        NONE,
    ),
    # Labels: without label, a field of proto3 has none to compare.
    Pair(
        "a number becomes repeated",
        proto3("optional int32 a = 1;"),
        proto3("repeated int32 a = 1;"),
        NONE,
        ("FIELD_NUMERIC_LABEL_CHANGED",) * 2,
    ),
    Pair("a double becomes repeated", proto2("optional double a = 1;"), proto2("repeated double a = 1;"), NONE),
    Pair("a fixed number becomes repeated", proto2("optional fixed64 a = 1;"), proto2("repeated fixed64 a = 1;"), NONE),
    Pair(
        "an enum becomes repeated",
        proto3(ENUM, message("optional E a = 1;")),
        proto3(ENUM, message("repeated E a = 1;")),
        NONE,
    ),
    Pair("a string becomes repeated", proto3("optional string a = 1;"), proto3("repeated string a = 1;"), FULL),
    Pair("bytes become repeated", proto3("optional bytes a = 1;"), proto3("repeated bytes a = 1;"), FULL),
    Pair("a message becomes repeated", proto3("optional M a = 1;"), proto3("repeated M a = 1;"), FULL),
    Pair("a field gets the label optional", proto3("int32 a = 1;"), proto3("optional int32 a = 1;"), FULL),
    Pair(
        "a number without label becomes repeated (its label is unknown)",
        proto3("int32 a = 1;"),
        proto3("repeated int32 a = 1;"),
        FULL,
    ),
    Pair(
        "a repeated number is no longer packed",
        proto3("repeated int32 a = 1;"),
        proto3("repeated int32 a = 1 [packed = false];"),
        FULL,
    ),
    Pair("an optional number becomes required", proto2("optional int32 a = 1;"), proto2("required int32 a = 1;"), NONE),
    Pair(
        "an optional string becomes required", proto2("optional string a = 1;"), proto2("required string a = 1;"), FULL
    ),
    Pair(
        "a required field is added",
        proto2("optional int32 a = 1;"),
        proto2("optional int32 a = 1; required int32 b = 2;"),
        NONE,
        ("REQUIRED_FIELD_REMOVED", "REQUIRED_FIELD_ADDED"),
    ),
    Pair(
        "an optional field is added in proto2",
        proto2("required int32 a = 1;"),
        proto2("required int32 a = 1; optional int32 b = 2;"),
        FULL,
    ),
    Pair(
        "a default changes",
        proto2("optional int32 a = 1 [default = 1];"),
        proto2("optional int32 a = 1 [default = 2];"),
        FULL,
    ),
    # Kinds of fields.
    Pair("a number becomes a message", proto3("int32 a = 1;"), proto3("M a = 1;"), NONE, ("FIELD_KIND_CHANGED",) * 2),
    Pair("a number becomes a map", proto3("int32 a = 1;"), proto3("map<int32, int32> a = 1;"), NONE),
    Pair("a message becomes a map", proto3("M a = 1;"), proto3("map<int32, int32> a = 1;"), NONE),
    Pair("an enum becomes a message", proto3(ENUM, message("E a = 1;")), proto3(ENUM, message("M a = 1;")), NONE),
    Pair("bytes become a message", proto3("bytes a = 1;"), proto3("M a = 1;"), NONE),
    # Maps.
    Pair("the same map", proto3("map<string, int32> a = 1;"), proto3("map<string, int32> a = 1;"), FULL),
    Pair("values of a map in one group", proto3("map<string, int32> a = 1;"), proto3("map<string, bool> a = 1;"), FULL),
    Pair("keys of a map in one group", proto3("map<int32, int32> a = 1;"), proto3("map<uint64, int32> a = 1;"), FULL),
    Pair(
        "values of a map of another group",
        proto3("map<string, int32> a = 1;"),
        proto3("map<string, double> a = 1;"),
        NONE,
    ),
    Pair(
        "keys of a map of another group", proto3("map<string, int32> a = 1;"), proto3("map<int32, int32> a = 1;"), NONE
    ),
    Pair("values of a map become messages", proto3("map<string, int32> a = 1;"), proto3("map<string, M> a = 1;"), NONE),
    Pair(
        "values of a map become enums",
        proto3(message("map<string, int32> a = 1;")),
        proto3(ENUM, message("map<string, E> a = 1;")),
        FULL,
    ),
    Pair(
        "the message of a map's values changes",
        proto3(message("map<string, N> a = 1;"), message(A, "N")),
        proto3(message("map<string, N> a = 1;"), message("int32 a = 1;", "N")),
        NONE,
    ),
    # Messages.
    Pair("a message is added", proto3(message(A)), proto3(message(A), message(A, "N")), BACKWARD, ("MESSAGE_REMOVED",)),
    Pair("a message is added before the first one", proto3(message(A)), proto3(message(A, "N"), message(A)), BACKWARD),
    Pair("order of messages", proto3(message(A), message(B, "N")), proto3(message(B, "N"), message(A)), FULL),
    Pair("a message is renamed", proto3(message(A)), proto3(message(A, "N")), NONE),
    Pair("a nested message is added", proto3(message(A)), proto3(message(A + message(B, "N"))), BACKWARD),
    Pair("a nested message moves out", proto3(message(message(B, "N"))), proto3(message(), message(B, "N")), NONE),
    Pair(
        "the type of a field is another message",
        proto3(message("N a = 1;"), message(A, "N"), message(A, "O")),
        proto3(message("O a = 1;"), message(A, "N"), message(A, "O")),
        NONE,
        ("FIELD_NAMED_TYPE_CHANGED",) * 2,
    ),
    Pair(
        "a message that a field has changes",
        proto3(message("N a = 1;"), message(A, "N")),
        proto3(message("N a = 1;"), message("int32 a = 1;", "N")),
        NONE,
        ("FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED") * 2,
    ),
    Pair(
        "a message that a field has gets a field",
        proto3(message("N a = 1;"), message(A, "N")),
        proto3(message("N a = 1;"), message(A + B, "N")),
        FULL,
    ),
    Pair(
        "names with and without package",
        proto3("package p;", message("M a = 1;")),
        proto3("package p;", message(".p.M a = 1;")),
        FULL,
    ),
    Pair(
        "the innermost type counts",
        proto3(message("N a = 1;" + message(A, "N")), message(A, "N")),
        proto3(message(".N a = 1;" + message(A, "N")), message(A, "N")),
        NONE,
    ),
    Pair("a recursive message", proto3("M a = 1; int32 b = 2;"), proto3("M a = 1; int64 b = 2;"), FULL),
    Pair("a recursive message changes", proto3("M a = 1; int32 b = 2;"), proto3("M a = 1; string b = 2;"), NONE),
    Pair(
        "messages that contain each other",
        proto3(message("N n = 1;"), message("M m = 1; int32 b = 2;", "N")),
        proto3(message("N n = 1;"), message("M m = 1; float b = 2;", "N")),
        NONE,
    ),
    Pair(
        "the package changes",
        proto3("package p;", message(A)),
        proto3("package q;", message(A)),
        NONE,
        ("PACKAGE_CHANGED",) * 2,
    ),
    Pair("a package is added", proto3(message(A)), proto3("package p;", message(A)), NONE),
    # Enums: unknown values are kept as numbers.
    Pair("an enum is added", proto3(message(A)), proto3(message(A), ENUM), FULL),
    Pair("a value is added", proto3(ENUM), proto3("enum E { X = 0; Y = 1; }"), FULL),
    Pair("a value is renamed", proto3(ENUM), proto3("enum E { Y = 0; }"), FULL),
    Pair("an enum is renamed", proto3(ENUM), proto3("enum F { X = 0; }"), FULL),
    Pair("a nested enum is removed", proto3(message(A + ENUM)), proto3(message(A)), FULL),
    # Oneofs: fields of one exclude each other.
    Pair("the same oneof", proto3(message(f"oneof o {{ {A} {B} }}")), proto3(message(f"oneof o {{ {B} {A} }}")), FULL),
    Pair(
        "a oneof is renamed", proto3(message(f"oneof o {{ {A} {B} }}")), proto3(message(f"oneof p {{ {A} {B} }}")), FULL
    ),
    Pair(
        "a oneof of new fields is added", proto3(A), proto3(message(A + "oneof o { int32 b = 2; int32 c = 3; }")), FULL
    ),
    Pair("a field moves into a new oneof", proto3(A), proto3(message(f"oneof o {{ {A} }}")), FULL),
    Pair(
        "a field moves into a new oneof with new fields",
        proto3(A),
        proto3(message(f"oneof o {{ {A} {B} }}")),
        BACKWARD,
        ("ONEOF_FIELD_REMOVED",),
    ),
    Pair(
        "two fields move into a new oneof",
        proto3(A, B),
        proto3(message(f"oneof o {{ {A} {B} }}")),
        FORWARD,
        ("MULTIPLE_FIELDS_MOVED_TO_ONEOF",),
    ),
    Pair(
        "a field moves into an existing oneof",
        proto3(message(f"{A} oneof o {{ {B} }}")),
        proto3(message(f"oneof o {{ {A} {B} }}")),
        FORWARD,
        ("FIELD_MOVED_TO_EXISTING_ONEOF",),
    ),
    Pair(
        "two oneofs become one",
        proto3(message(f"oneof o {{ {A} }} oneof p {{ {B} }}")),
        proto3(message(f"oneof o {{ {A} {B} }}")),
        FORWARD,
        ("FIELD_MOVED_TO_EXISTING_ONEOF",),
    ),
    Pair(
        "a field is added to a oneof",
        proto3(message(f"oneof o {{ {A} }}")),
        proto3(message(f"oneof o {{ {A} {B} }}")),
        BACKWARD,
        ("ONEOF_FIELD_REMOVED",),
    ),
    Pair("a oneof is removed with all its fields", proto3(message(f"{A} oneof o {{ {B} }}")), proto3(A), FULL),
    Pair(
        "a type in a oneof changes",
        proto3(message(f"oneof o {{ {A} {B} }}")),
        proto3(message(f"oneof o {{ {A} string b = 2; }}")),
        NONE,
    ),
    # Services, extensions, groups, imports.
    Pair(
        "a service is added",
        proto3(message(A)),
        proto3(message(A), "service S { rpc Get (M) returns (stream M); }"),
        FULL,
    ),
    Pair("extensions are added", proto2("extensions 100 to max;"), proto2("optional int32 a = 1;"), FULL),
    Pair(
        "a group changes",
        proto2("optional group G = 1 { optional int32 a = 1; }"),
        proto2("optional group G = 1 { optional string a = 1; }"),
        NONE,
    ),
    Pair(
        "a field gets a type of Google",
        proto3(A),
        proto3("import 'google/protobuf/timestamp.proto';", message(A + "google.protobuf.Timestamp t = 2;")),
        FULL,
    ),
    Pair(
        "a field changes its type of Google",
        proto3("import 'google/protobuf/timestamp.proto';", message("google.protobuf.Timestamp t = 2;")),
        proto3("import 'google/protobuf/duration.proto';", message("google.protobuf.Duration t = 2;")),
        NONE,
    ),
    Pair(
        "options of Confluent",
        proto3(A),
        proto3("import 'confluent/meta.proto';", message("string a = 1 [(confluent.field_meta) = { tags: ['PII'] }];")),
        FULL,
    ),
]
