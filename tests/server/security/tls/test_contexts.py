"""The TLS context of a listener's ssl.* options, and the error of each mistake in them."""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.server.config.broker_config import BrokerConfig
from ottla.server.security.principal import ANONYMOUS, Principal
from ottla.server.security.tls.contexts import TlsContext, check_follows, make_context
from ottla.server.security.tls.settings import tls_settings
from ottla.server.security.tls.stores import blocks
from ottla.storage.topics.options import ConfigError
from support.noted import each_case
from support.security.certificates import alice, authority, expired, inline, server, stranger, written


def made(options: dict[str, str]) -> TlsContext:
    return make_context(tls_settings(BrokerConfig.from_texts(options), "SECURE"))


def encrypted(password: str) -> str:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key(server().key.encode(), None)
    how = BestAvailableEncryption(password.encode())
    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how).decode())


def in_file(path: Path, content: str | bytes, kind: str = "PEM", **others: str) -> dict[str, str]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return {"ssl.keystore.location": str(path), "ssl.keystore.type": kind} | {
        name.replace("_", "."): value for name, value in others.items()
    }


def test_keys_come_from_texts_and_files_in_pem_and_pkcs12(tmp_path: Path) -> None:
    key, certificate = server().key, server().certificate
    pkcs12 = server().pkcs12("server", "secret", authority().certificate)
    for options in (
        inline(server()),
        in_file(tmp_path / "a", key + certificate),
        in_file(tmp_path / "b", certificate + "for people\n" + key),
        in_file(tmp_path / "c", encrypted("secret") + certificate, ssl_key_password="secret"),
        in_file(tmp_path / "d", pkcs12, "PKCS12", ssl_keystore_password="secret"),
        in_file(tmp_path / "e", pkcs12, "jks", ssl_keystore_password="secret"),  # as Java reads it
    ):
        assert made(options).subject == "CN=server"


def test_a_listeners_own_value_precedes_the_general_one() -> None:
    own = {f"listener.name.secure.{name}": value for name, value in inline(alice()).items()}
    assert made(inline(server()) | own).subject == "CN=alice,O=Ottla\\, Inc."


def test_a_multi_line_value_in_a_properties_file_may_have_spaces() -> None:
    options = {name: value.replace("\n", " ") for name, value in inline(server()).items()}
    assert made(options).subject == "CN=server"


def test_any_pem_input_is_split_in_linear_time() -> None:
    assert blocks(b"-----BEGIN CERTIFICATE-----" * 20_000) == []
    assert blocks(b"-----BEGIN A-----" + b"-" * 100_000) == []


