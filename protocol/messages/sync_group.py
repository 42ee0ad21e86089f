"""SyncGroup (key 14, versions 0–5): the leader hands in the assignment, every member receives its part.

3 adds static members (KIP-345), 4 flexible encoding, 5 protocol type and name as a cross-check (KIP-559).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bytes, Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    member_id: String = ""
    assignment: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(3)] = None
    protocol_type: Annotated[String | None, since(5)] = None
    protocol_name: Annotated[String | None, since(5)] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[String | None, since(5)] = None
    protocol_name: Annotated[String | None, since(5)] = None
    assignment: Bytes = b""
