"""OAUTHBEARER: tokens that are accepted, and the errors of those that are not."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.server.client.sasl import Credentials
from ottla.server.config.sasl.oauth import OauthConfig
from ottla.server.runtime.clock import Clock
from ottla.server.security.principal import UnprovenError
from ottla.server.security.sasl.jwks import Jwks
from ottla.server.security.sasl.oauthbearer import OauthConversation
from support.security.issuing import GOOD, NOW_S, jwks_text, jwt, key, token


def signed_text(claims: str) -> str:
    return str(jwt.PyJWS().encode(claims.encode(), key("k1"), "RS256", headers={"kid": "k1"}))


def unsigned(algorithm: str = "none", signature: str = "", **claims: Any) -> str:
    parts = ({"alg": algorithm}, {name: value for name, value in (GOOD | claims).items() if value is not None})
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{'.'.join(texts)}.{signature}"


@pytest.fixture
def clock() -> Clock:
    return Clock(lambda: NOW_S * 1000, lambda: 0)


@pytest.fixture
def signed(tmp_path: Path, clock: Clock) -> Callable[..., OauthConversation]:
    (tmp_path / "keys.json").write_text(jwks_text("k1"))

    def begin(**options: Any) -> OauthConversation:
        config = OauthConfig(f"file:{tmp_path / 'keys.json'}", **options)
        jwks = Jwks(config, clock)
        jwks.load()
        return OauthConversation(config, jwks)

    return begin


async def said(conversation: OauthConversation, text: str, at_s: int = NOW_S) -> bytes:
    return await conversation.respond(next(Credentials("OAUTHBEARER", token=text).tokens()), at_s * 1000)


async def test_a_signed_token_gives_its_user_and_expiry(signed: Callable[..., OauthConversation]) -> None:
    broker = signed(audience=("kafka",), issuer="https://issuer")
    assert await said(broker, token(aud=["kafka", "other"])) == b""
    assert str(broker.principal) == "User:alice"
    assert broker.expires_ms == (NOW_S + 3600) * 1000


async def test_issuer_and_audience_may_be_any_where_none_is_expected(
    signed: Callable[..., OauthConversation],
) -> None:
    for claims in (
        {"aud": "kafka"},
        {"aud": ["a", 5]},
        {"aud": 5},
        {"aud": None},
        {"iss": "https://other"},
        {"iss": None},
    ):
        assert await said(signed(), token(**claims)) == b""


async def test_the_user_may_be_in_another_claim(signed: Callable[..., OauthConversation]) -> None:
    broker = signed(subject_claim="email")
    await said(broker, token(email="a@b", sub=None))
    assert str(broker.principal) == "User:a@b"


REFUSED: dict[str, tuple[Callable[[], str], dict[str, Any]]] = {
    "expired": (lambda: token(exp=NOW_S - 31), {}),
    "not yet": (lambda: token(nbf=NOW_S + 31), {}),
    "without an end": (lambda: token(exp=None), {}),
    "without a beginning": (lambda: token(iat=None), {}),
    "without a user": (lambda: token(sub=None), {}),
    "a user with half of a character": (lambda: token(sub="a\ud800"), {}),
    "an empty user": (lambda: token(sub=" "), {}),
    "a user with half a character": (lambda: token(sub="alice\ud800"), {}),
    "an end that is no time": (lambda: token(exp=True), {}),
    "that begins after its end": (lambda: token(exp=NOW_S + 10, nbf=NOW_S + 20), {}),
    "that says a thing twice": (lambda: signed_text('{"sub":"bob","sub":"alice","iat":1,"exp":9000000000}'), {}),
    "that is a list": (lambda: signed_text("[]"), {}),
    "of another issuer": (lambda: token(iss="https://other"), {"issuer": "https://issuer"}),
    "of an issuer that is a number": (lambda: signed_text(json.dumps(GOOD | {"iss": 5})), {}),
    "with an id that is a number": (lambda: signed_text(json.dumps(GOOD | {"jti": 5})), {}),
    "for others": (lambda: token(aud="x"), {"audience": ("kafka",)}),
    "for nobody": (lambda: token(), {"audience": ("kafka",)}),
    "for a number": (lambda: token(aud=["kafka", 5]), {"audience": ("kafka",)}),
    "with an empty scope": (lambda: token(scope=" "), {}),
    "with a scope twice": (lambda: token(scope=["a", " a"]), {}),
    "with a scope that is a number": (lambda: token(scope=["a", 5]), {}),
    "by an unknown key": (lambda: token("k2"), {}),
    "by another key of that name": (lambda: str(jwt.encode(GOOD, key("k2"), "RS256", headers={"kid": "k1"})), {}),
    "not signed": (unsigned, {}),
    "by a shared key": (lambda: str(jwt.encode(GOOD, "s" * 32, "HS256", headers={"kid": "k1"})), {}),
    "damaged": (lambda: token()[:-8] + "AAAAAAAA", {}),
    "no token": (lambda: "x", {}),
    "dots": (lambda: "..", {}),
}


@pytest.mark.parametrize(("made", "options"), REFUSED.values(), ids=REFUSED.keys())
async def test_an_invalid_token_is_refused_as_by_kafka(
    made: Callable[[], str], options: dict[str, Any], signed: Callable[..., OauthConversation]
) -> None:
    broker = signed(**options)
    assert await said(broker, made()) == b'{"status":"invalid_token"}'
    assert broker.principal is None
    with pytest.raises(UnprovenError, match="invalid_token", check=lambda error: error.is_told):
        await broker.respond(b"\x01", NOW_S * 1000)


async def test_clock_skew_is_tolerated(signed: Callable[..., OauthConversation]) -> None:
    assert await said(signed(), token(exp=NOW_S + 10), NOW_S + 39) == b""
    assert await said(signed(), token(exp=NOW_S + 10), NOW_S + 40) != b""


MALFORMED = [
    b"",
    b"n,,",
    b"n,,\x01auth=Basic abc\x01\x01",
    b"n,,\x01auth=Bearer a b\x01\x01",
    b"y,,\x01auth=Bearer a\x01\x01",
    b"\xff",
]


@pytest.mark.parametrize("message", MALFORMED)
async def test_a_malformed_message_is_refused(message: bytes, signed: Callable[..., OauthConversation]) -> None:
    with pytest.raises(UnprovenError, check=lambda error: not error.is_told):
        await signed().respond(message, 0)


async def test_an_invalid_reply_to_an_error_is_treated_as_a_first_message(
    signed: Callable[..., OauthConversation],
) -> None:
    broker = signed()
    assert await said(broker, "x") == b'{"status":"invalid_token"}'
    with pytest.raises(UnprovenError, check=lambda error: not error.is_told):
        await broker.respond(b"", NOW_S * 1000)
    assert await said(broker, "y") == b'{"status":"invalid_token"}'
    assert await said(broker, token()) == b""
    assert str(broker.principal) == "User:alice"


async def test_a_login_for_another_user_is_refused(signed: Callable[..., OauthConversation]) -> None:
    with pytest.raises(
        UnprovenError, match=r"authorization id \(bob\) that is different", check=lambda error: error.is_told
    ):
        await signed().respond(f"n,a=bob,\x01auth=Bearer {token()}\x01\x01".encode(), NOW_S * 1000)


async def test_unsigned_tokens_are_accepted_only_if_configured() -> None:
    broker = OauthConversation(OauthConfig(None, clock_skew_ms=0), None)
    assert await said(broker, unsigned(iat=None)) == b""
    assert str(broker.principal) == "User:alice"
    for wrong in (token(), unsigned("RS256"), unsigned(signature="AAAA"), unsigned(exp=NOW_S), unsigned(iat=NOW_S + 1)):
        refusing = OauthConversation(OauthConfig(None, clock_skew_ms=0), None)
        assert await said(refusing, wrong) == b'{"status":"invalid_token"}'


async def test_a_token_without_a_required_scope_is_refused_with_the_reason() -> None:
    config = OauthConfig(None, scopes=("read", "write"))
    for enough in (["write", "read"], ["read", 5, "write"]):
        assert await said(OauthConversation(config, None), unsigned(scope=enough)) == b""
    for lacking in (["read"], "read write", None, ""):
        told = await said(OauthConversation(config, None), unsigned(scope=lacking))
        assert told == b'{"status":"insufficient_scope", "scope":"[read, write]"}'
    assert await said(OauthConversation(config, None), unsigned(scope=5)) == b'{"status":"invalid_token"}'


async def test_an_unsigned_token_is_accepted_unchanged() -> None:
    broker = OauthConversation(OauthConfig(None), None)
    assert await said(broker, unsigned(sub=" alice ", nbf=NOW_S + 600, aud=5)) == b""
    assert str(broker.principal) == "User: alice "
