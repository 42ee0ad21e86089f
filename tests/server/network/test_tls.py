"""Connections over TLS: traffic, the client's identity, and failed handshakes."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
import trio

import ottla
from ottla.protocol.connection import encode_request
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.server.client.security import Security
from ottla.server.network.dispatcher import HangUpError
from ottla.server.network.tls_transport import HANDSHAKE_BYTES_MAX, TlsTransport
from ottla.server.network.transport import Part
from ottla.server.security.principal import ANONYMOUS, Principal
from ottla.storage.disk.files import FileSlice
from ottla.storage.disk.os_files import OsFiles
from ottla.storage.topics.options import ConfigError
from support.broker.conversation import address, create_topic, fetch, fetch_request, produce, records_of
from support.broker.raw_client import RawClient, api_of
from support.security.certificates import (
    alice,
    authority,
    client_security,
    expired,
    inline,
    server,
    stranger,
    written,
)

API_VERSIONS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff"
LISTENER = {"listeners": "SSL://127.0.0.1:0"}


@contextmanager
def secured(**others: str) -> Iterator[ottla.Broker]:
    """Run a broker whose one listener uses TLS; `_` in the names of options stands for the point."""
    quick = {"connection.failed.authentication.delay.ms": "1"}
    with ottla.Broker(overrides=LISTENER | quick | inline(server(), **others)) as broker:
        yield broker


def principals(broker: ottla.Broker) -> list[Principal]:
    async def look() -> list[Principal]:
        return [connection.principal for connection in broker.inner.connections]

    return broker.run(look)


def connected(broker: ottla.Broker, security: Security) -> RawClient:
    return RawClient(*address(broker), security=security)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size_bytes", [1, 20_000, 450_000])
def test_records_are_sent_and_received(version: ssl.TLSVersion, size_bytes: int, tmp_path: Path) -> None:
    security = client_security(tmp_path)
    assert security.tls is not None
    security.tls.minimum_version = security.tls.maximum_version = version
    with secured() as broker, connected(broker, security) as client:
        create_topic(client, "t")
        for key in "ab":
            assert produce(client, "t", (key, key * size_bytes)).error_code == ErrorCode.NONE
        assert records_of(fetch(client, "t", 0)) == [
            (offset, key.encode(), key.encode() * size_bytes) for offset, key in enumerate("ab")
        ]


@pytest.mark.parametrize("records", [1, 2])
def test_a_fetch_waits_for_records(records: int, tmp_path: Path) -> None:
    """Its client has sent nothing else, even if the size and the rest of the request are two TLS records."""
    with secured() as broker, connected(broker, client_security(tmp_path)) as client:
        create_topic(client, "t")
        request = fetch_request("t", 0, max_wait_ms=300)
        frame = encode_request(api_of(request), 12, 1, "c", request)
        begun_s = time.monotonic()
        for piece in (frame,) if records == 1 else (frame[:4], frame[4:]):
            client.send_bytes(piece)
        client.receive_frame()
        assert time.monotonic() - begun_s > 0.29


def test_a_client_certificate_gives_the_principal_if_requested(tmp_path: Path) -> None:
    for auth, expected in (
        ("none", {ANONYMOUS}),
        ("requested", {ANONYMOUS, Principal("User", "CN=alice,O=Ottla\\, Inc.")}),
    ):
        with (
            secured(ssl_client_auth=auth) as broker,
            connected(broker, client_security(tmp_path)) as one,
            connected(broker, client_security(tmp_path, alice())) as two,
        ):
            create_topic(one, "t")
            create_topic(two, "u")
            assert set(principals(broker)) == expected


def test_a_mapping_rule_gives_a_short_name(tmp_path: Path) -> None:
    with (
        secured(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=([^,]*).*$/$1/U") as broker,
        connected(broker, client_security(tmp_path, alice())) as client,
    ):
        create_topic(client, "t")
        assert principals(broker) == [Principal("User", "ALICE")]


def test_a_client_that_resumes_a_session_keeps_its_principal(tmp_path: Path) -> None:
    security = client_security(tmp_path, alice())
    with secured(ssl_client_auth="required") as broker:
        with connected(broker, security) as client:
            create_topic(client, "t")
            assert isinstance(client._socket, ssl.SSLSocket)
            session = client._socket.session
        with socket.create_connection(address(broker), timeout=60) as plain:
            assert security.tls is not None
            with security.tls.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as again:
                assert again.session_reused
                again.sendall(API_VERSIONS)
                assert again.recv(4)
                assert Principal("User", "CN=alice,O=Ottla\\, Inc.") in principals(broker)


def refused(broker: ottla.Broker, security: Security) -> bool:
    """Return whether a client is refused. With TLS 1.3 it learns that after it believes that it is connected."""
    try:
        with connected(broker, security) as client:
            create_topic(client, "t")
    except OSError:
        return True
    return False


@pytest.mark.parametrize(
    ("identity", "told"),
    [
        (None, "client sent no certificate, but ssl.client.auth is required"),
        (expired, "certificate rejected: certificate has expired"),
        (stranger, "certificate rejected: "),
    ],
)
def test_a_client_without_a_valid_certificate_is_disconnected_with_one_line(
    identity: Any, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.connection")
    with secured(ssl_client_auth="required") as broker:
        assert refused(broker, client_security(tmp_path, identity and identity()))
        assert not refused(broker, client_security(tmp_path, alice()))
    (line,) = [record.getMessage() for record in caplog.records if "handshake" in record.getMessage()]
    assert told in line and line.startswith("closing 127.0.0.1:")


@pytest.mark.parametrize(
    ("nonsense", "told"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "not use TLS, but HTTP"),
        (b"\0\0\0\x12\0\x12\0\0\0\0\0\1\0\x05ottla" + bytes(8), "does not use TLS"),
        (b"\x16\x03\x01\x00\x05\x01\0\0\x01\0", "TLS handshake failed"),
        (b"\x16\x03\x01\x40\x00\x01\x03\xff\xff" + bytes(20_000), "TLS handshake failed"),
    ],
)
def test_a_client_without_tls_is_disconnected_with_one_line(
    nonsense: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.connection")
    with secured() as broker, socket.create_connection(address(broker), timeout=60) as sock:
        sock.sendall(nonsense)
        while True:
            try:
                if not sock.recv(1000):
                    break
            except ConnectionResetError:
                break
    (line,) = [record.getMessage() for record in caplog.records]
    assert told in line and "\n" not in line


def test_a_name_without_a_rule_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.connection")
    rules = "RULE:^CN=bob.*$/bob/"
    with secured(ssl_client_auth="required", ssl_principal_mapping_rules=rules) as broker:
        assert refused(broker, client_security(tmp_path, alice()))
    assert "no rule of ssl.principal.mapping.rules applies to CN=alice" in caplog.text


def test_a_client_that_trusts_another_authority_does_not_connect(tmp_path: Path) -> None:
    with secured() as broker, pytest.raises(ConnectionError, match=r"certificate was rejected: .*issuer"):
        connected(broker, client_security(tmp_path, trusted=authority("two").certificate))


# A change of keys


def alter(client: RawClient, changes: dict[str, str], *, validate_only: bool = False) -> tuple[int, str]:
    configs = tuple(AlterableConfig(name=name, config_operation=0, value=value) for name, value in changes.items())
    resource = AlterConfigsResource(resource_type=4, resource_name="0", configs=configs)
    (answer,) = client.ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)).responses
    return answer.error_code, answer.error_message or ""


def certificate_of(broker: ottla.Broker) -> str:
    """Return the certificate that a listener presents."""
    with connected(broker, Security(ssl._create_unverified_context())) as client:
        assert isinstance(client._socket, ssl.SSLSocket)
        shown = client._socket.getpeercert(binary_form=True)
        assert shown is not None
        return ssl.DER_cert_to_PEM_cert(shown)


def test_new_keys_apply_to_new_connections_and_open_ones_continue(tmp_path: Path) -> None:
    store = written(tmp_path / "server.pem", server())
    own = {
        "listener_name_ssl_ssl_keystore_location": str(store),
        "ssl_keystore_key": "",
        "ssl_keystore_certificate_chain": "",
    }
    location = {"listener.name.ssl.ssl.keystore.location": str(store)}
    with secured(**own) as broker, connected(broker, client_security(tmp_path)) as client:
        create_topic(client, "t")
        again = authority().issue("server", ["localhost", "127.0.0.1", "::1"])
        written(store, again)
        assert alter(client, location, validate_only=True) == (0, "")
        assert certificate_of(broker) == server().certificate
        assert alter(client, location) == (0, "")  # the same value again
        assert certificate_of(broker) == again.certificate
        assert produce(client, "t", ("k", "v")).error_code == ErrorCode.NONE


def test_unusable_keys_change_nothing(tmp_path: Path) -> None:
    with secured() as broker, connected(broker, client_security(tmp_path)) as client:
        for change, told in (
            ({"listener.name.ssl.ssl.keystore.key": "nonsense"}, "private key not found"),
            ({"listener.name.ssl.ssl.keystore.key": alice().key}, "does not match"),
            (
                {
                    "listener.name.ssl.ssl.keystore.key": alice().key,
                    "listener.name.ssl.ssl.keystore.certificate.chain": alice().certificate,
                },
                "ssl.allow.dn.changes",
            ),
            ({"listener.name.ssl.ssl.truststore.location": "/none"}, "must not be set together with"),
            ({"listener.name.ssl.ssl.client.auth": "maybe"}, "must be one of"),
        ):
            code, message = alter(client, change)
            assert code == ErrorCode.INVALID_REQUEST and told in message and "PRIVATE KEY-----\n" not in message
            assert certificate_of(broker) == server().certificate
        assert alter(client, {"listener.name.ssl.ssl.client.auth": "required"}) == (0, "")
        assert refused(broker, client_security(tmp_path))
        assert not refused(broker, client_security(tmp_path, alice()))


def test_changed_files_are_noticed_and_broken_ones_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = written(tmp_path / "server.pem", server())
    with secured(ssl_keystore_location=str(store), ssl_keystore_key="", ssl_keystore_certificate_chain="") as broker:
        keys = broker.inner.services.listener_keys
        again = authority().issue("server", ["localhost", "127.0.0.1", "::1"])
        store.write_text(again.key)
        for _ in range(3):
            broker.run(keys.look)
        assert certificate_of(broker) == server().certificate
        assert caplog.text.count("the current keys remain in use") == 1
        written(store, again)
        broker.run(keys.look)
        assert certificate_of(broker) == again.certificate


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"ssl.keystore.location": "/none/server.pem"}, "must not be set together with"),
        ({"ssl.keystore.key": "", "ssl.keystore.certificate.chain": ""}, "ssl.keystore.location is not set"),
        ({"ssl.keystore.key": "nonsense"}, "private key not found"),
    ],
)
def test_a_listener_without_keys_does_not_start(change: dict[str, str], told: str) -> None:
    broker = ottla.Broker(overrides=LISTENER | inline(server()) | change)
    with pytest.raises(ConfigError, match=told):
        broker.start()


# The transport, between two sockets


class Peer:
    """The client's side, in a thread."""

    def __init__(self, sock: socket.socket, security: Security) -> None:
        self.error: BaseException | None = None
        self.received = bytearray()
        self._sock, self._security = sock, security
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        self._sock.close()

    def _run(self) -> None:
        try:
            with self._security.secured(self._sock, "localhost") as sock:
                while data := sock.recv(1 << 20):
                    self.received += data
        except BaseException as error:  # noqa: BLE001 -- looked at by the test
            self.error = error


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        theirs = socket.create_connection(listening.getsockname(), timeout=60)
        return listening.accept()[0], theirs


