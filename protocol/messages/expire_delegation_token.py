"""ExpireDelegationToken (key 40, versions 1–2): let a delegation token expire earlier, or at once (KIP-48).

2 adds flexible encoding.
"""

from dataclasses import dataclass

from ..wire import Bytes, Int16, Int32, Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenRequest:
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
