"""UnregisterController, API key 94, version 0.

Behaviour
- The leading controller is INVALID_REQUEST, an unknown id CONTROLLER_ID_NOT_REGISTERED.
- Any other controller remains listed: one that runs would register again at once, as in Apache Kafka, and Ottla lists only
  those that run.
- UNSUPPORTED_VERSION while metadata.version is below 33 (4.4-IV2).
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from ..config.features import METADATA_VERSION
from ..services.context import Context

_FIRST_METADATA_VERSION = 33


async def handle(ctx: Context, request: Request) -> UnregisterControllerResponse:
    body: UnregisterControllerRequest = request.body
    cluster, controller_id = ctx.services.cluster, body.controller_id
    if controller_id == cluster.quorum_leader():
        return UnregisterControllerResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Controller cannot unregister itself while it is active.",
        )
    if ctx.services.config.feature_level(METADATA_VERSION) < _FIRST_METADATA_VERSION:
        return UnregisterControllerResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message="The current MetadataVersion is too old to support controller unregistration.",
        )
    known = {listener.controller_id for node in cluster.nodes for listener in node.listeners}
    if controller_id not in known:
        return UnregisterControllerResponse(
            error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            error_message=f"Controller ID {controller_id} is not currently registered.",
        )
    return UnregisterControllerResponse()