def server_context(tmp_path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(written(tmp_path / "server.pem", server()))
    return context


async def test_all_kinds_of_parts_are_sent_in_order(tmp_path: Path) -> None:
    content = bytes(range(256)) * 4_096
    (tmp_path / "log").write_bytes(content)
    file = OsFiles().open(str(tmp_path / "log"))
    ours, theirs = pair()
    with Peer(theirs, client_security(tmp_path)) as peer:
        transport = TlsTransport(ours, server_context(tmp_path))
        await transport.shake_hands()
        small = [bytes([n]) * n for n in range(200)]
        parts: list[Part] = [
            b"head",
            memoryview(content)[:100_000],
            FileSlice(file, 5, 900_000),
            b"",
            bytearray(b"x"),
            *small,
        ]
        await transport.send(parts)
        transport.close()
    assert peer.error is None  # it received a close_notify
    assert bytes(peer.received) == b"head" + content[:100_000] + content[5:900_005] + b"x" + b"".join(small)


async def test_a_shortened_file_ends_the_connection(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(bytes(1000))
    ours, theirs = pair()
    with Peer(theirs, client_security(tmp_path)):
        transport = TlsTransport(ours, server_context(tmp_path))
        await transport.shake_hands()
        with pytest.raises(trio.BrokenResourceError, match="before the expected end"):
            await transport.send([FileSlice(OsFiles().open(str(tmp_path / "log")), 0, 2000)])
        transport.close()


async def test_an_endless_handshake_is_limited_by_its_size(tmp_path: Path) -> None:
    ours, theirs = pair()
    # A hello of 100 000 bytes, in records of OpenSSL's choice.
    body = b"\x01\x01\x86\xa0\x03\x03" + bytes(32) + b"\0" + bytes(60_000)
    records = [body[at : at + 8_000] for at in range(0, len(body), 8_000)]
    theirs.sendall(b"".join(b"\x16\x03\x01" + len(record).to_bytes(2, "big") + record for record in records))
    transport = TlsTransport(ours, server_context(tmp_path))
    with pytest.raises(HangUpError, match=f"TLS handshake failed: more than {HANDSHAKE_BYTES_MAX}"):
        await transport.shake_hands()
    transport.close()
    theirs.close()


async def test_a_silent_client_is_disconnected_after_ten_seconds(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    from ottla.server.config.broker_config import BrokerConfig
    from ottla.server.network.authentication.allowance import BEFORE_S, Allowance
    from ottla.server.network.authentication.counts import Counts
    from ottla.server.network.authentication.handshake import shake_hands
    from ottla.server.security.tls.contexts import make_context
    from ottla.server.security.tls.settings import tls_settings

    ours, theirs = pair()
    tls = make_context(tls_settings(BrokerConfig.from_texts(inline(server())), "SSL"))
    transport = TlsTransport(ours, tls.context)
    begin_s = trio.current_time()
    with pytest.raises(HangUpError, match="after 10 s"):
        nobody: Any = None
        await shake_hands(transport, tls, nobody, Allowance(), Counts(), logs_in=False)
    assert trio.current_time() - begin_s == pytest.approx(BEFORE_S)
    transport.close()
    theirs.close()
