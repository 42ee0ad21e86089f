"""Access control entries as lines of text: list, add and remove them, and find the one that decides.

The format of a line is described in `server.security.acls.acl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar

from ...protocol.errors import KafkaError
from ..broker.broker import Broker
from ..cluster.acl_changes import CHANGED_MAX, ENTRIES_MAX, AclChanges
from ..runtime.errors import ControlError, Kind, did_you_mean, refusal
from ..runtime.time_slices import TimeSlice
from ..security.acls.acl import Acl, kind_of, parse, parse_new, resource_of
from ..security.acls.authorizer import Authorizer, Decision
from ..security.acls.filters import AclFilter
from ..security.acls.kinds import AclOperation, PatternType
from ..security.principal import Principal
from .operation import Length, Name
from .operation import operation as declared

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class AclState:
    """One ACL."""

    acl: str
    """The ACL as a line, in the format of `add_acls` and `remove_acls`."""
    principal: str
    permission: str
    """ALLOW or DENY."""
    operation: str
    resource_type: str
    name: str
    pattern: str
    """LITERAL or PREFIXED."""
    host: str
    """`*` for every address."""


@dataclass(frozen=True, slots=True)
class AclList:
    """ACLs in the order of their lines."""

    acls: tuple[AclState, ...]


@dataclass(frozen=True, slots=True)
class AclsAdded:
    """The ACLs that were added."""

    added: tuple[str, ...]
    """ACLs that did not exist before."""


@dataclass(frozen=True, slots=True)
class AclsRemoved:
    """The ACLs that were removed."""

    removed: tuple[str, ...]
    """One line for each ACL."""


Lines = Annotated[Sequence[str], Length(1, CHANGED_MAX)]


@dataclass(frozen=True, slots=True)
class AclDecision:
    """Whether an operation is allowed, and why."""

    is_allowed: bool
    reason: str
    """SUPER_USER, DENIED_BY, ALLOWED_BY, NO_MATCH (the resource has ACLs, but none matches), NO_ACL (the resource has no ACLs), or
    NO_AUTHORIZER."""
    acl: str | None
    """The ACL that decides, if there is one."""
    sentence: str
    """The decision as a sentence."""


@declared("GET", "/v1/acls", statuses=(409,), only_waits=True)
async def list_acls(broker: Broker, *, principal: Name | None = None, resource: Name | None = None) -> AclList:
    """List ACLs.

    Args:
        principal: Only ACLs of this principal, e.g. `User:alice`.
        resource: Only ACLs that match this resource, by name, prefix or wildcard: TYPE:NAME, e.g. `topic:orders`.

    Raises:
        ControlError: CONFLICT: no authorizer is configured; INVALID: the principal or resource is invalid.
    """
    changes, time_slice = _changes(broker), TimeSlice()
    if principal is not None:
        _read(lambda: Principal.parse(principal), "principal")
    wanted = AclFilter(principal=principal)
    if resource is not None:
        kind, name = _read(lambda: resource_of(resource), "resource")
        wanted = AclFilter(kind, name, PatternType.MATCH, principal)
    found = {
        state.acl: state for state in await time_slice.map(_state, await changes.matching(wanted, time_slice))
    }  # no two entries have the same line
    return AclList(tuple(await time_slice.map(found.__getitem__, await time_slice.sorted(found))))


@declared("POST", "/v1/acls", statuses=(409, 500))
async def add_acls(broker: Broker, acls: Lines) -> AclsAdded:
    """Add ACLs.

    All of them or none. ACLs that exist already are ignored.

    Args:
        acls: `PRINCIPAL allow|deny OPERATIONS TYPE:NAME [literal] [from HOST]`, e.g. `User:alice allow READ,WRITE topic:orders*`.

    Raises:
        ControlError: CONFLICT: no authorizer is configured; INVALID: a line is invalid, or there are too many; FAILED: the disk
            failed.
    """
    changes = _changes(broker)
    try:
        new = await changes.create(await parsed(acls, parse_new), at_most=ENTRIES_MAX)
    except KafkaError as error:
        raise refusal(error) from error
    return AclsAdded(tuple(await TimeSlice().map(str, new)))


@declared("DELETE", "/v1/acls", statuses=(404, 409, 500))
async def remove_acls(broker: Broker, acls: Lines) -> AclsRemoved:
    """Remove ACLs.

    All of them or none.

    Args:
        acls: `PRINCIPAL allow|deny OPERATIONS TYPE:NAME [literal] [from HOST]`, e.g. `User:alice allow READ,WRITE topic:orders*`.

    Raises:
        ControlError: As `add_acls`; NOT_FOUND: an ACL was not found.
    """
    changes, time_slice = _changes(broker), TimeSlice()
    gone = await parsed(acls, parse)
    index = _authorizer(broker).index
    async for acl in time_slice.each(gone):
        if acl not in index:
            near = did_you_mean(str(acl), (str(each) for each in index.about(acl.resource_type, acl.name)))
            raise ControlError(Kind.NOT_FOUND, f"ACL {str(acl)[:200]!r} not found{near}")
    try:
        await changes.delete(await time_slice.map(_exactly, gone))
    except KafkaError as error:
        raise refusal(error) from error
    return AclsRemoved(tuple(await time_slice.map(str, gone)))


@declared("GET", "/v1/acls/why", only_waits=True)
async def why_allowed(
    broker: Broker, principal: Name, operation: Name, resource: Name, *, host: Name = "127.0.0.1"
) -> AclDecision:
    """Decide whether a principal may perform an operation on a resource, and name the ACL that decides.

    Args:
        principal: Principal, e.g. `User:alice`.
        operation: Operation, e.g. `READ`.
        resource: TYPE:NAME, e.g. `topic:orders`.
        host: IP address of the client.

    Raises:
        ControlError: INVALID: an argument is invalid.
    """
    who = _read(lambda: Principal.parse(principal), "principal")
    asked = _read(lambda: kind_of(AclOperation, operation, "operation"), "operation")
    kind, name = _read(lambda: resource_of(resource), "resource")
    what = f"{asked.name} on {kind.name.lower()}:{name[:100]} from {host[:100]}"
    authorizer = broker.services.authorizer
    if authorizer is None:
        sentence = f"{who} may {what}: no authorizer is configured, so everything is allowed"
        return AclDecision(True, "NO_AUTHORIZER", None, sentence)
    decision = authorizer.decide(who, host, asked, kind, name)
    may = "may" if decision.is_allowed else "may not"
    acl = None if decision.acl is None else str(decision.acl)
    return AclDecision(decision.is_allowed, decision.reason, acl, f"{who} {may} {what}: {_because(decision)}")


async def parsed(lines: Sequence[str], read: Callable[[str], Iterator[Acl]]) -> list[Acl]:
    """Parse the entries of lines with `read`, without duplicates. ControlError INVALID for a line that it refuses."""
    time_slice, found = TimeSlice(), dict[Acl, None]()
    async for line in time_slice.each(lines):
        found |= dict.fromkeys(_read(partial(_entries, read, line), "acls"))
    return list(found)


def _entries(read: Callable[[str], Iterator[Acl]], line: str) -> list[Acl]:
    return list(read(line))


def _read(read: Callable[[], Found], what: str) -> Found:
    try:
        return read()
    except ValueError as error:
        raise ControlError(Kind.INVALID, f"{what}: {error}") from None


def _because(decision: Decision) -> str:
    match decision.reason:
        case "SUPER_USER":
            return "the principal is one of super.users"
        case "DENIED_BY" | "ALLOWED_BY":
            return str(decision.acl)
        case "NO_MATCH":
            return "this resource has ACLs, but none allows it"
        case _:
            said = "true" if decision.is_allowed else "false"
            return f"this resource has no ACLs, and allow.everyone.if.no.acl.found is {said}"


def _authorizer(broker: Broker) -> Authorizer:
    authorizer = broker.services.authorizer
    if authorizer is None:
        raise ControlError(Kind.CONFLICT, "no authorizer is configured; start the broker with authorizer.class.name")
    return authorizer


def _changes(broker: Broker) -> AclChanges:
    _authorizer(broker)
    changes = broker.services.acl_changes
    assert changes is not None
    return changes


def _exactly(acl: Acl) -> AclFilter:
    return AclFilter(acl.resource_type, acl.name, acl.pattern, acl.principal, acl.host, acl.operation, acl.permission)


def _state(acl: Acl) -> AclState:
    return AclState(
        str(acl),
        acl.principal,
        acl.permission.name,
        acl.operation.name,
        acl.resource_type.name,
        acl.name,
        acl.pattern.name,
        acl.host,
    )
