"""All quotas of a broker: whose there are, and what holds by them; read from the catalog, and told anew with every change.

What follows from the quotas (`Holding`) is made in any thread, of a hundred thousand entities, say, and put in force on Trio's.
"""

from __future__ import annotations

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
"""Of the catalog."""

Watcher = Callable[["QuotaTable"], None]
Facts = Mapping[str, Any]
Changed = Mapping[Entity, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Holding:
    """What holds at one moment; never changed, only replaced."""

    quotas: Mapping[Entity, Mapping[str, float]] = field(default_factory=dict)
    """None of them is empty."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Of entities that are names of hosts."""
    limits: Mapping[str, QuotaLimits] = field(default_factory=dict)
    """By key; only those that limit somebody."""
    of_addresses: AddressBounds = field(default_factory=AddressBounds)

    @classmethod
    def of(cls, quotas: Mapping[Entity, Mapping[str, float]], addresses: Mapping[str, str]) -> Holding:
        held = {entity: values for entity, values in quotas.items() if values}
        named = {entity.names.get(IP) for entity in held}
        kept = {name: address for name, address in addresses.items() if name in named}
        limits = {key: limits_of(held, key) for key in CLIENT_KEYS}
        return cls(held, kept, {key: each for key, each in limits.items() if each}, AddressBounds.of_quotas(held, kept))

    def with_changes(self, changed: Changed, addresses: Mapping[str, str]) -> Holding:
        """With other quotas for these entities, none where there are none."""
        return Holding.of({**self.quotas, **changed}, {**self.addresses, **addresses})


class QuotaTable:
    """Of one life. On Trio's thread."""

    def __init__(self, elapsed_ms: Callable[[], int], window: Window, mutation_window: Window) -> None:
        self.holding = Holding()
        self.clients = ClientQuotas(elapsed_ms, window, mutation_window)
        self.connections = ConnectionRates(elapsed_ms, window)
        self._watchers: list[Watcher] = []

    @property
    def quotas(self) -> Mapping[Entity, Mapping[str, float]]:
        """What is set for each entity."""
        return self.holding.quotas

    def hold(self, holding: Holding) -> None:
        """Have other quotas in force, from the next request on. What clients have used lately counts for them, too."""
        self.holding = holding
        self.clients.set(holding.limits)
        self.connections.bounds = holding.of_addresses
        for watcher in tuple(self._watchers):
            watcher(self)

    @contextmanager
    def watched_by(self, watcher: Watcher) -> Iterator[None]:
        """Have `watcher` called now, and whenever other quotas hold."""
        self._watchers.append(watcher)
        watcher(self)
        try:
            yield
        finally:
            self._watchers.remove(watcher)


def entries_of(changed: Changed, addresses: Mapping[str, str]) -> dict[str, Facts | None]:
    """What the catalog is to hold of these."""
    entries: dict[str, Facts | None] = {}
    for entity, values in changed.items():
        facts = facts_of(entity, values)
        name = entity.names.get(IP)
        if facts is not None and name is not None and name in addresses:
            facts["address"] = addresses[name]
        entries[entity.key] = facts
    return entries


def read_entries(entries: Mapping[str, Facts]) -> tuple[Holding, list[str]]:
    """What the catalog holds, and a line on each entry that does not count."""
    problems = []
    quotas: dict[Entity, Mapping[str, float]] = {}
    addresses: dict[str, str] = {}
    for key, facts in entries.items():
        try:
            entity, values = read_facts(facts)
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
    return Holding.of(quotas, addresses), problems


def _is_known(address: object, name: str) -> bool:
    return (isinstance(address, str) and is_literal_address(address)) or is_literal_address(name)
