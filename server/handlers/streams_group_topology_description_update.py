"""StreamsGroupTopologyDescriptionUpdate, API key 93, version 0 (KIP-1331).

Behaviour
- UNSUPPORTED_VERSION: no plug-in stores descriptions, and no member is asked for one
  (`topology_description_required` of StreamsGroupHeartbeat).
- Without streams groups UNSUPPORTED_VERSION as in StreamsGroupHeartbeat; without READ on the group GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from ..security.acls.kinds import AclOperation, ResourceType
from ..services.context import Context
from .permissions import check_without_words

_NO_PLUGIN = "The broker has no streams group topology description plugin configured."


async def handle(ctx: Context, request: Request) -> StreamsGroupTopologyDescriptionUpdateResponse:
    body: StreamsGroupTopologyDescriptionUpdateRequest = request.body
    try:
        ctx.services.coordinators.groups.check_streams_protocol()
        check_without_words(ctx, AclOperation.READ, ResourceType.GROUP, body.group_id)
    except KafkaError as error:
        return StreamsGroupTopologyDescriptionUpdateResponse(error_code=error.code)
    return StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_NO_PLUGIN
    )
