"""Whom a quota is for: a user, a client id, both, an address; by name, or the default for all that have no quota of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (USER, CLIENT_ID, IP)
DEFAULT = "<default>"
"""How people write the default entity of a type, in Kafka's tools, too."""

_ORDER = {kind: at for at, kind in enumerate(TYPES)}
_TYPE = "|".join(TYPES)
# Made into patterns when there is a text to read: most brokers have no quotas.
_PART = rf'({_TYPE})=(?:("(?:[^"\\]|\\.)*")|(.+?))(?:,(?=(?:{_TYPE})=)|$)'
_AMBIGUOUS = rf'{DEFAULT}$|"|.*,(?:{_TYPE})='
"""Names that are written in quotes, as JSON has them."""


@dataclass(frozen=True, slots=True)
class Entity:
    """Types and names; a name of None is the default of its type. Sorted by type, so that equal entities are equal."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> Entity:
        return cls(tuple(sorted(parts.items())))

    @property
    def names(self) -> dict[str, str | None]:
        return dict(self.parts)

    def __str__(self) -> str:
        """`user=alice,client-id=<default>`, as `parse` reads it."""
        in_order = sorted(self.parts, key=lambda part: _ORDER.get(part[0], len(_ORDER)))
        return ",".join(f"{kind}={DEFAULT if name is None else _written(name)}" for kind, name in in_order)

    @property
    def key(self) -> str:
        """A text that no other entity has, for the catalog."""
        return "&".join(f"{kind}={'' if name is None else quote(name, safe='')}" for kind, name in self.parts)


def _written(name: str) -> str:
    return json.dumps(name) if re.match(_AMBIGUOUS, name, re.DOTALL) else name


def parse(text: str) -> Entity:
    """The entity that people write as `user=alice`, `user=alice,client-id=app`, `client-id=<default>` or `ip=10.0.0.1`; a name that
    would be taken for something else is in quotes, as JSON has them: `user="<default>"`.

    Raises:
        ValueError: It is none; one line.
    """
    part = re.compile(_PART, re.DOTALL)
    parts: dict[str, str | None] = {}
    at = 0
    while at < len(text) and (found := part.match(text, at)) is not None and found[1] not in parts:
        try:
            parts[found[1]] = json.loads(found[2]) if found[2] else None if found[3] == DEFAULT else found[3]
        except ValueError:
            break
        at = found.end()
    if at < len(text) or not parts:
        raise ValueError(
            f"{text[:200]!r}: invalid entity; expected user=NAME, client-id=NAME, both separated by a comma, or"
            " ip=ADDRESS"
        )
    return Entity.of(parts)


Values = Mapping[str, float]
"""Quotas of an entity, by key."""

Quotas = Mapping[Entity, Values]


def facts_of(entity: Entity, values: Values) -> dict[str, Any] | None:
    """The entry of the catalog's section `client_quotas`; None for an entity without quotas, which has none."""
    return {"entity": dict(entity.parts), "quotas": dict(sorted(values.items()))} if values else None


def read_facts(facts: Mapping[str, Any]) -> tuple[Entity, dict[str, float]]:
    """What an entry says. ValueError, in a few words, if it is none of this version's; whether the quotas may be is not looked at."""
    entity, quotas = facts.get("entity"), facts.get("quotas")
    if not isinstance(entity, dict) or not all(name is None or isinstance(name, str) for name in entity.values()):
        raise ValueError("entity is missing or invalid")
    if not isinstance(quotas, dict) or not all(_is_number(value) for value in quotas.values()):
        raise ValueError("quotas are missing or invalid")
    return Entity.of(entity), {key: float(value) for key, value in quotas.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
