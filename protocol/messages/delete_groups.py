"""DeleteGroups (key 42, versions 0–3): remove empty consumer groups with their offsets (KIP-229).

2 adds flexible encoding, 3 an error message for each group.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest:
    groups_names: tuple[String, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult:
    group_id: String = ""
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(3)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[DeletableGroupResult, ...] = ()
