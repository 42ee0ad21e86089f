"""Certificates for tests, made once per run, and files of them."""

from __future__ import annotations

import ssl
import time
from functools import cache
from pathlib import Path

import pytest

from ottla.server.client.security import Security
from ottla.server.security.tls.dev_certificates import Authority, Identity

DAY_MS = 86_400_000
HOSTS = ("localhost", "127.0.0.1", "::1")


def now_ms() -> int:
    """Return the wall time: OpenSSL uses it, so certificates must be valid today."""
    return time.time_ns() // 1_000_000


@cache
def authority(name: str = "one") -> Authority:
    """Return a certificate authority. Skips the test if the required package is missing."""
    pytest.importorskip("cryptography")
    return Authority(now_ms(), name)


@cache
def server() -> Identity:
    return authority().issue("server", HOSTS)


@cache
def alice() -> Identity:
    return authority().issue("alice", organization="Ottla, Inc.")


@cache
def expired() -> Identity:
    return authority().issue("late", HOSTS, begins_ms=now_ms() - 40 * DAY_MS, days=30)


@cache
def stranger() -> Identity:
    """Return a certificate that an untrusted authority has signed."""
    return authority("two").issue("alice", organization="Ottla, Inc.")


def inline(identity: Identity, **others: str) -> dict[str, str]:
    """Return broker options of a TLS listener with this key; `_` in the names of others stands for the point."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key,
        "ssl.keystore.certificate.chain": identity.certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().certificate,
    } | {name.replace("_", "."): value for name, value in others.items()}


def client_security(directory: Path, identity: Identity | None = None, trusted: str | None = None) -> Security:
    """Return the security of a client that trusts the authority and presents `identity`."""
    context = ssl.create_default_context(cadata=trusted or authority().certificate)
    if identity is not None:
        path = written(directory / "client.pem", identity)
        context.load_cert_chain(path)
    return Security(context)


def written(path: Path, identity: Identity) -> Path:
    """Write key and certificate into one file."""
    path.write_text(identity.key + identity.certificate)
    return path
