"""Protobuf files: their parts, which names they know, and what makes them invalid.

A text (`proto_text`) or a serialized `FileDescriptorProto` (`proto_descriptor`) becomes the same `File`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .proto_known import FILES
from .values import MAX_NAME_CHARACTERS, Budget, InvalidSchema, Schema, reached, shown

INTEGERS = (
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
)
KEYS = (*INTEGERS, "bool", "string")
"""Types that a map's keys may have."""
SCALARS = (*KEYS, "double", "float", "bytes")
MAX_NUMBER = (1 << 29) - 1
MAX_ENUM_NUMBER = (1 << 31) - 1

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PATH = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_OWN_NUMBERS = range(19_000, 20_000)
"""Field numbers that Protobuf itself uses."""


class Word(str):
    """An identifier or a number as the value of an option. A string is a `str`."""

    __slots__ = ()


Options = list[tuple[str, Any]]
"""Names and values. A value is a `Word`, a string, a list of values, or a dict of fields."""
Ranges = list[tuple[int, int] | str]
"""Numbers, first and last, or names."""


@dataclass(slots=True, eq=False)
class Field:
    """A field of a message, or of an extension."""

    name: str
    number: int
    type: str
    """A scalar, the name of a type as it is written, or "map"."""
    label: str = ""
    """optional, repeated or required."""
    options: Options = field(default_factory=list)
    key: str = ""
    """Scalar type of a map's keys."""
    value: str = ""
    """Type of a map's values."""
    is_group: bool = False
    target: Type | None = None
    """The message or enum that the type, or a map's value type, names."""


@dataclass(slots=True, eq=False)
class OneOf:
    """Fields of which at most one is set."""

    name: str
    fields: list[Field] = field(default_factory=list)
    options: Options = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Extend:
    """Fields that are added to a message of another place."""

    name: str
    """The message's name as it is written."""
    fields: list[Field] = field(default_factory=list)
    full_name: str = ""


@dataclass(slots=True, eq=False)
class Type:
    """A message or an enum."""

    name: str
    is_enum: bool = False
    full_name: str = ""
    """With package and enclosing messages."""
    package: str = ""
    fields: list[Field] = field(default_factory=list)
    """Without those of `oneofs`."""
    oneofs: list[OneOf] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    constants: list[tuple[str, int, Options]] = field(default_factory=list)
    """Names, numbers and options of an enum's values."""
    reserved: list[Ranges] = field(default_factory=list)
    extensions: list[tuple[Ranges, Options]] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: Options = field(default_factory=list)
    is_group: bool = False
    """Whether a field of the enclosing message defines it."""
    is_known: bool = False
    """Whether it is a type of `proto_known`, of which only the name is kept."""

    def all_fields(self) -> Iterator[Field]:
        yield from self.fields
        for oneof in self.oneofs:
            yield from oneof.fields


@dataclass(slots=True, eq=False)
class Service:
    """A service; methods are name, request, response, whether each is a stream, and options."""

    name: str
    methods: list[tuple[str, str, str, bool, bool, Options]] = field(default_factory=list)
    options: Options = field(default_factory=list)


@dataclass(slots=True, eq=False)
class File:
    """The content of a schema."""

    syntax: str = ""
    """proto2, proto3, an edition, or empty for none, which means proto2."""
    package: str = ""
    imports: list[tuple[str, str]] = field(default_factory=list)
    """Kind (empty, public, weak or option) and path."""
    types: list[Type] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    options: Options = field(default_factory=list)
    names: dict[str, Type] = field(default_factory=dict)
    """Types of this file by full name."""
    method_types: dict[str, str] = field(default_factory=dict)
    """Full names of messages by the name that methods of services use."""

    @property
    def is_proto3(self) -> bool:
        return self.syntax == "proto3"


def check(file: File, references: Mapping[str, Schema]) -> None:
    """Check a file, and set the full names and targets of its types and fields.

    Raises:
        InvalidSchema: The file is not one that `protoc` would accept, or an import or a type is not known.
    """
    _Checker(file, references).run()


