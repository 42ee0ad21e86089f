"""Quotas of clients and addresses: see `...control.quotas`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ...control.quotas import (
    QuotaList,
    QuotaState,
    ThrottledList,
    list_quotas,
    list_throttled,
    remove_quotas,
    set_quotas,
)
from ..call import Call, Lives, Nothing
from ..fields import Length, Name


@dataclass(frozen=True, slots=True)
class QuotasSetRequest:
    entity: Name
    """`user=NAME`, `client-id=NAME`, both with a comma between, or `ip=ADDRESS`; the name `<default>` is for all others."""
    quotas: Annotated[Mapping[str, float | None], Length(0, 16)]
    """By key, as `producer_byte_rate`; null removes one."""


@dataclass(frozen=True, slots=True)
class QuotasRemovedRequest:
    entity: Name
    key: Annotated[tuple[Name, ...], Length(0, 16)] = ()
    """Which; all unless given."""


async def listed(lives: Lives, _: Nothing) -> QuotaList:
    return await list_quotas(lives.broker)


async def set_(lives: Lives, request: QuotasSetRequest) -> QuotaState:
    return await set_quotas(lives.broker, request.entity, request.quotas)


async def removed(lives: Lives, request: QuotasRemovedRequest) -> QuotaState:
    return await remove_quotas(lives.broker, request.entity, request.key)


async def throttled(lives: Lives, _: Nothing) -> ThrottledList:
    return await list_throttled(lives.broker)


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET", "/v1/quotas", "Quotas of users, client ids and addresses.", Nothing, QuotaList, listed, only_waits=True
    ),
    Call("PUT", "/v1/quotas", "Set quotas of one of them.", QuotasSetRequest, QuotaState, set_, statuses=(500,)),
    Call(
        "DELETE",
        "/v1/quotas",
        "Remove quotas of one of them; answers with what is left.",
        QuotasRemovedRequest,
        QuotaState,
        removed,
        statuses=(404, 500),
    ),
    Call(
        "GET",
        "/v1/quotas/throttled",
        "Who is above a quota and has to wait, for how long, and why.",
        Nothing,
        ThrottledList,
        throttled,
        only_waits=True,
    ),
)
