"""DescribeGroups (key 15, versions 0–6): state and members of classic groups.

3 adds authorized operations (KIP-430), 4 static members (KIP-345), 5 flexible encoding, 6 GROUP_ID_NOT_FOUND with a
message for a group that does not exist (KIP-1043).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Bytes, Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest:
    groups: tuple[String, ...] = ()
    include_authorized_operations: Annotated[Bool, since(3)] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroupMember:
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    error_code: Int16 = 0
    error_message: Annotated[String | None, since(6)] = None
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, since(3)] = -0x80000000


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    groups: tuple[DescribedGroup, ...] = ()
