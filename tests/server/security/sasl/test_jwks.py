"""Public keys of token issuers: loaded at the start, refreshed in the background, whatever the server does."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import ottla
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.server.client.sasl import Credentials
from ottla.server.client.security import Security
from ottla.server.config.sasl.mechanisms import OAUTH_MODULE
from ottla.server.config.sasl.oauth import OauthConfig
from ottla.server.runtime.clock import Clock
from ottla.server.security.sasl.fetching import FETCH_BYTES_MAX
from ottla.server.security.sasl.jwks import UNKNOWN_KEY_MS, Jwks
from ottla.server.security.tls.dev_certificates import Authority
from ottla.storage.topics.config import ConfigError
from support.broker.raw_client import RawClient
from support.calls import calls_counted
from support.security.issuing import NOW_S, KeyServer, jwks_text, jwt, key, key_server, rsa, token

ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture
def clock() -> Clock:
    return Clock(lambda: NOW_S * 1000, lambda: 0)


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with key_server() as server:
        yield server


FETCH_S = "ottla.server.security.sasl.fetching.FETCH_S"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use long timeouts: a machine under load must not count as a slow server."""
    monkeypatch.setattr(FETCH_S, 60)


@asynccontextmanager
async def running(jwks: Jwks) -> AsyncIterator[None]:
    """Run it during the block; moves of the clock are complete when it is `at_rest`."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jwks.run)
        await trio.testing.wait_all_tasks_blocked()
        yield
        nursery.cancel_scope.cancel()


async def passed(clock: Clock, by_ms: int) -> None:
    """Let this much time pass, and everything that is due by then happen."""
    clock.advance(by_ms)
    await settled(clock)


async def settled(clock: Clock) -> None:
    await trio.testing.wait_all_tasks_blocked()
    with trio.fail_after(10):
        await clock.at_rest()
    await trio.testing.wait_all_tasks_blocked()


async def test_keys_are_refreshed_in_time_and_no_login_waits(server: KeyServer, clock: Clock) -> None:
    jwks = Jwks(OauthConfig(server.url, refresh_ms=60_000), clock)
    jwks.load()
    async with running(jwks):
        server.answer = server.keys("k2")
        await passed(clock, 59_999)
        assert (await jwks.key("k1", "RS256"), len(server.asked)) != (None, 2)
        server.answer = server.silence
        clock.advance(1)
        await trio.testing.wait_all_tasks_blocked()
        assert await jwks.key("k1", "RS256") is not None, "while they are being fetched"
        server.answer = server.keys("k2")
        server.over.set()
        await settled(clock)
        # The silent answer has become an empty one in the end.
        await passed(clock, 100)
        assert await jwks.key("k1", "RS256") is None
        assert await jwks.key("k2", "RS256") is not None


async def test_an_unknown_key_causes_rare_refreshes_and_no_wait(server: KeyServer, clock: Clock) -> None:
    jwks = Jwks(OauthConfig(server.url), clock)
    jwks.load()
    async with running(jwks):
        server.answer = server.keys("k1", "k2")
        assert await jwks.key("k2", "RS256") is None
        await settled(clock)
        assert await jwks.key("k2", "RS256") is not None
        for number in range(20):
            assert await jwks.key(f"x{number}", "RS256") is None
            await settled(clock)
        assert len(server.asked) == 2
        clock.advance(UNKNOWN_KEY_MS)
        assert await jwks.key("x", "RS256") is None
        await settled(clock)
        assert len(server.asked) == 3


async def test_a_failing_server_is_retried_with_growing_delay_and_reported_once(
    server: KeyServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ottla.sasl")
    jwks = Jwks(OauthConfig(server.url, refresh_ms=1_000, backoff_ms=200, backoff_max_ms=500), clock)
    jwks.load()
    async with running(jwks):
        server.answer = server.says(b"", 503)
        await passed(clock, 1_000)
        for wait_ms in (200, 400, 500, 500):
            asked = len(server.asked)
            await passed(clock, wait_ms - 1)
            assert len(server.asked) == asked
            await passed(clock, 1)
            assert len(server.asked) == asked + 1
        assert await jwks.key("k1", "RS256") is not None
        server.answer = server.keys("k1")
        await passed(clock, 500)
        await passed(clock, 1_000)
    assert len(server.asked) == 8
    assert [record.getMessage() for record in caplog.records] == [
        f"{server.url}: cannot load the key set, keeping the current keys: HTTP status 503",
        f"{server.url}: key set available again",
    ]


TOO_SLOW = "response incomplete after 0.2 s"
BAD: dict[str, tuple[Callable[[KeyServer], Answer], str]] = {
    "an error": (lambda server: server.says(b"no", 500), "HTTP status 500"),
    "no HTTP": (lambda server: server.raw(b"what?\r\n\r\n"), "response is not HTTP (BadStatusLine)"),
    "cut short": (
        lambda server: server.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        "response is not HTTP (IncompleteRead)",
    ),
    "cut off": (lambda server: server.says(b'{"keys"', Content_Length="70"), "not valid JSON (JSONDecodeError)"),
    "another page": (lambda server: server.says(b"<html>"), "not valid JSON (JSONDecodeError)"),
    "not in UTF-8": (lambda server: server.says(b'"\xff"'), "not valid JSON (UnicodeDecodeError)"),
    "a list": (lambda server: server.says(b"[]"), "not a JSON Web Key Set: not a JSON object"),
    "something else": (
        lambda server: server.says(b"{}"),
        "not a JSON Web Key Set: member keys is missing or not a list",
    ),
    "nested": (lambda server: server.says(b"[" * 100_000), "JSON is nested too deeply"),
    "huge": (lambda server: server.says(b" " * (FETCH_BYTES_MAX + 1)), "larger than 1048576 bytes"),
    "without end": (
        lambda server: server.raw(b"HTTP/1.1 200 OK\r\n\r\n", without_end=b" " * 65536),
        "larger than 1048576 bytes",
    ),
    "dripping": (
        lambda server: server.raw(b"HTTP/1.1 200 OK\r\n\r\n", without_end=b" "),
        TOO_SLOW,
    ),
    "dripping headers": (
        lambda server: server.raw(b"HTTP/1.1 200 OK\r\nX: ", without_end=b"x"),
        TOO_SLOW,
    ),
    "silent": (lambda server: server.silence, TOO_SLOW),
    "redirects without end": (lambda server: server.says(b"", 302, Location="/keys"), "HTTP status 302"),
    "redirects with bodies without end": (
        lambda server: server.raw(b"HTTP/1.1 302 Found\r\nLocation: /keys\r\n\r\n", without_end=b" " * 65536),
        "HTTP status 302",
    ),
    "a redirect to a file": (
        lambda server: server.says(b"", 302, Location="file:///etc/passwd"),
        "HTTP status 302",
    ),
    "a redirect to ftp": (
        lambda server: server.says(b"", 302, Location="ftp://127.0.0.1/"),
        "redirect from http to another protocol",
    ),
}


@pytest.mark.parametrize(("bad", "told"), BAD.values(), ids=BAD.keys())
async def test_a_server_without_keys_refuses_a_start_and_warns_a_running_broker(
    bad: Callable[[KeyServer], Answer],
    told: str,
    server: KeyServer,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jwks = Jwks(OauthConfig(server.url, refresh_ms=1_000), clock)
    jwks.load()
    if told == TOO_SLOW:
        monkeypatch.setattr(FETCH_S, 0.2)
    server.answer = bad(server)
    async with running(jwks):
        await passed(clock, 1_000)
        assert await jwks.key("k1", "RS256") is not None
    line = f"{server.url}: cannot load the key set, keeping the current keys: {told}"
    assert [record.getMessage() for record in caplog.records] == [line]
    with pytest.raises(ConfigError, match=re.escape(f"Invalid value {server.url} for ") + ".*" + re.escape(told)):
        Jwks(OauthConfig(server.url), clock).load()


def test_a_start_reports_an_unreachable_server(server: KeyServer, clock: Clock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/keys"
    with pytest.raises(ConfigError, match=rf"Invalid value {url} for .*: \[Errno \d+\] Connection refused$"):
        Jwks(OauthConfig(url), clock).load()


def test_a_redirect_on_the_same_protocol_is_followed(server: KeyServer, clock: Clock) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        has_moved = handler.path == "/new"
        (server.keys("k1") if has_moved else server.says(b"", 302, Location="/new"))(handler)

    server.answer = answer
    Jwks(OauthConfig(server.url), clock).load()
    assert server.asked == ["/keys", "/new"]


async def test_unusable_keys_are_skipped(server: KeyServer, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    rows = (
        b'{"kty": "oct"}, {"kty": "RSA", "n": 1}, 5, {"kty": "EC", "crv": "X", "x": "AA", "y": "AA"}, {"kty": ["RSA"]}'
    )
    server.answer = server.says(b'{"keys": [%s]}' % rows)
    jwks = Jwks(OauthConfig(server.url), clock)
    jwks.load()
    assert await jwks.key(None, "RS256") is None
    assert "no signing keys" in caplog.text
    good = jwks_text("k1")[: -len("]}")].encode()
    server.answer = server.says(b'%s, %s, {"kty": "RSA", "kid": ["k"]}]}' % (good, rows))
    jwks.load()
    assert await jwks.key("k1", "RS256") is not None


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"keys": 5}', "x" * (FETCH_BYTES_MAX + 1)])
def test_a_start_names_the_unreadable_file(content: str | None, tmp_path: Path, clock: Clock) -> None:
    if content is not None:
        (tmp_path / "keys.json").write_text(content)
    with pytest.raises(ConfigError, match=r"keys\.json for configuration sasl\.oauthbearer\.jwks\.endpoint\.url"):
        Jwks(OauthConfig((tmp_path / "keys.json").as_uri()), clock).load()


@pytest.mark.parametrize(
    ("bits", "more", "counts"),
    [
        (2048, {}, True),
        (2048, {"key_ops": ["verify", "sign"]}, True),
        (2048, {"key_ops": None}, True),
        (2048, {"key_ops": ["sign"]}, False),
        (2048, {"key_ops": "verify"}, False),
        (2048, {"use": "enc"}, False),
        (1024, {}, False),
    ],
)
async def test_short_or_unsuitable_keys_sign_no_tokens(
    bits: int, more: dict[str, Any], counts: bool, server: KeyServer, clock: Clock
) -> None:
    private = key("k1") if bits == 2048 else rsa.generate_private_key(public_exponent=65537, key_size=bits)
    row = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key())) | more
    server.answer = server.says(json.dumps({"keys": [row]}).encode())
    jwks = Jwks(OauthConfig(server.url), clock)
    jwks.load()
    assert (await jwks.key(None, "RS256") is not None) is counts


async def test_a_changed_file_is_read_again(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "keys.json"
    path.write_text(jwks_text("k1"))
    jwks = Jwks(OauthConfig(path.as_uri()), clock)
    jwks.load()
    path.write_text(jwks_text("k1", "k2"))
    assert await jwks.key("k2", "RS256") is not None
    path.write_text("{")
    assert await jwks.key("k2", "RS256") is not None, "half of it is written"
    path.unlink()
    assert await jwks.key("k2", "RS256") is not None
    path.write_text(jwks_text("k2"))
    assert await jwks.key("k1", "RS256") is None
    assert await jwks.key("k2", "RS256") is not None


async def test_a_login_during_a_file_check_waits_for_the_next_check(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "keys.json"
    path.write_text(jwks_text("k1", "k2"))
    jwks = Jwks(OauthConfig(path.as_uri()), clock)
    jwks.load()
    found = []

    async def log_in() -> None:
        found.append(await jwks.key("k1", "RS256"))

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(log_in)
        await trio.lowlevel.checkpoint()
        path.write_text(jwks_text("k2"))
        for _ in range(3):
            nursery.start_soon(log_in)
    assert found[3:] == [None] * 3


async def test_a_change_counts_even_if_its_finder_was_cancelled(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    path.write_text(jwks_text("k1"))
    jwks = Jwks(OauthConfig(path.as_uri()), clock)
    jwks.load()
    path.write_text(jwks_text("k1", "k2"))
    begun, go_on = threading.Event(), threading.Event()

    def opened(*args: Any) -> Any:
        begun.set()
        go_on.wait()
        return open(*args)

    monkeypatch.setattr("ottla.server.security.sasl.jwks.open", opened, raising=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jwks.key, "k2", "RS256")
        await trio.to_thread.run_sync(begun.wait)
        nursery.cancel_scope.cancel()
    go_on.set()
    assert await jwks.key("k2", "RS256") is not None


async def test_the_largest_set_of_keys_delays_no_connection(server: KeyServer, clock: Clock) -> None:
    """Each key takes up to 30 µs; the thread of all connections does not do a single call."""
    row = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key()))
    jwks = Jwks(OauthConfig(server.url, refresh_ms=1_000), clock)
    jwks.load()
    keys = FETCH_BYTES_MAX // (len(json.dumps(row)) + 2)
    server.answer = server.says(json.dumps({"keys": [row] * keys}).encode())
    async with running(jwks):
        with calls_counted() as counted:
            await passed(clock, 1_000)
        assert await jwks.key(None, "ES256") is not None
    assert len(jwks._keys) == keys
    assert counted.calls < keys


@pytest.mark.parametrize("kind", ["RS256", "ES256"])
async def test_only_the_public_half_of_a_private_key_is_used(kind: str, server: KeyServer, clock: Clock) -> None:
    algorithm, private = {
        "RS256": (jwt.algorithms.RSAAlgorithm, key("k1")),
        "ES256": (jwt.algorithms.ECAlgorithm, ec.generate_private_key(ec.SECP256R1())),
    }[kind]
    row = json.loads(algorithm.to_jwk(private)) | {"key_ops": None}
    server.answer = server.says(json.dumps({"keys": [row]}).encode())
    jwks = Jwks(OauthConfig(server.url), clock)
    jwks.load()
    assert (await jwks.key(None, kind)).public_numbers() == private.public_key().public_numbers()


async def test_a_missing_file_keeps_the_loaded_keys(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "keys.json"
    path.write_text(jwks_text("k1"))
    config = OauthConfig(path.as_uri())
    jwks = Jwks(config, clock)
    jwks.load()
    path.unlink()
    async with running(jwks):
        await passed(clock, config.refresh_ms)
        assert await jwks.key("k1", "RS256") is not None


def oauth(url: str, overrides: Mapping[str, str] | None = None, /, **options: str) -> ottla.Broker:
    prefix = "sasl.oauthbearer.jwks.endpoint."
    return ottla.Broker(
        overrides={
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}url": url,
            "sasl.oauthbearer.allow.unverified.audience": "true",
            "sasl.oauthbearer.allow.unverified.issuer": "true",
            **{prefix + name.replace("_", "."): value for name, value in options.items()},
            **(overrides or {}),
        }
    )


def test_a_broker_fetches_keys_at_its_start_and_by_its_clock(server: KeyServer) -> None:
    with oauth(server.url) as broker:
        assert len(server.asked) == 1
        broker.clock.advance(hours=1)
        assert len(server.asked) == 2


def test_a_broker_does_not_start_without_keys(server: KeyServer) -> None:
    server.answer = server.says(b"", 404)
    told = f"Invalid value {server.url} for configuration sasl.oauthbearer.jwks.endpoint.url: HTTP status 404"
    with pytest.raises(ConfigError, match=re.escape(told)):
        oauth(server.url).start()


@pytest.mark.parametrize("url", ["http://[", "http://", "file:", "ftp://keys/", "keys.json"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(
        ConfigError, match=re.escape(f"Invalid value {url} for configuration ") + r"\S+: must be file:PATH"
    ):
        oauth(url).start()


def test_changed_options_stop_requests_to_the_old_server_without_waiting(tmp_path: Path) -> None:
    authority = Authority(time.time_ns() // 1_000_000)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity = authority.issue("keys", ["127.0.0.1"])
    (tmp_path / "server.pem").write_text(identity.key + identity.certificate)
    context.load_cert_chain(tmp_path / "server.pem")
    (tmp_path / "ca.pem").write_text(authority.certificate)
    trusting = f'ssl.truststore.type="PEM" ssl.truststore.location="{tmp_path / "ca.pem"}"'
    name = "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config"
    lines = [f'{OAUTH_MODULE} required {trusting} ssl.key.password="{number}";' for number in range(4)]
    credentials = Credentials("OAUTHBEARER", token=token(exp=4_000_000_000))

    def alter(client: RawClient, line: str) -> None:
        config = AlterableConfig(name=name, config_operation=0, value=line)
        resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=(config,))
        (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses
        assert answer.error_code == 0

    with key_server(context) as server, oauth(server.url, {name: lines[0]}) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with RawClient(host, int(port), security=Security(None, credentials)) as client:
            for line in lines[1:]:
                alter(client, line)
        broker.clock.advance(milliseconds=0)
        asked = len(server.asked)
        broker.clock.advance(hours=1)
        # Once for each line, even a late one, and once more by the last one's fetcher alone.
        assert asked < len(server.asked) <= len(lines) + 1
        server.answer = server.silence
        with RawClient(host, int(port), security=Security(None, credentials)) as client:
            alter(client, lines[0])
        with RawClient(host, int(port), security=Security(None, credentials)):
            pass  # logged in with the existing keys
        server.over.set()


@pytest.mark.parametrize(
    ("name", "value", "minimum"),
    [("refresh_ms", "0", 1), ("retry_backoff_ms", "-1", 0), ("retry_backoff_max_ms", "-1", 0)],
)
def test_invalid_intervals_are_refused(name: str, value: str, minimum: int, server: KeyServer) -> None:
    told = rf"Invalid value {value} for configuration \S+{name.replace('_', '.')}: must be at least {minimum}"
    with pytest.raises(ConfigError, match=told):
        oauth(server.url, **{name: value}).start()


@pytest.mark.parametrize(
    ("key_id", "algorithm", "found"),
    [
        (None, "RS256", "one"),
        (None, "PS512", "one"),
        (None, "ES384", "three"),
        (None, "EdDSA", None),
        ("k", "ES256", "two"),
        ("k", "RS256", None),
        ("l", "RS256", "four"),
        ("l", "RS512", "five"),
        ("l", "RS384", "four"),
        ("m", "RS256", None),
        ("k", "none", None),
        ("k", "HS256", None),
    ],
)
async def test_a_key_is_found_by_its_id_and_algorithm(
    key_id: str | None, algorithm: str, found: str | None, server: KeyServer, clock: Clock
) -> None:
    names = ("one", "two", "three", "four", "five")
    curves = {"two": ec.SECP256R1(), "three": ec.SECP384R1()}
    keys = {name: ec.generate_private_key(curves[name]) if name in curves else key(name) for name in names}
    more = {"two": {"kid": "k"}, "four": {"kid": "l", "alg": "RS256"}, "five": {"kid": "l", "alg": "RS512"}}
    rows = [
        json.loads(
            (jwt.algorithms.ECAlgorithm if name in curves else jwt.algorithms.RSAAlgorithm).to_jwk(one.public_key())
        )
        | more.get(name, {})
        for name, one in keys.items()
    ]
    server.answer = server.says(json.dumps({"keys": rows}).encode())
    jwks = Jwks(OauthConfig(server.url), clock)
    jwks.load()
    public = await jwks.key(key_id, algorithm)
    numbers = {one.public_key().public_numbers(): name for name, one in keys.items()}
    assert (None if public is None else numbers[public.public_numbers()]) == found


def test_a_server_is_trusted_by_the_authority_in_the_jaas_line(tmp_path: Path, clock: Clock) -> None:
    authority = Authority(time.time_ns() // 1_000_000)
    identity = authority.issue("keys", ["127.0.0.1"])
    for name, text in (("server.pem", identity.key + identity.certificate), ("ca.pem", authority.certificate)):
        (tmp_path / name).write_text(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    trusting = (("ssl.truststore.location", str(tmp_path / "ca.pem")), ("ssl.truststore.type", "PEM"))
    with key_server(context) as server:
        Jwks(OauthConfig(server.url, tls=trusting), clock).load()
        for options, told in {
            (): "certificate verify failed",
            (
                ("ssl.truststore.typ", "PEM"),
            ): r"unknown option ssl\.truststore\.typ .*; did you mean ssl\.truststore\.type\?",
            (("ssl.truststore.location", str(tmp_path)), trusting[1]): r"ssl\.truststore\.location",
        }.items():
            with pytest.raises(ConfigError, match=told):
                Jwks(OauthConfig(server.url, tls=options), clock).load()
        assert server.asked == ["/keys"]
