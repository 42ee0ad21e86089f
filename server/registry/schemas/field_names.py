"""Names that the fields of a schema may not have: what `validateFields` checks."""

from __future__ import annotations

from itertools import islice

from ....protocol.schemas.values import InvalidSchema, Schema, shown

_OWN_PREFIX = "$$"
_CONFLICTS_MAX = 10
"""Maximum number of names in an error: metadata may reserve many."""


def check_names(schema: Schema) -> None:
    """Raise `InvalidSchema` for a JSON Schema with a property whose name begins with `$$`, as Confluent's registry does."""
    if schema.kind == "JSON":
        for name in _names(schema):
            if name.startswith(_OWN_PREFIX):
                raise InvalidSchema(f"properties: a name may not begin with {_OWN_PREFIX} ({shown(name)})")


def find_conflicts(schema: Schema, reserved: set[str], reserved_before: set[str]) -> list[str]:
    """Return why a schema conflicts with reserved names: its fields have them, or those of the version before are missing."""
    conflicts = [
        *(
            (name, "reserved by the older version's metadata, but not by the new one's")
            for name in reserved_before - reserved
        ),
        *((name, "reserved by the metadata, but a field has the name") for name in reserved & _names(schema)),
    ]
    return [f"{shown(name)}: {reason}" for name, reason in islice(sorted(conflicts), _CONFLICTS_MAX)]


def _names(schema: Schema) -> set[str]:
    """Return the names of the fields at the top of a schema: of its record, its object, or its messages."""
    if schema.kind == "AVRO":
        return {each.name for each in schema.parsed.root.fields}
    if schema.kind == "JSON":
        raw = schema.parsed.document.raw
        properties = raw.get("properties") if isinstance(raw, dict) else None
        return set(properties) if isinstance(properties, dict) else set()
    return {each.name for message in schema.parsed.types for each in message.all_fields()}
