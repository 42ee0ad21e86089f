"""DescribeConfigs (key 32, versions 1–4): configs of topics, brokers and groups with their sources (KIP-226).

3 adds types and documentation (KIP-569), 4 flexible encoding.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Int8, Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResource:
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: tuple[String, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest:
    resources: tuple[DescribeConfigsResource, ...] = ()
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, since(3)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsSynonym:
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: tuple[DescribeConfigsSynonym, ...] = ()
    config_type: Annotated[Int8, since(3)] = 0
    documentation: Annotated[String | None, since(3)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResult:
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: tuple[DescribeConfigsResourceResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[DescribeConfigsResult, ...] = ()
