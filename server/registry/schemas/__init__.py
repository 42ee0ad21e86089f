"""The rules of schemas: which texts are schemas, which are the same, which new one is compatible with older ones.

Pure functions, for a worker thread. `values` (what the kinds have in common), `field_names`, then the kinds, imported when the first
schema of that kind is parsed: `avro`, `avro_texts`, `avro_resolution`;
`json_schema`, `json_schema_changes`; `proto`, `proto_known`, `proto_text`, `proto_descriptor`, `proto_print`, `proto_changes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from .values import MAX_STEPS, InvalidSchema, Schema, SchemaTooLarge, check_bounds, check_size

__all__ = ["KINDS", "LEVELS", "InvalidSchema", "Schema", "find_incompatibilities", "parse_schema"]

_MODULES = {
    "AVRO": ("avro_texts", "avro_resolution"),
    "JSON": ("json_schema", "json_schema_changes"),
    "PROTOBUF": ("proto_print", "proto_changes"),
}
"""Kind -> the module with `parse`, and the one with `find_differences`."""
KINDS = tuple(_MODULES)
LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


def _module(kind: str, index: int) -> Any:
    if kind not in _MODULES:
        raise InvalidSchema(f"schemaType: invalid ({kind!r}, expected one of {', '.join(KINDS)})")
    return import_module(f".{_MODULES[kind][index]}", __name__)


def parse_schema(kind: str, text: str, references: Mapping[str, Schema], *, is_new: bool = True) -> Schema:
    """Return a parsed schema.

    Args:
        kind: One of `KINDS`.
        text: The schema as a client sent it.
        references: The schemas that it references, by the name in the reference. These contain their own references.
        is_new: Whether a client registers it, False for one that is stored or looked up: then all names and defaults of Avro are
            accepted.

    Raises:
        InvalidSchema: The text is not a schema, a reference is missing, or a bound is exceeded.
    """
    check_bounds(text, references)
    _check_content(text)
    try:
        schema: Schema = _module(kind, 0).parse(text, references, is_new)
    except SchemaTooLarge:
        raise InvalidSchema(f"schema: too large to be checked (limit {MAX_STEPS} steps)") from None
    check_size(schema.canonical)
    _check_content(schema.canonical)
    return schema


def _check_content(text: str) -> None:
    if not text.strip():
        raise InvalidSchema("schema: empty")


def find_incompatibilities(
    level: str, candidate: Schema, previous: Sequence[Schema], *, is_lenient: bool = False
) -> list[str]:
    """Return why a schema is not compatible with older ones, as a message for each difference; [] if it is compatible.

    Like Confluent's registry, the check begins with the newest schema, and ends at the first that is not compatible.

    Args:
        level: One of `LEVELS`. Without `_TRANSITIVE` it concerns only the newest of `previous`.
        candidate: The schema that is checked.
        previous: The older schemas, oldest first.
        is_lenient: Whether a JSON Schema may add properties to an open content model, and remove them from a closed one.
    """
    if level not in LEVELS:
        raise ValueError(f"compatibility level: invalid ({level!r}, expected one of {', '.join(LEVELS)})")
    newest_first = [] if level == "NONE" else previous[::-1]
    for old in newest_first if level.endswith("_TRANSITIVE") else newest_first[:1]:
        found = _differences(level, candidate, old, is_lenient)
        if found:
            return found
    return []


def _differences(level: str, candidate: Schema, old: Schema, is_lenient: bool) -> list[str]:
    if candidate.kind != old.kind:
        return ["Incompatible because of different schema type"]
    if candidate is old:
        return []
    compare = _module(candidate.kind, 1).find_differences
    options = {"is_lenient": True} if is_lenient and candidate.kind == "JSON" else {}
    found: list[str] = []
    try:
        if level.startswith(("FORWARD", "FULL")):
            found += compare(old, candidate, "old", "new", **options)
        if level.startswith(("BACKWARD", "FULL")):
            found += compare(candidate, old, "new", "old", **options)
    except SchemaTooLarge:
        return ["Incompatible because the schemas are too large for a comparison"]
    return found
