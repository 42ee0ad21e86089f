"""SaslHandshake (key 17, versions 0–1): which SASL mechanism the client logs in with (KIP-43).

After version 0 the tokens of the mechanism follow as bare frames, after 1 as SaslAuthenticate requests (KIP-152).
"""

from dataclasses import dataclass

from ..wire import Int16, String


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeRequest:
    mechanism: String = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslHandshakeResponse:
    error_code: Int16 = 0
    mechanisms: tuple[String, ...] = ()
