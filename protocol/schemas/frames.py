"""Frames of Confluent's serializers: how a key or a value names its schema.

    value      0, the schema's id in four bytes, then the data
    header     `__value_schema_id` or `__key_schema_id`: 1 and the schema's GUID in 16 bytes, or 0 and its id; the value is the data

With Protobuf, the indexes of the message follow the id or the GUID.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Part = Literal["key", "value"]
PARTS: tuple[Part, Part] = ("key", "value")

_ID_BYTES, _GUID_BYTES = 5, 17
"""Bytes of a frame with an id, and with a GUID."""
_MAGIC_ID, _MAGIC_GUID = 0, 1


class Frame(NamedTuple):
    """The schema that bytes name."""

    schema: int | str
    """Its id, or its GUID."""
    head: bytes
    """The bytes with the indexes of a Protobuf message."""
    start: int
    """Where these begin. Without indexes, the data begin here if they are in `head`."""
    data: bytes | None
    """The data, or None if they follow in `head`."""


Frames = tuple[Frame | None, Frame | None]
"""Frames of the key and of the value of a record."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A key or a value that names a schema."""

    schema: str
    """The schema's id, or its GUID if the record has only that."""
    text: str | None
    """The content as JSON; None if it could not be decoded."""
    reason: str | None
    """Why it could not."""


def frame_of(part: Part, content: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> Frame | None:
    """Return the frame of a key or a value; None if it names no schema."""
    if content is None:
        return None
    wanted = f"__{part}_schema_id"
    for name, value in headers:
        if name == wanted and value is not None:
            if len(value) >= _GUID_BYTES and value[0] == _MAGIC_GUID:
                return Frame(str(uuid.UUID(bytes=value[1:_GUID_BYTES])), value, _GUID_BYTES, content)
            schema_id = _id(value)
            return None if schema_id is None else Frame(schema_id, value, _ID_BYTES, content)
    schema_id = _id(content)
    return None if schema_id is None else Frame(schema_id, content, _ID_BYTES, None)


def _id(data: bytes) -> int | None:
    """Return the id that bytes begin with. Registries count from 1 on, so small numbers of eight bytes are no frames."""
    if len(data) < _ID_BYTES or data[0] != _MAGIC_ID:
        return None
    found = int.from_bytes(data[1:_ID_BYTES])
    return found if 0 < found < 1 << 31 else None
