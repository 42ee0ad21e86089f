"""Protobuf files as serialized `FileDescriptorProto`, the form in which some clients send and read schemas.

Options of Protobuf itself and of `confluent/meta.proto` are kept. Other custom options are left out: their numbers and
types are not known.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from .proto import Extend, Field, File, OneOf, Options, Ranges, Service, Type, Word, decimal_default
from .proto_text import MAX_NESTING, MAX_TOKENS
from .values import Budget, InvalidSchema, Schema

_TYPES = (
    "",
    "double",
    "float",
    "int64",
    "uint64",
    "int32",
    "fixed64",
    "fixed32",
    "bool",
    "string",
    "group",
    "message",
    "bytes",
    "uint32",
    "enum",
    "sfixed32",
    "sfixed64",
    "sint32",
    "sint64",
)
"""By the numbers of `FieldDescriptorProto.Type`."""
_LABELS = ("", "optional", "required", "repeated")
_IMPORTS = ((10, "public"), (11, "weak"))
_EDITIONS = {998: "proto2", 999: "proto3"}

_FILE_OPTIONS = {
    1: "java_package:s",
    8: "java_outer_classname:s",
    9: "optimize_for:,SPEED,CODE_SIZE,LITE_RUNTIME",
    10: "java_multiple_files",
    11: "go_package:s",
    16: "cc_generic_services",
    17: "java_generic_services",
    18: "py_generic_services",
    20: "java_generate_equals_and_hash",
    23: "deprecated",
    27: "java_string_check_utf8",
    31: "cc_enable_arenas",
    36: "objc_class_prefix:s",
    37: "csharp_namespace:s",
    39: "swift_prefix:s",
    40: "php_class_prefix:s",
    41: "php_namespace:s",
    44: "php_metadata_namespace:s",
    45: "ruby_package:s",
    1088: "(confluent.file_meta):m",
}
_MESSAGE_OPTIONS = {
    1: "message_set_wire_format",
    2: "no_standard_descriptor_accessor",
    3: "deprecated",
    11: "deprecated_legacy_json_field_conflicts",
    1088: "(confluent.message_meta):m",
}
_FIELD_OPTIONS = {
    1: "ctype:STRING,CORD,STRING_PIECE",
    2: "packed",
    3: "deprecated",
    5: "lazy",
    6: "jstype:JS_NORMAL,JS_STRING,JS_NUMBER",
    10: "weak",
    15: "unverified_lazy",
    16: "debug_redact",
    1088: "(confluent.field_meta):m",
}
_ENUM_OPTIONS = {2: "allow_alias", 3: "deprecated", 1088: "(confluent.enum_meta):m"}
_CONSTANT_OPTIONS = {1: "deprecated", 3: "debug_redact", 1088: "(confluent.enum_value_meta):m"}
_SERVICE_OPTIONS = {33: "deprecated"}
_METHOD_OPTIONS = {33: "deprecated", 34: "idempotency_level:IDEMPOTENCY_UNKNOWN,NO_SIDE_EFFECTS,IDEMPOTENT"}
"""Number -> name, with ":s" for a string, ":m" for confluent.Meta, names for an enum, and nothing for a boolean."""

Message = dict[int, list[Any]]
"""Field number -> values in the order of the bytes: integers, or bytes."""


# From bytes.


def decode(data: bytes) -> File:
    """Return the file of a `FileDescriptorProto`.

    Raises:
        InvalidSchema: The bytes are not one.
    """
    return _Decoder().file(data)


def read_message(data: bytes, budget: Budget) -> Message:
    """Return the fields of a serialized message. Those with 4 or 8 bytes are left out: no descriptor has any."""
    found: Message = {}
    position = 0
    while position < len(data):
        budget.spend(1)
        key, position = _varint(data, position)
        number, wire_type = key >> 3, key & 7
        value: int | bytes
        if wire_type == 0:
            value, position = _varint(data, position)
        elif wire_type == 2:
            length, position = _varint(data, position)
            value, position = data[position : position + length], position + length
        elif wire_type in (1, 5):
            position += 8 if wire_type == 1 else 4
            continue
        else:
            raise _invalid(f"wire type {wire_type}")
        if position > len(data):
            break
        found.setdefault(number, []).append(value)
    if position > len(data):
        raise _invalid("it ends within a field")
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
    raise _invalid("a number does not end")


def _invalid(reason: str) -> InvalidSchema:
    return InvalidSchema(f"schema: neither Protobuf's language nor a serialized FileDescriptorProto ({reason})")


class _Decoder:
    def __init__(self) -> None:
        self._budget = Budget(MAX_TOKENS)
        self._is_proto3 = False

    def _read(self, data: Any) -> Message:
        if not isinstance(data, bytes):
            raise _invalid("a number in the place of a message")
        return read_message(data, self._budget)

    def _text(self, message: Message, number: int) -> str:
        return self._texts(message, number)[-1] if number in message else ""

    def _texts(self, message: Message, number: int) -> list[str]:
        try:
            return [each.decode() for each in message.get(number, ())]
        except (UnicodeDecodeError, AttributeError):
            raise _invalid(f"field {number} is no text") from None

    def _int(self, message: Message, number: int, default: int = 0) -> int:
        value = message.get(number, [default])[-1]
        if not isinstance(value, int):
            raise _invalid(f"field {number} is no number")
        return value - (1 << 64) if value >= 1 << 63 else value

    def file(self, data: bytes) -> File:
        found = self._read(data)
        syntax = self._text(found, 12)
        if syntax == "editions":
            edition = self._int(found, 14)
            syntax = _EDITIONS.get(edition) or str(edition + 1023 if edition >= 1000 else edition)
        elif syntax not in ("", "proto2", "proto3"):
            raise _invalid(f"syntax {syntax[:20]!r}")
        self._is_proto3 = syntax == "proto3"
        kinds = {index: kind for number, kind in _IMPORTS for index in found.get(number, ())}
        imports = [(kinds.get(index, ""), path) for index, path in enumerate(self._texts(found, 3))]
        file = File(syntax, self._text(found, 2), imports)
        file.types = self._types(found.get(4, ()), found.get(5, ()), 0)
        file.services = [self._service(self._read(each)) for each in found.get(6, ())]
        file.extends = self._extends(found.get(7, ()))
        file.options = self._options(found, 8, _FILE_OPTIONS)
        if not (file.types or file.services or file.extends or file.package or file.syntax or file.imports):
            raise _invalid("it declares nothing")
        return file

    def _types(self, messages: Iterable[Any], enums: Iterable[Any], depth: int) -> list[Type]:
        if depth > MAX_NESTING:
            raise InvalidSchema(f"schema: nested too deeply (limit {MAX_NESTING} levels)")
        return [self._message(self._read(each), depth) for each in messages] + [
            self._enum(self._read(each)) for each in enums
        ]

    def _message(self, found: Message, depth: int) -> Type:
        message = Type(self._text(found, 1))
        nested = {}
        for each in found.get(3, ()):
            inner = self._read(each)
            if self._int(self._read(inner.get(7, [b""])[-1]), 7):  # MessageOptions.map_entry
                nested[self._text(inner, 1)] = [self._field(self._read(part)) for part in inner.get(2, ())]
        plain = [each for each in found.get(3, ()) if self._text(self._read(each), 1) not in nested]
        message.types = self._types(plain, found.get(4, ()), depth + 1)
        oneofs = [OneOf(self._text(self._read(each), 1)) for each in found.get(8, ())]
        groups = {each.name: each for each in message.types}
        for each in found.get(2, ()):
            raw = self._read(each)
            field = self._field(raw)
            short = field.type.rpartition(".")[2]
            if field.label == "repeated" and len(nested.get(short, ())) == 2:
                key, value = nested[short]
                field.type, field.label, field.key, field.value = "map", "", key.type, value.type
            if field.is_group and short in groups:
                groups[short].is_group = True
            index = self._int(raw, 9, -1)
            if index >= len(oneofs):
                raise _invalid(f"field {field.name[:100]!r} is in an unknown oneof")
            if index >= 0 and not self._int(raw, 17):
                field.label = ""
                oneofs[index].fields.append(field)
            else:
                message.fields.append(field)
        message.oneofs = [each for each in oneofs if each.fields]  # Others are those of optional fields of proto3.
        message.reserved = self._reserved(found, 9, 10, 1)
        for each in found.get(5, ()):
            raw = self._read(each)
            message.extensions.append(([(self._int(raw, 1), self._int(raw, 2) - 1)], []))
        message.extends = self._extends(found.get(6, ()))
        message.options = self._options(found, 7, _MESSAGE_OPTIONS)
        return message

    def _reserved(self, found: Message, numbers: int, names: int, after_last: int) -> list[Ranges]:
        ranges: Ranges = []
        for each in found.get(numbers, ()):
            raw = self._read(each)
            ranges.append((self._int(raw, 1), self._int(raw, 2) - after_last))
        texts: Ranges = list(self._texts(found, names))
        return [each for each in (ranges, texts) if each]

    def _field(self, found: Message) -> Field:
        kind = self._int(found, 5)
        if not 0 <= kind < len(_TYPES):
            raise _invalid(f"type {kind} of a field")
        is_named = _TYPES[kind] in ("", "group", "message", "enum")
        label = _LABELS[self._int(found, 4)] if 0 <= self._int(found, 4) < len(_LABELS) else ""
        if label == "optional" and self._is_proto3 and not self._int(found, 17):
            label = ""
        name = self._text(found, 1)
        field = Field(name, self._int(found, 3), self._text(found, 6) if is_named else _TYPES[kind], label)
        field.is_group = _TYPES[kind] == "group"
        field.options = self._options(found, 8, _FIELD_OPTIONS)
        if 7 in found:
            default = self._text(found, 7)
            field.options.append(("default", default if field.type in ("string", "bytes") else Word(default)))
        if self._text(found, 10) not in ("", json_name(name)):
            field.options.append(("json_name", self._text(found, 10)))
        return field

    def _extends(self, values: Iterable[Any]) -> list[Extend]:
        found: dict[str, Extend] = {}
        for each in values:
            raw = self._read(each)
            name = self._text(raw, 2)
            found.setdefault(name, Extend(name)).fields.append(self._field(raw))
        return list(found.values())

    def _enum(self, found: Message) -> Type:
        enum = Type(self._text(found, 1), is_enum=True)
        for each in found.get(2, ()):
            raw = self._read(each)
            enum.constants.append((self._text(raw, 1), self._int(raw, 2), self._options(raw, 3, _CONSTANT_OPTIONS)))
        enum.reserved = self._reserved(found, 4, 5, 0)
        enum.options = self._options(found, 3, _ENUM_OPTIONS)
        return enum

    def _service(self, found: Message) -> Service:
        service = Service(self._text(found, 1), options=self._options(found, 3, _SERVICE_OPTIONS))
        for each in found.get(2, ()):
            raw = self._read(each)
            types = self._text(raw, 2), self._text(raw, 3)
            streams = bool(self._int(raw, 5)), bool(self._int(raw, 6))
            service.methods.append((self._text(raw, 1), *types, *streams, self._options(raw, 4, _METHOD_OPTIONS)))
        return service

    def _options(self, found: Message, number: int, names: dict[int, str]) -> Options:
        options: Options = []
        for each in found.get(number, ()):
            raw = self._read(each)
            for option in sorted(raw.keys() & names.keys()):
                name, _, kind = names[option].partition(":")
                if kind == "s":
                    options.append((name, self._text(raw, option)))
                elif kind == "m":
                    options.append((name, self._meta(self._read(raw[option][-1]))))
                elif kind:
                    choices = kind.split(",")
                    value = self._int(raw, option)
                    options.append((name, Word(choices[value] if 0 <= value < len(choices) else value)))
                else:
                    options.append((name, Word("true" if self._int(raw, option) else "false")))
        return options

    def _meta(self, raw: Message) -> dict[str, Any]:
        meta: dict[str, Any] = {}
        if 1 in raw:
            meta["doc"] = self._text(raw, 1)
        if 2 in raw:
            entries = [self._read(each) for each in raw[2]]
            meta["params"] = [{"key": self._text(each, 1), "value": self._text(each, 2)} for each in entries]
        if 3 in raw:
            meta["tags"] = self._texts(raw, 3)
        return meta


# To bytes.


def serialized(schema: Schema, name: str = "default") -> str:
    """Return a schema as `FileDescriptorProto` in base64. It has names of types with packages, as `protoc` writes them."""
    return base64.b64encode(_Encoder(schema.parsed).file(name)).decode()


def json_name(name: str) -> str:
    """Return the name of a field in JSON, if the schema gives none."""
    first, *others = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in others)


def _number_bytes(number: int, value: int) -> bytes:
    return _varint_bytes(number << 3) + _varint_bytes(value & (1 << 64) - 1)


def _bytes(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint_bytes(number << 3 | 2) + _varint_bytes(len(data)) + data


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


class _Encoder:
    def __init__(self, file: File) -> None:
        self._file = file

    def file(self, name: str) -> bytes:
        file = self._file
        parts = [_bytes(1, name)]
        parts += [_bytes(2, file.package)] if file.package else []
        parts += [_bytes(3, path) for _, path in file.imports]
        parts += [self._type(4, each) for each in file.types if not each.is_enum]
        parts += [self._enum(5, each) for each in file.types if each.is_enum]
        parts += [self._service(each) for each in file.services]
        parts += list(self._extends(7, file.extends))
        parts.append(self._options(8, file.options, _FILE_OPTIONS))
        for number, kind in _IMPORTS:
            parts += [_number_bytes(number, index) for index, each in enumerate(file.imports) if each[0] == kind]
        if file.syntax == "proto3":
            parts.append(_bytes(12, file.syntax))
        elif file.syntax.isdecimal():
            edition = int(file.syntax)
            parts += [_bytes(12, "editions"), _number_bytes(14, edition - 1023 if edition >= 2023 else edition)]
        return b"".join(parts)

    def _type(self, number: int, message: Type) -> bytes:
        return _bytes(number, b"".join(self._message(message)))

    def _message(self, message: Type) -> Iterator[bytes]:
        yield _bytes(1, message.name)
        proto3_optional = [each for each in message.fields if each.label == "optional" and self._file.is_proto3]
        indexes = {each.number: index for index, each in enumerate(proto3_optional, len(message.oneofs))}
        for each in message.fields:
            yield self._field(2, each, message, indexes.get(each.number, -1))
        for index, oneof in enumerate(message.oneofs):
            for each in oneof.fields:
                yield self._field(2, each, message, index)
        for each in message.all_fields():
            if each.type == "map":
                yield self._map_entry(each, message)
        yield from (self._type(3, each) for each in message.types if not each.is_enum)
        yield from (self._enum(4, each) for each in message.types if each.is_enum)
        for ranges, _ in message.extensions:
            yield from (
                _bytes(5, _number_bytes(1, first) + _number_bytes(2, last + 1))
                for first, last in (each for each in ranges if not isinstance(each, str))
            )
        yield from self._extends(6, message.extends)
        yield self._options(7, message.options, _MESSAGE_OPTIONS)
        yield from (_bytes(8, _bytes(1, each.name)) for each in message.oneofs)
        yield from (_bytes(8, _bytes(1, f"_{each.name}")) for each in proto3_optional)
        yield from self._reserved(message, 9, 10, 1)

    def _reserved(self, type_: Type, numbers: int, names: int, after_last: int) -> Iterator[bytes]:
        for each in (each for ranges in type_.reserved for each in ranges):
            if isinstance(each, str):
                yield _bytes(names, each)
            else:
                yield _bytes(numbers, _number_bytes(1, each[0]) + _number_bytes(2, each[1] + after_last))

    def _field(self, number: int, each: Field, scope: Type | None, oneof: int = -1, extendee: str = "") -> bytes:
        parts = [_bytes(1, each.name)]
        parts += [_bytes(2, extendee)] if extendee else []
        label = "repeated" if each.type == "map" else each.label or "optional"
        parts += [_number_bytes(3, each.number), _number_bytes(4, _LABELS.index(label))]
        if each.type == "map" and scope is not None:
            parts += [_number_bytes(5, _TYPES.index("message")), _bytes(6, f".{scope.full_name}.{_entry_name(each)}")]
        elif each.target is not None:
            kind = "enum" if each.target.is_enum else "group" if each.is_group else "message"
            parts += [_number_bytes(5, _TYPES.index(kind)), _bytes(6, f".{each.target.full_name}")]
        else:
            parts.append(_number_bytes(5, _TYPES.index(each.type)))
        options = dict(each.options)
        if "default" in options:
            parts.append(_bytes(7, decimal_default(str(options["default"]), each.type)))
        parts.append(self._options(8, each.options, _FIELD_OPTIONS))
        parts += [_number_bytes(9, oneof)] if oneof >= 0 else []
        parts.append(_bytes(10, str(options.get("json_name", json_name(each.name)))))
        if each.label == "optional" and self._file.is_proto3 and not extendee:
            parts.append(_number_bytes(17, 1))
        return _bytes(number, b"".join(parts))

    def _map_entry(self, each: Field, scope: Type) -> bytes:
        key, value = Field("key", 1, each.key), Field("value", 2, each.value, target=each.target)
        fields = self._field(2, key, scope) + self._field(2, value, scope)
        return _bytes(3, _bytes(1, _entry_name(each)) + fields + _bytes(7, _number_bytes(7, 1)))

    def _extends(self, number: int, extends: Iterable[Extend]) -> Iterator[bytes]:
        for extend in extends:
            for each in extend.fields:
                yield self._field(number, each, None, extendee=f".{extend.full_name}")

    def _enum(self, number: int, enum: Type) -> bytes:
        parts = [_bytes(1, enum.name)]
        for name, constant, options in enum.constants:
            encoded = self._options(3, options, _CONSTANT_OPTIONS)
            parts.append(_bytes(2, _bytes(1, name) + _number_bytes(2, constant) + encoded))
        parts.append(self._options(3, enum.options, _ENUM_OPTIONS))
        parts += list(self._reserved(enum, 4, 5, 0))
        return _bytes(number, b"".join(parts))

    def _service(self, service: Service) -> bytes:
        parts = [_bytes(1, service.name)]
        for name, request, response, is_stream, is_stream_back, options in service.methods:
            streams = _number_bytes(5, 1) * is_stream + _number_bytes(6, 1) * is_stream_back
            encoded = self._options(4, options, _METHOD_OPTIONS)
            types = (f".{self._file.method_types[each]}" for each in (request, response))
            sent = b"".join(_bytes(number, each) for number, each in enumerate(types, 2))
            parts.append(_bytes(2, _bytes(1, name) + sent + encoded + streams))
        parts.append(self._options(3, service.options, _SERVICE_OPTIONS))
        return _bytes(6, b"".join(parts))

    def _options(self, number: int, options: Options, names: dict[int, str]) -> bytes:
        numbers = {name.partition(":")[0]: (option, name.partition(":")[2]) for option, name in names.items()}
        parts = []
        for name, value in options:
            option, kind = numbers.get(name, (0, ""))
            if not option:
                continue
            if kind == "m":
                parts.append(_bytes(option, _meta_bytes(value)))
            elif kind == "s":
                parts.append(_bytes(option, str(value)))
            elif kind:
                choices = kind.split(",")
                parts.append(_number_bytes(option, choices.index(value) if value in choices else 0))
            else:
                parts.append(_number_bytes(option, value == "true"))
        return _bytes(number, b"".join(parts)) if parts else b""


def _meta_bytes(value: Any) -> bytes:
    meta = value if isinstance(value, dict) else {}
    parts = [_bytes(1, str(meta["doc"]))] if "doc" in meta else []
    for entry in _as_list(meta.get("params", [])):
        if isinstance(entry, dict):
            parts.append(_bytes(2, _bytes(1, str(entry.get("key", ""))) + _bytes(2, str(entry.get("value", "")))))
    parts += [_bytes(3, str(tag)) for tag in _as_list(meta.get("tags", []))]
    return b"".join(parts)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _entry_name(each: Field) -> str:
    """Return the name that `protoc` gives to the message of a map's entries."""
    camel = json_name(each.name)
    return f"{camel[:1].upper()}{camel[1:]}Entry"
