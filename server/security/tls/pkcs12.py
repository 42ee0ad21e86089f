"""PKCS#12 files, with the package `cryptography`, which is asked for only where such a file is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....storage.topics.options import ConfigError
from .settings import KeySource

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate


def key_in_pem(store: KeySource, content: bytes) -> bytes:
    """The private key, not encrypted, and its certificates, each followed by the one that has signed it.

    Raises:
        ConfigError: It is no such file, the password is wrong, there is no key, or `cryptography` is not installed.
    """
    found = _loaded(store, content)
    if store.key_password is not None and store.key_password != store.password:
        raise store.refused("password", "must equal ssl.key.password: a PKCS#12 file has one password")
    if found.key is None or found.cert is None:
        raise store.refused("location", "no private key with a certificate found")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = _chain(found.cert.certificate, [each.certificate for each in found.additional_certs])
    certificates: list[bytes] = [each.public_bytes(Encoding.PEM) for each in chain]
    return b"".join((key, *certificates))


def certificates_in_pem(store: KeySource, content: bytes) -> bytes:
    """All certificates. ConfigError as for `key_in_pem`."""
    from_file = _loaded(store, content)
    from cryptography.hazmat.primitives.serialization import Encoding

    found = [*([from_file.cert] if from_file.cert else []), *from_file.additional_certs]
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in found)


def _loaded(store: KeySource, content: bytes) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ConfigError(
            f"{store.prefix}.location: PKCS#12 files need the package cryptography: pip install 'ottla[tls]'; PEM files do not"
        ) from None
    try:
        return load_pkcs12(content, None if store.password is None else store.password.encode())
    except Exception:  # noqa: BLE001 -- whatever is wrong with it; the library's errors may show parts of the file
        raise store.refused(
            "location", f"cannot be read as PKCS#12 with {store.prefix}.password: different format or wrong password"
        ) from None


def _chain(first: Certificate, others: list[Certificate]) -> list[Certificate]:
    """The certificate and those that lead from it to its authority; not the root, which whoever trusts it has."""
    chain = [first]
    while issuer := next((each for each in others if each.subject == chain[-1].issuer), None):
        others.remove(issuer)
        chain.append(issuer)
    return chain
