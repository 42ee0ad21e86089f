"""DescribeConfigs, API key 32, versions 1-4.

Behaviour
- Describes topics, the node itself, and under the empty broker name the configs for all nodes; each value with its source, and
  on request with its synonyms and our one-line documentation.
- A node answers for itself only; another id is INVALID_REQUEST, as in Kafka.
- A resource that is named twice is returned once.
- Groups and client metrics subscriptions may have any name, and each without configs gets a page of defaults: those beyond
  DEFAULTS_MAX are refused with POLICY_VIOLATION.
- A node's loggers are the present ones of Ottla; `root` is their parent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import islice

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
from ..cluster.topic_plans import check_name
from ..config.broker_config import BrokerConfig, ConfigSource, Texts
from ..config.resources import (
    ConfigEntry,
    ConfigResourceType,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import CLUSTER_NAME, AclOperation, ResourceType
from ..services.context import Context
from .permissions import check

DEFAULTS_MAX = 10_000
"""Largest number of groups and client metrics subscriptions in one response: as many as Apache Kafka changes with one
request."""

KEYS_COMPARED = 100
"""Resources with fewer keys, and the same keys and settings, share their rows. Topics have fewer options than that."""


async def handle(ctx: Context, request: Request) -> DescribeConfigsResponse:
    body: DescribeConfigsRequest = request.body
    time_slice = TimeSlice()
    wanted: dict[tuple[int, str], DescribeConfigsResource] = {}
    async for resource in time_slice.each(body.resources):
        wanted[resource.resource_type, resource.resource_name] = resource
    page = _Page(ctx, body)
    results = []
    async for resource in time_slice.each(wanted.values()):
        if resource.resource_type == ConfigResourceType.BROKER and resource.resource_name == str(ctx.server_id):
            page.read_config()  # which takes as long as its rows
            if time_slice.is_over():
                await time_slice.next()
        results.append(page.result(resource, await time_slice.distinct(resource.configuration_keys or ())))
    await time_slice.empty(wanted)
    return DescribeConfigsResponse(results=tuple(results))


class _Page:
    """One response. Resources with the same settings share their rows: most topics have none of their own."""

    def __init__(self, ctx: Context, body: DescribeConfigsRequest) -> None:
        self._ctx = ctx
        self._body = body
        self._made: dict[object, tuple[DescribeConfigsResourceResult, ...]] = {}
        self._made_of = ctx.services.config.current
        self._defaults_left = DEFAULTS_MAX
        self._config: BrokerConfig | None = None

    def read_config(self) -> None:
        """Load the config of the node, or controller, that received the request."""
        self._config = self._ctx.services.config.node_config(self._ctx.server_id)

    def result(self, resource: DescribeConfigsResource, keys: Collection[str]) -> DescribeConfigsResult:
        code, message = ErrorCode.NONE, None
        configs: tuple[DescribeConfigsResourceResult, ...] = ()
        try:
            configs = self._configs(resource.resource_type, resource.resource_name, keys)
        except KafkaError as error:
            code, message = error.code, error.message
        return DescribeConfigsResult(
            error_code=code,
            error_message=message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=configs,
        )

    def _configs(self, kind: int, name: str, keys: Collection[str]) -> tuple[DescribeConfigsResourceResult, ...]:
        services = self._ctx.services
        check_configs_of(self._ctx, AclOperation.DESCRIBE_CONFIGS, kind, name)
        if kind in _ANY_NAME:
            check_named(_ANY_NAME[kind], name)
            if not self._defaults_left:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"too many groups or subscriptions in one request (limit {DEFAULTS_MAX})",
                )
            self._defaults_left -= 1
        elif kind == ConfigResourceType.TOPIC:
            check_name(name)
        else:
            return self._rows(_describe(self._ctx, kind, name, keys, self._config))
        overrides = _overrides(self._ctx, kind, name)
        if self._made_of is not services.config.current:
            self._made_of = services.config.current
            self._made.clear()
        settings = (kind, tuple(islice(keys, KEYS_COMPARED)), frozenset(overrides.items()))
        made = self._made.get(settings) or self._rows(_DESCRIBED[kind](services.config.current, overrides, keys))
        if len(keys) < KEYS_COMPARED:
            self._made[settings] = made
        return made

    def _rows(self, entries: Iterable[ConfigEntry]) -> tuple[DescribeConfigsResourceResult, ...]:
        return tuple(_config(entry, self._body) for entry in entries)


_DESCRIBED: dict[int, Callable[[BrokerConfig, Texts, Collection[str]], list[ConfigEntry]]] = {
    ConfigResourceType.TOPIC: describe_topic,
    ConfigResourceType.GROUP: describe_group,
    ConfigResourceType.CLIENT_METRICS: lambda _, texts, keys: describe_client_metrics(texts, keys),
}
_ANY_NAME: dict[int, str] = {
    ConfigResourceType.GROUP: "group",
    ConfigResourceType.CLIENT_METRICS: "client metrics subscription",
}
"""Kinds of resources that exist under every name, with their description in errors."""


_PROTECTED: dict[int, ResourceType] = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
}
"""Resource types of access control that protect each kind of config."""


def _overrides(ctx: Context, kind: int, name: str) -> Texts:
    """Return the own configs of a topic, a group or a client metrics subscription."""
    services = ctx.services
    if kind == ConfigResourceType.TOPIC:
        return services.cluster.topic_configs(name)
    if kind == ConfigResourceType.CLIENT_METRICS:
        return services.config.client_metrics(name)
    own = services.config.groups.get(name)
    return {} if own is None else own.texts


def _describe(
    ctx: Context, kind: int, name: str, keys: Collection[str], config: BrokerConfig | None
) -> list[ConfigEntry]:
    services = ctx.services
    match kind:
        case ConfigResourceType.BROKER if name == "":
            return describe_cluster_default(services.config.current, keys)
        case ConfigResourceType.BROKER:
            check_is_this_node(ctx, name)
            assert config is not None  # of this node
            return describe_broker(config, keys)
        case ConfigResourceType.BROKER_LOGGER:
            check_is_this_node(ctx, name)
            loggers = services.loggers
            source = ConfigSource.DYNAMIC_BROKER_LOGGER
            return [
                ConfigEntry(each, loggers.level(each), source, False, False, 0, "", ())
                for each in loggers.names()
                if not keys or each in keys
            ]
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def check_configs_of(ctx: Context, operation: AclOperation, kind: int, name: str) -> None:
    """Check that the client may do this to the configs of a resource. An unknown type passes.

    Raises:
        KafkaError: TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED.
    """
    protected = _PROTECTED.get(kind)
    if protected is not None:
        check(ctx, operation, protected, CLUSTER_NAME if protected is ResourceType.CLUSTER else name)


def check_is_this_node(ctx: Context, name: str) -> None:
    """Raise INVALID_REQUEST unless `name` is the id of the node, or controller, that received the request."""
    if not (name.isascii() and name.isdigit()):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(ctx.server_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {ctx.server_id}, but received {name}"
        )


def check_named(what: str, name: str) -> None:
    """Raise INVALID_REQUEST for the empty name."""
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
