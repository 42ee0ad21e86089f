"""The text of an Avro schema as the registry stores it, and its normalized text.

Attributes have the order in which Apache Avro for Java writes them. Types of referenced schemas are written by name.
Confluent's registry stores the same text, so both give the same schema the same id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .avro import NAMED, PRIMITIVES, Field, Parser, Type
from .values import InvalidSchema, Schema, reached, read_json, shown, write_json


def parse(text: str, references: Mapping[str, Schema], is_new: bool) -> Schema:
    """Return the schema of a text."""
    names: dict[str, Type] = {}
    for name, schema in reached(references):
        if schema.kind != "AVRO":
            raise InvalidSchema(f"reference {shown(name)}: expected a schema of type AVRO, found {schema.kind}")
        if twice := names.keys() & schema.parsed.names.keys():
            raise InvalidSchema(
                f"reference {shown(name)}: defines a type that another reference defines ({min(twice)})"
            )
        names |= schema.parsed.names
    parsed = Parser(names, is_new).parse(read_json(text))
    writer = _Writer(names, normalizes=False)
    canonical = normalized = write_json(writer.json_of(parsed.root, ""))
    if writer.may_be_normalized:
        normalized = write_json(_Writer(names, normalizes=True).json_of(parsed.root, ""))
    return Schema("AVRO", text, canonical, canonical if normalized == canonical else normalized, references, parsed)


def whole_text(schema: Schema) -> str:
    """Return the canonical text of a schema with the types of its references: each is defined at its first use."""
    return write_json(_Writer({}, normalizes=False).json_of(schema.parsed.root, ""))


_KINDS = {*PRIMITIVES, *NAMED, "array", "map", "union"}
"""Names that are not those of types without their namespace."""


def _shortest(alias: str, namespace: str) -> str:
    own, _, short = alias.rpartition(".")
    return short if own == namespace else alias


class _Writer:
    def __init__(self, known: Mapping[str, Type], normalizes: bool) -> None:
        self._written = set(known)
        self._normalizes = normalizes
        self.may_be_normalized = False
        """Whether the schema has a part that its normalized text may write in another way: most have none."""

    def json_of(self, kind: Type, namespace: str) -> Any:
        if kind.kind in NAMED:
            return self._named(kind, namespace)
        if kind.kind == "union":
            return [self.json_of(branch, namespace) for branch in kind.branches]
        if not kind.branches and not kind.props:
            return kind.kind
        written: dict[str, Any] = {"type": kind.kind}
        for branch in kind.branches:
            written["items" if kind.kind == "array" else "values"] = self.json_of(branch, namespace)
        return written | self._props(kind.props)

    def _named(self, kind: Type, namespace: str) -> Any:
        own, _, short = kind.name.rpartition(".")
        if kind.name in self._written:
            return short if own == namespace and short not in _KINDS else kind.name
        self._written.add(kind.name)
        written: dict[str, Any] = {"type": kind.kind, "name": short}
        if own != namespace:
            written["namespace"] = own
        if kind.doc is not None and not (self._normalizes and not kind.doc):
            written["doc"] = kind.doc
            self.may_be_normalized |= not kind.doc
        if kind.kind == "enum":
            written["symbols"] = kind.symbols
            if kind.default is not None:
                written["default"] = kind.default
        elif kind.kind == "fixed":
            written["size"] = kind.size
        else:
            written["fields"] = [self._field(each, own) for each in kind.fields]
        written |= self._props(kind.props)
        if kind.aliases:
            written["aliases"] = [_shortest(alias, own) for alias in self._set(kind.aliases)]
        return written

    def _field(self, each: Field, namespace: str) -> Any:
        written = {"name": each.name, "type": self.json_of(each.type, namespace)}
        if each.doc is not None:
            written["doc"] = each.doc
        if each.has_default:
            written["default"] = each.default
        if each.order != "ascending":
            written["order"] = each.order
        if each.aliases:
            written["aliases"] = self._set(each.aliases)
        return written | self._props(each.props)

    def _set(self, names: Sequence[str]) -> list[str]:
        self.may_be_normalized = True
        return sorted(set(names)) if self._normalizes else list(dict.fromkeys(names))

    def _props(self, props: Mapping[str, Any]) -> dict[str, Any]:
        """Normalized, attributes are in the order of their names, after those of a logical type."""
        self.may_be_normalized |= len(props) > 1
        if not self._normalizes:
            return dict(props)
        first = [name for name in ("logicalType", "precision", "scale") if "logicalType" in props and name in props]
        return {name: props[name] for name in [*first, *sorted(props.keys() - set(first))]}
