"""LeaveGroup (key 13, versions 0–5): members leave a classic group.

3 takes several members and static ones (KIP-345), 4 adds flexible encoding, 5 the member's reason (KIP-800).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int16, Int32, String, since, until


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    member_id: String = ""
    group_instance_id: String | None = None
    reason: Annotated[String | None, since(5)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest:
    group_id: String = ""
    member_id: Annotated[String, until(2)] = ""
    members: Annotated[tuple[MemberIdentity, ...], since(3)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResponse:
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    members: Annotated[tuple[MemberResponse, ...], since(3)] = ()
