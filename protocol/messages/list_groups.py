"""ListGroups (key 16, versions 0–5): the groups that this broker coordinates.

3 adds flexible encoding, 4 group states and a filter by them (KIP-518), 5 group types and a filter by them (KIP-848).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    states_filter: Annotated[tuple[String, ...], since(4)] = ()
    types_filter: Annotated[tuple[String, ...], since(5)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    group_id: String = ""
    protocol_type: String = ""
    group_state: Annotated[String, since(4)] = ""
    group_type: Annotated[String, since(5)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()
