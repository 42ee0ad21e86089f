"""Variable-length integers of the record format: groups of seven bits, low group first, zig-zag for signed values.

    value    0   -1    1   -2   …   63   -64     64
    bytes   00   01   02   03   …   7e    7f   80 01

Only records use them here (messages have their own unsigned ones in `wire`). Readers accept what Apache Kafka
accepts: at most five bytes for 32 bits and ten for 64; bits beyond the width are dropped, as in its integer arithmetic.
At the end of the buffer a reader raises IndexError, which callers turn into their own error.
"""

from collections.abc import Iterable

from .errors import CorruptRecordError

BytesLike = bytes | bytearray | memoryview


def read_varint(data: BytesLike, at: int) -> tuple[int, int]:
    """Return the signed 32-bit value at `at` and the position after it.

    Raises:
        CorruptRecordError: The value continues after the fifth byte.
        IndexError: `data` ends inside the value.
    """
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    return _read_long(data, at, byte_count_max=5, mask=0xFFFF_FFFF)


def read_varlong(data: BytesLike, at: int) -> tuple[int, int]:
    """Return the signed 64-bit value at `at` and the position after it; errors as for `read_varint`."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    return _read_long(data, at, byte_count_max=10, mask=0xFFFF_FFFF_FFFF_FFFF)


def _read_long(data: BytesLike, at: int, *, byte_count_max: int, mask: int) -> tuple[int, int]:
    raw = 0
    for index in range(byte_count_max):
        byte = data[at + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            raw &= mask
            return (raw >> 1) ^ -(raw & 1), at + index + 1
    raise CorruptRecordError(f"variable-length integer at byte {at} is longer than {byte_count_max} bytes")


def append_fields(out: bytearray, fields: Iterable[int | BytesLike | None]) -> None:
    """Append signed integers of up to 64 bits, and bytes after their length, which is -1 for None.

    Integers have the shortest form, which all writers use.
    """
    for field in fields:
        value = field if isinstance(field, int) else -1 if field is None else len(field)
        raw = value << 1 if value >= 0 else ~(value << 1)
        while raw >= 0x80:
            out.append((raw & 0x7F) | 0x80)
            raw >>= 7
        out.append(raw)
        if not isinstance(field, int) and field:
            out += field
