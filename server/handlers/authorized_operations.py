"""Operations that a client may do, as the bit fields of KIP-430. Without an authorizer: all.

Bit n stands for the operation with ACL code n.
"""

from __future__ import annotations

from collections.abc import Collection

from ..security.acls.kinds import CLUSTER_NAME, AclOperation, ResourceType
from ..services.context import Context

NOT_ASKED = -(2**31)
"""Kafka's value if the request did not include operations."""

_OF_TOPICS = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
_OF_THE_CLUSTER = (
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
_OF_GROUPS = (  # describing or altering a group's configs included (KIP-848)
    AclOperation.READ,
    AclOperation.DELETE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)


def topic_operations(ctx: Context, name: str) -> int:
    """Return the operations on a topic that the client may do."""
    return _allowed(ctx, _OF_TOPICS, ResourceType.TOPIC, name)


def cluster_operations(ctx: Context) -> int:
    """Return the operations on the cluster that the client may do; none if it may not describe the cluster, as in Kafka."""
    allowed = _allowed(ctx, _OF_THE_CLUSTER, ResourceType.CLUSTER, CLUSTER_NAME)
    return allowed if allowed >> AclOperation.DESCRIBE & 1 else 0


def group_operations(ctx: Context, name: str) -> int:
    """Return the operations on a group that the client may do."""
    return _allowed(ctx, _OF_GROUPS, ResourceType.GROUP, name)


def _allowed(ctx: Context, operations: Collection[AclOperation], resource_type: ResourceType, name: str) -> int:
    authorizer, client = ctx.services.authorizer, ctx.client
    if authorizer is not None:
        operations = authorizer.allowed(client.principal, client.client_host, operations, resource_type, name)
    return sum(1 << operation for operation in operations)
