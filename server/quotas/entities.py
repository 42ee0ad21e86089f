"""Entities of quotas: a user, a client id, both, an address; by name, or the default for all without their own quota."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (USER, CLIENT_ID, IP)
DEFAULT = "<default>"
"""Text form of a type's default entity, as in Kafka's tools."""

_ORDER = {kind: at for at, kind in enumerate(TYPES)}
_TYPE = "|".join(TYPES)
# Compiled when a text is parsed: most brokers have no quotas.
_PART = rf'({_TYPE})=(?:("(?:[^"\\]|\\.)*")|(.+?))(?:,(?=(?:{_TYPE})=)|$)'
_AMBIGUOUS = rf'{DEFAULT}$|"|.*,(?:{_TYPE})='
"""Pattern of names that are written in JSON quotes."""


@dataclass(frozen=True, slots=True)
class Entity:
    """Types and names; a name of None is the default of its type. Sorted by type, so that equal entities are equal."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def from_parts(cls, parts: Mapping[str, str | None]) -> Entity:
        return cls(tuple(sorted(parts.items())))

    @property
    def names(self) -> dict[str, str | None]:
        return dict(self.parts)

    def __str__(self) -> str:
        """Format as `user=alice,client-id=<default>`, which `parse` reads."""
        in_order = sorted(self.parts, key=lambda part: _ORDER.get(part[0], len(_ORDER)))
        return ",".join(f"{kind}={DEFAULT if name is None else _quote_name(name)}" for kind, name in in_order)

    @property
    def key(self) -> str:
        """Unique text for the catalog."""
        return "&".join(f"{kind}={'' if name is None else quote(name, safe='')}" for kind, name in self.parts)


def _quote_name(name: str) -> str:
    return json.dumps(name) if re.match(_AMBIGUOUS, name, re.DOTALL) else name


def parse(text: str) -> Entity:
    """Parse an entity from its text, as `user=alice`, `user=alice,client-id=app`, `client-id=<default>` or `ip=10.0.0.1`; an
    ambiguous name is in JSON quotes: `user="<default>"`.

    Raises:
        ValueError: Invalid text; one line.
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
    return Entity.from_parts(parts)


Values = Mapping[str, float]
"""Quotas of an entity, by key."""

Quotas = Mapping[Entity, Values]


def facts_of(entity: Entity, values: Values) -> dict[str, Any] | None:
    """Return the entry for the catalog's section `client_quotas`; None for an entity without quotas, which has no entry."""
    return {"entity": dict(entity.parts), "quotas": dict(sorted(values.items()))} if values else None


def read_facts(facts: Mapping[str, Any]) -> tuple[Entity, dict[str, float]]:
    """Read an entry. Raises ValueError, with a short message, if it is not in this version's format; the values are not
    validated."""
    entity, quotas = facts.get("entity"), facts.get("quotas")
    if not isinstance(entity, dict) or not all(name is None or isinstance(name, str) for name in entity.values()):
        raise ValueError("entity is missing or invalid")
    if not isinstance(quotas, dict) or not all(_is_number(value) for value in quotas.values()):
        raise ValueError("quotas are missing or invalid")
    return Entity.from_parts(entity), {key: float(value) for key, value in quotas.items()}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_ANYBODY = ""


class Sharing(NamedTuple):
    """Clients that share a quota. An empty name stands for any."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """The limit of a client."""

    sharing: Sharing
    bound: float
    entity: Entity
    """Entity that the quota is set for."""


_LEVELS = (
    (True, True, True, True),
    (True, True, True, False),
    (True, True, False, False),
    (True, False, True, True),
    (True, False, True, False),
    (True, False, False, False),
    (False, False, True, True),
    (False, False, True, False),
)
"""Levels as (has a user, by name, has a client id, by name), the highest precedence first."""


class QuotaLimits:
    """The quotas of one key, e.g. `producer_byte_rate`. The first of eight levels that has one applies to a client (KIP-55):

        user and client id     user and default client id     user
        default user and client id     default user and default client id     default user
        client id     default client id

    The level determines who shares the quota: with a user alone all clients of that user, with both all connections of that
    user and client id, with a client id alone all users of it.
    """

    def __init__(self, quotas: Iterable[tuple[Entity, float]]) -> None:
        self._bounds = dict(quotas)
        present = {_level(entity) for entity in self._bounds}
        self._levels = [level for level in _LEVELS if level in present]

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def find(self, user: str, client_id: str) -> Limit | None:
        """Find the limit of a client; None for no limit.

        An empty client id matches levels without a client id. On a level that has one, the user's quota without a client id
        applies, as in Apache Kafka.
        """
        bounds = self._bounds
        for has_user, is_named, has_client, is_client_named in self._levels:
            parts: dict[str, str | None] = {}
            if has_client:
                parts[CLIENT_ID] = client_id if is_client_named else None
            if has_user:
                parts[USER] = user if is_named else None
            entity = Entity(tuple(parts.items()))
            bound = bounds.get(entity)
            if bound is None or (is_client_named and not client_id):
                continue
            if has_client and not client_id:
                return self._without_client_id(user) if has_user else None
            if math.isnan(bound) or bound == math.inf:
                return None
            sharing = Sharing(user if has_user else _ANYBODY, client_id if has_client else _ANYBODY)
            return Limit(sharing, bound, entity)
        return None

    def _without_client_id(self, user: str) -> Limit | None:
        for name in (user, None):
            entity = Entity(((USER, name),))
            bound = self._bounds.get(entity)
            if bound is not None and math.isfinite(bound):
                return Limit(Sharing(user, _ANYBODY), bound, entity)
        return None


def limits_of(quotas: Quotas, key: str) -> QuotaLimits:
    """Return the limits of one key of quotas."""
    return QuotaLimits((entity, values[key]) for entity, values in quotas.items() if key in values)


def _level(entity: Entity) -> tuple[bool, bool, bool, bool]:
    names = entity.names
    return USER in names, names.get(USER) is not None, CLIENT_ID in names, names.get(CLIENT_ID) is not None
