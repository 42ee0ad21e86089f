"""IncrementalAlterConfigs, API key 44, versions 0-1 (KIP-339).

Behaviour
- Sets, deletes, appends to and subtracts from single configs; other configs do not change. The rest is shared with
  AlterConfigs.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..config.changes import ConfigChange
from ..services.context import Context
from .alter_configs import alter


async def handle(ctx: Context, request: Request) -> IncrementalAlterConfigsResponse:
    body: IncrementalAlterConfigsRequest = request.body
    answers = await alter(ctx, body.resources, _change_of, validate_only=body.validate_only, replace=False)
    return IncrementalAlterConfigsResponse(responses=tuple(answers))


def _change_of(config: AlterableConfig) -> ConfigChange:
    return ConfigChange(config.name, config.value, config.config_operation)
