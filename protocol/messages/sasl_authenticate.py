"""SaslAuthenticate (key 36, versions 0–2): one token of a SASL mechanism, and the broker's answer to it (KIP-152).

1 tells how long the session lasts (KIP-368), 2 adds flexible encoding.
"""

from dataclasses import dataclass, field
from typing import Annotated

from ..wire import Bytes, Int16, Int64, String, since


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateRequest:
    auth_bytes: Bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = field(default=b"", repr=False)
    session_lifetime_ms: Annotated[Int64, since(1)] = 0
