"""Bytes of keys and values as texts, for whom JSON and forms have nothing better."""

from __future__ import annotations

import base64
from enum import Enum

from ..runtime.errors import ControlError, Kind

_SHOWN = 100


class Encoding(Enum):
    """Encoding of bytes as text."""

    TEXT = "text"
    """UTF-8."""
    HEX = "hex"
    BASE64 = "base64"


def encoded(data: bytes) -> tuple[str, Encoding]:
    """`text` if the bytes are valid UTF-8, else `base64`."""
    try:
        return data.decode(), Encoding.TEXT
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), Encoding.BASE64


def decoded(what: str, text: str, encoding: Encoding) -> bytes:
    """The bytes that `text` stands for. ControlError INVALID, naming the field `what`: it is not written so."""
    try:
        if encoding is Encoding.HEX:
            return bytes.fromhex(text)
        if encoding is Encoding.BASE64:
            return base64.b64decode(text, validate=True)
        return text.encode()
    except ValueError:
        raise ControlError(Kind.INVALID, f"{what}: expected {_EXPECTED[encoding]}, found {text[:_SHOWN]!r}") from None


_EXPECTED = {Encoding.TEXT: "text", Encoding.HEX: "pairs of hexadecimal digits", Encoding.BASE64: "base64"}
