"""Which new schema is compatible with older ones.

Pure functions, for a worker thread. `field_names`, then the differences of each kind, imported when the first schemas of that kind
are compared: `avro_resolution`, `json_schema_changes`, `proto_changes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from ....protocol.schemas import Schema
from ....protocol.schemas.values import SchemaTooLarge

__all__ = ["LEVELS", "find_incompatibilities"]

_MODULES = {"AVRO": "avro_resolution", "JSON": "json_schema_changes", "PROTOBUF": "proto_changes"}
"""Kind -> the module with `find_differences`."""
LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


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
    compare = import_module(f".{_MODULES[candidate.kind]}", __name__).find_differences
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
