"""The issuer of OAUTHBEARER tokens: its keys, the key set that brokers read (RFC 7517), and tokens with any content.

Tokens have real times: both brokers compare them with the clock of the machine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from .key_server import KeyServer

ISSUER, AUDIENCE = "https://issuer.test", "ottla"
LIFETIME_S = 3600
PACKAGE = "org.apache.kafka.common.security.oauthbearer."
VALIDATOR = f"{PACKAGE}OAuthBearerValidatorCallbackHandler"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed"
"""Java's properties of the system by which Apache Kafka fetches keys: ALLOWED.files and ALLOWED.urls."""
CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
"""Algorithms with a key of their own each; whatever begins with RS or PS is signed by the RSA key."""
RSA_KEY, OTHER_KEY, ED_KEY = "rsa", "other", "ed"
PUBLISHED = (RSA_KEY, *CURVES, ED_KEY)


class Issuer:
    """Keys of its own. With a directory, the file `jwks_path` there has the public ones.

    Each key's id is its name: `rsa`, an algorithm of CURVES, `ed`, and `other`, an RSA key that is not published.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.keys: dict[str, Any] = {
            RSA_KEY: _rsa(),
            OTHER_KEY: _rsa(),
            ED_KEY: ed25519.Ed25519PrivateKey.generate(),
            **{name: ec.generate_private_key(curve()) for name, curve in CURVES.items()},
        }
        if directory is not None:
            self.jwks_path = directory / "jwks.json"
            self.publish()

    def publish(self, *names: str) -> None:
        """Write the file with the keys of these names, or PUBLISHED."""
        self.jwks_path.write_text(self.jwks(*names))

    def broker_options(self, listener: str) -> dict[str, str]:
        """Return the options with which either broker accepts these tokens at a listener, with keys from the file."""
        return {
            f"listener.name.{listener.lower()}.{name}": value
            for name, value in {
                "oauthbearer.sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required;",
                "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
                "sasl.oauthbearer.jwks.endpoint.url": self.jwks_path.as_uri(),
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
            }.items()
        }

    @contextmanager
    def served(self) -> Iterator[KeyServer]:
        """Serve the same keys on the loopback address."""
        with KeyServer(lambda: (200, self.jwks())) as server:
            yield server

    def jwks(self, *names: str) -> str:
        """Return the set of public keys of these names, or PUBLISHED."""
        return json.dumps({"keys": [self.public_row(name) for name in names or PUBLISHED]})

    def public_row(self, name: str) -> dict[str, Any]:
        """Return a public key as one of a set."""
        key = self.keys[name]
        kind: Any = jwt.algorithms.OKPAlgorithm
        if isinstance(key, rsa.RSAPrivateKey):
            kind = jwt.algorithms.RSAAlgorithm
        elif isinstance(key, ec.EllipticCurvePrivateKey):
            kind = jwt.algorithms.ECAlgorithm
        row: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))
        return row | {"kid": name, "use": "sig"}

    def token(self, subject: str, *, lives_s: int = LIFETIME_S, issued_s_ago: int = 0, **claims: Any) -> str:
        """Return a valid token, unless times or claims make it invalid; a claim that is None is left out."""
        said = good_claims(subject, lives_s, issued_s_ago) | claims
        return self.signed({"alg": "RS256", "kid": RSA_KEY}, said, RSA_KEY)

    def stranger_token(self, subject: str) -> str:
        """Return a token signed by a key that is not published, under the id of one that is."""
        return self.signed({"alg": "RS256", "kid": RSA_KEY}, good_claims(subject), OTHER_KEY)

    def signed(self, header: Mapping[str, Any], claims: Mapping[str, Any] | str, key: str) -> str:
        """Return a token with exactly this header and these claims, signed by a key.

        Claims that are None are left out; a text is used unchanged. Algorithm `none` has no signature. HS256's shared key is
        the public RSA key as text, as an attacker without the private key would have it.
        """
        algorithm = header["alg"]
        text = f"{_part(header)}.{_part(claims)}"
        if algorithm == "none":
            return f"{text}."
        if algorithm == "HS256":
            public = self.keys[key].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            signature = hmac.digest(public, text.encode(), hashlib.sha256)
        else:
            signature = jwt.algorithms.get_default_algorithms()[algorithm].sign(text.encode(), self.keys[key])
        return f"{text}.{_base64(signature)}"


def good_claims(subject: str, lives_s: int = LIFETIME_S, issued_s_ago: int = 0) -> dict[str, Any]:
    """Return the claims of a token issued `issued_s_ago` and valid for `lives_s`."""
    issued_s = int(time.time()) - issued_s_ago
    return {
        "sub": subject,
        "iss": ISSUER,
        "aud": AUDIENCE,
        "iat": issued_s,
        "exp": issued_s + lives_s,
        "scope": "produce consume",
    }


def unsigned(subject: str, **claims: Any) -> str:
    """Return an unsigned token; a claim that is None is left out."""
    return f"{_part({'alg': 'none'})}.{_part(good_claims(subject) | claims)}."


def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _part(content: Mapping[str, Any] | str) -> str:
    if not isinstance(content, str):
        content = json.dumps({name: value for name, value in content.items() if value is not None})
    return _base64(content.encode())


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
