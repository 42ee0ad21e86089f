"""IncrementalAlterConfigs (key 44, versions 0–1): set (0), delete (1), append to (2) or subtract from (3) single configs
(KIP-339).

1 adds flexible encoding.
"""

from dataclasses import dataclass

from ..wire import Bool, Int8, Int32, String
from .alter_configs import AlterConfigsResourceResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterableConfig:
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[AlterableConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...] = ()
    validate_only: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...] = ()
