"""Schemas of Avro, JSON Schema and Protobuf: which texts are schemas, which are the same, and values in their encodings as JSON.

Pure functions, which take up to a second for a large schema. `values` (what the kinds have in common), then the kinds, imported
when the first schema of that kind is parsed: `avro`, `avro_texts`; `json_schema`; `proto`, `proto_known`, `proto_text`,
`proto_descriptor`, `proto_print`. For values: `plain_json` (bounds, numbers and bytes in JSON), `avro_logical`, `avro_values`;
`proto_plain`, `proto_values`; `frames` (which schema the bytes name), `reading` (bytes to JSON by a schema of any kind).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from .values import MAX_STEPS, InvalidSchema, Schema, SchemaTooLarge, check_bounds, check_size

__all__ = ["KINDS", "InvalidSchema", "Schema", "parse_schema"]

_MODULES = {"AVRO": "avro_texts", "JSON": "json_schema", "PROTOBUF": "proto_print"}
"""Kind -> the module with `parse`."""
KINDS = tuple(_MODULES)


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
    if kind not in _MODULES:
        raise InvalidSchema(f"schemaType: invalid ({kind!r}, expected one of {', '.join(KINDS)})")
    try:
        schema: Schema = import_module(f".{_MODULES[kind]}", __name__).parse(text, references, is_new)
    except SchemaTooLarge:
        raise InvalidSchema(f"schema: too large to be checked (limit {MAX_STEPS} steps)") from None
    check_size(schema.canonical)
    _check_content(schema.canonical)
    return schema


def _check_content(text: str) -> None:
    if not text.strip():
        raise InvalidSchema("schema: empty")
