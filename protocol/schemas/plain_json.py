"""Basics of all decoders: bounds, and the JSON of numbers and bytes."""

from __future__ import annotations

import base64
import math
import struct

MAX_BYTES = 1 << 20
"""Bytes of a value that is decoded."""
MAX_DEPTH = 100
"""Levels of a value: Protobuf's own limit."""
MAX_STEPS = 250_000
"""Values, fields and pieces of names in one decoded value: less than half a second of one core."""
MAX_CHARACTERS = 2 << 20
"""Characters of the JSON of one value: what escapes it later holds the interpreter."""
CONTAINER_STEPS = 5
"""Cost of an array, a map, a record or a message: Python's collector, which stops all threads, visits each of them."""
FORMATTED_STEPS = 4
"""Cost of a date, a decimal, a number of 32 bits and their like, whose text takes longer than others."""
CHARACTERS_PER_STEP = 32
"""Characters of names and decimals that cost one step: a value of few bytes could repeat long names, or have many zeros."""
MAX_DECIMAL_BYTES = 1_024
"""Bytes of a decimal's digits: Python refuses texts of larger numbers."""
MAX_SCALE = 2_500
"""Digits after the point of a decimal."""

_NO_JSON = {math.inf: "Infinity", -math.inf: "-Infinity"}
_FLOAT = struct.Struct("<f")


class NotDecodable(ValueError):
    """The bytes are not a value of the schema, or exceed a bound. The message is a short reason."""


def check_depth(depth: int) -> None:
    """Raise `NotDecodable` for a value that is nested too deeply."""
    if depth > MAX_DEPTH:
        raise NotDecodable(f"nested too deeply (limit {MAX_DEPTH} levels)")


def text_cost(text: str) -> int:
    """Return the steps that a name or a decimal costs each time it is shown."""
    return 1 + len(text) // CHARACTERS_PER_STEP


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def double(value: float) -> float | str:
    """Return a number for JSON, which has none for infinity: that is a text, as in Protobuf's JSON."""
    return value if math.isfinite(value) else _NO_JSON.get(value, "NaN")


def single(value: float) -> float | str:
    """Return a number of 32 bits with as few digits as identify it, e.g. 1.1 and not 1.100000023841858."""
    if not math.isfinite(value):
        return double(value)
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        try:
            if _FLOAT.unpack(_FLOAT.pack(short))[0] == value:
                return short
        except OverflowError:  # rounded up beyond the largest number of 32 bits
            continue
    return value


def decimal_text(digits: bytes, scale: int) -> str | None:
    """Return a decimal, e.g. 12.50; None if it is too long to be shown.

    Args:
        digits: The number without its point, big-endian, in two's complement.
        scale: The number of digits after the point; negative for zeros before it.
    """
    if len(digits) > MAX_DECIMAL_BYTES or abs(scale) > MAX_SCALE:
        return None
    number = int.from_bytes(digits, signed=True)
    text = str(abs(number)) + "0" * (-scale if number else 0)
    if scale > 0:
        text = text.zfill(scale + 1)
        text = f"{text[:-scale]}.{text[-scale:]}"
    return f"-{text}" if number < 0 else text
