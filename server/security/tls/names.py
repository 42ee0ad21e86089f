"""Names in certificates: the subject as Java writes it, which is the name of a principal, and the alternative names.

Java's X500Principal.getName() is RFC 2253 with its own choices: nine attribute types have names, any other is written as
numbers with its value in hexadecimal; `,=+<>#;"\\` are escaped wherever they stand, spaces at both ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# What Java takes for a text, and reads as UTF-8 whatever it is: UTF8String, PrintableString, T61String, IA5String, GeneralString,
# BMPString.
_TEXTS = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
_ESCAPED = ',=+<>#;"\\'
_SUBJECT_ALT_NAME = "2.5.29.17"
KEPT_MAX = 200
"""Of 16 KiB at most, as a handshake takes no more, and mostly of one."""

SEQUENCE, OBJECT_ID, OCTETS, BOOLEAN = 0x30, 0x06, 0x04, 0x01
VERSION, EXTENSIONS = 0xA0, 0xA3


class Element(NamedTuple):
    """One value of DER, the binary form of certificates: its tag byte, its content, and the whole of it with tag and length."""

    tag: int
    content: bytes
    encoded: bytes


def elements(data: bytes) -> Iterator[Element]:
    """The values that stand one behind the other in `data`, which is DER. ValueError: they are cut short.

    What is read has been taken apart by OpenSSL before, so malformed bytes mean a fault of ours; they raise all the same, and
    nothing outside the given bytes is looked at.
    """
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


@lru_cache(KEPT_MAX)
def subject(certificate: bytes) -> str:
    """The distinguished name of a certificate's subject, the last part first; "" if it is empty.

    That of the last KEPT_MAX certificates is remembered: a client shows the same one on each of its connections.

    Args:
        certificate: In DER.

    Raises:
        ValueError: It is no certificate.
    """
    # tbsCertificate: serial number, signature, issuer, validity, subject, …
    parts = [
        "+".join(_attribute(attribute) for attribute in elements(relative.content))
        for relative in elements(_body(certificate)[4].content)
    ]
    return ",".join(reversed(parts))


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """The subject's alternative names, each in DER. ValueError: it is no certificate."""
    for part in _body(certificate)[6:]:
        if part.tag != EXTENSIONS:
            continue
        for extension in elements(_first(part.content).content):
            found = list(elements(extension.content))
            if found and found[0].tag == OBJECT_ID and object_id(found[0].content) == _SUBJECT_ALT_NAME:
                names = _first(found[-1].content)
                return frozenset(name.encoded for name in elements(names.content))
    return frozenset()


def _body(certificate: bytes) -> list[Element]:
    """What is signed, without the version, which is optional."""
    body = list(elements(_first(_first(certificate).content).content))
    if body and body[0].tag == VERSION:
        del body[0]
    if len(body) < 6 or body[4].tag != SEQUENCE:
        raise ValueError("not a certificate")
    return body


def _first(data: bytes) -> Element:
    for element in elements(data):
        return element
    raise ValueError("empty element")


def _attribute(attribute: Element) -> str:
    kind, value = elements(attribute.content)
    numbers = object_id(kind.content)
    keyword = _KEYWORDS.get(numbers)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or numbers}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    inner = text.strip(" \r")
    begin = text.find(inner) if inner else len(text)
    ends = (text[:begin], text[begin + len(inner) :])
    before, after = ("".join(f"\\{character}" for character in end) for end in ends)
    middle = "".join(
        f"\\{character}" if character in _ESCAPED else "\\00" if character == "\0" else character for character in inner
    )
    return before + middle + after
