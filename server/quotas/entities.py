"""Whom a quota is for: a user, a client id, both, an address; by name, or the default for all that have no quota of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (USER, CLIENT_ID, IP)
DEFAULT = "<default>"
"""How people write the default entity of a type, in Kafka's tools, too."""


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

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(kind for kind, _ in self.parts)

    def __str__(self) -> str:
        """`user alice, client-id <default>`."""
        in_order = sorted(self.parts, key=lambda part: -len(part[0]) if part[0] == IP else TYPES.index(part[0]))
        return ", ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in in_order)

    @property
    def key(self) -> str:
        """A text that no other entity has, for the catalog."""
        return "&".join(f"{kind}={'' if name is None else quote(name, safe='')}" for kind, name in self.parts)


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
        raise ValueError("has no entity")
    if not isinstance(quotas, dict) or not all(_is_number(value) for value in quotas.values()):
        raise ValueError("has no quotas")
    return Entity.of(entity), {key: float(value) for key, value in quotas.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def sorted_entities(entities: Iterable[Entity]) -> list[Entity]:
    """In an order that people can follow."""
    return sorted(entities, key=lambda entity: [(kind, name or "") for kind, name in entity.parts])
