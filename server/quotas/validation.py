"""Validation of AlterClientQuotas, with Apache Kafka's bounds and messages (its ClientQuotaControlManager).

The functions work on values and store nothing. Addresses may be host names, which the caller resolves.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from .entities import CLIENT_ID, IP, TYPES, USER, Entity, Quotas

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

_MAX_INT, _MAX_LONG = 2**31 - 1, 2**63 - 1
_FRACTION_MAX = 1e-6
ENTITIES_MAX = 100_000
"""Largest number of entities with quotas: each change writes the whole catalog."""
NAME_CHARS_MAX = 4_096
"""Longest name in a message, which must have room for it."""

CLIENT_KEYS: Mapping[str, int | None] = {
    PRODUCER_BYTE_RATE: _MAX_LONG,
    CONSUMER_BYTE_RATE: _MAX_LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""Quotas of users and client ids, with the largest whole number; None allows any number."""
IP_KEYS: Mapping[str, int | None] = {CONNECTION_CREATION_RATE: _MAX_INT}
_TYPE_NAMES = {_MAX_LONG: "a LONG", _MAX_INT: "an INT"}


class Alteration(NamedTuple):
    """Requested change of one entity: for each key the new value, None to remove it. A key that is there twice is refused."""

    entity: Entity
    ops: Sequence[tuple[str, float | None]]


IsAddress = Callable[[str], bool]
"""Returns whether a name is an address, or a host that has one."""


def alter(
    present: Quotas, alterations: Sequence[Alteration], is_address: IsAddress
) -> tuple[dict[Entity, str | None], dict[Entity, dict[str, float]]]:
    """Return for each entity the reason for a refusal, in Kafka's words, or None; and the new quotas of changed entities.

    An entity that is named twice is refused, but its first alteration takes effect, as in Apache Kafka.
    """
    outcomes: dict[Entity, str | None] = {}
    changed: dict[Entity, dict[str, float]] = {}
    room = ENTITIES_MAX - len(present)
    for alteration in alterations:
        entity = alteration.entity
        keys = [key for key, _ in alteration.ops]
        if entity in outcomes or len(set(keys)) < len(keys):
            outcomes[entity] = f"Ignoring duplicate entity {java_text(entity)}"
            continue
        before = present.get(entity, {})
        after = dict(before)
        outcomes[entity] = problem = _apply(entity, alteration.ops, after, is_address)
        if problem is not None or after == before:
            continue
        if not before:
            room -= 1
            if room < 0:
                outcomes[entity] = f"Too many entities with quotas (limit {ENTITIES_MAX})."
                continue
        changed[entity] = after
    return outcomes, changed


def _apply(
    entity: Entity, ops: Sequence[tuple[str, float | None]], values: dict[str, float], is_address: IsAddress
) -> str | None:
    keys = problem = None
    problem = entity_problem(entity)
    if problem is None:
        keys, problem = _keys_of(entity, is_address)
    if keys is None:
        return problem
    for key, value in ops:
        if value is None:
            values.pop(key, None)
            continue
        problem = value_problem(keys, key, value)
        if problem is not None:
            return problem
        values[key] = value
    return None


def problem_of(entity: Entity, values: Mapping[str, float], is_address: IsAddress) -> str | None:
    """Return why these may not be the quotas of an entity, or None."""
    return _apply(entity, list(values.items()), {}, is_address)


def entity_problem(entity: Entity) -> str | None:
    """Return why an entity is invalid, regardless of its quotas, or None."""
    if not entity.parts:
        return "Invalid empty client quota entity"
    for kind, name in _as_hashed(entity):
        if kind not in TYPES:
            return f"Unhandled client quota entity type: {kind[:NAME_CHARS_MAX]}"
        if name == "":
            return f"Empty {kind} not supported"
    return None


def _keys_of(entity: Entity, is_address: IsAddress) -> tuple[Mapping[str, int | None] | None, str | None]:
    names = entity.names
    if IP not in names:
        return CLIENT_KEYS, None
    if USER in names or CLIENT_ID in names:
        return None, "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    address = names[IP]
    if address is not None and not is_address(address):
        return None, f"{address[:NAME_CHARS_MAX]} is not a valid IP or resolvable host."
    return IP_KEYS, None


def value_problem(keys: Mapping[str, int | None], key: str, value: float) -> str | None:
    """Return why a value may not be set, or None."""
    if key not in keys:
        return f"Invalid configuration key {key[:NAME_CHARS_MAX]}"
    if not math.isfinite(value):
        return f"Quota {key} must be a finite number"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    most = keys[key]
    if most is None:
        return None
    if value > float(most):  # as Java compares them
        return f"Proposed value for {key} is too large for {_TYPE_NAMES[most]}."
    return f"{key} cannot be a fractional value." if value % 1 > _FRACTION_MAX else None


def _as_hashed(entity: Entity) -> list[tuple[str, str | None]]:
    """Return the parts in the order of these types in Java's hash tables."""
    return sorted(entity.parts, key=lambda part: (CLIENT_ID, USER, IP, part[0]).index(part[0]))


def java_text(entity: Entity) -> str:
    """Format the entity as Apache Kafka's messages do, in the order of its hash tables."""
    entries = ", ".join(
        f"{kind}={'null' if name is None else name[:NAME_CHARS_MAX]}" for kind, name in _as_hashed(entity)
    )
    return f"ClientQuotaEntity(entries={{{entries}}})"


def is_literal_address(text: str) -> bool:
    """Return whether the text is an address itself, which needs no resolver."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
