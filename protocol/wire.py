"""Bytes to messages and back, by functions written from the schema: the codec of every API.

`codec(cls, version, flexible)` turns the annotations of a message class (`schema.py`) into Python source for that one
version, nested structs and all, and compiles it on first use. What the source avoids makes it fast: no branch on the
version, no call per field, neighbouring fields of fixed size in one `struct` call, and lengths of strings and arrays
read in the same call as the fields before them. Print `codec(...).source("read")` to see it.

A read value never shares memory with the frame, but for `Records`: those are a view into it.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Literal

from .codegen import MAX_ELEMENTS, Source, read_uvarint, uvarint
from .reader_source import ReaderSource
from .schema import (
    ZERO_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    RecordsPart,
    String,
    UInt16,
    UInt32,
    Uuid,
    nullable_since,
    since,
    tag,
    until,
)
from .writer_source import WriterSource

__all__ = [
    "MAX_ELEMENTS",
    "ZERO_UUID",
    "Bool",
    "Bytes",
    "Codec",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Parts",
    "Records",
    "RecordsPart",
    "String",
    "UInt16",
    "UInt32",
    "Uuid",
    "codec",
    "nullable_since",
    "read_uvarint",
    "since",
    "tag",
    "until",
    "uvarint",
]


class Parts:
    """The pieces of a message being written: our own bytes, and between them records that are passed on untouched."""

    __slots__ = ("elements", "tail")

    def __init__(self) -> None:
        self.tail = bytearray()
        self.elements: list[Any] = [self.tail]

    def add(self, records: RecordsPart) -> bytearray:
        """Put records behind what was written so far; returns the new tail to write to."""
        self.tail = bytearray()
        self.elements += (records, self.tail)
        return self.tail


Read = Callable[[memoryview, int], tuple[Any, int]]
Write = Callable[[Any, Parts], None]


class Codec:
    """Reads and writes one message class in one version."""

    def __init__(self, cls: type[Any], version: int, flexible: bool) -> None:
        self.cls, self.version, self.flexible = cls, version, flexible

    @cached_property
    def read(self) -> Read:
        """`read(view, at) -> (value, next_at)`.

        Raises ProtocolError for bytes that are not this message: cut short, null where there is none, not UTF-8, an
        array longer than the bytes left, tagged fields of later versions. `view` must have byte format; bytes behind
        `next_at` are the caller's business.
        """
        read: Read = self._compile("read")
        return read

    @cached_property
    def write(self) -> Write:
        """`write(value, parts)` appends to `parts`. Fields that this version lacks are left out.

        Raises ValueError when the value does not fit the schema (our mistake, not the peer's); `parts` is then spoilt.
        """
        write: Write = self._compile("write")
        return write

    def source(self, direction: Literal["read", "write"]) -> str:
        """The function's Python source."""
        return self._generate(direction).text

    def _generate(self, direction: Literal["read", "write"]) -> Source:
        return (ReaderSource if direction == "read" else WriterSource)(self.cls, self.version, self.flexible)

    def _compile(self, direction: Literal["read", "write"]) -> Any:
        source = self._generate(direction)
        code = compile(source.text, f"<{direction} {self.cls.__name__} v{self.version}>", "exec")
        exec(code, source.names)  # noqa: S102 - made from our own annotations; no input ever reaches it
        return source.names[direction]


_CODECS: dict[tuple[type[Any], int, bool], Codec] = {}


def codec(cls: type[Any], version: int, flexible: bool) -> Codec:
    """The codec of a message class for one version; `flexible` is KIP-482's encoding. Cached; compiled on first use."""
    key = (cls, version, flexible)
    found = _CODECS.get(key)
    if found is None:
        found = _CODECS[key] = Codec(cls, version, flexible)
    return found
