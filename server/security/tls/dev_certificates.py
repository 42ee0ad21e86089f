"""Certificate authority for tests.

It lives as long as the process that made it, unless its `pem` is kept; no other program trusts it.

Needs the package `cryptography`, which otherwise only PKCS#12 needs.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from ....storage.topics.options import ConfigError

DAYS = 3650
"""Validity of its certificates in days, from the day before, for clocks that are slow."""
LAST_DAYS = 30
"""An authority with fewer days left is no longer used."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Private key and its certificate, in PEM."""

    key: str = field(repr=False)
    certificate: str

    def pkcs12(self, name: str, password: str, trusted: str) -> bytes:
        """Return both as a PKCS#12 file, with the authority's certificate."""
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
        from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates

        return bytes(
            serialize_key_and_certificates(
                name.encode(),
                load_pem_private_key(self.key.encode(), None),
                x509.load_pem_x509_certificate(self.certificate.encode()),
                [x509.load_pem_x509_certificate(trusted.encode())],
                BestAvailableEncryption(password.encode()),
            )
        )


class Authority:
    """Certificate authority: signs certificates.

    Args:
        now_ms: Start of their validity, less one day.

    Raises:
        ConfigError: `cryptography` is not installed.
    """

    def __init__(self, now_ms: int, name: str = "Ottla throw-away CA") -> None:
        try:
            from cryptography import x509
        except ImportError:
            raise ConfigError(
                "certificates for tests need the package cryptography: pip install 'ottla[tls]'"
            ) from None
        self._now_ms = now_ms
        self._key = _new_key()
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        extensions = [(constraints, True), (usage, True)]
        self.certificate = self._signed(self._name, self._key, extensions, now_ms, DAYS)
        """Its certificate in PEM; a client that trusts it trusts everything that it has signed."""

    @classmethod
    def read(cls, text: str, now_ms: int) -> Self | None:
        """Return the authority of this `pem`; None if it has expired, or soon will.

        Raises:
            ValueError: Not such a text. Does not show the text.
            ConfigError: `cryptography` is not installed.
        """
        made = cls(now_ms)
        from cryptography import x509
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(text.encode(), None)
            certificate = x509.load_pem_x509_certificate(text.encode())
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise ValueError("private key or certificate not found") from None
        if key.public_key() != certificate.public_key() or certificate.subject != made._name:
            raise ValueError("key and certificate are not those of a CA")
        end = certificate.not_valid_after_utc - datetime.timedelta(days=LAST_DAYS)
        if end.timestamp() * 1000 < now_ms:
            return None
        made._key, made.certificate = key, text[text.index("-----BEGIN CERTIFICATE-----") :]
        return made

    @property
    def pem(self) -> str:
        """Its private key, not encrypted, and its certificate."""
        return _in_pem(self._key) + self.certificate

    def issue(
        self,
        common_name: str,
        hosts: Iterable[str] = (),
        *,
        organization: str | None = None,
        begins_ms: int | None = None,
        days: int = DAYS,
    ) -> Identity:
        """Make a new key with a certificate, for a server at `hosts` as well as for a client."""
        from cryptography import x509

        key = _new_key()
        parts = [] if organization is None else [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, organization)]
        parts.append(x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name))
        usages = [x509.ExtendedKeyUsageOID.SERVER_AUTH, x509.ExtendedKeyUsageOID.CLIENT_AUTH]
        extensions: list[tuple[Any, bool]] = [(x509.ExtendedKeyUsage(usages), False)]
        if names := [_alternative_name(host) for host in hosts]:
            extensions.append((x509.SubjectAlternativeName(names), False))
        certificate = self._signed(
            x509.Name(parts), key, extensions, self._now_ms if begins_ms is None else begins_ms, days
        )
        return Identity(_in_pem(key), certificate)

    def _signed(self, subject: Any, key: Any, extensions: Iterable[tuple[Any, bool]], begins_ms: int, days: int) -> str:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.serialization import Encoding

        begins, day = datetime.datetime.fromtimestamp(begins_ms / 1000, datetime.UTC), datetime.timedelta(days=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins - day)
            .not_valid_after(begins + days * day)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False)
        )
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, is_critical)
        return str(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM).decode())


def _new_key() -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _in_pem(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return str(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())


def _alternative_name(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
