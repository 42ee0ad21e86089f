"""Rights, as names that need no client: an operation on a resource, and the ways a user may have it or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, TOKEN, USER = "cluster", "group", "topic", "transactional_id", "token", "user"
RESOURCE_TYPES = {TOPIC: 2, GROUP: 3, CLUSTER: 4, TRANSACTIONAL_ID: 5, TOKEN: 6, USER: 7}
OPERATIONS = {
    "ALL": 2,
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
    "CREATE_TOKENS": 13,
    "DESCRIBE_TOKENS": 14,
    "TWO_PHASE_COMMIT": 15,
}
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
CLUSTER_NAME = "kafka-cluster"

EXACT, NONE, WITH_PREFIX, WILDCARD, DENIED, OTHER = KINDS = (
    "exact",
    "none",
    "prefixed",
    "wildcard",
    "denied",
    "other",
)


@dataclass(frozen=True)
class Need:
    """An operation on the resource of this type that the action is about."""

    operation: str
    resource: str


@dataclass(frozen=True)
class Entry:
    """One ACL entry, in the numbers of the protocol."""

    resource_type: int
    name: str
    pattern_type: int
    operation: int
    permission: int


def kinds_for(needs: tuple[Need, ...]) -> tuple[str, ...]:
    """Return the ways in which a user may have these rights: the cluster has only one name, so no others apply to it."""
    if not needs:
        return (NONE,)
    return KINDS if any(need.resource != CLUSTER for need in needs) else (EXACT, NONE, DENIED)


def entries(needs: tuple[Need, ...], kind: str, name: str) -> Iterator[Entry]:
    """Yield the ACLs of a user of this kind for an action on resources called `name`; the first need is the denied one."""
    if kind == NONE:
        return
    for at, need in enumerate(needs):
        own = CLUSTER_NAME if need.resource == CLUSTER else name
        pattern = LITERAL
        if kind == WILDCARD and need.resource != CLUSTER:
            own = "*"
        elif kind == WITH_PREFIX and need.resource != CLUSTER:
            own, pattern = own[:-1], PREFIXED
        elif kind == OTHER and need.resource != CLUSTER:
            own = f"{own}-other"
        numbers = RESOURCE_TYPES[need.resource], own, pattern, OPERATIONS[need.operation]
        yield Entry(*numbers, ALLOW)
        if kind == DENIED and at == 0:
            yield Entry(*numbers, DENY)
