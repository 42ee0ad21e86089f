"""AlterConfigs (key 33, versions 0–2): replace all configs of a resource (KIP-133); IncrementalAlterConfigs superseded it.

2 adds flexible encoding.
"""

from dataclasses import dataclass

from ..wire import Bool, Int8, Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    name: String = ""
    value: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[AlterableConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
