"""ApiVersions, API key 18, versions 0-5.

Behaviour
- The rows are computed from the handler table, so served and advertised versions cannot differ.
- An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the row of
  ApiVersions itself, so that the client can choose again (KIP-511).
- From version 3 the client's software name and version must look like names (KIP-511), else
  INVALID_REQUEST.
- From version 5 on the client may say which cluster and node it means to reach (KIP-1242): both, or INVALID_REQUEST. A node
  that is another one, or of another cluster, answers REBOOTSTRAP_REQUIRED; before a login and at a controller's listener
  neither is compared.
- A broker that emulates an older release (`config/emulation`) lists that release's APIs, versions and features.
- A controller's listener lists the APIs of controllers.
- From version 4 on the response may carry features whose minimum is 0 (KAFKA-17011).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

from ...protocol.apis import API_VERSIONS_KEY, APIS
from ...protocol.connection import CachedResponse, Request
from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..config.emulation import Release
from ..config.features import Feature
from ..services.context import Context
from . import CONTROLLER_KEYS

OF_METRICS = ("GetTelemetrySubscriptions", "PushTelemetry")
FIRST_VERSION_WITH_ZERO = 4
NO_NODE = -1
"""Node id in the request of a client that does not know which node it reaches."""
ANSWERS_KEPT = 16
"""Number of cached responses: those of a broker's listeners and versions. Each takes some kilobytes."""
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


SOFTWARE_CHARS_MAX = 255
"""Largest length of each, name and version, that is kept as long as the connection lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer(ApiVersionsResponse, CachedResponse):
    """The response to most clients: sixty rows, which take a third of the request's time to write."""

    written: dict[int, bytes] = field(init=False, repr=False, compare=False, default_factory=dict)


class Named(NamedTuple):
    """Arguments by which `api_rows` selects."""

    release: Release | None
    is_controller: bool
    takes_metrics: bool
    unstable: bool


async def handle(ctx: Context, request: Request) -> ApiVersionsResponse:
    config = ctx.services.config
    named = Named(
        config.release,
        ctx.listener.controller_id is not None,
        ctx.services.telemetry.has_receiver,
        config.current.unstable_api_versions_enable,
    )
    if request.body is None:
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=tuple(row for row in api_rows(*named) if row.api_key == API_VERSIONS_KEY),
        )
    body: ApiVersionsRequest = request.body
    name, version = body.client_software_name, body.client_software_version
    if request.version >= 3:
        if not (SOFTWARE.fullmatch(name) and SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        if (body.cluster_id is None) != (body.node_id == NO_NODE):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        ctx.client.software = name[:SOFTWARE_CHARS_MAX], version[:SOFTWARE_CHARS_MAX]
    is_meant = body.cluster_id is None or (body.cluster_id, body.node_id) == (
        ctx.services.cluster.cluster_id,
        ctx.node.node_id,
    )
    if not (is_meant or named.is_controller or ctx.client.logging_in is not None):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    shows_zero = request.version >= FIRST_VERSION_WITH_ZERO
    return _answer(named, tuple(config.features.items()), config.features_epoch, shows_zero)


@lru_cache(maxsize=ANSWERS_KEPT)
def _answer(
    named: Named, features: tuple[tuple[str, Feature], ...], features_epoch: int, shows_zero: bool
) -> KeptAnswer:
    """Make the response. It depends only on the arguments, so it is cached: the first request of every client has the same
    response."""
    return KeptAnswer(
        error_code=ErrorCode.NONE,
        api_keys=api_rows(*named),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=feature.min_level, max_version=feature.max_level)
            for name, feature in features
            # Clients of version 3 treat a minimum of 0 as an error.
            if feature.max_level and (shows_zero or feature.min_level > 0)
        ),
        finalized_features_epoch=features_epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=feature.level, min_version_level=feature.level)
            for name, feature in features
            if feature.level > 0
        ),
    )


@cache
def api_rows(
    release: Release | None = None,
    is_controller: bool = False,
    takes_metrics: bool = True,
    unstable: bool = False,
) -> tuple[ApiVersion, ...]:
    """Make one row for each API that has a handler, by key; only APIs of `release`, if it is emulated, and only those of
    controllers at their listener.

    APIs with which clients push metrics are listed if there is a receiver. Versions that are unstable in Apache Kafka are
    listed if `unstable`, but not for an emulated release.
    """
    rows = []
    for key in sorted(CONTROLLER_KEYS if is_controller else APIS):
        if not takes_metrics and APIS[key].name in OF_METRICS:
            continue
        versions = APIS[key].advertised if release is None else release.advertised(key)
        if versions is not None and unstable and release is None:
            versions = versions[0], APIS[key].unstable or versions[1]
        if versions is not None:
            rows.append(ApiVersion(api_key=key, min_version=versions[0], max_version=versions[1]))
    return tuple(rows)
