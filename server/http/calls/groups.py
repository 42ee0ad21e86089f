"""Groups, and transactions that are open: see `...control.coordinators.groups`, `...control.coordinators.transactions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...control.coordinators.groups import GroupDescription, GroupList, describe_group, list_groups
from ...control.coordinators.transactions import OpenTransactions, list_open_transactions
from ..call import Call, Lives, Nothing
from ..fields import Name


@dataclass(frozen=True, slots=True)
class GroupRequest:
    group: Name


async def listed(lives: Lives, _: Nothing) -> GroupList:
    return await list_groups(lives.broker)


async def described(lives: Lives, request: GroupRequest) -> GroupDescription:
    return await describe_group(lives.broker, request.group)


async def open_transactions(lives: Lives, _: Nothing) -> OpenTransactions:
    return await list_open_transactions(lives.broker)


CALLS: tuple[Call[Any, Any], ...] = (
    Call(
        "GET",
        "/v1/groups",
        "All groups, with their lag.",
        Nothing,
        GroupList,
        listed,
        statuses=(503,),
        only_waits=True,
    ),
    Call(
        "GET",
        "/v1/groups/{group}",
        "One group: members, committed offsets.",
        GroupRequest,
        GroupDescription,
        described,
        statuses=(404, 503),
        only_waits=True,
    ),
    Call(
        "GET",
        "/v1/transactions",
        "Transactions that are open, and those that hang.",
        Nothing,
        OpenTransactions,
        open_transactions,
        statuses=(503,),
        only_waits=True,
    ),
)
