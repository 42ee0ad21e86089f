"""StreamsGroupTopologyDescriptionUpdate, API key 93, version 0 (KIP-1331).

Behaviour
- A member describes the topology of its group, after an answer to a heartbeat has asked it to (`groups.streams.description`).
- UNSUPPORTED_VERSION while `group.streams.topology.description.plugin.class` is not set: no description is stored, and no member is
  asked for one.
- Without streams groups UNSUPPORTED_VERSION as in StreamsGroupHeartbeat; without READ on the group GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ..coordination.jobs import Steps
from ..groups.coordinator import GroupCoordinator
from ..groups.shard import GroupShard
from ..groups.streams.description import check_update
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .coordinating import CoordinatorCall
from .permissions import check_without_words

_NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def handle(ctx: Context, request: Request) -> Any:
    body: StreamsGroupTopologyDescriptionUpdateRequest = request.body
    groups = ctx.services.coordinators.groups
    try:
        groups.check_streams_protocol()
        check_without_words(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
    except KafkaError as error:
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error.code)
    if not groups.keeps_topology_descriptions:
        return _refused(KafkaError(ErrorCode.UNSUPPORTED_VERSION, _NO_PLUGIN))
    work = partial(_describe, groups.coordinator, body, ctx.services.clock.now_ms)
    try:
        check_update(body)
    except KafkaError as error:
        return _refused(error)
    return CoordinatorCall(ctx, groups, body.group_id, work, _refused).run()


def _describe(
    coordinator: GroupCoordinator,
    body: StreamsGroupTopologyDescriptionUpdateRequest,
    now_ms: Callable[[], int],
    shard: GroupShard,
) -> Steps[StreamsGroupTopologyDescriptionUpdateResponse]:
    yield from coordinator.describe_streams_topology(shard, body, now_ms)
    return StreamsGroupTopologyDescriptionUpdateResponse()


def _refused(error: KafkaError) -> StreamsGroupTopologyDescriptionUpdateResponse:
    return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error.code, error_message=error.message or None)
