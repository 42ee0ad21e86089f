"""AlterConfigs, API key 33, versions 0-2, and the code that it shares with IncrementalAlterConfigs.

Behaviour
- All overrides of a topic, or all dynamic configs of the node or (empty name) of all nodes, are replaced.
- A request that names more than CHANGES_MAX configs is refused whole (POLICY_VIOLATION).
- Each resource is checked as a whole first; a refused one keeps its configs, the others in the request succeed. Changes take
  effect at once, also for open logs.
- Groups and client metrics subscriptions of any name may have configs; those without configs are not stored. Only
  IncrementalAlterConfigs changes levels of loggers (AlterConfigs does not know this resource, as in Kafka); they last as long
  as the broker.

Differs from Apache Kafka
- Configs of share and streams groups cannot be set: INVALID_CONFIG.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..cluster.topic_plans import check_name
from ..config.broker_config import BrokerConfig, ConfigSource, Texts
from ..config.changes import ConfigChange, alter_broker, alter_topic, with_layer
from ..config.live_config import check_min_isr
from ..config.resources import ConfigResourceType
from ..config.static_config import shared_warnings, warnings_of
from ..network.connection_limits import OVERRIDES
from ..partitions.topics import Topic, unknown_topic
from ..runtime.log_rate_limit import LogRateLimiter
from ..runtime.time_slices import TimeSlice
from ..security.acls.kinds import CLUSTER_NAME, AclOperation, ResourceType
from ..services.context import Context
from ..services.listener_keys import Prepared
from .describe_configs import check_configs_of, check_is_this_node
from .other_configs import Configs, alter_loggers, changed_client_metrics, changed_group
from .permissions import check_without_words

if TYPE_CHECKING:
    from ...protocol.messages.incremental_alter_configs import AlterConfigsResource as AlterableResource

_WITHOUT_EFFECT = LogRateLimiter(logging.getLogger("ottla.configs"))


class ResourceConfigChange(NamedTuple):
    """Changes that a request makes to one resource."""

    kind: int
    name: str
    changes: tuple[ConfigChange, ...]


CHANGES_MAX = 10_000
"""Largest number of configs in a request; Apache Kafka's controller writes no more records for one request."""

RESOURCES_AT_A_TIME = 1_000
"""Resources whose topics share one write of the catalog. Other changes of configs wait until it is done."""

Refusal = tuple[ErrorCode, str | None]


async def handle(ctx: Context, request: Request) -> AlterConfigsResponse:
    body: AlterConfigsRequest = request.body
    answers = await alter(ctx, body.resources, _change_of, validate_only=body.validate_only, replace=True)
    return AlterConfigsResponse(responses=tuple(answers))


def _change_of(config: AlterableConfig) -> ConfigChange:
    return ConfigChange(config.name, config.value)


async def alter(
    ctx: Context,
    resources: Sequence[AlterConfigsResource | AlterableResource],
    change_of: Callable[[Any], ConfigChange],
    *,
    validate_only: bool,
    replace: bool,
) -> list[AlterConfigsResourceResponse]:
    """Alter each resource, or return the reason for a refusal; with `replace`, configs that are not named are unset."""
    time_slice = TimeSlice()
    stands: dict[tuple[int, str], int] = {}
    # AlterConfigs does not know loggers. Brokers refuse configs of brokers themselves, and controllers with words.
    without_words = set[int]() if replace else {ConfigResourceType.BROKER_LOGGER}
    if ctx.listener.controller_id is None:
        without_words.add(ConfigResourceType.BROKER)
    changes_left = CHANGES_MAX
    async for resource in time_slice.each(resources):
        key = resource.resource_type, resource.resource_name
        stands[key] = stands.get(key, 0) + 1
        changes_left -= len(resource.configs)
    answers: list[AlterConfigsResourceResponse] = []
    for first in range(0, len(resources), RESOURCES_AT_A_TIME):
        some = resources[first : first + RESOURCES_AT_A_TIME]
        refused: dict[tuple[int, str], Refusal] = {}
        changed = Changed(addresses=await _addresses(ctx, some) if changes_left >= 0 else {})
        async with ctx.services.cluster.change_lock:  # from reading the present configs to writing the new ones
            async for resource in time_slice.each(some):
                key = resource.resource_type, resource.resource_name
                try:
                    if changes_left < 0:
                        raise KafkaError(
                            ErrorCode.POLICY_VIOLATION,
                            f"Too many configs in one request ({CHANGES_MAX - changes_left}, limit {CHANGES_MAX}).",
                        )
                    if stands[key] > 1:
                        raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                    if key[0] in without_words:
                        check_without_words(ctx, AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME)
                    elif key[0] != ConfigResourceType.BROKER_LOGGER:
                        check_configs_of(ctx, AclOperation.ALTER_CONFIGS, *key)
                    asked = ResourceConfigChange(*key, tuple(await time_slice.map(change_of, resource.configs)))
                    await _alter_one(ctx, asked, time_slice, changed, validate_only=validate_only, replace=replace)
                except KafkaError as error:
                    refused[key] = (
                        error.code,
                        error.message or None,
                    )  # the error itself would refer to this frame, a cycle
            refused |= await _write(ctx, changed)
        async for resource in time_slice.each(some):
            kind, name = resource.resource_type, resource.resource_name
            code, message = refused.get((kind, name), (ErrorCode.NONE, None))
            answers.append(
                AlterConfigsResourceResponse(
                    error_code=code, error_message=message, resource_type=kind, resource_name=name
                )
            )
    return answers


