"""AlterClientQuotas (key 49, versions 0–1): set or remove quotas of users, client ids and addresses (KIP-546).

1 adds flexible encoding. An entity name of null is the default of its type.
"""

from dataclasses import dataclass

from ..wire import Bool, Float64, Int16, Int32, String
from .describe_client_quotas import EntityData


@dataclass(frozen=True, slots=True, kw_only=True)
class OpData:
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryData:
    entity: tuple[EntityData, ...] = ()
    ops: tuple[OpData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasRequest:
    entries: tuple[EntryData, ...] = ()
    validate_only: Bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: tuple[EntityData, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: tuple[EntryResponse, ...] = ()
