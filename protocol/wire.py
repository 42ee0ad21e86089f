"""Bytes to messages and back, by functions written from the schema: the codec of every API.

`codec(cls, version, flexible)` turns the annotations of a message class (`schema.py`) into Python source for that one
version, nested structs and all, and compiles it on first use. What the source avoids makes it fast: no branch on the
version, no call per field, neighbouring fields of fixed size in one `struct` call, and lengths of strings and arrays
read in the same call as the fields before them. Print `codec(...).source("read")` to see it.

A read value never shares memory with the frame, but for `Records`: those are a view into it.
"""

from collections.abc import Callable
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from .codegen import MAX_ELEMENTS, NO_LIMIT, as_array, read_uvarint, uvarint
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
    "NO_LIMIT",
    "ZERO_UUID",
    "Bool",
    "Bytes",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "MessageCodec",
    "Parts",
    "Records",
    "RecordsPart",
    "String",
    "UInt16",
    "UInt32",
    "Uuid",
    "as_array",
    "codec",
    "nullable_since",
    "read_uvarint",
    "since",
    "tag",
    "until",
    "uvarint",
]


Parts: TypeAlias = list[Any]
"""The pieces of a message being written: our own bytes, and between them records that are passed on untouched. The last is ours, a
bytearray that what comes next is appended to."""

Function = TypeVar("Function")

ReadWithin = Callable[[memoryview, int, int], tuple[Any, int, int]]


class Write(Protocol):
    def __call__(self, value: Any, parts: Parts, most_elements: int = NO_LIMIT, most_bytes: int = NO_LIMIT) -> None: ...


class _Once(Generic[Function]):
    """As `functools.cached_property`, which in Python 3.11 has one lock for all objects: there Trio's thread would wait for its codec
    while another thread makes another one. Here two threads may make the same."""

    def __init__(self, make: Callable[[Any], Function]) -> None:
        self._make = make
        self._name = make.__name__

    def __get__(self, codec: Any, cls: type[Any]) -> Function:
        made = codec.__dict__[self._name] = self._make(codec)
        return made


class MessageCodec:
    """Reads and writes one message class in one version."""

    def __init__(self, cls: type[Any], version: int, flexible: bool) -> None:
        self.cls, self.version, self.flexible = cls, version, flexible

    def read(self, view: memoryview, at: int) -> tuple[Any, int]:
        """A value, and where the bytes behind it begin, which are the caller's business. `view` must have byte format.

        Raises ProtocolError for bytes that are not this message: cut short, null where there is none, a long string that is
        not UTF-8, an array longer than the bytes left, more than `MAX_ELEMENTS` elements, tagged fields of later versions.
        """
        value, at, _ = self.read_within(view, at, MAX_ELEMENTS)
        return value, at

    @_Once
    def read_within(self) -> ReadWithin:
        """`read_within(view, at, most_elements) -> (value, next_at, elements_left)`: as `read`.

        Raises LargeMessageError as soon as there are more; nothing may be wrong with the message then.
        """
        read: ReadWithin = self._compile("read")
        return read

    @_Once
    def write(self) -> Write:
        """`write(value, parts, most_elements, most_bytes)` appends a value to `parts`. Fields that this version lacks are left out.

        Raises ValueError when the value does not fit the schema (our mistake, not the peer's), and LargeMessageError at the latest
        an element behind the limits, or an array of elements of fixed size; `parts` is then spoilt. Of arrays of numbers
        the elements are not counted, nor the bytes of records; bytes are counted anew between records.
        """
        write: Write = self._compile("write")
        return write

    def _compile(self, direction: Literal["read", "write"]) -> Any:
        source = (ReaderSource if direction == "read" else WriterSource)(self.cls, self.version, self.flexible)
        code = compile(source.text, f"<{direction} {self.cls.__name__} v{self.version}>", "exec")
        exec(code, source.names)  # noqa: S102 - made from our own annotations; no input ever reaches it
        return source.names[direction]


_CODECS: dict[tuple[type[Any], int, bool], MessageCodec] = {}


def codec(cls: type[Any], version: int, flexible: bool) -> MessageCodec:
    """The codec of a message class for one version; `flexible` is KIP-482's encoding. Cached; compiled on first use."""
    key = (cls, version, flexible)
    found = _CODECS.get(key)
    if found is None:
        found = _CODECS[key] = MessageCodec(cls, version, flexible)
    return found
