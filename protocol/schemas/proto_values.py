"""Values in Protobuf's wire format (<https://protobuf.dev/programming-guides/encoding/>) as JSON.

Fields have the names of the schema, and integers of 64 bits are numbers. Otherwise this is Protobuf's JSON. A field that has no
presence is shown with its default, e.g. 0 in proto3. Fields that the schema does not have are shown by their number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .plain_json import (
    CONTAINER_STEPS,
    FORMATTED_STEPS,
    NotDecodable,
    base64_text,
    check_depth,
    double,
    single,
    text_cost,
)
from .proto import Extend, Field, File, Type
from .proto_plain import ANY, DECIMAL, PLAIN, decimal, known_types, plain
from .proto_text import MAX_NESTING
from .values import Budget, Schema, reached

VARINT, FIXED64, BYTES, GROUP, END, FIXED32 = range(6)
_MASK64 = (1 << 64) - 1
_NOTHING = Type("")
"""A message of which no field is known."""

Raw = int | bytes
"""A number, or the bytes of a field."""


class _Scalar(NamedTuple):
    wire: int
    read: Callable[[Any], Any]
    default: Any


def _signed(bits: int) -> Callable[[int], int]:
    half, mask = 1 << bits - 1, (1 << bits) - 1
    return lambda raw: ((raw & mask) ^ half) - half


def _unsigned(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda raw: raw & mask


def _zigzag(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda raw: (raw & mask) >> 1 ^ -(raw & 1)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise NotDecodable("string: invalid UTF-8") from None


_FLOAT = _Scalar(FIXED32, lambda raw: single(struct.unpack("<f", raw.to_bytes(4, "little"))[0]), 0.0)
_SCALARS = {
    **{name: _Scalar(VARINT, _signed(bits), 0) for name, bits in (("int32", 32), ("int64", 64))},
    **{name: _Scalar(VARINT, _unsigned(bits), 0) for name, bits in (("uint32", 32), ("uint64", 64))},
    **{name: _Scalar(VARINT, _zigzag(bits), 0) for name, bits in (("sint32", 32), ("sint64", 64))},
    "fixed32": _Scalar(FIXED32, _unsigned(32), 0),
    "fixed64": _Scalar(FIXED64, _unsigned(64), 0),
    "sfixed32": _Scalar(FIXED32, _signed(32), 0),
    "sfixed64": _Scalar(FIXED64, _signed(64), 0),
    "float": _FLOAT,
    "double": _Scalar(FIXED64, lambda raw: double(struct.unpack("<d", raw.to_bytes(8, "little"))[0]), 0.0),
    "bool": _Scalar(VARINT, bool, False),
    "string": _Scalar(BYTES, _text, ""),
    "bytes": _Scalar(BYTES, base64_text, ""),
}
_ENUM = _Scalar(VARINT, _signed(32), 0)


def message_at(file: File, indexes: Sequence[int]) -> Type:
    """Return the message that indexes name: one at the top of the file, one inside of it, and so on.

    Raises:
        NotDecodable: The file has no such message.
    """
    types, found = file.types, _NOTHING
    for index in indexes:
        messages = [each for each in types if not each.is_enum]
        if not 0 <= index < len(messages):
            break
        found = messages[index]
        types = found.types
    else:
        return found
    raise NotDecodable(f"the schema has no message {'.'.join(map(str, indexes))[:100]}")


def read_indexes(data: bytes, start: int) -> tuple[list[int], int]:
    """Return the indexes of a message, as Confluent's serializers write them, and where they end.

    Raises:
        NotDecodable: There are none.
    """
    count, at = _varint(data, start)
    count = count >> 1 ^ -(count & 1)
    if not 0 <= count <= MAX_NESTING:
        raise NotDecodable(f"message indexes: number out of range ({count}, limit {MAX_NESTING})")
    found = []
    for _ in range(count):
        raw, at = _varint(data, at)
        found.append(raw >> 1 ^ -(raw & 1))
    return found or [0], at


class _Shown(NamedTuple):
    """A field of a type, and how its values are read."""

    field: Field
    name: str
    cost: int
    oneof: str
    """The name of its oneof; empty if it is in none."""
    has_default: bool
    """Whether its default is shown: it has no presence."""


def _shown(field: Field, is_implicit: bool) -> _Shown:
    """Return a field of a message, whose other fields have no presence if `is_implicit`."""
    has_default = field.label == "repeated" or field.type == "map"
    if not field.label and not has_default and (field.target is None or field.target.is_enum):
        options = dict(each for each in field.options if isinstance(each[1], str))
        presence = options.get("features.field_presence")
        has_default = is_implicit if presence is None else presence == "IMPLICIT"
    return _Shown(field, field.name, text_cost(field.name), "", has_default)


class ProtobufDecoder:
    """Decodes messages of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._files: list[File] = [schema.parsed, *(each.parsed for _, each in reached(schema.references))]
        self._types = dict(known_types())
        self._implicit: set[str] = set()
        """Full names of types whose fields have no presence."""
        self._extends: dict[str, list[tuple[str, Extend]]] = {}
        for file in reversed(self._files):
            self._types |= file.names
            if file.is_proto3 or ("features.field_presence", "IMPLICIT") in file.options:
                self._implicit |= file.names.keys()
            for scope, extends in [(file.package, file.extends), *((n, t.extends) for n, t in file.names.items())]:
                for each in extends:
                    self._extends.setdefault(each.full_name, []).append((scope, each))
        self._implicit |= known_types().keys()
        self._tables: dict[str, dict[int, _Shown]] = {}
        self._symbols: dict[str, dict[int, str]] = {}

    @property
    def file(self) -> File:
        return self._files[0]

    def decode(self, message: Type, data: bytes, budget: Budget) -> Any:
        """Return the JSON value of bytes.

        Raises:
            NotDecodable: They are not in Protobuf's format, or a text in them is not UTF-8.
            SchemaTooLarge: The budget is spent.
        """
        return _Decoding(self, budget).message(message, data, 1)

    def type_named(self, full_name: str) -> Type | None:
        return self._types.get(full_name)

    def fields(self, type_: Type) -> dict[int, _Shown]:
        """Return the fields of a message by number."""
        found = self._tables.get(type_.full_name)
        if found is None:
            found = {}
            is_implicit = type_.full_name in self._implicit
            for each in type_.fields:
                found[each.number] = _shown(each, is_implicit)
            for oneof in type_.oneofs:
                for each in oneof.fields:
                    found[each.number] = _shown(each, False)._replace(oneof=oneof.name)
            for scope, extend in self._extends.get(type_.full_name, ()):
                for each in extend.fields:
                    name = f"[{scope}.{each.name}]" if scope else f"[{each.name}]"
                    added = _Shown(each, name, text_cost(name), "", False)
                    found.setdefault(each.number, added)
            self._tables[type_.full_name] = found
        return found

    def symbols(self, enum: Type) -> dict[int, str]:
        """Return the names of an enum by number, the first of each."""
        found = self._symbols.get(enum.full_name)
        if found is None:
            known = self._types.get(enum.full_name, enum)
            found = self._symbols[enum.full_name] = {number: name for name, number, _ in reversed(known.constants)}
        return found


