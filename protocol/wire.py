"""Codecs of all APIs: functions, generated from the schema, that convert bytes to messages and back.

`codec(cls, version, flexible)` turns the annotations of a message class (`schema.py`) into Python source for that one
version, including nested structs, and compiles it on first use. The source is fast because it has no branch on the
version and no call per field. It reads neighbouring fields of fixed size in one `struct` call, with the length of a string or
array after them. Print `codec(...).source("read")` to see it.

A read value never shares memory with the frame, except `Records`, which are a view into it.
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
"""Parts of a message that is being written: encoded bytes, and between them records, which are passed on unchanged. The last
part is always a bytearray, to which the next bytes are appended."""

Function = TypeVar("Function")

ReadWithin = Callable[[memoryview, int, int], tuple[Any, int, int]]


class Write(Protocol):
    def __call__(self, value: Any, parts: Parts, most_elements: int = NO_LIMIT, most_bytes: int = NO_LIMIT) -> None: ...


class _Once(Generic[Function]):
    """A `functools.cached_property` without a lock. In Python 3.11 that has one lock for all objects, so Trio's thread would
    wait for its codec while another thread makes another one. Here two threads may make the same value."""

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
        """Read a value; returns it and the position after it. The caller handles further bytes. `view` must have byte format.

        Raises ProtocolError for bytes that are not this message: incomplete, null where it is not allowed, a long string that
        is not UTF-8, an array longer than the bytes left, more than `MAX_ELEMENTS` elements, tagged fields of later versions.
        """
        value, at, _ = self.read_within(view, at, MAX_ELEMENTS)
        return value, at

    @_Once
    def read_within(self) -> ReadWithin:
        """`read_within(view, at, most_elements) -> (value, next_at, elements_left)`: a `read` with a limit.

        Raises LargeMessageError as soon as the message has more elements; it may be valid otherwise.
        """
        read: ReadWithin = self._compile("read")
        return read

    @_Once
    def write(self) -> Write:
        """`write(value, parts, most_elements, most_bytes)` appends a value to `parts`, without fields that this version lacks.

        Raises ValueError if the value does not fit the schema (a bug here, not the peer's fault). Raises LargeMessageError at
        the latest one element, or one array of fixed-size elements, beyond the limits; `parts` is then unusable. The elements
        of arrays of numbers do not count, nor do the bytes of records; the count of bytes starts again after records.
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
    """Return the codec of a message class for one version; `flexible` is KIP-482's encoding. Cached; compiled on first use."""
    key = (cls, version, flexible)
    found = _CODECS.get(key)
    if found is None:
        found = _CODECS[key] = MessageCodec(cls, version, flexible)
    return found
