"""ListConfigResources (key 74, versions 0–1): the resources that have configs.

Version 0 knows client metrics only (type 16, KIP-714), 1 all types, with an empty list for "every type" (KIP-1142).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int8, Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesRequest:
    resource_types: Annotated[tuple[Int8, ...], since(1)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigResource:
    resource_name: String = ""
    resource_type: Annotated[Int8, since(1)] = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...] = ()
