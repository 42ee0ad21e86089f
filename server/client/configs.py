"""Options of topics, brokers and groups: described and changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from .nodes import NodeConnections, check
from .topics import option_name, text
from .values import Config, expect

Kind = Literal["topic", "broker", "group"]
RESOURCES: dict[str, int] = {"topic": 2, "broker": 4, "group": 32}
DEFAULT_SOURCES = {"topic": {2, 3, 4, 5}, "broker": {4, 5}, "group": {4, 5}}
"""A value of the broker's file or command line, Apache Kafka's default: nobody set it by a request. To a topic what its brokers
have is a default, too: it is there for all topics, as `min.insync.replicas` is always (KIP-966)."""
SET, DELETE = 0, 1


def configs(nodes: NodeConnections, kind: Kind, name: str) -> list[Config]:
    """All options of a topic, a broker (its id as text; "" for those that all brokers share) or a group, by name."""
    resource = DescribeConfigsResource(resource_type=_resource(kind), resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=(resource,))

    def attempt() -> list[Config]:
        (found,) = nodes.ask(request, _node(nodes, kind, name)).results
        check(found.error_code, found.error_message or f"{kind} {name!r}")
        return [
            Config(row.name, row.value, row.config_source in DEFAULT_SOURCES[kind], row.read_only, row.is_sensitive)
            for row in sorted(found.configs, key=lambda row: str(row.name))
        ]

    return nodes.retrying(attempt)


def set_configs(
    nodes: NodeConnections, kind: Kind, name: str, changes: Mapping[str, str | int | float | bool | None]
) -> None:
    """Set options, or (None) take them back to their defaults; all of them or none."""
    expect("changes", changes, Mapping)
    rows = tuple(
        AlterableConfig(name=option_name(key), config_operation=DELETE if value is None else SET, value=text(value))
        for key, value in changes.items()
    )
    resource = AlterConfigsResource(resource_type=_resource(kind), resource_name=name, configs=rows)

    def attempt() -> None:
        request = IncrementalAlterConfigsRequest(resources=(resource,))
        (row,) = nodes.ask(request, _node(nodes, kind, name)).responses
        check(row.error_code, row.error_message or f"{kind} {name!r}")

    nodes.retrying(attempt)


def _resource(kind: str) -> int:
    if not isinstance(kind, str) or kind not in RESOURCES:
        raise ValueError(f"invalid resource type {kind!r}; must be one of: {', '.join(RESOURCES)}")
    return RESOURCES[kind]


def _node(nodes: NodeConnections, kind: str, name: str) -> int | None:
    """Whom to ask: a broker's own options are known to itself."""
    if kind != "broker" or not name:
        return None
    if not name.isdecimal():
        raise ValueError(f"invalid broker {name!r}; must be a broker ID")
    there = nodes.node_ids()
    if int(name) not in there:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"broker {name} not found; existing brokers: {', '.join(map(str, there))}"
        )
    return int(name)
