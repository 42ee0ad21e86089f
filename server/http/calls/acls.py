"""Access control entries: see `...control.acls`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ...cluster.acl_changes import CHANGED_MAX
from ...control.acls import (
    AclDecision,
    AclList,
    AclsAdded,
    AclsRemoved,
    add_acls,
    list_acls,
    remove_acls,
    why_allowed,
)
from ..call import Call, Lives
from ..fields import Length, Name

Lines = Annotated[tuple[str, ...], Length(1, CHANGED_MAX)]


@dataclass(frozen=True, slots=True)
class AclsRequest:
    principal: Name | None = None
    """Only the entries of this one, as `User:alice`."""
    resource: Name | None = None
    """Only those that speak of this one, by its name, a prefix or for all: TYPE:NAME, as `topic:orders`."""


@dataclass(frozen=True, slots=True)
class AclLinesRequest:
    acls: Lines
    """`PRINCIPAL allow|deny OPERATIONS TYPE:NAME [literal] [from HOST]`, as `User:alice allow READ,WRITE topic:orders*`."""


@dataclass(frozen=True, slots=True)
class WhyRequest:
    principal: Name
    """As `User:alice`."""
    operation: Name
    resource: Name
    """TYPE:NAME, as `topic:orders`."""
    host: Name = "127.0.0.1"
    """The client's address."""


async def listed(lives: Lives, request: AclsRequest) -> AclList:
    return await list_acls(lives.broker, principal=request.principal, resource=request.resource)


async def added(lives: Lives, request: AclLinesRequest) -> AclsAdded:
    return await add_acls(lives.broker, request.acls)


async def removed(lives: Lives, request: AclLinesRequest) -> AclsRemoved:
    return await remove_acls(lives.broker, request.acls)


async def decided(lives: Lives, request: WhyRequest) -> AclDecision:
    return await why_allowed(lives.broker, request.principal, request.operation, request.resource, host=request.host)


CALLS: tuple[Call[Any, Any], ...] = (
    Call("GET", "/v1/acls", "Access control entries.", AclsRequest, AclList, listed, statuses=(409,), only_waits=True),
    Call("POST", "/v1/acls", "Add entries.", AclLinesRequest, AclsAdded, added, statuses=(409, 500)),
    Call("DELETE", "/v1/acls", "Remove entries.", AclLinesRequest, AclsRemoved, removed, statuses=(404, 409, 500)),
    Call(
        "GET",
        "/v1/acls/why",
        "Whether somebody may do something, and which entry decides.",
        WhyRequest,
        AclDecision,
        decided,
        only_waits=True,
    ),
)
