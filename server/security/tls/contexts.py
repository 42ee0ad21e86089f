"""What a listener speaks TLS with: OpenSSL's context, made of the listener's settings, and what is to be known of it later."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from ....storage.topics.options import ConfigError
from ..principal import ANONYMOUS, USER, Principal, UnprovenError
from .mapping_rules import mapped
from .names import alternative_names, subject
from .settings import KeySource, TlsSettings
from .stores import Key, Stamp, read_key, read_trusted, stamps_of


@dataclass(frozen=True, slots=True, eq=False)
class TlsContext:
    """Immutable; a change of keys brings a new one, and connections keep theirs."""

    settings: TlsSettings
    context: ssl.SSLContext
    stamps: dict[str, Stamp] = field(repr=False)
    """What the files looked like before they were read, by path."""
    subject: str
    alternative_names: frozenset[bytes]

    def principal(self, certificate: bytes | None) -> Principal:
        """Who a client with this certificate (DER) is; None: it has shown none. UnprovenError: no mapping rule applies."""
        if certificate is None or not self.settings.names_clients:
            return ANONYMOUS
        try:
            name = subject(certificate)
        except ValueError as error:  # OpenSSL is less strict than DER
            raise UnprovenError(f"cannot read the subject of the certificate: {error}") from None
        return Principal(USER, mapped(self.settings.rules, name))


class ListenerTls:
    """The present context of one listener of one node; a connection takes it when it comes."""

    __slots__ = ("present",)

    def __init__(self, present: TlsContext) -> None:
        self.present = present


def make_context(settings: TlsSettings) -> TlsContext:
    """Read the files that the settings name, and make a context of them. Blocks.

    Raises:
        ConfigError: Anything of it cannot be had; one line, without secrets.
    """
    stamps = stamps_of(settings)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = settings.versions[0], settings.versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION
    # A session that is resumed brings the next ticket. OpenSSL's two cost 0.4 ms where clients show certificates, half of what
    # these cost, and mostly nobody uses any.
    context.num_tickets = 1
    context.verify_mode = settings.client_auth
    # A certificate in the trust store is trusted as it is, be it of a root or not: Java's rule.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.ciphers is not None:
        try:
            settings.ciphers.choose(context)
        except ssl.SSLError as error:
            raise ConfigError(
                f"{settings.option_prefix}ssl.cipher.suites: rejected by OpenSSL: {_reason(error)}"
            ) from None
    key = read_key(settings.key_store)
    load_key(context, settings.key_store, key)
    if settings.trust_store is not None:
        # Where no client is asked for a certificate it is not used, and yet checked: a change of ssl.client.auth is not to
        # find it broken.
        is_used = settings.client_auth is not ssl.CERT_NONE
        where = context if is_used else ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_trusted(where, settings.trust_store, read_trusted(settings.trust_store))
    elif settings.client_auth is not ssl.CERT_NONE:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
    try:
        own = ssl.PEM_cert_to_DER_cert(key.certificate)
        return TlsContext(settings, context, stamps, subject(own), alternative_names(own))
    except ValueError as error:
        raise ConfigError(f"{settings.key_store.prefix}: cannot read the names in the certificate: {error}") from None


def check_follows(old: TlsContext, new: TlsContext) -> None:
    """Whether a running listener may go from one to the other: Apache Kafka's rules, by which clients notice nothing.

    Raises:
        ConfigError: The subject is another one, alternative names are gone, or there was no trust store before.
    """
    settings, store = new.settings, new.settings.key_store
    if old.subject != new.subject and not settings.allows_other_names:
        raise ConfigError(
            f"{store.prefix}: the subject of the new certificate is {new.subject or '(no name)'}, of the current one"
            f" {old.subject or '(no name)'}; ssl.allow.dn.changes is false"
        )
    if not old.alternative_names <= new.alternative_names and not settings.allows_fewer_alternative_names:
        raise ConfigError(
            f"{store.prefix}: the new certificate lacks alternative names of the current one; ssl.allow.san.changes is"
            " false"
        )
    if old.settings.trust_store is None and settings.trust_store is not None:
        raise ConfigError(
            f"{settings.trust_store.prefix}: cannot be added to a listener that started without a trust store; restart"
            " the broker"
        )


def load_key(context: ssl.SSLContext, store: KeySource, key: Key) -> None:
    """Have `context` show what was read from `store`. ConfigError: OpenSSL does not take it."""
    was_asked = False

    def password() -> str:
        nonlocal was_asked
        was_asked = True
        return key.password or ""

    name = "location" if store.key is None else "key"
    with _as_file(key.pem) as path:
        try:
            # With a function, for OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=password)
        except (ssl.SSLError, ValueError) as error:
            raise store.refused(name, _why_no_key(error, was_asked, key)) from None


def _why_no_key(error: Exception, was_asked: bool, key: Key) -> str:
    reason = _reason(error)
    if "mismatch" in reason:
        return "the private key does not match the first certificate"
    if was_asked:
        if key.password is None:
            return "the private key is encrypted, but ssl.key.password is not set"
        return "cannot read the private key with ssl.key.password"
    return f"OpenSSL cannot load the private key and certificates: {reason}"


def load_trusted(context: ssl.SSLContext, store: KeySource, certificates: str) -> None:
    """Have `context` trust what was read from `store`. ConfigError: OpenSSL does not take it."""
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        name = "location" if store.certificates is None else "certificates"
        raise store.refused(name, f"OpenSSL cannot load the certificates: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """What OpenSSL says, in its own words without file names and line numbers."""
    reason = getattr(error, "reason", None) or str(error)
    return str(reason).replace("_", " ").lower()


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path under which OpenSSL, which takes keys from files only, reads `data`: in memory where the system can."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("ottla-tls", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    descriptor, path = tempfile.mkstemp(prefix="ottla-tls-")  # for its owner only
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        yield path
    finally:
        with suppress(OSError):
            os.unlink(path)
