"""All quotas of a broker and their limits; loaded from the catalog, and replaced with every change.

The limits, perhaps of a hundred thousand quotas, are computed in any thread (`Holding`), and put into effect on Trio's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .clients import ClientQuotas
from .connections import AddressBounds, ConnectionRates
from .entities import IP, Entity, QuotaLimits, facts_of, limits_of, read_facts
from .rates import Window
from .validation import CLIENT_KEYS, ENTITIES_MAX, is_literal_address, problem_of

SECTION = "client_quotas"
"""Section of the catalog."""

Watcher = Callable[["QuotaTable"], None]
Facts = Mapping[str, Any]
Changed = Mapping[Entity, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Holding:
    """Quotas and limits at one moment; never changed, only replaced."""

    quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    """Quotas by entity; no value is empty."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Addresses of entities that are host names."""
    limits: Mapping[str, QuotaLimits] = field(default_factory=dict)
    """Limits by key; only keys with a limit."""
    of_addresses: AddressBounds = field(default_factory=AddressBounds)

    @classmethod
    def from_quotas(cls, quotas: Mapping[Entity, Mapping[str, float]], addresses: Mapping[str, str]) -> Holding:
        held = {entity: values for entity, values in quotas.items() if values}
        named = {entity.names.get(IP) for entity in held}
        kept = {name: address for name, address in addresses.items() if name in named}
        limits = {key: limits_of(held, key) for key in CLIENT_KEYS}
        return cls(
            held, kept, {key: each for key, each in limits.items() if each}, AddressBounds.from_quotas(held, kept)
        )

    def with_changes(self, changed: Changed, addresses: Mapping[str, str]) -> Holding:
        """Return a copy with other quotas for these entities; an empty value removes them."""
        return Holding.from_quotas({**self.quotas, **changed}, {**self.addresses, **addresses})


class QuotaTable:
    """All quotas of one run. On Trio's thread."""

    def __init__(self, elapsed_ms: Callable[[], int], window: Window, mutation_window: Window) -> None:
        self.holding = Holding()
        self.clients = ClientQuotas(elapsed_ms, window, mutation_window)
        self.connections = ConnectionRates(elapsed_ms, window)
        self._watchers: list[Watcher] = []

    @property
    def quotas(self) -> Mapping[Entity, Mapping[str, float]]:
        """Quotas by entity."""
        return self.holding.quotas

    def hold(self, holding: Holding) -> None:
        """Put other quotas into effect, from the next request on. Recent use of clients counts for them as well."""
        self.holding = holding
        self.clients.set(holding.limits)
        self.connections.bounds = holding.of_addresses
        for watcher in tuple(self._watchers):
            watcher(self)

    @contextmanager
    def watched_by(self, watcher: Watcher) -> Iterator[None]:
        """Call `watcher` now, and whenever the quotas change."""
        self._watchers.append(watcher)
        watcher(self)
        try:
            yield
        finally:
            self._watchers.remove(watcher)


def entries_of(changed: Changed, addresses: Mapping[str, str]) -> dict[str, Facts | None]:
    """Make the catalog's entries for these changes."""
    entries: dict[str, Facts | None] = {}
    for entity, values in changed.items():
        facts = facts_of(entity, values)
        name = entity.names.get(IP)
        if facts is not None and name is not None and name in addresses:
            facts["address"] = addresses[name]
        entries[entity.key] = facts
    return entries


def read_entries(entries: Mapping[str, Facts]) -> tuple[Holding, list[str]]:
    """Read the catalog's entries; returns also a line on each invalid entry."""
    problems = []
    quotas: dict[Entity, Mapping[str, float]] = {}
    addresses: dict[str, str] = {}
    for key, facts in entries.items():
        try:
            entity, stored = read_facts(facts)
            # Other values limit no client. An earlier version, and Apache Kafka before 4.4.0, accepted them.
            values = {name: value for name, value in stored.items() if math.isfinite(value)}
            if stored and not values:
                continue
            address = facts.get("address")
            problem = problem_of(entity, values, partial(_is_known, address))
            if problem is not None or len(quotas) >= ENTITIES_MAX:
                raise ValueError(problem or f"too many entities (limit {ENTITIES_MAX})")
        except (ValueError, OverflowError) as error:
            problems.append(f"stored quotas ignored: {key[:255]}: {error}")
            continue
        quotas[entity] = values
        if (name := entity.names.get(IP)) is not None and isinstance(address, str):
            addresses[name] = address
    return Holding.from_quotas(quotas, addresses), problems


def _is_known(address: object, name: str) -> bool:
    return (isinstance(address, str) and is_literal_address(address)) or is_literal_address(name)
