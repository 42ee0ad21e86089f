"""OAUTHBEARER: which tokens count, and what clients are told of those that do not."""

from __future__ import annotations

import base64
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ottla.server.client.sasl import Credentials
from ottla.server.config.sasl.oauth import OauthConfig
from ottla.server.runtime.clock import Clock
from ottla.server.security.sasl.conversation import InvalidCredentialsError, SaslError
from ottla.server.security.sasl.jwks import UNKNOWN_KEY_MS, Jwks
from ottla.server.security.sasl.oauthbearer import OauthConversation
from ottla.storage.topics.config import ConfigError

jwt = pytest.importorskip("jwt")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

NOW_S = 1_700_000_000
KEYS: dict[str, Any] = {}
GOOD = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 3600, "iss": "https://issuer", "aud": ["kafka", "other"]}


def key(name: str) -> Any:
    if name not in KEYS:
        KEYS[name] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return KEYS[name]


def jwks_text(*names: str) -> str:
    rows = [json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key(name).public_key())) | {"kid": name} for name in names]
    return json.dumps({"keys": rows})


def token(by: str = "k1", **claims: Any) -> str:
    said = {name: value for name, value in (GOOD | claims).items() if value is not None}
    return str(jwt.encode(said, key(by), "RS256", headers={"kid": by}))


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


async def test_a_signed_token_says_who_it_is_and_until_when(signed: Callable[..., OauthConversation]) -> None:
    broker = signed(audience=("kafka",), issuer="https://issuer")
    assert await said(broker, token()) == b""
    assert str(broker.principal) == "User:alice"
    assert broker.expires_ms == (NOW_S + 3600) * 1000


async def test_the_user_may_stand_in_another_claim(signed: Callable[..., OauthConversation]) -> None:
    broker = signed(subject_claim="email")
    await said(broker, token(email="a@b", sub=None))
    assert str(broker.principal) == "User:a@b"


REFUSED: dict[str, tuple[Callable[[], str], dict[str, Any]]] = {
    "expired": (lambda: token(exp=NOW_S - 31), {}),
    "not yet": (lambda: token(nbf=NOW_S + 31), {}),
    "without an end": (lambda: token(exp=None), {}),
    "without a beginning": (lambda: token(iat=None), {}),
    "without a user": (lambda: token(sub=None), {}),
    "an empty user": (lambda: token(sub=" "), {}),
    "an end that is no time": (lambda: token(exp=True), {}),
    "of another issuer": (lambda: token(iss="https://other"), {"issuer": "https://issuer"}),
    "for others": (lambda: token(aud="x"), {"audience": ("kafka",)}),
    "for nobody": (lambda: token(aud=None), {"audience": ("kafka",)}),
    "by an unknown key": (lambda: token("k2"), {}),
    "by another key of that name": (lambda: str(jwt.encode(GOOD, key("k2"), "RS256", headers={"kid": "k1"})), {}),
    "not signed": (unsigned, {}),
    "by a shared key": (lambda: str(jwt.encode(GOOD, "s" * 32, "HS256", headers={"kid": "k1"})), {}),
    "damaged": (lambda: token()[:-8] + "AAAAAAAA", {}),
    "no token": (lambda: "x", {}),
    "dots": (lambda: "..", {}),
}