class _Decoding:
    """The decoding of one value."""

    def __init__(self, decoder: ProtobufDecoder, budget: Budget) -> None:
        self._decoder = decoder
        self._budget = budget

    def message(self, type_: Type, data: bytes, depth: int) -> Any:
        check_depth(depth)
        self._budget.spend(CONTAINER_STEPS)
        type_ = known_types().get(type_.full_name, type_)
        fields = self._decoder.fields(type_) if type_.full_name else {}
        known: dict[int, list[Raw]] = {}
        others: dict[str, list[Any]] = {}
        chosen: dict[str, int] = {}
        """Number of the last field of each oneof."""
        for number, wire, raw in self._parts(data):
            shown = fields.get(number)
            if shown is None or not _fits(shown.field, wire):
                others.setdefault(str(number), []).append(self._unknown(wire, raw, depth))
                continue
            if shown.oneof:
                if chosen.get(shown.oneof, number) != number:
                    del known[chosen[shown.oneof]]
                chosen[shown.oneof] = number
            known.setdefault(number, []).append(raw)
        if type_.full_name == DECIMAL:
            return self._decimal(known)
        found: dict[str, Any] = {}
        for number, shown in fields.items():
            self._budget.spend(1)
            if number in known or shown.has_default:
                self._budget.spend(shown.cost)
                found[shown.name] = self._field(shown.field, known.get(number, ()), depth)
        for name, values in others.items():
            found[name] = values[0] if len(values) == 1 else values
        return self._any(known, depth) if type_.full_name == ANY else plain(type_.full_name, found)

    def _parts(self, data: bytes) -> Iterator[tuple[int, int, Raw]]:
        """Yield number, wire type and content of each field."""
        at = 0
        while at < len(data):
            self._budget.spend(1)
            number, wire, raw, at = _part(data, at)
            if wire == END:
                raise NotDecodable(f"end of a group that has no beginning (field {number})")
            if wire == GROUP:
                start = at
                raw, at = self._group(number, data, start)
            assert raw is not None
            yield number, wire, raw

    def _group(self, number: int, data: bytes, start: int) -> tuple[bytes, int]:
        """Return the bytes of a group, and where the field ends."""
        open_groups, at = [number], start
        while open_groups:
            self._budget.spend(1)
            before = at
            if at == len(data):
                raise NotDecodable(f"a group does not end (field {number})")
            inner, wire, _, at = _part(data, at)
            if wire == GROUP:
                open_groups.append(inner)
            elif wire == END and open_groups.pop() != inner:
                raise NotDecodable(f"end of another group (field {inner})")
        return data[start:before], at

    def _unknown(self, wire: int, raw: Raw, depth: int) -> Any:
        if isinstance(raw, int):
            return raw
        if wire == GROUP:
            return self.message(_NOTHING, raw, depth + 1)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            return base64_text(raw)
        return text if text.isprintable() else base64_text(raw)

    def _field(self, field: Field, raws: Sequence[Raw], depth: int) -> Any:
        if field.type == "map":
            return self._map(field, raws, depth)
        if field.label == "repeated":
            return list(self._repeated(field, raws, depth))
        return self._single(field, raws, depth)

    def _single(self, field: Field, raws: Sequence[Raw], depth: int) -> Any:
        """Return the last of several values, or all of one message together."""
        target = field.target
        if target is None or target.is_enum:
            scalar = _scalar(field)
            if scalar is _FLOAT:
                self._budget.spend(FORMATTED_STEPS)
            value = scalar.read(raws[-1]) if raws else scalar.default
            return value if target is None else self._symbol(target, value)
        return self.message(target, b"".join(each for each in raws if isinstance(each, bytes)), depth + 1)

    def _repeated(self, field: Field, raws: Sequence[Raw], depth: int) -> Iterator[Any]:
        scalar = None if field.target is not None and not field.target.is_enum else _scalar(field)
        for raw in raws:
            if scalar is None or scalar.wire == BYTES or isinstance(raw, int):
                yield self._single(field, [raw], depth)
            else:
                at = 0
                while at < len(raw):
                    self._budget.spend(1)
                    one, at = _number(raw, at, scalar.wire)
                    yield self._single(field, [one], depth)

    def _map(self, field: Field, raws: Sequence[Raw], depth: int) -> dict[str, Any]:
        key = Field("", 1, field.key)
        value = Field("", 2, field.value, target=field.target)
        found = {}
        for raw in raws:
            assert isinstance(raw, bytes)
            parts: dict[int, list[Raw]] = {1: [], 2: []}
            for number, wire, inner in self._parts(raw):
                if number in parts and _fits(key if number == 1 else value, wire):
                    parts[number].append(inner)
            name = self._single(key, parts[1], depth)
            text = name if isinstance(name, str) else str(name).lower()  # true, not True
            found[text] = self._single(value, parts[2], depth)
        return found

    def _symbol(self, enum: Type, number: int) -> Any:
        """Return the name of an enum's value, or its number if it has none."""
        name = self._decoder.symbols(enum).get(number, number)
        if isinstance(name, str):
            self._budget.spend(text_cost(name))
            return None if enum.full_name == "google.protobuf.NullValue" else name
        return name

    def _any(self, known: dict[int, list[Raw]], depth: int) -> dict[str, Any]:
        url, data = known.get(1, [b""])[-1], known.get(2, [b""])[-1]
        assert isinstance(url, bytes) and isinstance(data, bytes)
        name = _text(url)
        target = self._decoder.type_named(name.rpartition("/")[2])
        if target is None or target.is_enum:
            return {"@type": name, "value": base64_text(data)}
        found = self.message(target, data, depth + 1)
        return {"@type": name} | ({"value": found} if target.full_name in PLAIN else found)

    def _decimal(self, known: dict[int, list[Raw]]) -> str:
        value, scale = known.get(1, [b""])[-1], known.get(3, [0])[-1]
        assert isinstance(value, bytes) and isinstance(scale, int)
        found = decimal(value, _signed(32)(scale))
        self._budget.spend(text_cost(found))
        return found


