"""UpdateFeatures, API key 57, versions 0-2 (KIP-584, KIP-778).

Behaviour
- All updates of a request are made or none: the first refused one is reported, with INVALID_UPDATE_VERSION, as in Kafka, not
  FEATURE_UPDATE_FAILED.
- Levels are written to the catalog before clients see them, and take effect at once, with a higher epoch.
"""

from __future__ import annotations

from ...protocol.connection import Request
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..config.features import UpgradeType, refusal
from ..runtime.time_slices import TimeSlice
from ..services.context import Context

RESULTS_SINCE_TYPES = 1
"""First version whose requests have the type of an update; before, only whether a downgrade is allowed."""


async def handle(ctx: Context, request: Request) -> UpdateFeaturesResponse:
    body: UpdateFeaturesRequest = request.body
    time_slice, config, cluster = TimeSlice(), ctx.services.config, ctx.services.cluster
    levels: dict[str, int] = {}
    async with cluster.change_lock:
        async for update in time_slice.each(body.feature_updates):
            kind = update.upgrade_type
            if request.version < RESULTS_SINCE_TYPES and update.allow_downgrade:
                kind = UpgradeType.SAFE_DOWNGRADE
            name, level = update.feature, update.max_version_level
            if (reason := refusal(config.features, cluster.quorum_leader(), name, level, kind)) is not None:
                return UpdateFeaturesResponse(
                    error_code=ErrorCode.INVALID_UPDATE_VERSION,
                    error_message=_shortened(
                        f"The update failed for all features since the following feature had an error: {reason}"
                    ),
                )
            levels[name] = level
        changed = {name: level for name, level in levels.items() if config.features[name].level != level}
        if changed and not body.validate_only:
            try:
                await ctx.services.config_changes.finalize_features(changed)
            except KafkaError as error:
                return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    return UpdateFeaturesResponse(
        error_message=None,
        results=tuple(UpdatableFeatureResult(feature=name, error_message=ErrorCode.NONE.name) for name in levels),
    )


def _shortened(message: str) -> str:
    """Limit a message to the length of any error message: it contains a name from the client."""
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message).message
