"""DescribeDelegationToken (key 41, versions 1–3): list the delegation tokens (KIP-48).

2 adds flexible encoding, 3 the requester of a token (KIP-373).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bytes, Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDelegationTokenOwner:
    principal_type: String = ""
    principal_name: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDelegationTokenRequest:
    owners: tuple[DescribeDelegationTokenOwner, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedDelegationTokenRenewer:
    principal_type: String = ""
    principal_name: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedDelegationToken:
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, since(3)] = ""
    token_requester_principal_name: Annotated[String, since(3)] = ""
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeDelegationTokenResponse:
    error_code: Int16 = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: Int32 = 0