def _scalar(field: Field) -> _Scalar:
    return _ENUM if field.target is not None else _SCALARS[field.value if field.type == "map" else field.type]


def _fits(field: Field, wire: int) -> bool:
    """Return whether a field of the schema may have this wire type; others are unknown fields."""
    if field.type == "map":
        return wire == BYTES
    if field.target is not None and not field.target.is_enum:
        return wire in (BYTES, GROUP)
    scalar = _scalar(field)
    return wire == scalar.wire or (wire == BYTES and field.label == "repeated")


def _part(data: bytes, at: int) -> tuple[int, int, Raw | None, int]:
    """Return number, wire type and content of the field at a position, and where it ends. Groups have no content."""
    key, at = _varint(data, at)
    number, wire = key >> 3, key & 7
    if not 1 <= number < 1 << 29:
        raise NotDecodable(f"field number out of range ({number})")
    if wire in (GROUP, END):
        return number, wire, None, at
    if wire == BYTES:
        size, at = _varint(data, at)
        if size > len(data) - at:
            raise NotDecodable(f"field {number}: expected {size} more bytes, found {len(data) - at}")
        return number, wire, data[at : at + size], at + size
    if wire not in (VARINT, FIXED32, FIXED64):
        raise NotDecodable(f"field {number}: invalid wire type ({wire})")
    raw, at = _number(data, at, wire)
    return number, wire, raw, at


def _number(data: bytes, at: int, wire: int) -> tuple[int, int]:
    if wire == VARINT:
        return _varint(data, at)
    end = at + (4 if wire == FIXED32 else 8)
    if end > len(data):
        raise NotDecodable("the bytes end within a number")
    return int.from_bytes(data[at:end], "little"), end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found & _MASK64, at
        shift += 7
    raise NotDecodable("a number does not end")