@dataclass(slots=True)
class Changed:
    """New configs of several resources, written together for each kind."""

    topics: dict[Topic, Configs] = field(default_factory=dict)
    groups: dict[str, Configs] = field(default_factory=dict)
    client_metrics: dict[str, Configs] = field(default_factory=dict)
    addresses: Mapping[str, str | None] = field(default_factory=dict)
    """Addresses of hosts that OVERRIDES will name."""


async def _addresses(
    ctx: Context, resources: Sequence[AlterConfigsResource | AlterableResource]
) -> Mapping[str, str | None]:
    """Resolve the hosts in values for OVERRIDES before the lock is taken; none for a client that may not set them."""
    brokers = [resource for resource in resources if resource.resource_type == ConfigResourceType.BROKER]
    texts = [
        config.value for resource in brokers for config in resource.configs if config.name == OVERRIDES and config.value
    ]
    if not texts or not ctx.may(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, is_attempt=False):
        return {}
    return await ctx.services.connection_limits.look_ahead(texts)


async def _write(ctx: Context, changed: Changed) -> dict[tuple[int, str], Refusal]:
    """Write the new configs of resources, all of a kind in one write of the catalog; returns the refused ones, with reasons."""
    changes = ctx.services.config_changes
    refused: dict[tuple[int, str], Refusal] = {}
    try:
        gone = await changes.alter_topics(changed.topics) if changed.topics else set()
    except KafkaError as error:
        refused |= {(ConfigResourceType.TOPIC, topic.name): (error.code, error.message) for topic in changed.topics}
    else:
        unknown = {topic: unknown_topic(topic.name) for topic in gone}
        refused |= {
            (ConfigResourceType.TOPIC, topic.name): (error.code, error.message) for topic, error in unknown.items()
        }
    for kind, wished, write in (
        (ConfigResourceType.GROUP, changed.groups, changes.alter_groups),
        (ConfigResourceType.CLIENT_METRICS, changed.client_metrics, changes.alter_client_metrics),
    ):
        try:
            if wished:
                await write(wished)
        except KafkaError as error:
            refused |= {(kind, name): (error.code, error.message) for name in wished}
    return refused


async def _alter_one(
    ctx: Context,
    wanted: ResourceConfigChange,
    time_slice: TimeSlice,
    changed: Changed,
    *,
    validate_only: bool,
    replace: bool,
) -> None:
    """Change a broker's configs or loggers; for another resource, check its new configs and note them if they differ."""
    match wanted.kind:
        case ConfigResourceType.TOPIC:
            topic, present, configs = _changed_topic(ctx, wanted, replace=replace)
            if not validate_only and configs != present:
                changed.topics[topic] = configs
        case ConfigResourceType.BROKER:
            await _alter_broker(
                ctx, wanted, time_slice, changed.addresses, validate_only=validate_only, replace=replace
            )
        case ConfigResourceType.GROUP:
            present, configs = changed_group(ctx, wanted.name, wanted.changes, changed.groups, replace=replace)
            if not validate_only and configs != present:
                changed.groups[wanted.name] = configs
        case ConfigResourceType.CLIENT_METRICS:
            present, configs = changed_client_metrics(
                ctx, wanted.name, wanted.changes, changed.client_metrics, replace=replace
            )
            if not validate_only and configs != present:
                changed.client_metrics[wanted.name] = configs
        case ConfigResourceType.BROKER_LOGGER if not replace:
            alter_loggers(ctx, wanted.name, wanted.changes, validate_only=validate_only)
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {wanted.kind}")


