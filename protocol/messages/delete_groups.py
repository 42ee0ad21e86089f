"""DeleteGroups (key 42, versions 0–2): remove empty consumer groups with their offsets (KIP-229).

2 adds flexible encoding.
"""

from dataclasses import dataclass

from ..wire import Int16, Int32, String


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest:
    groups_names: tuple[String, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult:
    group_id: String = ""
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()