@pytest.mark.parametrize(("made", "options"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_token_that_does_not_count_is_refused_as_by_kafka(
    made: Callable[[], str], options: dict[str, Any], signed: Callable[..., OauthConversation]
) -> None:
    broker = signed(**options)
    assert await said(broker, made()) == b'{"status":"invalid_token"}'
    assert broker.principal is None
    with pytest.raises(SaslError, match="invalid_token"):
        await broker.respond(b"\x01", NOW_S * 1000)


async def test_clocks_may_be_off(signed: Callable[..., OauthConversation]) -> None:
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
    with pytest.raises(InvalidCredentialsError):
        await signed().respond(message, 0)


async def test_nobody_logs_in_for_another(signed: Callable[..., OauthConversation]) -> None:
    with pytest.raises(SaslError, match=r"authorization id \(bob\) that is different"):
        await signed().respond(f"n,a=bob,\x01auth=Bearer {token()}\x01\x01".encode(), NOW_S * 1000)


async def test_new_keys_are_found_when_a_token_names_one(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "keys.json"
    path.write_text(jwks_text("k1"))
    config = OauthConfig(path.as_uri())
    jwks = Jwks(config, clock)
    jwks.load()
    path.write_text(jwks_text("k2"))
    assert await said(OauthConversation(config, jwks), token("k2")) == b""
    assert await said(OauthConversation(config, jwks), token("k1")) != b""
    path.write_text(jwks_text("k1", "k2"))
    assert await said(OauthConversation(config, jwks), token("k1")) != b"", "not for every token that names one"
    clock.advance(UNKNOWN_KEY_MS)
    assert await said(OauthConversation(config, jwks), token("k1")) == b""


async def test_keys_that_cannot_be_had_leave_those_there_are(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "keys.json"
    path.write_text(jwks_text("k1"))
    config = OauthConfig(path.as_uri())
    jwks = Jwks(config, clock)
    jwks.load()
    path.unlink()
    clock.advance(config.refresh_ms)
    assert await said(OauthConversation(config, jwks), token(exp=NOW_S + 10_000), NOW_S + 3600) == b""


@pytest.mark.parametrize(
    "content",
    [
        None,
        "",
        "[]",
        "{}",
        '{"keys": [{"kty": "oct"}, {"kty": "RSA", "n": 1}, 5]}',
        '{"keys": 5}',
        "x" * (1 << 20) + "x",
        '{"keys":' + "[" * 100_000,
    ],
)
def test_a_start_says_which_keys_cannot_be_read(content: str | None, tmp_path: Path, clock: Clock) -> None:
    if content is not None:
        (tmp_path / "keys.json").write_text(content)
    with pytest.raises(ConfigError, match=r"keys\.json for configuration sasl\.oauthbearer\.jwks\.endpoint\.url"):
        Jwks(OauthConfig((tmp_path / "keys.json").as_uri()), clock).load()


@contextmanager
def answering(pieces: Iterable[bytes]) -> Iterator[str]:
    """The address of a server that says this to the first who connects, whatever is asked."""
    over = threading.Event()

    def answer() -> None:
        with suppress(OSError), listening.accept()[0] as client:
            client.recv(4096)
            for piece in pieces:
                client.sendall(piece)
                if len(piece) == 1:
                    over.wait(0.01)
                if over.is_set():
                    return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/keys"
        finally:
            over.set()
            thread.join()


FINE = b"HTTP/1.1 200 OK\r\n\r\n"
NO_KEYS: dict[str, tuple[Iterable[bytes], str]] = {
    "no HTTP": ([b"what?\r\n\r\n"], "its answer is no HTTP (BadStatusLine)"),
    "cut short": ([FINE[:-2] + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"], "its answer is no HTTP (IncompleteRead)"),
    "nested": ([FINE + b"[" * 100_000], "its JSON is nested too deep"),
    "slow": (itertools.chain([FINE], itertools.repeat(b" ")), "it has not come whole in 0.2 s"),
}


@pytest.mark.parametrize(("pieces", "told"), NO_KEYS.values(), ids=NO_KEYS.keys())
async def test_a_server_that_has_no_keys_to_give_is_told_of_in_a_line_and_left_alone_for_a_while(
    pieces: Iterable[bytes],
    told: str,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.server.security.sasl.jwks.FETCH_S", 0.2)
    with answering(pieces) as url:
        jwks = Jwks(OauthConfig(url), clock)
        assert await jwks.key("k1") is None
        assert await jwks.key("k1") is None
    assert [record.getMessage() for record in caplog.records] == [f"keys of {url} cannot be had: {told}"]


async def test_a_server_that_has_keys_is_asked_for_them(clock: Clock) -> None:
    with answering([FINE + jwks_text("k1").encode()]) as url:
        assert await Jwks(OauthConfig(url), clock).key("k1") is not None


async def test_a_token_that_nobody_signed_counts_where_that_is_asked_for() -> None:
    broker = OauthConversation(OauthConfig(None, clock_skew_ms=0), None)
    assert await said(broker, unsigned(iat=None)) == b""
    assert str(broker.principal) == "User:alice"
    for wrong in (token(), unsigned("RS256"), unsigned(signature="AAAA"), unsigned(exp=NOW_S), unsigned(iat=NOW_S + 1)):
        refusing = OauthConversation(OauthConfig(None, clock_skew_ms=0), None)
        assert await said(refusing, wrong) == b'{"status":"invalid_token"}'


async def test_a_token_without_a_scope_that_is_wanted_is_told_so() -> None:
    config = OauthConfig(None, scopes=("write",))
    assert await said(OauthConversation(config, None), unsigned(scope="read write")) == b""
    told = await said(OauthConversation(config, None), unsigned(scope=["read"]))
    assert told == b'{"status":"insufficient_scope","scope":"write"}'
