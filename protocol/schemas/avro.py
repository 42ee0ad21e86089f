"""Avro schemas, parsed by the specification of Avro 1.12 (<https://avro.apache.org/docs/1.12.0/specification/>).

Where the specification is silent, Apache Avro for Java decides, because Confluent's registry uses it.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .values import MAX_NAME_CHARACTERS, MAX_NAMES, NOTHING, Budget, InvalidSchema, Walk, run_walk, shown

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_BITS = {"int": 31, "long": 63}
_RESERVED = {"type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values"}
_RESERVED_OF_FIELDS = {"type", "name", "doc", "default", "order", "aliases"}


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record."""

    name: str
    type: Type
    doc: str | None
    default: Any
    """Meaningless unless `has_default`."""
    has_default: bool
    order: str
    aliases: Sequence[str]
    props: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Type:
    """A type. References to a named type are the same object as its definition."""

    kind: str
    """A name in `PRIMITIVES` or `NAMED`, or array, map, union."""
    name: str = ""
    """With namespace, of named types only."""
    doc: str | None = None
    aliases: Sequence[str] = ()
    """With namespaces."""
    fields: Sequence[Field] = ()
    symbols: Sequence[str] = ()
    default: str | None = None
    """The symbol that an enum's reader uses for unknown ones."""
    size: int = 0
    """The length of a fixed, in bytes."""
    branches: Sequence[Type] = ()
    """The types of a union; the one type of the items of an array or the values of a map."""
    props: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    """Attributes that the specification does not define, and those of logical types."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """The content of a text."""

    root: Type
    names: Mapping[str, Type]
    """The named types that the text itself defines."""


class Parser:
    """Parses the JSON value of one schema, which may use the types in `names`.

    Names and defaults are checked in new schemas only: those of Debezium, e.g., may have namespaces with `-`.
    """

    def __init__(self, names: Mapping[str, Type], is_new: bool) -> None:
        self.names = ChainMap[str, Type]({}, dict(names))
        self._is_new = is_new
        self._defaults = _Defaults() if is_new else None

    def parse(self, found: Any) -> AvroSchema:
        return AvroSchema(self._type(found, ""), self.names.maps[0])

    def _type(self, found: Any, namespace: str) -> Type:
        if isinstance(found, str):
            return self._named(found, namespace)
        if isinstance(found, list):
            return self._union([self._type(each, namespace) for each in found])
        if not isinstance(found, dict):
            raise InvalidSchema(f"type: expected a string, an array or an object, found {shown(found)}")
        kind = found.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(f"type: expected the name of a type in attribute 'type', found {shown(kind)}")
        if kind in PRIMITIVES:
            props = _props(found, _RESERVED)
            return Type(kind, props=props) if props else _PLAIN[kind]
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in found:
                raise InvalidSchema(f"{kind}: attribute '{inner}' is missing")
            return Type(kind, branches=[self._type(found[inner], namespace)], props=_props(found, _RESERVED))
        return self._definition(kind, found, namespace) if kind in NAMED else self._named(kind, namespace)

    def _named(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return _PLAIN[name]
        for each in (f"{namespace}.{name}", name) if namespace and "." not in name else (name,):
            if each in self.names:
                return self.names[each]
        raise InvalidSchema(
            f"type: not defined ({shown(name)}); define it before its first use, or reference its schema"
        )

    def _union(self, branches: list[Type]) -> Type:
        seen = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidSchema("union: a branch is a union")
            key = branch.name or branch.kind
            if key in seen:
                raise InvalidSchema(f"union: duplicate branch ({key})")
            seen.add(key)
        return Type("union", branches=branches)

    def _definition(self, kind: str, found: dict[str, Any], namespace: str) -> Type:
        full_name = self._full_name(_text(found, "name", kind), found.get("namespace"), namespace)
        if full_name in PRIMITIVES:
            raise InvalidSchema(f"{kind}: name of a primitive type ({full_name})")
        if full_name in self.names:
            raise InvalidSchema(f"{kind}: defined twice ({full_name})")
        inner = full_name.rpartition(".")[0]
        reserved = {*_RESERVED, "default"} if kind == "enum" else _RESERVED
        defined = Type(kind, full_name, _doc(found), props=_props(found, reserved))
        aliases = []
        for alias in _texts(found.get("aliases", []), f"{full_name}: aliases"):
            full_alias = alias if "." in alias or not inner else f"{inner}.{alias}"
            aliases.append(self._checked(_FULL_NAME, full_alias, f"{full_name}: alias"))
        defined.aliases = aliases or ()
        self.names[full_name] = defined
        if kind == "enum":
            self._finish_enum(defined, found)
        elif kind == "fixed":
            size = found.get("size")
            if type(size) is not int or not 0 <= size < 1 << 31:
                raise InvalidSchema(f"{full_name}: size: expected an integer from 0 to 2147483647, found {shown(size)}")
            defined.size = size
        else:
            self._add_fields(defined, found.get("fields"), inner)
        return defined

    def _finish_enum(self, defined: Type, found: dict[str, Any]) -> None:
        symbols = _texts(found.get("symbols"), f"{defined.name}: symbols")
        seen = set()
        for symbol in symbols:
            self._checked(_NAME, symbol, f"{defined.name}: symbol")
            if symbol in seen:
                raise InvalidSchema(f"{defined.name}: duplicate symbol ({symbol})")
            seen.add(symbol)
        default = found.get("default")
        if default is not None and (not isinstance(default, str) or default not in seen):
            raise InvalidSchema(f"{defined.name}: default is not a symbol ({shown(default)})")
        defined.symbols, defined.default = symbols, default

    def _add_fields(self, record: Type, found: Any, namespace: str) -> None:
        if not isinstance(found, list):
            raise InvalidSchema(f"{record.name}: fields: expected an array, found {shown(found)}")
        seen = set()
        fields: list[Field] = []
        record.fields = fields
        for each in found:
            if not isinstance(each, dict):
                raise InvalidSchema(f"{record.name}: field: expected an object, found {shown(each)}")
            name = self._checked(_NAME, _text(each, "name", f"{record.name}: field"), f"{record.name}: field")
            where = f"{record.name}.{name}"
            if name in seen:
                raise InvalidSchema(f"{where}: duplicate field")
            seen.add(name)
            if "type" not in each:
                raise InvalidSchema(f"{where}: attribute 'type' is missing")
            order = each.get("order", "ascending")
            if not isinstance(order, str) or order.lower() not in ("ascending", "descending", "ignore"):
                raise InvalidSchema(f"{where}: order: expected ascending, descending or ignore, found {shown(order)}")
            added = Field(
                name,
                self._type(each["type"], namespace),
                _doc(each),
                each.get("default"),
                "default" in each,
                order.lower(),
                _texts(each.get("aliases", []), f"{where}: aliases") or (),
                _props(each, _RESERVED_OF_FIELDS),
            )
            fields.append(added)
            if self._defaults and added.has_default and not self._defaults.check(added.type, added.default):
                raise InvalidSchema(f"{where}: default is not of the field's type ({shown(added.default)})")

    def _full_name(self, name: str, namespace: Any, enclosing: str) -> str:
        if namespace is not None and not isinstance(namespace, str):
            raise InvalidSchema(f"namespace: expected a string, found {shown(namespace)}")
        if "." not in name:
            inherited = enclosing if namespace is None else namespace
            name = f"{inherited}.{name}" if inherited else name
        return self._checked(_FULL_NAME, name, "name")

    def _checked(self, pattern: re.Pattern[str], name: str, what: str) -> str:
        if len(name) > MAX_NAME_CHARACTERS:
            raise InvalidSchema(f"{what}: name too long ({len(name)} characters, limit {MAX_NAME_CHARACTERS})")
        if self._is_new and not pattern.fullmatch(name):
            raise InvalidSchema(f"{what}: invalid name ({shown(name)}; expected letters, digits and _, no digit first)")
        return name


_PLAIN = {name: Type(name) for name in PRIMITIVES}
"""Primitive types without attributes, shared by all schemas."""


class _Defaults:
    """Whether JSON values are defaults of types. The symbols of enums and the sizes of fixed are not checked."""

    def __init__(self) -> None:
        self._budget = Budget()
        self._results: dict[tuple[int, int], bool] = {}
        """By the identities of type and value: without these, unions of recursive types take exponential time."""

    def check(self, kind: Type, value: Any) -> bool:
        return run_walk(self._walk(kind, value), self._budget)

    def _walk(self, kind: Type, value: Any) -> Walk[bool]:
        pair = (id(kind), id(value))
        if pair not in self._results:
            self._budget.spend(len(kind.fields) + len(kind.branches))
            inner = _parts(kind, value)
            if isinstance(inner, bool):
                self._results[pair] = inner
            else:
                results = []
                for part in inner:
                    results.append((yield self._walk(*part)))
                self._results[pair] = any(results) if kind.kind == "union" else all(results)
        return self._results[pair]


def _parts(kind: Type, value: Any) -> bool | list[tuple[Type, Any]]:
    """Return whether a value is a default of a type, or the types and values that this depends on."""
    match kind.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bound = 1 << _BITS[kind.kind]
            return type(value) is int and -bound <= value < bound
        case "float" | "double":
            return type(value) in (int, float)
        case "array":
            return isinstance(value, list) and [(kind.branches[0], each) for each in value]
        case "map":
            return isinstance(value, dict) and [(kind.branches[0], each) for each in value.values()]
        case "union":
            return [(branch, value) for branch in kind.branches]
        case "record" | "error":
            if not isinstance(value, dict) or not all(each.has_default or each.name in value for each in kind.fields):
                return False
            return [(each.type, value[each.name]) for each in kind.fields if each.name in value]
    return isinstance(value, str)


def _text(found: dict[str, Any], name: str, what: str) -> str:
    value = found.get(name)
    if not isinstance(value, str):
        raise InvalidSchema(f"{what}: {name}: expected a string, found {shown(value)}")
    return value


def _texts(found: Any, what: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidSchema(f"{what}: expected an array of strings, found {shown(found)}")
    if len(found) > MAX_NAMES:
        raise InvalidSchema(f"{what}: too many ({len(found)}, limit {MAX_NAMES})")
    return list(found)


def _doc(found: dict[str, Any]) -> str | None:
    doc = found.get("doc")
    return doc if isinstance(doc, str) else None


def _props(found: dict[str, Any], reserved: set[str]) -> Mapping[str, Any]:
    return {name: value for name, value in found.items() if name not in reserved} or NOTHING
