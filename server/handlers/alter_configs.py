"""AlterConfigs, API key 33, versions 0-2, and what it shares with IncrementalAlterConfigs.

Behaviour
- All overrides of a topic, or all dynamic configs of the node or (empty name) of all nodes, are replaced.
- A request that names more than CHANGES_MAX configs is refused whole (POLICY_VIOLATION).
- Checked as a whole first; a refused resource keeps what it had, the others of the request succeed. Changes hold at
  once, for open logs too.

Differs from Apache Kafka
- Configs of groups, client metrics and broker loggers cannot be set: INVALID_REQUEST.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..config import ConfigSource, Texts, warnings_of
from ..config_changes import Change, alter_broker, alter_topic
from ..config_resources import ResourceType
from ..connection import Context
from ..turns import Turn
from .describe_configs import check_is_this_node

if TYPE_CHECKING:
    from ...protocol.messages.incremental_alter_configs import AlterConfigsResource as AlterableResource

log = logging.getLogger("ottla.configs")


class Wish(NamedTuple):
    """What a request wants of one resource."""

    kind: int
    name: str
    changes: tuple[Change, ...]


class Outcome(NamedTuple):
    """The answer to one wish."""

    kind: int
    name: str
    code: ErrorCode
    message: str | None


CHANGES_MAX = 10_000
"""Apache Kafka's controller writes no more records for one request."""

Sought = TypeVar("Sought", AlterConfigsResource, "AlterableResource")


async def handle(ctx: Context, request: Request) -> AlterConfigsResponse:
    body: AlterConfigsRequest = request.body
    outcomes = await alter(ctx, body.resources, _wish, validate_only=body.validate_only, replace=True)
    return AlterConfigsResponse(
        responses=tuple(
            await Turn().map(
                lambda outcome: AlterConfigsResourceResponse(
                    error_code=outcome.code,
                    error_message=outcome.message,
                    resource_type=outcome.kind,
                    resource_name=outcome.name,
                ),
                outcomes,
            )
        )
    )


def _wish(resource: AlterConfigsResource) -> Wish:
    return Wish(
        resource.resource_type,
        resource.resource_name,
        tuple(Change(config.name, config.value) for config in resource.configs),
    )


async def alter(
    ctx: Context,
    resources: Iterable[Sought],
    wish_of: Callable[[Sought], Wish],
    *,
    validate_only: bool,
    replace: bool,
) -> list[Outcome]:
    """Fulfil what is wished of each resource or say why not; with `replace`, what a wish does not name is unset."""
    turn = Turn()
    stands: dict[tuple[int, str], int] = {}
    changes_left = CHANGES_MAX
    for resource in resources:
        if turn.is_over():
            await turn.next()
        key = resource.resource_type, resource.resource_name
        stands[key] = stands.get(key, 0) + 1
        changes_left -= len(resource.configs)
    outcomes = []
    for resource in resources:
        if turn.is_over():
            await turn.next()
        code, message = ErrorCode.NONE, None
        kind, name = resource.resource_type, resource.resource_name
        try:
            if changes_left < 0:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"{CHANGES_MAX - changes_left} configs in one request; at most {CHANGES_MAX} are allowed.",
                )
            if stands[kind, name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            async with ctx.broker.config_lock:  # from reading the present configs to writing the new ones
                await _alter_one(ctx, wish_of(resource), turn, validate_only=validate_only, replace=replace)
        except KafkaError as error:
            code, message = error.code, error.message
        outcomes.append(Outcome(kind, name, code, message))
    return outcomes


async def _alter_one(ctx: Context, wish: Wish, turn: Turn, *, validate_only: bool, replace: bool) -> None:
    match wish.kind:
        case ResourceType.TOPIC:
            await _alter_topic(ctx, wish, validate_only=validate_only, replace=replace)
        case ResourceType.BROKER:
            await _alter_broker(ctx, wish, turn, validate_only=validate_only, replace=replace)
        case ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            kind = ResourceType(wish.kind).name
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ottla does not offer configs of resource type {kind}")
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {wish.kind}")


async def _alter_topic(ctx: Context, wish: Wish, *, validate_only: bool, replace: bool) -> None:
    broker = ctx.broker
    if not wish.name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    broker.admin.check_name(wish.name)
    present = broker.topic_configs(wish.name)
    configs = alter_topic(broker.config, {} if replace else present, wish.changes)
    if not validate_only and configs != present:
        await broker.alter_topic_configs(wish.name, configs)


async def _alter_broker(ctx: Context, wish: Wish, turn: Turn, *, validate_only: bool, replace: bool) -> None:
    broker = ctx.broker
    level, node_ids = ConfigSource.DYNAMIC_DEFAULT_BROKER, [node.node_id for node in broker.nodes]
    if wish.name:
        check_is_this_node(ctx, wish.name)
        level, node_ids = ConfigSource.DYNAMIC_BROKER, [ctx.node.node_id]
    present: Texts = {}
    configs: dict[str, str] = {}
    for node_id in node_ids:  # what holds for all nodes must suit each node's own values
        # Nobody else changes configs meanwhile; to read long ones takes some milliseconds, each time.
        if turn.is_over():
            await turn.next()
        config = broker.config_of(node_id)
        if turn.is_over():
            await turn.next()
        present = config.texts_of(level)
        configs = alter_broker(config, level, {} if replace else present, wish.changes)
    if not validate_only and configs != present:
        for line in warnings_of({name: text for name, text in configs.items() if present.get(name) != text}):
            log.warning("%s", line)
        await broker.alter_broker_configs(wish.name, configs)
