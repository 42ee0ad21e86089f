"""Protobuf's wire format, as Google's package writes it, becomes the JSON that this package makes of the message."""

from __future__ import annotations

import base64
import json
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.schemas import Schema, parse_schema
from ottla.protocol.schemas.plain_json import MAX_DEPTH, MAX_SCALE, NotDecodable
from ottla.protocol.schemas.proto_plain import DECIMAL, known_types
from ottla.protocol.schemas.proto_values import ProtobufDecoder, message_at, read_indexes
from ottla.protocol.schemas.values import Budget, SchemaTooLarge, write_json
from support.noted import each_case

INCLUDE = Path(protoc.__file__).parent / "_proto"
NUMBERS = [
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "float",
    "double",
    "bool",
    "string",
    "bytes",
    "Color",
]
PLAIN = ["Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue", "Empty"]
WRAPPERS = ["Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes"]


def fields(types: list[str], label: str, start: int) -> str:
    return " ".join(f"{label} {kind} {label}_{at} = {at};" for at, kind in enumerate(types, start))


IMPORTS = " ".join(
    f'import "google/protobuf/{name}.proto";'
    for name in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
)
KNOWN = [f"google.protobuf.{name}" for name in (*PLAIN, *(f"{name}Value" for name in WRAPPERS))]
PROTO3 = f"""syntax = "proto3"; package shop; {IMPORTS}
enum Color {{ RED = 0; GREEN = 1; BLUE = -1; }}
message Inner {{ int32 number = 1; Inner next = 2; repeated string words = 3; }}
message All {{ {fields(NUMBERS, "", 1)} {fields(NUMBERS, "optional", 101)} {fields(NUMBERS, "repeated", 201)}
  oneof choice {{ string text = 300; int32 number = 301; Inner inner = 302; google.protobuf.Timestamp at = 303; }}
  map<string, Inner> by_name = 310; map<int64, Color> by_number = 311; map<bool, bytes> by_flag = 312;
  repeated Inner inners = 320; Inner one = 321;
  repeated fixed64 spread = 330 [packed = false];
  {" ".join(f"{kind} known_{at} = {at}; repeated {kind} some_{at + 50} = {at + 50};" for at, kind in enumerate(KNOWN, 400))}
  message Nested {{ int32 number = 1; }}
}}"""
PROTO2 = f"""syntax = "proto2"; package shop;
enum Color {{ RED = 5; GREEN = 1; }}
message All {{ {fields(NUMBERS, "optional", 1)} {fields(NUMBERS, "repeated", 101)} required int32 needed = 200;
  optional group Part = 210 {{ optional int32 number = 1; repeated group Leaf = 2 {{ optional string name = 1; }} }}
  repeated int32 packed = 220 [packed = true];
  optional int32 with_default = 221 [default = 7];
  extensions 1000 to max;
  extend All {{ optional string inside = 1001; }}
}}
extend All {{ optional int32 outside = 1000; repeated All more = 1002; }}"""
EDITION = (
    PROTO3.replace('syntax = "proto3"', 'edition = "2023"')
    .replace("optional ", "")
    .replace("[packed = false]", "[features.repeated_field_encoding = EXPANDED]")
)


class Compiled:
    """A file as Google's package knows it, and as the registry does."""

    def __init__(self, text: str, folder: Path) -> None:
        (folder / "f.proto").write_text(text)
        made = folder / "f.bin"
        command = [
            "protoc",
            f"-I{folder}",
            f"-I{INCLUDE}",
            "--include_imports",
            f"--descriptor_set_out={made}",
            "f.proto",
        ]
        assert protoc.main(command) == 0
        pool = descriptor_pool.DescriptorPool()
        files = descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file
        for each in files:
            pool.Add(each)
        self.pool = pool
        self.all = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.All"))
        for extension in pool.FindAllExtensions(self.all.DESCRIPTOR):
            message_factory.GetMessageClass(extension.containing_type)
        self.decoders = [
            ProtobufDecoder(schema(text)),
            ProtobufDecoder(schema(base64.b64encode(files[-1].SerializeToString()).decode())),
        ]

    def check(self, message: Any) -> None:
        """Check that decoders of the text and of the descriptor both make the JSON that Google's package makes."""
        expected = json_format.MessageToDict(
            message,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=self.pool,
        )
        for decoder in self.decoders:
            type_ = decoder.type_named("shop.All")
            assert type_ is not None
            assert_equal(decoder.decode(type_, message.SerializeToString(), Budget()), expected)


