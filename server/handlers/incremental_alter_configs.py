"""IncrementalAlterConfigs, API key 44, versions 0-1 (KIP-339).

Behaviour
- Sets, deletes, appends to and subtracts from single configs; what is not named stays. The rest is AlterConfigs'.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.messages.alter_configs import AlterConfigsResourceResponse
from ...protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..config.changes import ConfigChange
from ..runtime.time_slices import TimeSlice
from ..services.context import Context
from .alter_configs import ResourceWish, alter


async def handle(ctx: Context, request: Request) -> IncrementalAlterConfigsResponse:
    body: IncrementalAlterConfigsRequest = request.body
    outcomes = await alter(ctx, body.resources, _wish, validate_only=body.validate_only, replace=False)
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            await TimeSlice().map(
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


def _wish(resource: AlterConfigsResource) -> ResourceWish:
    return ResourceWish(
        resource.resource_type,
        resource.resource_name,
        tuple(ConfigChange(config.name, config.value, config.config_operation) for config in resource.configs),
    )