class _Checker:
    def __init__(self, file: File, references: Mapping[str, Schema]) -> None:
        self._file = file
        self._known: dict[str, Type] = {}
        self._paths: set[str] = set()
        for name, schema in reached(references):
            if schema.kind != "PROTOBUF":
                raise InvalidSchema(f"reference {shown(name)}: expected a schema of type PROTOBUF, found {schema.kind}")
            self._known |= schema.parsed.names
            self._paths.add(name)
        self._budget = Budget()

    def run(self) -> None:
        file = self._file
        if file.package and (not _PATH.fullmatch(file.package) or len(file.package) > MAX_NAME_CHARACTERS):
            raise InvalidSchema(f"package: invalid name ({shown(file.package)})")
        for _, path in file.imports:
            if path not in self._paths:
                self._import_known(path)
        self._define(file.types, file.package)
        for type_ in file.names.values():
            if type_.is_enum:
                self._check_enum(type_)
            else:
                self._check_message(type_)
            for extend in type_.extends:
                self._check_extend(extend, type_.full_name)
        for extend in file.extends:
            self._check_extend(extend, file.package)
        for service in file.services:
            for name, request, response, *_ in service.methods:
                for each in (request, response):
                    found = self._find(each, file.package, name)
                    if found.is_enum:
                        raise InvalidSchema(f"{service.name}.{name}: expected a message, found enum {each}")
                    file.method_types[each] = found.full_name

    def _import_known(self, path: str) -> None:
        if path not in FILES:
            raise InvalidSchema(f"import: not found ({shown(path)}); name its schema in the references")
        package, names = FILES[path]
        for name in names.split():
            kind, _, short = name.rpartition(":")
            full_name = f"{package}.{short}"
            self._known[full_name] = Type(short, kind == "enum", full_name, package, is_known=True)

    def _define(self, types: list[Type], scope: str) -> None:
        left = [(scope, each) for each in types]
        while left:
            scope, type_ = left.pop()
            type_.full_name = f"{scope}.{type_.name}" if scope else type_.name
            _check_name(type_.name, scope, type_.full_name)
            type_.package = self._file.package
            if type_.full_name in self._file.names or type_.full_name in self._known:
                raise InvalidSchema(f"{type_.full_name}: defined twice")
            self._file.names[type_.full_name] = type_
            left += [(type_.full_name, each) for each in type_.types]

    def _find(self, name: str, scope: str, where: str) -> Type:
        """Return the type that a name means: it is looked up from the innermost scope to the outermost."""
        if not _PATH.fullmatch(name):
            raise InvalidSchema(f"{where}: invalid name of a type ({shown(name)})")
        while True:
            self._budget.spend(1)
            full_name = name[1:] if name.startswith(".") else f"{scope}.{name}" if scope else name
            found = self._file.names.get(full_name) or self._known.get(full_name)
            if found is not None:
                return found
            if not scope or name.startswith("."):
                raise InvalidSchema(f"{where}: type not found ({shown(name)})")
            scope = scope.rpartition(".")[0]

    def _check_message(self, message: Type) -> None:
        where = message.full_name
        numbers: dict[int, str] = {}
        names: set[str] = set()
        for each in message.all_fields():
            _check_name(each.name, where)
            self._check_field(each, where)
            if each.number in numbers:
                raise InvalidSchema(f"{where}.{each.name}: number {each.number} is that of {numbers[each.number]}")
            if each.name in names:
                raise InvalidSchema(f"{where}.{each.name}: duplicate field")
            numbers[each.number] = each.name
            names.add(each.name)
        for oneof in message.oneofs:
            _check_name(oneof.name, where)
            if oneof.name in names:
                raise InvalidSchema(f"{where}.{oneof.name}: name of a field and of a oneof")
            names.add(oneof.name)
            if not oneof.fields:
                raise InvalidSchema(f"{where}.{oneof.name}: a oneof needs a field")
            if any(each.label or each.type == "map" for each in oneof.fields):
                raise InvalidSchema(f"{where}.{oneof.name}: fields of a oneof have no label, and are no maps")
        self._check_reserved(message, numbers, where)

    def _check_reserved(self, type_: Type, numbers: Mapping[int, str], where: str) -> None:
        taken = sorted(numbers)
        names = set(numbers.values())
        for each in (each for ranges in type_.reserved for each in ranges):
            self._budget.spend(1)
            if isinstance(each, str):
                if each in names:
                    raise InvalidSchema(f"{where}.{each}: the name is reserved")
                continue
            first, last = each
            if first > last:
                raise InvalidSchema(f"{where}: reserved: first number after the last ({first} to {last})")
            index = bisect_left(taken, first)
            if index < len(taken) and taken[index] <= last:
                raise InvalidSchema(f"{where}.{numbers[taken[index]]}: number {taken[index]} is reserved")

    def _check_field(self, each: Field, where: str) -> None:
        place = f"{where}.{each.name}"
        if not 1 <= each.number <= MAX_NUMBER or each.number in _OWN_NUMBERS:
            raise InvalidSchema(
                f"{place}: number {each.number} is out of range (1 to {MAX_NUMBER}, without 19000 to 19999)"
            )
        if self._file.is_proto3 and (each.label == "required" or each.is_group):
            raise InvalidSchema(f"{place}: proto3 has no required fields and groups")
        if each.type == "map":
            if each.key not in KEYS:
                raise InvalidSchema(
                    f"{place}: type of a map's keys: expected an integer, bool or string, found {each.key}"
                )
            if each.label:
                raise InvalidSchema(f"{place}: a map has no label ({each.label})")
        named = each.value if each.type == "map" else each.type
        if named not in SCALARS:
            each.target = self._find(named, where, place)

    def _check_extend(self, extend: Extend, scope: str) -> None:
        extend.full_name = self._find(extend.name, scope, "extend").full_name
        for each in extend.fields:
            _check_name(each.name, scope)
            self._check_field(each, scope)

    def _check_enum(self, enum: Type) -> None:
        where = enum.full_name
        if not enum.constants:
            raise InvalidSchema(f"{where}: an enum needs a value")
        if self._file.is_proto3 and enum.constants[0][1] != 0:
            raise InvalidSchema(
                f"{where}: the first value of an enum of proto3 must be 0, found {enum.constants[0][1]}"
            )
        numbers: dict[int, str] = {}
        names: set[str] = set()
        has_aliases = ("allow_alias", "true") in enum.options
        for name, number, _ in enum.constants:
            _check_name(name, where)
            if name in names:
                raise InvalidSchema(f"{where}.{name}: duplicate value")
            if not -MAX_ENUM_NUMBER - 1 <= number <= MAX_ENUM_NUMBER:
                raise InvalidSchema(f"{where}.{name}: number {number} is out of range (32 bits)")
            if number in numbers and not has_aliases:
                raise InvalidSchema(
                    f"{where}.{name}: number {number} is that of {numbers[number]}, without allow_alias"
                )
            numbers.setdefault(number, name)
            names.add(name)
        self._check_reserved(enum, numbers, where)


def decimal_default(text: str, kind: str) -> str:
    """Return the default of a field with an integer in decimal, as descriptors have it."""
    digits = text.removeprefix("-")
    if kind not in INTEGERS:
        return text
    try:
        number = int(digits, 8 if digits[:1] == "0" and digits.isdecimal() else 0)
    except ValueError:
        return text
    return str(-number if text.startswith("-") else number)


def _check_name(name: str, where: str, full_name: str = "") -> None:
    length = max(len(name), len(full_name))
    if length > MAX_NAME_CHARACTERS:
        raise InvalidSchema(f"{where[:100]}: name too long ({length} characters, limit {MAX_NAME_CHARACTERS})")
    if not _NAME.fullmatch(name):
        raise InvalidSchema(f"{where}: invalid name ({shown(name)}; expected letters, digits and _, no digit first)")
