"""Who vouches for clients of OAUTHBEARER in tests: made for one broker, and forgotten with it."""

from __future__ import annotations

import itertools
import json

from ....storage.topics.options import ConfigError

ISSUER = "ottla"
_KEY_ID = "1"


class Issuer:
    """A key pair, and tokens that it has signed.

    Raises:
        ConfigError: What makes signatures is not installed.
    """

    def __init__(self) -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
        except ImportError:
            raise ConfigError("mechanism OAUTHBEARER needs PyJWT: pip install 'ottla[oauth]'") from None
        self._encode = jwt.encode
        self._key = generate_private_key(SECP256R1())
        self._numbers = itertools.count(1)
        row = jwt.algorithms.ECAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        self.jwks = json.dumps({"keys": [{**row, "kid": _KEY_ID, "use": "sig"}]})
        """The public key, as `sasl.oauthbearer.jwks.endpoint.url` wants it."""

    def token(self, user: str, now_ms: int, lifetime_s: float, scope: str) -> str:
        """One that names this user, from now on and for so long; less than nothing: it has expired."""
        now_s = now_ms / 1000
        claims = {
            "iss": ISSUER,
            "sub": user,
            "iat": min(now_s, now_s + lifetime_s),
            "exp": now_s + lifetime_s,
            "jti": str(next(self._numbers)),
        }
        return str(
            self._encode(claims | ({"scope": scope} if scope else {}), self._key, "ES256", headers={"kid": _KEY_ID})
        )
