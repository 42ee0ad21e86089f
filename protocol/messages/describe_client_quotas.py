"""DescribeClientQuotas (key 48, versions 0–1): the quotas of entities that a filter matches (KIP-546).

1 adds flexible encoding. A component matches a type by an exact name (0), the default name (1) or any name (2).
"""

from dataclasses import dataclass

from ..wire import Bool, Float64, Int8, Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentData:
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    components: tuple[ComponentData, ...] = ()
    strict: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityData:
    entity_type: String = ""
    entity_name: String | None = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueData:
    key: String = ""
    value: Float64 = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryData:
    entity: tuple[EntityData, ...] = ()
    values: tuple[ValueData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: tuple[EntryData, ...] | None = ()
