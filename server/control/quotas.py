"""Quotas of clients and addresses: list, set and remove them, and list the throttled clients.

Entities are texts: `user=alice`, `client-id=app`, `user=alice,client-id=app`, `ip=10.0.0.1`; the name `<default>` means
all entities without a quota of their own. Names that would be ambiguous are quoted: `user="<default>"`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from ...protocol.errors import KafkaError
from ..broker.broker import Broker
from ..quotas.clients import Throttled
from ..quotas.connections import RefusedAddress
from ..quotas.entities import DEFAULT, IP, Entity, parse
from ..quotas.validation import (
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    CONTROLLER_MUTATION_RATE,
    IP_KEYS,
    REQUEST_PERCENTAGE,
    Alteration,
)
from ..runtime.errors import ControlError, Kind, did_you_mean, refusal
from ..runtime.time_slices import TimeSlice
from .operation import Length, Name, operation


@dataclass(frozen=True, slots=True)
class QuotaState:
    """The quotas of one entity."""

    entity: str
    """Entity, e.g. `user=alice`."""
    quotas: Mapping[str, float]
    """Values by quota key, e.g. `producer_byte_rate`."""


@dataclass(frozen=True, slots=True)
class QuotaList:
    """All entities that have quotas, in alphabetical order."""

    quotas: tuple[QuotaState, ...]


@dataclass(frozen=True, slots=True)
class ThrottledState:
    """Clients that are throttled."""

    key: str
    """Key of the exceeded quota."""
    node: int | None
    """null: all nodes, for mutation quotas."""
    user: str | None
    """User whose requests count; null: any user."""
    client_id: str | None
    """null: any client id."""
    ip: str | None
    """IP address that opens connections too fast: connections above the limit are closed after the delay."""
    entity: str
    """Entity that the quota is set for."""
    bound: float
    measured: float
    """Measured rate per second; for mutation quotas, the number of partitions that may be changed now (negative: exceeded)."""
    left_ms: int
    """Remaining delay in milliseconds."""
    sentence: str
    """The throttling as a sentence."""


@dataclass(frozen=True, slots=True)
class ThrottledList:
    """Most recently active first; IP addresses after clients."""

    throttled: tuple[ThrottledState, ...]


@operation("GET", "/v1/quotas", only_waits=True)
async def list_quotas(broker: Broker) -> QuotaList:
    """List the quotas of users, client ids and IP addresses."""
    time_slice = TimeSlice()
    states = await time_slice.map(
        lambda each: QuotaState(str(each[0]), dict(each[1])), list(broker.services.quotas.quotas.items())
    )
    by_text = {}
    async for state in time_slice.each(states):
        by_text[state.entity] = state
    return QuotaList(tuple(await time_slice.map(by_text.__getitem__, await time_slice.sorted(by_text))))


@operation("PUT", "/v1/quotas", statuses=(500,))
async def set_quotas(
    broker: Broker, entity: Name, quotas: Annotated[Mapping[str, float | None], Length(0, 16)]
) -> QuotaState:
    """Set quotas of one entity.

    They are in effect when this returns. Other quotas of the entity do not change.

    Args:
        entity: `user=NAME`, `client-id=NAME`, `user=NAME,client-id=NAME`, or `ip=ADDRESS`; the name `<default>` applies to all others.
        quotas: Values by quota key, e.g. `producer_byte_rate`; null removes a quota.

    Raises:
        ControlError: INVALID: the entity, key or value is invalid; FAILED: the disk failed. Nothing has changed.
    """
    await set_all(broker, {entity: quotas})
    return _state(broker, parsed(entity))


@operation("DELETE", "/v1/quotas", statuses=(404, 500))
async def remove_quotas(
    broker: Broker, entity: Name, key: Annotated[tuple[Name, ...], Length(0, 16)] = ()
) -> QuotaState:
    """Remove quotas of one entity, and return the remaining ones.

    Args:
        key: Quota keys to remove (default: all).

    Raises:
        ControlError: As `set_quotas`; NOT_FOUND: the entity has no such quota.
    """
    of = parsed(entity)
    present = broker.services.quotas.quotas.get(of, {})
    for each in key or [None]:
        if each not in present and (each is not None or not present):
            what = "quota" if each is None else f"{each[:100]}"
            there_are = f"; quotas: {', '.join(present)}" if present else ""
            raise ControlError(Kind.NOT_FOUND, f"{of}: {what} not found{there_are}"[:1000])
    return await set_quotas(broker, entity, dict.fromkeys(key or present))


async def set_all(broker: Broker, quotas: Mapping[str, Mapping[str, float | None]]) -> None:
    """Set quotas of several entities as `set_quotas` does: all of them or none."""
    alterations = check_all(quotas)
    changes = broker.services.quota_changes
    try:
        for validate_only in (True, False) if len(alterations) > 1 else (False,):
            for entity, problem in (await changes.alter(alterations, validate_only=validate_only)).items():
                if problem is not None:
                    raise ControlError(Kind.INVALID, f"{entity}: {problem}")
    except KafkaError as error:
        raise refusal(error) from error


def check_all(quotas: Mapping[str, Mapping[str, float | None]]) -> list[Alteration]:
    """Return the requested changes. ControlError INVALID: one can be seen to be wrong without a broker."""
    alterations = {}
    for text, values in quotas.items():
        entity = parsed(text)
        keys = IP_KEYS if "ip" in entity.names else CLIENT_KEYS
        for key, value in values.items():
            if key not in keys:
                raise ControlError(
                    Kind.INVALID,
                    f"{entity}: quota {key[:100]!r} not supported; quotas: {', '.join(keys)}{did_you_mean(key, keys)}",
                )
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ControlError(Kind.INVALID, f"{entity}: {key}: expected a number, found {value!r:.100}")
        if entity in alterations:
            raise ControlError(Kind.INVALID, f"{entity} is given twice")
        ops = [(key, None if value is None else float(value)) for key, value in values.items()]
        alterations[entity] = Alteration(entity, ops)
    return list(alterations.values())


@operation("GET", "/v1/quotas/throttled", only_waits=True)
async def list_throttled(broker: Broker) -> ThrottledList:
    """List the clients that are throttled now, for how long, and why."""
    time_slice, clients = TimeSlice(), broker.services.quotas.clients
    found = []
    async for using, usage in time_slice.each(clients.usages()):
        throttled = clients.throttled(using, usage)
        if throttled is not None:
            found.append(_throttled(throttled))
    async for refused in time_slice.each(broker.services.quotas.connections.refused_addresses()):
        found.append(_refused(refused))
    return ThrottledList(tuple(found))


def parsed(text: str) -> Entity:
    """Parse an entity. ControlError INVALID for an invalid one."""
    try:
        return parse(text)
    except ValueError as error:
        raise ControlError(Kind.INVALID, str(error)) from None


def _state(broker: Broker, entity: Entity) -> QuotaState:
    return QuotaState(str(entity), dict(broker.services.quotas.quotas.get(entity, {})))


def _throttled(found: Throttled) -> ThrottledState:
    who = [f"{kind} {name}" for kind, name in zip(("user", "client-id"), found.sharing, strict=True) if name]
    where = "" if found.node_id < 0 else f" at node {found.node_id}"
    if found.key == CONTROLLER_MUTATION_RATE:
        measured = f"{-found.rate:.1f} partitions too many" if found.rate < 0 else "no longer above it"
    else:
        unit = "%" if found.key == REQUEST_PERCENTAGE else " bytes/s"
        measured = f"{found.rate:,.1f}{unit}"
    return ThrottledState(
        found.key,
        None if found.node_id < 0 else found.node_id,
        found.sharing.user or None,
        found.sharing.client_id or None,
        None,
        str(found.entity),
        found.bound,
        found.rate,
        found.left_ms,
        f"{', '.join(who)}{where} is throttled for {found.left_ms} ms: {measured}, {found.key} of {found.entity} is {found.bound:g}",
    )


def _refused(found: RefusedAddress) -> ThrottledState:
    entity = f"{IP}={DEFAULT if found.is_default else found.address}"
    return ThrottledState(
        CONNECTION_CREATION_RATE,
        found.node_id,
        None,
        None,
        found.address,
        entity,
        found.bound,
        found.rate,
        found.left_ms,
        f"{found.address} at node {found.node_id} is throttled for {found.left_ms} ms: {found.rate:,.1f} connections/s,"
        f" {CONNECTION_CREATION_RATE} of {entity} is {found.bound}",
    )
