"""A plain copy of StandardAuthorizer's rules, in loops over a list: the reference for the authorizer's answers."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from ottla.server.security.acls.acl import Acl
from ottla.server.security.acls.kinds import AclOperation, PatternType, Permission, ResourceType

IMPLIED = {
    AclOperation.DESCRIBE: {
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS},
}


def allows(
    acls: Iterable[Acl],
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    default: bool,
) -> bool:
    about = [acl for acl in acls if acl.resource_type is resource_type and _matches(acl, name)]
    if not about:
        return default
    mine = [acl for acl in about if acl.principal in (principal, "User:*") and _is_at(acl, host)]
    denied = {acl.operation for acl in mine if acl.permission is Permission.DENY}
    allowed = {acl.operation for acl in mine if acl.permission is Permission.ALLOW}
    if denied & {operation, AclOperation.ALL}:
        return False
    return bool(allowed & (IMPLIED.get(operation, {operation}) | {AclOperation.ALL}))


def allows_any(
    acls: list[Acl], principal: str, host: str, operation: AclOperation, resource_type: ResourceType, default: bool
) -> bool:
    if allows(acls, principal, host, operation, resource_type, "hardcode", default):
        return True
    mine = [
        acl
        for acl in acls
        if acl.resource_type is resource_type
        and acl.principal in (principal, "User:*")
        and _is_at(acl, host)
        and acl.operation in (operation, AclOperation.ALL)
    ]
    denied = [acl for acl in mine if acl.permission is Permission.DENY]
    allowed = [acl for acl in mine if acl.permission is Permission.ALLOW]
    star = (PatternType.LITERAL, "*")
    if star in [(acl.pattern, acl.name) for acl in denied]:
        return False
    if star in [(acl.pattern, acl.name) for acl in allowed]:
        return True
    return any(not any(_dominates(no, acl) for no in denied) for acl in allowed)


def _matches(acl: Acl, name: str) -> bool:
    return name.startswith(acl.name) if acl.pattern is PatternType.PREFIXED else acl.name in (name, "*")


def _is_at(acl: Acl, host: str) -> bool:
    if acl.host in (host, "*"):
        return True
    try:
        return "/" in acl.host and ip_address(host) in ip_network(acl.host, strict=False)
    except ValueError:
        return False


def _dominates(denied: Acl, allowed: Acl) -> bool:
    if denied.pattern is PatternType.PREFIXED:
        return allowed.name.startswith(denied.name)
    return allowed.pattern is PatternType.LITERAL and allowed.name == denied.name
