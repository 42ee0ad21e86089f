"""Keys and values of coordinators' records: a number (a key's type, a value's schema version), then a message."""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...protocol.errors import ProtocolError
from ...protocol.wire import Codec, Parts

NUMBER = Struct(">h")


def write_blob(number: int, with_codec: Codec, message: object) -> bytes:
    parts = Parts()
    parts.tail += NUMBER.pack(number)
    with_codec.write(message, parts)
    return bytes(parts.tail)


def read_number(blob: bytes) -> int:
    """The number in front. ProtocolError if there is none."""
    if len(blob) < NUMBER.size:
        raise ProtocolError(f"{len(blob)} bytes where a type or version should be")
    number: int = NUMBER.unpack_from(blob)[0]
    return number


def read_message(with_codec: Codec, blob: bytes) -> Any:
    """The message behind the number. ProtocolError if it is not all of the blob."""
    message, end = with_codec.read(memoryview(blob), NUMBER.size)
    if end != len(blob):
        raise ProtocolError(f"{len(blob) - end} bytes follow {with_codec.cls.__name__}")
    return message
