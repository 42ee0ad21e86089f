"""Common part of `reader_source.py` and `writer_source.py`: Python source under construction, and the helpers that
the generated functions call."""

import re
import struct
from functools import cache, partial
from itertools import count
from typing import Any, TypeVar

from .errors import ProtocolError
from .schema import Field, Type, fields_of

# An element of an array may take two bytes on the wire and a hundred in memory, so the size of a frame alone does not
# bound the cost of reading it. All arrays and tagged fields of one message together may have this many elements. The limit
# for clients is lower, see `connection.REQUEST_ELEMENTS_MAX`.
MAX_ELEMENTS = 1_000_000
NO_LIMIT = 1 << 62
MAX_STRING_BYTES = 0x7FFF  # Kafka's limit, also for compact strings
MAX_LENIENT_BYTES = 1 << 10
"""Largest string that is not UTF-8. When it is written again, it has three times as many bytes."""
LENIENT_ELEMENTS, LENIENT_ELEMENT_BYTES = 4, 6
"""Cost of a string that is not UTF-8, in elements: a fixed number, and one more for each LENIENT_ELEMENT_BYTES.

Decoding it takes as long as reading these elements, at half a microsecond or more each.
"""
MAX_BYTES_BYTES = 16 << 20
"""Largest field of bytes other than records. It is copied out of the frame, at a quarter of a millisecond or more per megabyte,
during which no other thread runs. Group members send kilobytes."""

LONG_ARRAY = 50_000
"""Number of items from which on an array of a message is a list; see `as_array`."""
FIXED_AT_ONCE = 1 << 12
"""Number of fixed-size values that one call reads or writes, in about 100 µs during which no other thread runs."""

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Java replaces the whole sequence by one U+FFFD, Python each of its bytes."""

Item = TypeVar("Item")


def java_text(data: memoryview) -> str:
    """Decode a string that is not UTF-8, like Java: each error becomes U+FFFD.

    Raises:
        UnicodeDecodeError: The string has more than MAX_LENIENT_BYTES.
    """
    if len(data) <= MAX_LENIENT_BYTES:
        return _SURROGATE.sub(b"\xff", bytes(data)).decode(errors="replace")
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        error.reason += f" in a string of {len(data)} bytes (limit {MAX_LENIENT_BYTES})"
        raise


class Source:
    """Source text under construction, with the names that it uses. Subclasses walk the schema and write it."""

    def __init__(self, cls: type[Any], version: int, flexible: bool) -> None:
        self.version, self.flexible = version, flexible
        self.label = f"{cls.__name__} v{version}"
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._numbers = count(1)

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def line(self, text: str, indent: int = 0) -> None:
        """Add one line; `indent` 1 opens a block after it, which `dedent` closes."""
        self._lines.append("    " * self._depth + text)
        self._depth += indent

    def dedent(self) -> None:
        self._depth -= 1

    def fresh(self, stem: str) -> str:
        """Return a variable name that no other line uses."""
        return f"{stem}{next(self._numbers)}"

    def name(self, stem: str, value: Any) -> str:
        """Return the global name of a value in the source."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def struct(self, format: str, method: str) -> str:
        """Return the global name of a method of `struct.Struct`, big-endian."""
        name = f"{method}_{format.replace('?', 't')}"
        self.names.setdefault(name, getattr(struct.Struct(">" + format), method))
        return name


def split_fields(cls: type[Any], version: int, flexible: bool) -> tuple[list[Field], list[Field], list[int]]:
    """Return the fields of a struct in one version: plain fields in order, tagged fields by number, and the tag
    numbers that belong to other versions."""
    plain: list[Field] = []
    tagged: list[tuple[int, Field]] = []
    foreign: list[int] = []
    for field in fields_of(cls):
        if not field.exists_in(version):
            foreign += [] if field.tag is None else [field.tag]
        elif field.tag is None:
            plain.append(field)
        elif flexible:
            tagged.append((field.tag, field))
    return plain, [field for _, field in sorted(tagged, key=lambda one: one[0])], foreign


def is_fixed(type: Type) -> bool:
    """Whether all values have the same size; the type's name is then a `struct` format."""
    return type.name not in ("string", "bytes", "records", "array", "struct")


# --- called by the generated functions -------------------------------------------------------------------------------


def read_uvarint(view: memoryview, at: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte was read and had its high bit set: (value, next_at).

    Raises ProtocolError for more than five bytes, IndexError at the end of the view.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ProtocolError("varint is longer than 5 bytes")


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def fail(message: str) -> None:
    raise ProtocolError(message)


def as_array(items: list[Item]) -> tuple[Item, ...]:
    """Return the items of an array of a message, as a tuple if they are few.

    Making a tuple of a million items, and dropping the list, takes 25 ms in which no other thread runs. So a long array stays
    a list, which can also be emptied in pieces. It must not be changed otherwise, like a tuple.
    """
    return tuple(items) if len(items) < LONG_ARRAY else items  # type: ignore[return-value]


class _MethodsByCount(dict[int, Any]):
    """A method of `struct.Struct` for n values of one format; cached for small n (e.g. the replicas of a partition)."""

    def __init__(self, format: str, method: str) -> None:
        self._format, self._method = format, method

    def __missing__(self, n: int) -> Any:
        if n > FIXED_AT_ONCE:
            return partial(self._unpack_many if self._method == "unpack_from" else self._pack_many, n)
        method = getattr(struct.Struct(f">{self._format * n}"), self._method)
        if n <= 16 or n == FIXED_AT_ONCE:
            self[n] = method
        return method

    def _unpack_many(self, n: int, view: memoryview, at: int) -> tuple[Any, ...]:
        values: list[Any] = []
        width = struct.calcsize(">" + self._format)
        for first in range(0, n, FIXED_AT_ONCE):
            values += self[min(FIXED_AT_ONCE, n - first)](view, at + first * width)
        return as_array(values)

    def _pack_many(self, n: int, *values: Any) -> bytes:
        pieces = range(0, n, FIXED_AT_ONCE)
        return b"".join(self[min(FIXED_AT_ONCE, n - at)](*values[at : at + FIXED_AT_ONCE]) for at in pieces)


@cache
def array_methods(format: str, method: str) -> dict[int, Any]:
    """Return the methods for arrays of one format: `array_methods("i", "pack")[3]` packs three values."""
    return _MethodsByCount(format, method)
