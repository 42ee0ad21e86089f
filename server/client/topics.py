"""Topics: made and deleted."""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from .nodes import BEING_MADE_S, NodeConnections, check
from .values import expect


def create_topic(
    nodes: NodeConnections,
    name: str,
    partitions: int | None = None,
    configs: Mapping[str, str | int | float | bool] | None = None,
    replicas: int | None = None,
    replication_factor: int | None = None,
) -> None:
    """Make a topic, and wait until its partitions have leaders.

    Args:
        partitions, replicas: None takes the broker's defaults.
        replication_factor: The same as `replicas`, of which one is given.

    Raises:
        KafkaError: TOPIC_ALREADY_EXISTS, INVALID_CONFIG, …; there is no new topic.
    """
    expect("topic name", name, str)
    expect("partitions", partitions, int, type(None))
    expect("replicas", replicas, int, type(None))
    expect("replication_factor", replication_factor, int, type(None))
    if replication_factor is not None and replicas not in (None, replication_factor):
        raise ValueError(
            f"replicas={replicas} conflicts with replication_factor={replication_factor}; both set the replication"
            " factor, use only one"
        )
    expect("configs", configs, Mapping, type(None))
    wanted = CreatableTopic(
        name=name,
        num_partitions=-1 if partitions is None else partitions,
        replication_factor=next((each for each in (replicas, replication_factor) if each is not None), -1),
        configs=tuple(
            CreatableTopicConfig(name=option_name(key), value=text(value)) for key, value in (configs or {}).items()
        ),
    )
    request = CreateTopicsRequest(topics=(wanted,), timeout_ms=round(nodes.timeout_s * 1000))

    def attempt() -> None:
        (row,) = nodes.ask_controller(request).topics
        check(row.error_code, row.error_message or f"topic {name!r}")

    def wait() -> None:
        for partition in nodes.topic(name).partitions:
            if partition.leader < 0:
                check(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition.index} of topic {name!r} has no leader")

    nodes.retrying(attempt, repeatable=False)
    nodes.retrying(wait, unknown_s=BEING_MADE_S)


def delete_topic(nodes: NodeConnections, name: str) -> None:
    """Delete a topic. Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION with the nearest name, …"""
    from ...protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    expect("topic name", name, str)
    request = DeleteTopicsRequest(
        topics=(DeleteTopicState(name=name),), topic_names=(name,), timeout_ms=round(nodes.timeout_s * 1000)
    )

    def attempt() -> None:
        nodes.topic(name)
        (row,) = nodes.ask_controller(request).responses
        check(row.error_code, row.error_message or f"topic {name!r}")

    nodes.retrying(attempt, repeatable=False)


def option_name(given: object) -> str:
    """An option's name. Raises TypeError."""
    expect("option name", given, str)
    return str(given)


def text(value: str | float | bool | None) -> str | None:
    """An option's value as Kafka writes it."""
    expect("option value", value, str, int, float, bool, type(None))
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
