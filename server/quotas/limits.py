"""Which quota holds for a client: the first of eight levels that has one (KIP-55), for each key of quotas on its own.

    user and client id     user and default client id     user
    default user and client id     default user and default client id     default user
    client id     default client id

The level says with whom the quota is shared: one that names a user alone is shared by all clients of that user, one with both by
all connections of that user and client id, one with the client id alone by all users of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from .entities import CLIENT_ID, USER, Entity, Quotas

_ANYBODY = ""


class Sharing(NamedTuple):
    """Who uses up a quota together. An empty name: whatever it is."""

    user: str
    client_id: str


class Limit(NamedTuple):
    """What holds for a client."""

    sharing: Sharing
    bound: float
    entity: Entity
    """Whose quota it is."""


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
"""(has a user, by name, has a client id, by name), the strongest first."""


class QuotaLimits:
    """The quotas of one key, as `producer_byte_rate`."""

    def __init__(self, quotas: Iterable[tuple[Entity, float]]) -> None:
        self._bounds = dict(quotas)
        present = {_level(entity) for entity in self._bounds}
        self._levels = [level for level in _LEVELS if level in present]

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def find(self, user: str, client_id: str) -> Limit | None:
        """What holds for a client of that name; None for no limit.

        An empty client id falls under quotas that name none, or, on a level that has a client id, under those of the user
        alone, as with Apache Kafka.
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
    """The limits of one key of quotas."""
    return QuotaLimits((entity, values[key]) for entity, values in quotas.items() if key in values)


def _level(entity: Entity) -> tuple[bool, bool, bool, bool]:
    names = entity.names
    return USER in names, names.get(USER) is not None, CLIENT_ID in names, names.get(CLIENT_ID) is not None
