"""Certificates for tests, made once a run, and files of them."""

from __future__ import annotations

import ssl
import time
from functools import cache
from pathlib import Path

import pytest

from ottla.server.client.security import Security
from ottla.server.security.tls.throw_away import Authority, Identity

DAY_MS = 86_400_000
HOSTS = ("localhost", "127.0.0.1", "::1")


def now_ms() -> int:
    """OpenSSL looks at the wall clock, so certificates have to hold today."""
    return time.time_ns() // 1_000_000


@cache
def authority(name: str = "one") -> Authority:
    """A test that asks for one is left out where the package for it is missing."""
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
    """Signed by somebody whom nobody trusts."""
    return authority("two").issue("alice", organization="Ottla, Inc.")


def inline(identity: Identity, **others: str) -> dict[str, str]:
    """Broker options of a TLS listener with this key; `_` in the names of others stands for the point."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key,
        "ssl.keystore.certificate.chain": identity.certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().certificate,
    } | {name.replace("_", "."): value for name, value in others.items()}


def client_security(directory: Path, identity: Identity | None = None, trusted: str | None = None) -> Security:
    """Of a client that trusts the authority, and shows `identity` to whoever asks."""
    context = ssl.create_default_context(cadata=trusted or authority().certificate)
    if identity is not None:
        path = written(directory / "client.pem", identity)
        context.load_cert_chain(path)
    return Security(context)


def written(path: Path, identity: Identity) -> Path:
    """Key and certificate in one file."""
    path.write_text(identity.key + identity.certificate)
    return path