@each_case(
    "change, told",
    [
        ({"ssl.keystore.key": ""}, ["ssl.keystore.certificate.chain", "ssl.keystore.key is not set"]),
        ({"ssl.keystore.certificate.chain": ""}, ["certificate.chain is not set"]),
        ({"ssl.keystore.key": "", "ssl.keystore.certificate.chain": ""}, ["ssl.keystore.location is not set"]),
        ({"ssl.keystore.key": "nonsense"}, ["ssl.keystore.key", "private key not found"]),
        ({"ssl.keystore.certificate.chain": "nonsense"}, ["certificate.chain", "certificate not found"]),
        ({"ssl.keystore.location": "/x"}, ["/x", "must not be set together with"]),
        ({"ssl.keystore.password": "secret"}, ["ssl.keystore.password", "[hidden]", "ssl.key.password"]),
        ({"ssl.keystore.type": "BCFKS"}, ["BCFKS", "PEM, PKCS12"]),
        ({"ssl.keystore.type": "PKCS12"}, ["PKCS12", "must be PEM if"]),
        ({"ssl.truststore.type": "JKS"}, ["JKS", "must be PEM if"]),
        ({"ssl.truststore.certificates": "nonsense"}, ["truststore.certificates", "certificate not found"]),
        ({"ssl.truststore.certificates": "", "ssl.truststore.password": "secret"}, ["location is not set"]),
        ({"ssl.enabled.protocols": "TLSv1.1"}, ["TLSv1.1", "must contain one of: TLSv1.2, TLSv1.3"]),
        ({"ssl.enabled.protocols": "TLSv1.4"}, ["TLSv1.4 not found", "did you mean"]),
        ({"ssl.protocol": "SSL"}, ["SSL", "TLSv1.3"]),
        ({"ssl.cipher.suites": "TLS_ZORK"}, ["suite TLS_ZORK not found"]),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_NULL_SHA"}, ["not found in OpenSSL"]),
        ({"ssl.principal.mapping.rules": "RULE:("}, ["ssl.principal.mapping.rules", "RULE:("]),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_CBC_SHA"}, ["with a suite"]),
    ],
)
def test_unsupported_options_are_refused_in_one_line(change: dict[str, str], told: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        made(inline(server()) | change)
    text = str(refused.value)
    assert all(part in text for part in told), text
    assert "\n" not in text and "secret" not in text and "BEGIN PRIVATE" not in text


def test_invalid_files_are_refused_in_one_line(tmp_path: Path) -> None:
    key, certificate = server().key, server().certificate
    pkcs12 = server().pkcs12("server", "secret", authority().certificate)
    jks = b"\xfe\xed\xfe\xed\0\0\0\2"
    path = tmp_path / "store"
    rows: list[tuple[str | bytes, str, dict[str, str], str]] = [
        ("", "PEM", {}, "is not PEM"),
        (certificate, "PEM", {}, "private key not found"),
        (key, "PEM", {}, "certificate not found"),
        (alice().key + certificate, "PEM", {}, "does not match"),
        (key + certificate.replace("MII", "NII", 1), "PEM", {}, "OpenSSL cannot load"),
        (encrypted("secret") + certificate, "PEM", {}, "ssl.key.password is not set"),
        (encrypted("secret") + certificate, "PEM", {"ssl_key_password": "wrong"}, "cannot read the private key with"),
        (key + certificate, "PKCS12", {"ssl_keystore_password": "secret"}, "set it to PEM"),
        (pkcs12, "PKCS12", {}, "ssl.keystore.password is not set"),
        (pkcs12, "PKCS12", {"ssl_keystore_password": "wrong"}, "wrong password"),
        (pkcs12, "PEM", {}, "is not PEM"),
        (jks, "JKS", {"ssl_keystore_password": "secret"}, "keytool -importkeystore"),
        (bytes((16 << 20) + 1), "PEM", {}, "is too large"),
    ]
    for content, kind, others, told in rows:
        with pytest.raises(ConfigError) as refused:
            made(in_file(path, content, kind, **others))
        text = str(refused.value)
        assert told in text and "\n" not in text and "secret" not in text, text
    os.mkfifo(tmp_path / "pipe")
    for location, told in (
        (tmp_path / "none", "cannot be read: No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "pipe", "is a named pipe"),
    ):
        with pytest.raises(ConfigError, match=told):
            made({"ssl.keystore.location": str(location), "ssl.keystore.type": "PEM"})


def test_versions_and_suites_are_the_configured_ones() -> None:
    found = made(inline(server(), ssl_enabled_protocols="TLSv1.2")).context
    assert (found.minimum_version, found.maximum_version) == (ssl.TLSVersion.TLSv1_2,) * 2
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    found = made(inline(server(), ssl_cipher_suites=suite)).context
    assert found.maximum_version == ssl.TLSVersion.TLSv1_2
    names = [each["name"] for each in found.get_ciphers() if each["protocol"] != "TLSv1.3"]
    assert names == ["ECDHE-ECDSA-AES128-GCM-SHA256"]


def test_unsupported_versions_are_omitted_with_a_warning() -> None:
    settings = tls_settings(BrokerConfig.from_texts(inline(server(), ssl_enabled_protocols="TLSv1.2,TLSv1.1")), "A")
    assert settings.versions == (ssl.TLSVersion.TLSv1_2,)
    (line,) = settings.warnings
    assert "TLSv1.1 is not supported" in line


def test_a_certificate_gives_the_clients_principal() -> None:
    found = made(inline(server(), ssl_principal_mapping_rules="RULE:^CN=(.*?),.*$/$1/"))
    assert found.principal(None) == ANONYMOUS
    assert found.principal(ssl.PEM_cert_to_DER_cert(alice().certificate)) == Principal("User", "alice")


def test_keys_of_a_running_listener_change_without_interruption() -> None:
    again = authority().issue("server", ["localhost", "127.0.0.1", "::1", "more.example"])
    check_follows(made(inline(server())), made(inline(again)))
    fewer = authority().issue("server", ["localhost"])
    with pytest.raises(ConfigError, match=r"lacks alternative names.*ssl\.allow\.san\.changes"):
        check_follows(made(inline(server())), made(inline(fewer)))
    with pytest.raises(ConfigError, match=r"is CN=alice.*one CN=server.*ssl\.allow\.dn\.changes"):
        check_follows(made(inline(server())), made(inline(alice())))
    allowed = inline(alice(), ssl_allow_dn_changes="true", ssl_allow_san_changes="true")
    check_follows(made(inline(server())), made(allowed))
    with pytest.raises(ConfigError, match="cannot be added"):
        check_follows(made(inline(server(), ssl_truststore_certificates="")), made(inline(server())))


def test_no_part_of_a_key_is_shown_or_left_in_files(tmp_path: Path) -> None:
    before = open_files()
    found = made(in_file(tmp_path / "a", encrypted("hunter2") + server().certificate, ssl_key_password="hunter2"))
    assert "hunter2" not in repr(found) and "PRIVATE KEY" not in repr(found)
    assert open_files() <= before


def open_files() -> set[tuple[str, str]]:
    """Return the descriptors of this process and their files; none where the system does not list them.

    Sockets and pipes are left out, as they belong to other tests here.
    """
    found = set()
    for descriptor in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        with suppress(FileNotFoundError):  # the one that lists them
            found.add((descriptor, os.readlink(f"/proc/self/fd/{descriptor}")))
    return {
        (descriptor, name) for descriptor, name in found if not name.startswith(("socket:", "pipe:", "anon_inode:"))
    }


@pytest.mark.parametrize("identity", [expired, stranger, alice])
def test_files_written_by_tests_are_complete(identity: object, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(written(tmp_path / "x", identity()))  # type: ignore[operator]


def test_at_a_sasl_listener_certificates_give_no_principal() -> None:
    """Apache Kafka's SaslChannelBuilder: only the listener's own ssl.client.auth applies at a listener with SASL."""
    config = BrokerConfig.from_texts(inline(server(), ssl_client_auth="required"))
    settings = tls_settings(config, "SECURE", is_over_sasl=True)
    assert settings.client_auth is ssl.CERT_NONE
    (line,) = settings.warnings
    assert "listener.name.secure.ssl.client.auth" in line
    own = BrokerConfig.from_texts(inline(server()) | {"listener.name.secure.ssl.client.auth": "required"})
    found = make_context(tls_settings(own, "SECURE", is_over_sasl=True))
    assert found.settings.client_auth is ssl.CERT_REQUIRED and not found.settings.warnings
    assert found.principal(ssl.PEM_cert_to_DER_cert(alice().certificate)) == ANONYMOUS


def test_an_error_names_an_option_as_configured() -> None:
    with pytest.raises(ConfigError, match=r"configuration ssl\.keystore\.location: cannot be read"):
        made({"ssl.keystore.location": "/none", "ssl.keystore.type": "PEM"})
    with pytest.raises(
        ConfigError, match=r"configuration listener\.name\.secure\.ssl\.keystore\.location: cannot be read"
    ):
        made({"listener.name.secure.ssl.keystore.location": "/none", "ssl.keystore.type": "PEM"})
    with pytest.raises(ConfigError, match=r"configuration ssl\.protocol: .* \(listener SECURE\)$"):
        made(inline(server(), ssl_protocol="SSL"))
