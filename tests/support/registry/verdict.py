"""A pair of schemas, and which of them must be able to read what the other one wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.protocol.schemas import Schema, parse_schema
from ottla.server.registry.schemas import find_incompatibilities

BACKWARD, FORWARD, FULL, NONE = "backward", "forward", "full", "none"
"""Kinds of change: the newer schema reads old data, the older one reads new data, both, neither."""

LEVELS_OF = {
    BACKWARD: {"BACKWARD", "BACKWARD_TRANSITIVE"},
    FORWARD: {"FORWARD", "FORWARD_TRANSITIVE"},
    FULL: {"BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"},
    NONE: set[str](),
}
"""Change -> the levels besides NONE that permit it."""


class Pair(NamedTuple):
    """A change of a schema. Schemas are texts, or JSON values of Avro and JSON Schema."""

    reason: str
    older: Any
    newer: Any
    change: str
    differences: tuple[str, ...] = ()
    """Kinds of change that a check of the level FULL names, if the row is about these."""


def parsed(kind: str, schema: Any, references: Mapping[str, Any] | None = None) -> Schema:
    """Return a schema of a table; its references are of the same kind, and have no references."""
    text = schema if kind == "PROTOBUF" else json.dumps(schema)
    return parse_schema(kind, text, {name: parsed(kind, each) for name, each in (references or {}).items()})


def permitted(older: Schema, newer: Schema) -> set[str]:
    """Return the levels besides NONE that permit a change."""
    return {level for level in LEVELS_OF[FULL] if not find_incompatibilities(level, newer, [older])}