def schema(text: str) -> Schema:
    return parse_schema("PROTOBUF", text, {})


def assert_equal(found: Any, expected: Any) -> None:
    """Compare JSON; Protobuf's has integers of 64 bits as texts."""
    if isinstance(expected, dict):
        assert isinstance(found, dict) and found.keys() == expected.keys()
        for name, each in expected.items():
            assert_equal(found[name], each)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    elif isinstance(found, int) and isinstance(expected, str):
        assert str(found) == expected
    else:
        assert type(found) is type(expected) and found == expected


@pytest.fixture(scope="module", params=["proto2", "proto3", "edition"])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    text = {"proto2": PROTO2, "proto3": PROTO3, "edition": EDITION}[request.param]
    return Compiled(text, tmp_path_factory.mktemp(request.param))


INT64 = st.integers(-(2**63), 2**63 - 1)
SCALARS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: INT64,
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


def values(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    """Return values for one element of a field. Messages are functions that fill one in place."""
    if field.message_type is not None:
        return filled(field.message_type, depth - 1)
    if field.enum_type is not None:
        return st.sampled_from([each.number for each in field.enum_type.values])
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return st.binary(max_size=4) if field.type == FieldDescriptor.TYPE_BYTES else st.text(max_size=4)
    return SCALARS[field.cpp_type]


@st.composite
def filled(draw: st.DrawFn, kind: Descriptor, depth: int, extensions: tuple[FieldDescriptor, ...] = ()) -> Any:
    """Draw a function that sets some fields of a message of this kind."""
    if kind.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        return draw(_times(kind.full_name))
    if kind.full_name == "google.protobuf.FieldMask":
        paths = draw(st.lists(st.sampled_from(("a", "b.c", "de")), max_size=3))
        return lambda message: message.paths.extend(paths)
    if kind.full_name in ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"):
        return draw(_structs(kind.full_name))
    chosen = [each for each in (*kind.fields, *extensions) if depth > 0 or each.message_type is None]
    chosen = draw(st.lists(st.sampled_from(chosen), max_size=4, unique_by=lambda each: each.number)) if chosen else []
    steps = []
    for field in [*(each for each in kind.fields if each.is_required), *chosen]:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            pairs = draw(st.lists(st.tuples(values(key, 0), values(value, depth)), max_size=3))
            steps.append(_map(field, value, pairs))
        else:
            size = st.integers(0, 3) if field.is_repeated else st.just(1)
            steps.append(_plain(field, [draw(values(field, depth)) for _ in range(draw(size))]))
    return lambda message: [step(message) for step in steps]


def _map(field: FieldDescriptor, value: FieldDescriptor, pairs: list[Any]) -> Any:
    def step(message: Any) -> None:
        there = getattr(message, field.name)
        for key, each in pairs:
            if value.message_type is None:
                there[key] = each
            else:
                there[key].Clear()
                each(there[key])

    return step


def _plain(field: FieldDescriptor, drawn: list[Any]) -> Any:
    def step(message: Any) -> None:
        if field.is_extension:
            there: Any = message.Extensions[field] if field.is_repeated or field.message_type else None
        else:
            there = getattr(message, field.name)
        if field.is_repeated:
            for each in drawn:
                if field.message_type is None:
                    there.append(each)
                else:
                    each(there.add())
        elif field.message_type is not None:
            there.SetInParent()
            drawn[0](there)
        elif field.is_extension:
            message.Extensions[field] = drawn[0]
        else:
            setattr(message, field.name, drawn[0])

    return step


@st.composite
def _times(draw: st.DrawFn, name: str) -> Any:
    nanos = draw(st.sampled_from((0, 1, 1_000, 120_000_000, 999_999_999)))
    is_moment = name.endswith("Timestamp")
    seconds = draw(st.integers(-62_135_596_800, 253_402_300_799) if is_moment else st.integers(-(10**11), 10**11))

    def fill(message: Any) -> None:
        message.seconds, message.nanos = seconds, nanos if is_moment or seconds >= 0 else -nanos

    return fill


@st.composite
def _structs(draw: st.DrawFn, name: str) -> Any:
    leaves = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3)
    some = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    )
    kinds = {"Struct": st.dictionaries(st.text(max_size=3), some, max_size=3), "ListValue": st.lists(some, max_size=3)}
    found = draw(kinds.get(name.rpartition(".")[2], some))
    return lambda message: json_format.ParseDict(found, message)


