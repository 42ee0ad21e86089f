"""ListConfigResources, API key 74, versions 0-1 (KIP-1142).

Behaviour
- Lists topics, nodes and their loggers, and the groups and client metrics subscriptions with configs. Version 0 lists client
  metrics only. A type that does not exist is UNSUPPORTED_VERSION, as in Kafka.
"""

from __future__ import annotations

from functools import partial

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..config.resources import ConfigResourceType
from ..runtime.time_slices import TimeSlice
from ..services.context import Context

ALL_TYPES = 1


async def handle(ctx: Context, request: Request) -> ListConfigResourcesResponse:
    body: ListConfigResourcesRequest = request.body
    time_slice = TimeSlice()
    wanted = (
        set(await time_slice.distinct(body.resource_types))
        if request.version >= ALL_TYPES
        else {int(ConfigResourceType.CLIENT_METRICS)}
    )
    if not wanted <= set(ConfigResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    nodes = [str(node_id) for node_id in ctx.services.cluster.live_node_ids()]
    names = {
        ConfigResourceType.TOPIC: await time_slice.sorted([topic.name for topic in ctx.services.topics]),
        ConfigResourceType.BROKER: nodes,
        ConfigResourceType.BROKER_LOGGER: nodes,
        ConfigResourceType.CLIENT_METRICS: ctx.services.config.client_metrics_names(),
        ConfigResourceType.GROUP: await time_slice.sorted([*ctx.services.config.groups]),
    }
    rows: list[ConfigResource] = []
    for kind, named in names.items():
        if not wanted or kind in wanted:
            rows += await time_slice.map(partial(_row, kind), named)
    return ListConfigResourcesResponse(config_resources=tuple(rows))


def _row(kind: int, name: str) -> ConfigResource:
    return ConfigResource(resource_name=name, resource_type=kind)
