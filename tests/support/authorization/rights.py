"""Principals that have no right, one right, or a few, and the ACLs that grant them.

Each right alone shows what an API requires; the few pairs show what a request needs to get further.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.server.security.acls.kinds import CLUSTER_NAME, AclOperation, ResourceType

EVERY = "*"
"""Apache Kafka's name for all resources of a type."""

SUPER_USER = "admin"
NOBODY = "nobody"
OWNER = "owner"
"""Owner of the only delegation token; has no other right."""


class Grant(NamedTuple):
    """One ALLOW for one resource, or for EVERY resource of its type."""

    resource_type: ResourceType
    name: str
    operation: AclOperation


OPERATIONS: dict[ResourceType, tuple[AclOperation, ...]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that each type of resource supports."""


def single(resource_type: ResourceType, operation: AclOperation) -> str:
    """Return the name of the principal that has only this right."""
    return f"{resource_type.name}-{operation.name}".lower().replace("_", "-")


def _every(resource_type: ResourceType, *operations: AclOperation) -> tuple[Grant, ...]:
    name = CLUSTER_NAME if resource_type is ResourceType.CLUSTER else EVERY
    return tuple(Grant(resource_type, name, operation) for operation in operations)


_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID

USERS: dict[str, tuple[Grant, ...]] = {
    NOBODY: (),
    OWNER: (),
    **{
        single(resource_type, operation): _every(resource_type, operation)
        for resource_type, operations in OPERATIONS.items()
        for operation in operations
    },
    "topic-describe-and-create": _every(_TOPIC, AclOperation.DESCRIBE, AclOperation.CREATE),
    "topic-describe-and-cluster-create": (
        *_every(_TOPIC, AclOperation.DESCRIBE),
        *_every(_CLUSTER, AclOperation.CREATE),
    ),
    "consumer": (*_every(_TOPIC, AclOperation.READ), *_every(_GROUP, AclOperation.READ)),
    "subscriber": (*_every(_TOPIC, AclOperation.DESCRIBE), *_every(_GROUP, AclOperation.READ)),
    "creator": _every(_TOPIC, AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS),
    "group-read-and-delete": _every(_GROUP, AclOperation.READ, AclOperation.DELETE),
    "topic-read-group-delete": (*_every(_TOPIC, AclOperation.READ), *_every(_GROUP, AclOperation.DELETE)),
    "transactional-group": (*_every(_TRANSACTIONAL_ID, AclOperation.WRITE), *_every(_GROUP, AclOperation.READ)),
    "transactional-producer": (*_every(_TRANSACTIONAL_ID, AclOperation.WRITE), *_every(_TOPIC, AclOperation.WRITE)),
    "transactional-consumer": (
        *_every(_TRANSACTIONAL_ID, AclOperation.WRITE),
        *_every(_GROUP, AclOperation.READ),
        *_every(_TOPIC, AclOperation.READ),
    ),
    "transactional-describer": (
        *_every(_TRANSACTIONAL_ID, AclOperation.DESCRIBE),
        *_every(_TOPIC, AclOperation.DESCRIBE),
    ),
    "describer": (*_every(_GROUP, AclOperation.DESCRIBE), *_every(_TOPIC, AclOperation.DESCRIBE)),
    "half": (
        Grant(_TOPIC, "there", AclOperation.ALL),
        Grant(_GROUP, "there", AclOperation.ALL),
        Grant(_TRANSACTIONAL_ID, "there", AclOperation.ALL),
    ),
}
"""Name -> its grants. `half` may do everything with resources called `there`, and nothing with all others."""
