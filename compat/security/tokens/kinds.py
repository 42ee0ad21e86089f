"""Tokens of every kind, good and bad, and first messages of clients for each listener.

A claim that is None is left out. Times are relative to the moment of the request.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from ..issuer import CURVES, ED_KEY, ISSUER, OTHER_KEY, RSA_KEY, Issuer, good_claims, unsigned

Made: TypeAlias = Callable[[Issuer], str]
USER = "alice"
SCOPES = ["produce", "consume"]


def _claims(**changed: Any) -> Made:
    return lambda issuer: issuer.token(USER, **changed)


def _at(**after_s: float) -> Made:
    """Make a token with times relative to now, in seconds."""
    return lambda issuer: issuer.token(USER, **_later(after_s))


def _later(after_s: dict[str, float]) -> dict[str, Any]:
    return {name: int(time.time()) + s for name, s in after_s.items()}


def _signed(algorithm: str, key: str, kid: str | None, **header: Any) -> Made:
    head = {"alg": algorithm, "kid": kid, **header}
    return lambda issuer: issuer.signed(head, good_claims(USER), key)


def _text(claims: str, **header: Any) -> Made:
    """Make a token whose claims are this text."""
    head = {"alg": "RS256", "kid": RSA_KEY, **header}
    return lambda issuer: issuer.signed(head, claims.replace("NOW", str(int(time.time()))), RSA_KEY)


def _changed(change: Callable[[str], str]) -> Made:
    return lambda issuer: change(issuer.token(USER))


def _embedded(issuer: Issuer) -> str:
    head = {"alg": "RS256", "jwk": issuer.public_row(OTHER_KEY)}
    return issuer.signed(head, good_claims(USER), OTHER_KEY)


SIGNED: dict[str, Made] = {
    "good": _claims(),
    **{f"by {name}": _signed(name, RSA_KEY, RSA_KEY) for name in ("RS384", "RS512", "PS256", "PS384", "PS512")},
    **{f"by {name}": _signed(name, name, name) for name in CURVES},
    "by EdDSA": _signed("EdDSA", ED_KEY, ED_KEY),
    "algorithm none": lambda _: unsigned(USER),
    "algorithm none, with the id of a key": _signed("none", RSA_KEY, RSA_KEY),
    "by the public key as a shared one": _signed("HS256", RSA_KEY, RSA_KEY),
    "by another key": _signed("RS256", OTHER_KEY, RSA_KEY),
    "by an unknown key": _signed("RS256", OTHER_KEY, OTHER_KEY),
    "by a key that is among its own words": _embedded,
    "by a key of another kind": _signed("RS256", RSA_KEY, "ES256"),
    "without the id of a key": _signed("RS256", RSA_KEY, None),
    "ES256 without the id of a key": _signed("ES256", "ES256", None),
    "with the id of a key of 2000 characters": _signed("RS256", RSA_KEY, "x" * 2000),
    "type JWT": _signed("RS256", RSA_KEY, RSA_KEY, typ="JWT"),
    "type at+jwt": _signed("RS256", RSA_KEY, RSA_KEY, typ="at+jwt"),
    "with an extension that must be understood": _signed("RS256", RSA_KEY, RSA_KEY, crit=["exp"], exp=1),
    "with an unencoded payload": _signed("RS256", RSA_KEY, RSA_KEY, crit=["b64"], b64=False),
    "expired": _at(iat=-7200, exp=-3600),
    "expired within the skew of clocks": _at(iat=-7200, exp=-20),
    "expired just without it": _at(iat=-7200, exp=-32),
    "not yet valid": _at(nbf=600),
    "not yet valid within the skew of clocks": _at(nbf=20),
    "valid from now on": _at(nbf=-1),
    "issued in the future": _at(iat=600),
    "issued after its end": _at(iat=7200),
    "without an end": _claims(exp=None),
    "without a time of issue": _claims(iat=None),
    "an end that is a text": _claims(exp="soon"),
    "an end that is a number in a text": _text(
        '{"sub":"alice","iss":"https://issuer.test","aud":"ottla","iat":NOW,"exp":"99999999999"}'
    ),
    "an end with a fraction": _at(exp=600.5),
    "an end that is negative": _claims(exp=-1),
    "an end far away": _claims(exp=253402300799),
    "an end beyond all": _claims(exp=10**30),
    "a beginning that is a text": _claims(nbf="soon"),
    "issued at a text": _claims(iat="soon"),
    "issued at a number below zero": _claims(iat=-1),
    "without a subject": _claims(sub=None),
    "an empty subject": _claims(sub=""),
    "a blank subject": _claims(sub="  "),
    "a subject within blanks": _claims(sub=" alice "),
    "a subject that is a number": _claims(sub=7),
    "a subject that is a list": _claims(sub=["alice"]),
    "a subject beyond ASCII": _claims(sub="ålice"),
    "another issuer": _claims(iss="https://elsewhere.example"),
    "an issuer with a slash behind": _claims(iss=f"{ISSUER}/"),
    "without an issuer": _claims(iss=None),
    "an issuer that is a number": _claims(iss=5),
    "another audience": _claims(aud="elsewhere"),
    "audiences with ours": _claims(aud=["elsewhere", "ottla"]),
    "audiences without ours": _claims(aud=["elsewhere"]),
    "audiences with a number": _claims(aud=["ottla", 5]),
    "no audience": _claims(aud=None),
    "an empty list of audiences": _claims(aud=[]),
    "an audience that is a number": _claims(aud=5),
    "without a scope": _claims(scope=None),
    "an empty scope": _claims(scope=""),
    "a blank scope": _claims(scope="  "),
    "scopes in a list": _claims(scope=["produce", "consume"]),
    "scopes in a list, one empty": _claims(scope=["produce", ""]),
    "scopes in a list, one twice": _claims(scope=["produce", "produce"]),
    "scopes in a list, one a number": _claims(scope=["produce", 5]),
    "an empty list of scopes": _claims(scope=[]),
    "a scope that is a number": _claims(scope=5),
    "claims that say a thing twice": _text(
        '{"iss":"https://issuer.test","aud":"ottla","sub":"bob","sub":"alice","iat":NOW,"exp":9000000000}'
    ),
    "claims that are a list": _text("[]"),
    "claims that are no JSON": _text("{"),
    "damaged": _changed(lambda text: text[:-8] + "AAAAAAAA"),
    "cut short": _changed(lambda text: text.rpartition(".")[0] + "."),
    "of two parts": _changed(lambda text: text.rpartition(".")[0]),
    "of four parts": _changed(lambda text: text + ".AAAA"),
    "of five parts": _changed(lambda text: text + ".AAAA.AAAA"),
    "no token": lambda _: "x",
    "dots": lambda _: "..",
}
"""Tokens for listeners that require signed ones."""


def _client(**changed: Any) -> Made:
    return _claims(**{"client": "bob", "aud": None} | changed)


OTHER_CLAIMS: dict[str, Made] = {
    "good": _client(scp=["a", "b"]),
    "without an issuer": _client(iss=None),
    "another issuer": _client(iss="https://elsewhere.test"),
    "an issuer that is a number": _client(iss=7),
    "an audience where none is expected": _client(aud="ottla"),
    "an audience that is a number where none is expected": _client(aud=5),
    "an empty list of audiences": _client(aud=[]),
    "without the claim that names a user": _claims(aud=None),
    "without a subject": _client(sub=None),
    "a subject that is a number": _client(sub=7),
    "an id": _client(jti="1"),
    "an id that is a number": _client(jti=1),
    "a scope in the usual claim that is a number": _client(scope=5),
    "a scope that says a thing twice": _client(scp=["a", "a"]),
    "a scope that says a thing twice, within blanks": _client(scp=["a", " a "]),
    "a scope with blanks": _client(scp="a a"),
    "expired within the skew of clocks": lambda issuer: issuer.token(
        USER, lives_s=10, issued_s_ago=100, client="bob", aud=None
    ),
    "expired": lambda issuer: issuer.token(USER, lives_s=10, issued_s_ago=120, client="bob", aud=None),
    "an end before its beginning": lambda issuer: issuer.token(
        USER, issued_s_ago=100, lives_s=120, nbf=int(time.time()) + 50, client="bob", aud=None
    ),
}
"""Tokens for the listener with other claims for user and scope, a clock skew of 100 s and any issuer or audience."""


def _unsigned(**changed: Any) -> Made:
    return lambda _: unsigned(USER, **{"scope": SCOPES} | changed)


def _unsigned_at(**after_s: float) -> Made:
    return lambda _: unsigned(USER, scope=SCOPES, **_later(after_s))


UNSIGNED: dict[str, Made] = {
    "good": _unsigned(),
    "signed": _claims(),
    "signed by none, with a signature": lambda _: unsigned(USER, scope=SCOPES) + "AAAA",
    "algorithm RS256 without a signature": _changed(lambda text: text.rpartition(".")[0] + "."),
    "expired": _unsigned_at(iat=-7200, exp=-3600),
    "expired within the skew of clocks": _unsigned_at(iat=-7200, exp=-2),
    "issued in the future": _unsigned_at(iat=600),
    "issued in the future within the skew of clocks": _unsigned_at(iat=3),
    "issued after its end": _unsigned_at(iat=-100, exp=-200),
    "not yet valid": _unsigned_at(nbf=600),
    "without an end": _unsigned(exp=None),
    "without a time of issue": _unsigned(iat=None),
    "an end that is a text": _unsigned(exp="soon"),
    "issued at a text": _unsigned(iat="soon"),
    "an end with a fraction": _unsigned_at(exp=600.5),
    "without a subject": _unsigned(sub=None),
    "an empty subject": _unsigned(sub=""),
    "a blank subject": _unsigned(sub=" "),
    "a subject within blanks": _unsigned(sub=" alice "),
    "a subject that is a number": _unsigned(sub=7),
    "without a scope": _unsigned(scope=None),
    "an empty scope": _unsigned(scope=""),
    "a beginning that is a text": _unsigned(nbf="soon"),
    "claims that say a thing twice": lambda issuer: issuer.signed(
        {"alg": "none"},
        f'{{"sub":"bob","sub":"alice","exp":{int(time.time()) + 600},"scope":["produce","consume"]}}',
        RSA_KEY,
    ),
    "scopes in a text": _unsigned(scope="produce consume"),
    "one scope of two": _unsigned(scope="produce"),
    "scopes in a list": _unsigned(scope=["consume", "produce", "more"]),
    "a scope that is a number": _unsigned(scope=5),
    "a list of scopes, one a number": _unsigned(scope=["produce", "consume", 5]),
    "another issuer": _unsigned(iss="https://elsewhere.example"),
    "of two parts": _changed(lambda text: text.rpartition(".")[0]),
    "no token": lambda _: "x",
    "dots": lambda _: "..",
}
"""Tokens for the listener of unsigned ones; it requires the scopes `produce` and `consume`, with a clock skew of 10 s."""

MESSAGES: dict[str, bytes] = {
    "nothing": b"",
    "a header alone": b"n,,",
    "another scheme": b"n,,\x01auth=Basic TOKEN\x01\x01",
    "a scheme in small letters": b"n,,\x01auth=bearer TOKEN\x01\x01",
    "a scheme in capitals": b"n,,\x01auth=BEARER TOKEN\x01\x01",
    "two blanks": b"n,,\x01auth=Bearer  TOKEN\x01\x01",
    "no token": b"n,,\x01auth=Bearer \x01\x01",
    "two tokens": b"n,,\x01auth=Bearer TOKEN TOKEN\x01\x01",
    "channel binding": b"y,,\x01auth=Bearer TOKEN\x01\x01",
    "the same name": b"n,a=alice,\x01auth=Bearer TOKEN\x01\x01",
    "another name": b"n,a=bob,\x01auth=Bearer TOKEN\x01\x01",
    "a name with a comma": b"n,a=a=2Cb=3Dc,\x01auth=Bearer TOKEN\x01\x01",
    "an empty name": b"n,a=,\x01auth=Bearer TOKEN\x01\x01",
    "no auth": b"n,,\x01host=broker\x01\x01",
    "auth twice": b"n,,\x01auth=Bearer x\x01auth=Bearer TOKEN\x01\x01",
    "host and port": b"n,,\x01host=broker\x01port=9093\x01auth=Bearer TOKEN\x01\x01",
    "an extension": b"n,,\x01auth=Bearer TOKEN\x01traceId=abc\x01\x01",
    "an extension with an equals sign": b"n,,\x01auth=Bearer TOKEN\x01trace=a=b\x01\x01",
    "an extension without a value": b"n,,\x01auth=Bearer TOKEN\x01trace=\x01\x01",
    "an extension with digits in its name": b"n,,\x01auth=Bearer TOKEN\x01trace1=a\x01\x01",
    "one end": b"n,,\x01auth=Bearer TOKEN\x01",
    "more behind the end": b"n,,\x01auth=Bearer TOKEN\x01\x01x",
    "beyond UTF-8": b"\xff",
    "a confirmation": b"\x01",
}
"""First messages of a client; TOKEN stands for a good one."""
REPLIES: dict[str, bytes] = {
    "confirmed": b"\x01",
    "nothing": b"",
    "two bytes": b"\x01\x01",
    "another good token": b"n,,\x01auth=Bearer TOKEN\x01\x01",
}
"""A client's reply to the broker's error."""
