"""ApiVersions (key 18, versions 0–5): the APIs and versions that this broker supports; a client's first request.

3 adds the client's name and flexible encoding (KIP-511) and features as tags (KIP-584); the response header keeps
its oldest form, as the client does not know the broker's versions yet. 4 lets a feature start at version 0
(KAFKA-17011). 5 lets the client say which cluster and node it means to reach (KIP-1242).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int16, Int32, Int64, String, since, tag


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsRequest:
    client_software_name: Annotated[String, since(3)] = ""
    client_software_version: Annotated[String, since(3)] = ""
    cluster_id: Annotated[String | None, since(5)] = None
    node_id: Annotated[Int32, since(5)] = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersion:
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportedFeatureKey:
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalizedFeatureKey:
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    supported_features: Annotated[tuple[SupportedFeatureKey, ...], since(3), tag(0)] = ()
    finalized_features_epoch: Annotated[Int64, since(3), tag(1)] = -1
    finalized_features: Annotated[tuple[FinalizedFeatureKey, ...], since(3), tag(2)] = ()
    zk_migration_ready: Annotated[Bool, since(3), tag(3)] = False
