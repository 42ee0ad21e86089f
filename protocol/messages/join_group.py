"""JoinGroup (key 11, versions 0–9): become a member of a classic consumer group.

1 adds a rebalance timeout of its own (KIP-62), 4 the second request with the given member id (KIP-394), 5 static
members (KIP-345), 6 flexible encoding, 7 the protocol type in the response (KIP-559), 8 the member's reason (KIP-800),
9 lets the leader skip the assignment (KIP-814).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bool, Bytes, Int16, Int32, String, nullable_since, since


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    name: String = ""
    metadata: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, since(1)] = -1
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(5)] = None
    protocol_type: String = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[String | None, since(8)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponseMember:
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(5)] = None
    metadata: Bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    throttle_time_ms: Annotated[Int32, since(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[String | None, since(7)] = None
    protocol_name: Annotated[String | None, nullable_since(7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, since(9)] = False
    member_id: String = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
