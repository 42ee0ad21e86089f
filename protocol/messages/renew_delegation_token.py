"""RenewDelegationToken (key 39, versions 1–2): put off the expiry of a delegation token (KIP-48).

2 adds flexible encoding.
"""

from dataclasses import dataclass

from ..wire import Bytes, Int16, Int32, Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenRequest:
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
