"""Private keys, certificates and whom to trust, out of files and texts.

All come out as PEM in memory: OpenSSL takes them from there, files are read once, and what is used is what was checked.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from typing import NamedTuple

from ....storage.topics.options import ConfigError
from .settings import PEM, KeySource, TlsSettings

STORE_BYTES_MAX = 16 << 20
"""Of a file: the certificates of all public authorities take a quarter of a megabyte."""
_JKS_BEGINNINGS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM_BEGINNING = b"-----BEGIN "

Stamp = tuple[int, int, int] | None

CERTIFICATE = "CERTIFICATE"
_BLOCK = re.compile(
    rb"-----BEGIN ([A-Z0-9 ]{1,40})-----([^-]*(?:-(?!----)[^-]*)*)-----END \1-----",
)
_LINE_CHARACTERS = 64


class Block(NamedTuple):
    """One of the things that follow each other in PEM."""

    label: str
    pem: bytes
    """The whole of it, with lines, the last of which has its end."""

    @property
    def is_certificate(self) -> bool:
        return self.label in (CERTIFICATE, f"X509 {CERTIFICATE}")

    @property
    def is_key(self) -> bool:
        return self.label.endswith("PRIVATE KEY")


def blocks(text: bytes) -> list[Block]:
    """What there is in `text`, PEM as people write it, as OpenSSL reads it; in its order. What stands between is for people.

    A value of a properties file that goes over several lines has none of its line ends left, only spaces at best: Apache Kafka
    takes that, and OpenSSL wants lines.
    """
    return [_block(*match.groups()) for match in _BLOCK.finditer(text)]


def _block(label: bytes, content: bytes) -> Block:
    if b":" in content:  # the headers of an old encrypted key have lines of their own
        body = content.strip()
    else:
        base64 = b"".join(content.split())
        body = b"\n".join(base64[at : at + _LINE_CHARACTERS] for at in range(0, len(base64), _LINE_CHARACTERS))
    return Block(label.decode("ascii"), b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (label, body, label))


@dataclass(frozen=True, slots=True)
class Key:
    """What one side shows of itself."""

    pem: bytes = field(repr=False)
    """The private key, which may be encrypted, and the certificates, its own first."""
    password: str | None = field(repr=False)
    certificate: str
    """Its own, in PEM."""


def read_key(store: KeySource) -> Key:
    """The private key and certificates of a store. Blocks.

    Raises:
        ConfigError: The file cannot be read or is not what it is said to be, or the password is wrong. One line.
    """
    password = store.key_password
    if store.key is not None:
        found = blocks(f"{store.key}\n{store.certificates}".encode())
    else:
        content = _content(store)
        if not _is_pem(store, content):
            from .pkcs12 import key_in_pem

            content, password = key_in_pem(store, content), None
        found = blocks(content)
    if not any(block.is_key for block in found):
        raise store.refused("location" if store.key is None else "key", "private key not found")
    certificates = [block.pem for block in found if block.is_certificate]
    if not certificates:
        raise store.refused(
            "location" if store.key is None else "certificate.chain",
            f"certificate not found (-----BEGIN {CERTIFICATE}-----)",
        )
    pem = b"".join(block.pem for block in found if block.is_key or block.is_certificate)
    return Key(pem, password, certificates[0].decode("ascii", "replace"))


def stamps_of(settings: TlsSettings) -> dict[str, Stamp]:
    """What the files look like that these settings name, by path. Blocks."""
    stores = (settings.key_store, settings.trust_store)
    return {
        store.location: _stamp(store.location) for store in stores if store is not None and store.location is not None
    }


def _stamp(path: str) -> Stamp:
    """What tells a file from the same one after a change; None if there is none."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_trusted(store: KeySource) -> str:
    """The certificates of a store, in PEM. Blocks. Raises ConfigError as `read_key`."""
    if store.certificates is not None:
        name, content = "certificates", store.certificates.encode()
    else:
        name, content = "location", _content(store)
        if not _is_pem(store, content):
            from .pkcs12 import certificates_in_pem

            content = certificates_in_pem(store, content)
    found = [block.pem for block in blocks(content) if block.is_certificate]
    if not found:
        raise store.refused(name, f"certificate not found (-----BEGIN {CERTIFICATE}-----)")
    return b"".join(found).decode("ascii", "replace")


def _content(store: KeySource) -> bytes:
    assert store.location is not None
    try:
        if stat.S_ISFIFO(os.stat(store.location).st_mode):
            raise store.refused("location", "is a named pipe; must be a regular file")
        with open(store.location, "rb") as file:
            content = file.read(STORE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise store.refused("location", f"cannot be read: {reason}") from None
    if len(content) > STORE_BYTES_MAX:
        raise store.refused("location", f"is too large (limit {STORE_BYTES_MAX} bytes)")
    return content


def _is_pem(store: KeySource, content: bytes) -> bool:
    """Whether a file is PEM, as its type says. ConfigError: it is not what the type says."""
    if content[:4] in _JKS_BEGINNINGS:
        raise _jks(store)
    is_pem = _PEM_BEGINNING in content
    if store.type == PEM and not is_pem:
        raise store.refused("location", "is not PEM: no line starts with -----BEGIN")
    if store.type != PEM and is_pem:
        raise store.refused("location", f"is PEM, but {store.prefix}.type is {store.type}; set it to {PEM}")
    return is_pem


def _jks(store: KeySource) -> ConfigError:
    return store.refused(
        "location",
        "is a JKS file, which only Java can read; convert it with keytool -importkeystore -srckeystore"
        f" {store.location} -destkeystore {store.location}.p12 -deststoretype PKCS12, and use that file",
    )
