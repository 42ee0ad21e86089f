"""What a client may do, as the bit fields of KIP-430. Without an authorizer: everything.

Bit n stands for the operation with ACL code n.
"""

from __future__ import annotations

from enum import IntEnum

NOT_ASKED = -(2**31)
"""Kafka's answer where the request did not ask for operations."""


class Operation(IntEnum):
    """ACL operation codes (KIP-140, KIP-373)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def _mask(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


def topic_operations() -> int:
    """Every operation that a topic knows."""
    return _mask(
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )


def cluster_operations() -> int:
    """Every operation that the cluster resource knows."""
    return _mask(
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    )


def group_operations() -> int:
    """Every operation that a consumer group knows (describing or altering a group's configs included, KIP-848)."""
    return _mask(
        Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
    )
