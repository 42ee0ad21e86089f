"""The broker's own topics: their names, and the options they are created with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .config import BrokerConfig

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
"""Names that clients may read and never write."""


class InternalTopic(NamedTuple):
    """How the broker creates a topic of its own."""

    partitions: int
    replication_factor: int
    configs: dict[str, str]


def _consumer_offsets(config: BrokerConfig) -> InternalTopic:
    return InternalTopic(
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
    )


def _transaction_state(config: BrokerConfig) -> InternalTopic:
    return InternalTopic(
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
    )


CREATED_ON_DEMAND: dict[str, Callable[[BrokerConfig], InternalTopic]] = {
    OFFSETS_TOPIC: _consumer_offsets,
    TRANSACTIONS_TOPIC: _transaction_state,
}
"""Topics that come into being when the first client needs what they are for."""
