"""DescribeConfigs, API key 32, versions 1-4.

Behaviour
- Topics, the node itself, and under the empty broker name what holds for all nodes; each value with its source, on
  request with its synonyms and our one-line documentation.
- A node answers for itself only; another id is INVALID_REQUEST, as in Kafka.
- A resource that is asked for twice is answered once.

Differs from Apache Kafka
- Groups and client metrics show defaults, a broker's loggers show one `root`.
"""

from __future__ import annotations

from collections.abc import Collection

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ..config import ConfigSource
from ..config_resources import (
    ConfigEntry,
    ResourceType,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from ..connection import Context

_ROOT_LOGGER = ConfigEntry("root", "INFO", ConfigSource.DYNAMIC_BROKER_LOGGER, False, False, 0, "", ())


async def handle(ctx: Context, request: Request) -> DescribeConfigsResponse:
    body: DescribeConfigsRequest = request.body
    wanted = {(resource.resource_type, resource.resource_name): resource for resource in body.resources}
    return DescribeConfigsResponse(results=tuple(_result(ctx, body, resource) for resource in wanted.values()))


def _result(ctx: Context, body: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    code, message, entries = ErrorCode.NONE, None, []
    try:
        entries = _describe(ctx, resource.resource_type, resource.resource_name, resource.configuration_keys)
    except KafkaError as error:
        code, message = error.code, error.message
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_config(entry, body) for entry in entries),
    )


def _describe(ctx: Context, kind: int, name: str, keys: Collection[str] | None) -> list[ConfigEntry]:
    broker = ctx.broker
    match kind:
        case ResourceType.TOPIC:
            broker.admin.check_name(name)
            return describe_topic(broker.config, broker.topic_configs(name), keys)
        case ResourceType.BROKER if name == "":
            return describe_cluster_default(broker.config, keys)
        case ResourceType.BROKER:
            check_is_this_node(ctx, name)
            return describe_broker(broker.config_of(ctx.node.node_id), keys)
        case ResourceType.BROKER_LOGGER:
            check_is_this_node(ctx, name)
            return [_ROOT_LOGGER] if not keys or _ROOT_LOGGER.name in keys else []
        case ResourceType.CLIENT_METRICS:
            check_named("client metrics subscription", name)
            return describe_client_metrics(keys)
        case ResourceType.GROUP:
            check_named("group", name)
            return describe_group(broker.config, keys)
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def check_is_this_node(ctx: Context, name: str) -> None:
    """INVALID_REQUEST unless `name` is the id of the node that was asked."""
    if not (name.isascii() and name.isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(ctx.node.node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {ctx.node.node_id}, but received {name}"
        )


def check_named(what: str, name: str) -> None:
    """INVALID_REQUEST for the empty name."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The name of a {what} must not be empty")


def _config(entry: ConfigEntry, body: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if body.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in synonyms
        ),
        config_type=entry.type,
        documentation=entry.doc if body.include_documentation else None,
    )
