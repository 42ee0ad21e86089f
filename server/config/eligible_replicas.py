"""What eligible leader replicas (KIP-966) change in the options: `min.insync.replicas` is one value for all nodes.

Where the feature is on, Apache Kafka keeps the option as a dynamic default of all nodes, made of the static value at the
moment that the feature comes on. From then on the static value means nothing, no node has a value of its own, and the
default can be changed, but not taken away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.topics.catalog_file import CLUSTER_DEFAULT
from .broker_config import NO_TEXTS, ConfigSource, Texts

ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"
"""The feature."""

MIN_INSYNC_REPLICAS = "min.insync.replicas"


def settled(dynamic: Mapping[str, Texts], static_value: int) -> dict[str, dict[str, str]]:
    """The dynamic options that must be others while the feature is on, by node id as a decimal or CLUSTER_DEFAULT."""
    changed = {
        node: {name: text for name, text in texts.items() if name != MIN_INSYNC_REPLICAS}
        for node, texts in dynamic.items()
        if node != CLUSTER_DEFAULT and MIN_INSYNC_REPLICAS in texts
    }
    default = dynamic.get(CLUSTER_DEFAULT, NO_TEXTS)
    if MIN_INSYNC_REPLICAS not in default:
        changed[CLUSTER_DEFAULT] = {**default, MIN_INSYNC_REPLICAS: str(static_value)}
    return changed


def check_change(level: ConfigSource, named: Collection[str], changed: Texts) -> None:
    """Return if a change of one dynamic layer may be made while the feature is on.

    Args:
        level: DYNAMIC_BROKER or DYNAMIC_DEFAULT_BROKER.
        named: The options that the request names.
        changed: What the layer would hold.

    Raises:
        KafkaError: INVALID_CONFIG, in Apache Kafka's words.
    """
    refusal = None
    if level is ConfigSource.DYNAMIC_BROKER and MIN_INSYNC_REPLICAS in named:
        refusal = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
    elif level is ConfigSource.DYNAMIC_DEFAULT_BROKER and MIN_INSYNC_REPLICAS not in changed:
        refusal = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
    if refusal is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, refusal)
