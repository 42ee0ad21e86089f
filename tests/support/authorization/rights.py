"""Who asks: principals that may do nothing, one thing, or a few, and what they are granted for that.

Each right alone shows what an API asks for; the few pairs show what it takes to get further.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.server.security.acls.kinds import CLUSTER_NAME, Operation, ResourceType

EVERY = "*"
"""Apache Kafka's name for all resources of a type."""

SUPER_USER = "admin"
NOBODY = "nobody"
OWNER = "owner"
"""Owns the one delegation token that there is, and has no other right."""


class Grant(NamedTuple):
    """One ALLOW for one resource, or for EVERY one of its type."""

    resource_type: ResourceType
    name: str
    operation: Operation


OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What each type of resource knows."""


def single(resource_type: ResourceType, operation: Operation) -> str:
    """The principal's name that has this right alone."""
    return f"{resource_type.name}-{operation.name}".lower().replace("_", "-")


def _every(resource_type: ResourceType, *operations: Operation) -> tuple[Grant, ...]:
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
    "topic-describe-and-create": _every(_TOPIC, Operation.DESCRIBE, Operation.CREATE),
    "topic-describe-and-cluster-create": (
        *_every(_TOPIC, Operation.DESCRIBE),
        *_every(_CLUSTER, Operation.CREATE),
    ),
    "consumer": (*_every(_TOPIC, Operation.READ), *_every(_GROUP, Operation.READ)),
    "subscriber": (*_every(_TOPIC, Operation.DESCRIBE), *_every(_GROUP, Operation.READ)),
    "creator": _every(_TOPIC, Operation.CREATE, Operation.DESCRIBE_CONFIGS),
    "group-read-and-delete": _every(_GROUP, Operation.READ, Operation.DELETE),
    "topic-read-group-delete": (*_every(_TOPIC, Operation.READ), *_every(_GROUP, Operation.DELETE)),
    "transactional-group": (*_every(_TRANSACTIONAL_ID, Operation.WRITE), *_every(_GROUP, Operation.READ)),
    "transactional-producer": (*_every(_TRANSACTIONAL_ID, Operation.WRITE), *_every(_TOPIC, Operation.WRITE)),
    "transactional-consumer": (
        *_every(_TRANSACTIONAL_ID, Operation.WRITE),
        *_every(_GROUP, Operation.READ),
        *_every(_TOPIC, Operation.READ),
    ),
    "transactional-describer": (
        *_every(_TRANSACTIONAL_ID, Operation.DESCRIBE),
        *_every(_TOPIC, Operation.DESCRIBE),
    ),
    "describer": (*_every(_GROUP, Operation.DESCRIBE), *_every(_TOPIC, Operation.DESCRIBE)),
    "half": (
        Grant(_TOPIC, "there", Operation.ALL),
        Grant(_GROUP, "there", Operation.ALL),
        Grant(_TRANSACTIONAL_ID, "there", Operation.ALL),
    ),
}
"""Name -> what is granted. `half` may do everything with what is called `there`, and nothing with all else."""
