"""Strings that are not UTF-8 are read as Java reads them, in every field of every API; and the result can be written."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.apis import APIS, Api
from ottla.protocol.codegen import LENIENT_ELEMENT_BYTES, LENIENT_ELEMENTS, MAX_LENIENT_BYTES, java_text
from ottla.protocol.connection import encode_request, parse_request
from ottla.protocol.errors import LargeMessageError, ProtocolError
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.schema import Type, fields_of
from ottla.protocol.wire import Parts, codec
from support.noted import each_case, noted
from support.strategies import seen_versions

MARK, BAD, READ = b"mark", b"m\xff\xc3k", "m��k"
EACH_API = each_case("api", APIS.values())


def versions_of(api: Api) -> list[int]:
    return seen_versions(api, range(api.versions[0], api.versions[1] + 1))


def filled(cls: type[Any], version: int, text: str) -> Any:
    """Return a message whose every string is `text`, with one element in every array."""
    return cls(
        **{
            field.name: value(field.type, version, text)
            for field in fields_of(cls)
            if field.exists_in(version) and field.type.name in ("string", "array", "struct", "records")
        }
    )


def value(kind: Type, version: int, text: str) -> Any:
    if kind.struct is not None:
        return filled(kind.struct, version, text)
    if kind.item is not None:
        return (value(kind.item, version, text),)
    if kind.name == "records":
        return b""
    return text if kind.name == "string" else bytes(16) if kind.name == "16s" else 0


@EACH_API
def test_every_string_of_every_message_is_read_and_can_be_written(api: Api) -> None:
    for version in versions_of(api):
        for cls in (api.request, api.response):
            with noted(f"{cls.__name__}, version {version}"):
                spoken = codec(cls, version, api.is_flexible(version))
                marked, expected = (written(spoken, filled(cls, version, text)) for text in (MARK.decode(), READ))
                found, end = spoken.read(memoryview(marked.replace(MARK, BAD)), 0)
                assert end == len(marked)
                assert found == spoken.read(memoryview(expected), 0)[0]
                assert written(spoken, found) == expected


def written(spoken: Any, message: Any) -> bytes:
    parts: Parts = [bytearray()]
    spoken.write(message, parts)
    return b"".join(map(bytes, parts))


@EACH_API
def test_a_client_id_is_read_in_every_version(api: Api) -> None:
    for version in versions_of(api):
        frame = encode_request(api, version, 7, MARK.decode(), filled(api.request, version, "x"))
        assert parse_request(memoryview(bytearray(frame.replace(MARK, BAD)))[4:]).client_id == READ


@each_case(
    "data, text",
    [
        ("ff", "�"),
        ("41fffe42", "A��B"),
        ("66fc72", "f�r"),
        ("c3", "�"),
        ("c328", "�("),
        ("c0af", "��"),
        ("e282", "�"),
        ("e28241", "�A"),
        ("e08080", "���"),
        ("f09f98", "�"),
        ("f0808080", "����"),
        ("f4908080", "����"),
        ("f5808080", "����"),
        ("eda080", "�"),
        ("eda0", "�"),
        ("eda041", "�A"),
        ("eda080edb080", "��"),
        ("ed9fbf", "\ud7ff"),
        ("eff5", "��"),
        ("c3a9ffc3a9", "é�é"),
    ],
)
def test_the_number_of_replaced_characters_is_javas(data: str, text: str) -> None:
    """The expected texts are those of `new String(bytes, UTF_8)` in OpenJDK 17."""
    assert java_text(memoryview(bytes.fromhex(data))) == text


@pytest.mark.parametrize("size_bytes", [MAX_LENIENT_BYTES, MAX_LENIENT_BYTES + 1])
def test_a_long_string_must_be_utf8(size_bytes: int) -> None:
    api = APIS[3]
    frame = encode_request(api, 12, 7, "a" * size_bytes, api.request(topics=()))
    damaged = memoryview(bytearray(frame.replace(b"aa", b"a\xff", 1)))[4:]
    if size_bytes <= MAX_LENIENT_BYTES:
        assert parse_request(damaged).client_id == "a�" + "a" * (size_bytes - 2)
        return
    with pytest.raises(ProtocolError, match=r"client ID: 'utf-8'.* in a string of 1025 bytes \(limit 1024\)"):
        parse_request(damaged)


@each_case("flexible", [False, True])
@each_case("size_bytes", [1, LENIENT_ELEMENT_BYTES - 1, LENIENT_ELEMENT_BYTES, 80, MAX_LENIENT_BYTES])
@each_case("unit", [b"\xff", b"\xed\xa0", b"\xed\xa0\x80", b"a\xff"])
def test_strings_that_are_slow_to_decode_count_as_elements(unit: bytes, size_bytes: int, flexible: bool) -> None:
    """A request is read at once up to a number of elements: strings that are not UTF-8 take as long as several of these."""
    api, version, rows = APIS[3], 9 if flexible else 4, 20
    piece = (unit * size_bytes)[:size_bytes]
    mark = b"a" * size_bytes
    topics = tuple(MetadataRequestTopic(name=mark.decode()) for _ in range(rows))
    frame = encode_request(api, version, 7, "x", MetadataRequest(topics=topics))
    damaged = memoryview(bytearray(frame.replace(mark, piece)))[4:]
    plain = parse_request(memoryview(bytearray(frame))[4:]).elements
    bad = LENIENT_ELEMENTS + size_bytes // LENIENT_ELEMENT_BYTES
    elements = plain + rows * bad if not is_utf8(piece) else plain
    assert parse_request(damaged).elements == elements
    assert parse_request(damaged, elements).elements == elements
    with pytest.raises(LargeMessageError):
        parse_request(damaged, elements - 1)


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
