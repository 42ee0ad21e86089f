"""Heartbeat (key 12, versions 0–4): a member of a classic group is alive.

3 adds static members (KIP-345), 4 flexible encoding.
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Int16, Int32, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: Annotated[String | None, since(3)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
