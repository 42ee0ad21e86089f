"""Reads DER, the binary form of certificates, as far as names in certificates need it.

What is read has been taken apart by OpenSSL before, so malformed bytes mean a fault of ours; they raise ValueError all the
same, and nothing outside the given bytes is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, OBJECT_ID, OCTETS, BOOLEAN = 0x30, 0x06, 0x04, 0x01
VERSION, EXTENSIONS = 0xA0, 0xA3


class Element(NamedTuple):
    """One value: its tag byte, its content, and the whole of it with tag and length."""

    tag: int
    content: bytes
    encoded: bytes


def elements(data: bytes) -> Iterator[Element]:
    """The values that stand one behind the other in `data`. ValueError: they are cut short."""
    at = 0
    while at < len(data):
        start, tag = at, data[at]
        if at + 1 >= len(data):
            raise ValueError("truncated value")
        size, at = data[at + 1], at + 2
        if size & 0x80:
            digits = size & 0x7F
            if not 0 < digits <= 4 or at + digits > len(data):
                raise ValueError("malformed length")
            size, at = int.from_bytes(data[at : at + digits], "big"), at + digits
        if at + size > len(data):
            raise ValueError("truncated value")
        yield Element(tag, data[at : at + size], data[start : at + size])
        at += size


def object_id(content: bytes) -> str:
    """An object identifier as numbers with dots. ValueError: it is empty or cut short."""
    numbers: list[int] = []
    number = 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] & 0x80:
        raise ValueError("truncated object identifier")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
