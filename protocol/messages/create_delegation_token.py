"""CreateDelegationToken (key 38, versions 1–3): a token that logs in in its owner's stead (KIP-48).

2 adds flexible encoding, 3 tokens for another owner than who asks (KIP-373).
"""

from dataclasses import dataclass
from typing import Annotated

from ..wire import Bytes, Int16, Int32, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableRenewers:
    principal_type: String = ""
    principal_name: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenRequest:
    owner_principal_type: Annotated[String | None, since(3)] = ""
    owner_principal_name: Annotated[String | None, since(3)] = ""
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenResponse:
    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: Annotated[String, since(3)] = ""
    token_requester_principal_name: Annotated[String, since(3)] = ""
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
