"""ApiVersions, API key 18, versions 0-4.

Behaviour
- The rows are computed from the handler table, so what is served and what is advertised cannot differ.
- A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and the row of
  ApiVersions itself, so that the client can choose again (KIP-511).
- From version 3 the client's software name and version must look like names (KIP-511), else
  INVALID_REQUEST.
- A broker that plays an older release (`config/emulation`) names that release's APIs, versions and features.
- At a controller's listener, what controllers answer.
- Version 4 alone may carry features whose minimum is 0 (KAFKA-17011).
"""

from __future__ import annotations

import re
from functools import cache

from ...protocol.apis import API_VERSIONS_KEY, APIS
from ...protocol.connection import Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..config.emulation import Release
from ..services.context import Context
from . import Handlers, controller_keys

OF_METRICS = ("GetTelemetrySubscriptions", "PushTelemetry")
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(ctx: Context, request: Request) -> ApiVersionsResponse:
    is_controller = ctx.listener.controller_id is not None
    rows = api_rows(
        ctx.services.config.release,
        is_controller=is_controller,
        takes_metrics=ctx.services.telemetry.has_receiver,
        unstable=ctx.services.config.current.unstable_api_versions_enable,
    )
    if request.body is None:
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=tuple(row for row in rows if row.api_key == API_VERSIONS_KEY),
        )
    if request.version >= 3 and not (
        SOFTWARE.fullmatch(request.body.client_software_name)
        and SOFTWARE.fullmatch(request.body.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    if request.version >= 3:
        ctx.client.software = request.body.client_software_name, request.body.client_software_version
    features = ctx.services.config.features
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=rows,
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=feature.min_level, max_version=feature.max_level)
            for name, feature in features.items()
            # Clients of version 3 take a minimum of 0 for an error.
            if feature.max_level and (request.version >= 4 or feature.min_level > 0)
        ),
        finalized_features_epoch=ctx.services.config.features_epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=feature.level, min_version_level=feature.level)
            for name, feature in features.items()
            if feature.level > 0
        ),
    )


@cache
def api_rows(
    release: Release | None = None,
    *,
    is_controller: bool = False,
    takes_metrics: bool = True,
    unstable: bool = False,
) -> tuple[ApiVersion, ...]:
    """One row per API that has a handler, by key; of those that `release` has, if it is emulated, and a controller answers.

    Those by which clients push metrics are named where somebody takes them, and versions that are unstable in Apache Kafka
    where they are `unstable`, not of a release that is emulated.
    """
    rows = []
    for key in sorted(Handlers.keys_served() & controller_keys() if is_controller else Handlers.keys_served()):
        if not takes_metrics and APIS[key].name in OF_METRICS:
            continue
        versions = APIS[key].advertised if release is None else release.advertised(key)
        if versions is not None and unstable and release is None:
            versions = versions[0], APIS[key].unstable or versions[1]
        if versions is not None:
            rows.append(ApiVersion(api_key=key, min_version=versions[0], max_version=versions[1]))
    return tuple(rows)