def _changed_topic(
    ctx: Context, wanted: ResourceConfigChange, *, replace: bool
) -> tuple[Topic, Mapping[str, str], Mapping[str, str]]:
    """Return the topic, its present overrides, and the new ones."""
    services = ctx.services
    if not wanted.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_name(wanted.name)
    topic = services.topics.get(wanted.name)
    if topic is None:
        raise unknown_topic(wanted.name)
    present = services.cluster.topic_configs(wanted.name)
    return topic, present, alter_topic(services.config.current, {} if replace else present, wanted.changes, wanted.name)


def _node_id(ctx: Context, name: str) -> int:
    """Return the id of the node that `name` means: only the one that received the request. A controller accepts any node, and
    controllers.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    if ctx.listener.controller_id is None:
        check_is_this_node(ctx, name)
        return ctx.node.node_id
    node_ids = [*ctx.services.config.static.node_ids, *_controllers(ctx)]
    found = next((node_id for node_id in node_ids if str(node_id) == name), None)
    if found is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node {name} not found")
    return found


def _controllers(ctx: Context) -> Iterator[int]:
    """Yield the ids of controllers that are not nodes: their configs are stored and shown, but have no effect here."""
    for listener in ctx.services.config.static.controllers:
        if listener.controller_id is not None:
            yield listener.controller_id


async def _alter_broker(
    ctx: Context,
    wanted: ResourceConfigChange,
    time_slice: TimeSlice,
    addresses: Mapping[str, str | None],
    *,
    validate_only: bool,
    replace: bool,
) -> None:
    services = ctx.services
    level, node_ids = ConfigSource.DYNAMIC_DEFAULT_BROKER, [node.node_id for node in services.cluster.nodes]
    if wanted.name:
        level, node_ids = ConfigSource.DYNAMIC_BROKER, [_node_id(ctx, wanted.name)]
    present: Texts = {}
    configs: dict[str, str] = {}
    names = [change.name for change in wanted.changes]
    changed_nodes: dict[int, BrokerConfig] = {}
    limited_nodes: list[BrokerConfig] = []
    for node_id in node_ids:  # a value for all nodes must suit each node's own values
        # No other config change runs now; to read long values takes some milliseconds, each time.
        if time_slice.is_over():
            await time_slice.next()
        config = services.config.node_config(node_id)
        if time_slice.is_over():
            await time_slice.next()
        present = config.texts_of(level)
        configs = alter_broker(config, level, {} if replace else present, wanted.changes)
        if services.config.has_eligible_replicas:
            check_min_isr(level, names, configs)
        if services.listener_keys.concerns((*names, *present)):
            if node_id in _controllers(ctx):
                told = f"Controller {node_id} uses the TLS options of node {ctx.node.node_id}: change them there"
                raise KafkaError(ErrorCode.INVALID_REQUEST, told)
            changed_nodes[node_id] = with_layer(config, level, configs)
        if OVERRIDES in names or configs.get(OVERRIDES) != present.get(OVERRIDES):
            limited_nodes.append(with_layer(config, level, configs))
    if limited_nodes:
        await services.connection_limits.look_up(limited_nodes, addresses)
    keys: Prepared = ()
    if changed_nodes:
        is_asked_for = services.listener_keys.concerns(names)
        keys = await services.listener_keys.prepared(changed_nodes, anew=is_asked_for)
    if validate_only:
        return
    if configs != present:
        changed = {name: text for name, text in configs.items() if present.get(name) != text}
        for line in warnings_of(changed):
            _WITHOUT_EFFECT.log(logging.WARNING, "%s", line)
        is_of_controller = any(node_id in _controllers(ctx) for node_id in node_ids)
        if level is ConfigSource.DYNAMIC_BROKER and not is_of_controller:
            for line in shared_warnings(changed, node_ids[0], services.config.static.node_ids[0]):
                _WITHOUT_EFFECT.log(logging.WARNING, "%s", line)
        if is_of_controller:
            _WITHOUT_EFFECT.log(
                logging.WARNING, "options of controller %s are stored and shown, but have no effect", wanted.name
            )
        await services.config_changes.alter_broker(wanted.name, configs)
    services.listener_keys.take(keys)