@given(data=st.data())
def test_messages_are_shown_as_json(compiled: Compiled, data: st.DataObject) -> None:
    message = compiled.all()
    extensions = tuple(compiled.pool.FindAllExtensions(message.DESCRIPTOR))
    data.draw(filled(message.DESCRIPTOR, 3, extensions))(message)
    compiled.check(message)


@given(data=st.data())
def test_damaged_messages_are_shown_or_refused(compiled: Compiled, data: st.DataObject) -> None:
    message = compiled.all()
    data.draw(filled(message.DESCRIPTOR, 3, tuple(compiled.pool.FindAllExtensions(message.DESCRIPTOR))))(message)
    damaged = bytearray(message.SerializePartialToString())
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), min_size=1, max_size=3)):
        if damaged:
            damaged[at % len(damaged)] = byte
    for decoder in compiled.decoders:
        type_ = decoder.type_named("shop.All")
        assert type_ is not None
        with suppress(NotDecodable, SchemaTooLarge):
            json.loads(write_json(decoder.decode(type_, bytes(damaged), Budget())))


@pytest.fixture(scope="module")
def proto3(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return Compiled(PROTO3, tmp_path_factory.mktemp("compiled"))


def test_any_is_shown_with_the_message_inside(tmp_path: Path) -> None:
    text = PROTO3.replace("Inner one = 321;", "google.protobuf.Any one = 321; repeated google.protobuf.Any anys = 322;")
    compiled = Compiled(text, tmp_path)
    message = compiled.all()
    inner = message_factory.GetMessageClass(compiled.pool.FindMessageTypeByName("shop.Inner"))(number=3, words=["a"])
    moment = message_factory.GetMessageClass(compiled.pool.FindMessageTypeByName("google.protobuf.Timestamp"))(
        seconds=1
    )
    message.one.Pack(inner)
    message.anys.add().Pack(moment)
    message.anys.add().Pack(message.one)
    message.anys.add().Pack(compiled.all())
    compiled.check(message)


def test_any_of_an_unknown_message_is_shown_as_bytes(proto3: Compiled) -> None:
    decoder = ProtobufDecoder(
        schema('syntax = "proto3"; import "google/protobuf/any.proto"; message M { google.protobuf.Any a = 1; }')
    )
    packed = any_pb2.Any(type_url="type.googleapis.com/x.Y", value=b"\1\2").SerializeToString()
    data = b"\n" + bytes([len(packed)]) + packed
    found = decoder.decode(message_at(decoder.file, [0]), data, Budget())
    assert found == {"a": {"@type": "type.googleapis.com/x.Y", "value": "AQI="}}


def decoded(text: str, data: bytes, indexes: tuple[int, ...] = (0,), steps: int = 100_000) -> Any:
    decoder = ProtobufDecoder(schema(text))
    return decoder.decode(message_at(decoder.file, indexes), data, Budget(steps))


def tag(number: int, wire: int, data: bytes = b"") -> bytes:
    assert number < 16
    return bytes([number << 3 | wire]) + data


def message(text: str) -> str:
    return f'syntax = "proto2"; message M {{ {text} }}'


@each_case(
    "text, data, expected",
    [
        # Unknown fields, and known ones with another wire type, stay in sight.
        ("", tag(7, 0, b"\x96\1"), {"7": 150}),
        ("", tag(7, 5, b"\1\0\0\0") + tag(8, 1, b"\2\0\0\0\0\0\0\0"), {"7": 1, "8": 2}),
        ("", tag(7, 2, b"\2hi") + tag(8, 2, b"\1\xff") + tag(9, 2, b"\1\0"), {"7": "hi", "8": "/w==", "9": "AA=="}),
        ("", tag(7, 0, b"\1") + tag(7, 0, b"\2"), {"7": [1, 2]}),
        ("", tag(7, 3) + tag(1, 0, b"\5") + tag(2, 3) + tag(2, 4) + tag(7, 4), {"7": {"1": 5, "2": {}}}),
        ("optional int32 a = 1;", tag(1, 2, b"\1x"), {"1": "x"}),
        ("optional string a = 1;", tag(1, 0, b"\1") + tag(1, 2, b"\1x"), {"a": "x", "1": 1}),
        # The last value counts, and messages are merged.
        ("optional int32 a = 1;", tag(1, 0, b"\1") + tag(1, 0, b"\2"), {"a": 2}),
        (
            "optional M a = 1; optional int32 b = 2;",
            tag(1, 2, b"\2\x10\1") + tag(1, 2, b"\2\n\0"),
            {"a": {"a": {}, "b": 1}},
        ),
        ("oneof o { int32 a = 1; int32 b = 2; }", tag(1, 0, b"\1") + tag(2, 0, b"\2"), {"b": 2}),
        ("oneof o { int32 a = 1; int32 b = 2; }", tag(2, 0, b"\1") + tag(1, 0, b"\2"), {"a": 2}),
        # Packed or not, whatever the schema says.
        ("repeated int32 a = 1;", tag(1, 2, b"\2\1\2") + tag(1, 0, b"\3"), {"a": [1, 2, 3]}),
        ("repeated float a = 1;", tag(1, 2, b"\4" + struct.pack("<f", 1.1)), {"a": [1.1]}),
        # Maps: missing keys and values are defaults, of equal keys the last counts.
        ("map<string, int32> a = 1;", tag(1, 2, b"\0") + tag(1, 2, b"\5\n\1k\x10\1"), {"a": {"": 0, "k": 1}}),
        ("map<bool, M> a = 1;", tag(1, 2, b"\2\x08\1"), {"a": {"true": {"a": {}}}}),
        # Numbers of enums without a name, and numbers with too many bits.
        ("optional E a = 1; enum E { X = 1; }", tag(1, 0, b"\2"), {"a": 2}),
        ("optional E a = 1; enum E { option allow_alias = true; X = 1; Y = 1; }", tag(1, 0, b"\1"), {"a": "X"}),
        ("optional int32 a = 1;", tag(1, 0, b"\xff" * 9 + b"\1"), {"a": -1}),
        ("optional uint32 a = 1;", tag(1, 0, b"\xff" * 9 + b"\1"), {"a": 2**32 - 1}),
        ("optional bool a = 1;", tag(1, 0, b"\x80\2"), {"a": True}),
    ],
)
def test_the_wire_format(text: str, data: bytes, expected: Any) -> None:
    assert decoded(message(text), data) == expected


@each_case(
    "data, reason",
    [
        (b"\xff", "a number does not end"),
        (b"\xff" * 11, "a number does not end"),
        (tag(0, 0, b"\1"), r"field number out of range \(0\)"),
        (tag(1, 2, b"\5ab"), "field 1: expected 5 more bytes, found 2"),
        (tag(2, 2, b"\1\xff"), "string: invalid UTF-8"),
        (tag(1, 6), r"field 1: invalid wire type \(6\)"),
        (tag(1, 5, b"\1"), "the bytes end within a number"),
        (tag(1, 4), r"end of a group that has no beginning \(field 1\)"),
        (tag(1, 3), r"a group does not end \(field 1\)"),
        (tag(1, 3) + tag(2, 4), r"end of another group \(field 2\)"),
        (tag(3, 2, b"\2\1"), "expected 2 more bytes, found 1"),
    ],
)
def test_other_bytes_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(NotDecodable, match=reason):
        decoded(message("optional int32 a = 1; optional string b = 2; repeated int32 c = 3;"), data)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_or_refused(proto3: Compiled, data: bytes) -> None:
    for decoder in proto3.decoders:
        with suppress(NotDecodable, SchemaTooLarge):
            decoder.decode(message_at(decoder.file, [1]), data, Budget())


def test_google_s_types_of_dates_and_money_have_their_fields() -> None:
    text = 'syntax = "proto3"; import "google/type/date.proto"; import "confluent/type/decimal.proto"; message M { google.type.Date a = 1; confluent.type.Decimal b = 2; }'
    data = tag(1, 2, b"\3\x08\xea\x0f") + tag(2, 2, b"\6\n\2\4\xe2\x18\2")
    assert decoded(text, data) == {"a": {"year": 2026, "month": 0, "day": 0}, "b": "12.50"}


@each_case(
    "indexes, name",
    [((0,), "A"), ((1,), "B"), ((1, 0), "D"), ((1, 0, 0), "E"), ((2,), None), ((-1,), None), ((0, 0), None)],
)
def test_indexes_name_messages(indexes: tuple[int, ...], name: str | None) -> None:
    file = schema("message A {} enum X { Y = 0; } message B { enum C { Z = 0; } message D { message E {} } }").parsed
    if name is None:
        with pytest.raises(NotDecodable, match="the schema has no message"):
            message_at(file, indexes)
    else:
        assert message_at(file, indexes).name == name


@each_case(
    "data, found",
    [
        (b"\0rest", ([0], 1)),
        (b"\2\4rest", ([2], 2)),
        (b"\4\2\0", ([1, 0], 3)),
        (b"", None),
        (b"\2", None),
        (b"\1", None),
    ],
)
def test_indexes_are_read(data: bytes, found: Any) -> None:
    if found is None:
        with pytest.raises(NotDecodable):
            read_indexes(data, 0)
    else:
        assert read_indexes(data, 0) == found


def test_messages_may_contain_themselves() -> None:
    def nested(levels: int) -> bytes:
        data = b""
        for _ in range(levels - 1):
            size = len(data)
            data = b"\n" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + data
        return data

    for text in ("optional M a = 1;", "repeated M a = 1;", "map<string, M> b = 2; repeated M a = 1;", ""):
        if text:
            decoded(message(text), nested(MAX_DEPTH))
            with pytest.raises(NotDecodable, match="nested too deeply"):
                decoded(message(text), nested(MAX_DEPTH + 1))
    groups = tag(1, 3) * MAX_DEPTH + tag(1, 4) * MAX_DEPTH
    with pytest.raises(NotDecodable, match="nested too deeply"):
        decoded(message(""), groups)
    decoded(message(""), groups[1:-1])


def test_defaults_of_many_fields_are_limited() -> None:
    """A message without bytes could be shown as megabytes."""
    text = 'syntax = "proto3"; message M { repeated N n = 1; } message N { %s }'
    many = " ".join(f"int32 {'n' * 900}{number} = {number};" for number in range(1, 201))
    with pytest.raises(SchemaTooLarge):
        decoded(text % many, tag(1, 2, b"\0") * 100)


def test_a_large_oneof_takes_memory_in_proportion() -> None:
    members = " ".join(f"int32 m{number} = {number};" for number in range(1, 2_001))
    decoder = ProtobufDecoder(schema(message(f"oneof o {{ {members} }}")))
    data = b"\x08\1\x10\2" * 1_000
    tracemalloc.start()
    try:
        assert decoder.decode(message_at(decoder.file, [0]), data, Budget()) == {"m2": 2}
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


DECIMALS = (
    'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { repeated confluent.type.Decimal d = 1; }'
)


def test_decimals_with_many_zeros_are_limited() -> None:
    """A decimal of five bytes could be shown as kilobytes."""
    one = tag(1, 2, b"\3" + tag(3, 0, bytes((MAX_SCALE & 127 | 128, MAX_SCALE >> 7))))
    assert decoded(DECIMALS, one) == {"d": [f"0.{'0' * MAX_SCALE}"]}
    with pytest.raises(SchemaTooLarge):
        decoded(DECIMALS, one * 10_000)


@each_case("name", sorted(known_types()))
def test_any_may_have_each_known_type(name: str) -> None:
    text = 'syntax = "proto3"; import "google/protobuf/any.proto"; message M { google.protobuf.Any a = 1; }'
    url = f"x/{name}".encode()
    found = decoded(text, tag(1, 2, bytes([len(url) + 2]) + tag(1, 2, bytes([len(url)]) + url)))["a"]
    assert found["@type"] == f"x/{name}"
    if name == DECIMAL:
        assert found["value"] == "0"
