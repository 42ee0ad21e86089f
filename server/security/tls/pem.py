"""PEM as people write it, turned into PEM as OpenSSL reads it.

A value of a properties file that goes over several lines has none of its line ends left, only spaces at best: Apache Kafka
takes that, and OpenSSL wants lines.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
    """What there is in `text`, in its order; what stands between is for people."""
    return [_block(*match.groups()) for match in _BLOCK.finditer(text)]


def _block(label: bytes, content: bytes) -> Block:
    if b":" in content:  # the headers of an old encrypted key have lines of their own
        body = content.strip()
    else:
        base64 = b"".join(content.split())
        body = b"\n".join(base64[at : at + _LINE_CHARACTERS] for at in range(0, len(base64), _LINE_CHARACTERS))
    return Block(label.decode("ascii"), b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (label, body, label))
