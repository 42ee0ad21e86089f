"""Values as JSON by the schemas that their bytes name: columns of the format "ottla"."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla.pipeline.errors import UsageError
from ottla.pipeline.registry import registry_address
from ottla.pipeline.source.decoded import UNKNOWN_MAX, Decoder, decoded_columns, with_decoded
from ottla.pipeline.source.read_options import parse_options
from ottla.protocol.schemas import Schema, parse_schema
from ottla.protocol.schemas.frames import Part
from support.noted import each_case

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "total", "type": "int"}]})
PROTO = 'syntax = "proto3"; message M { int32 total = 1; }'
GUID = "00000000-0000-0000-0000-000000000001"
IN_HEADER = (("__value_schema_id", b"\1" + bytes(15) + b"\1"),)


class Schemas:
    """A registry of a few schemas that counts what it is asked for."""

    def __init__(self) -> None:
        avro, proto = parse_schema("AVRO", ORDER, {}), parse_schema("PROTOBUF", PROTO, {})
        self._schemas = {7: avro, 8: proto, 9: parse_schema("JSON", "true", {}), GUID: avro}
        self.asked: list[int | str] = []

    def schema(self, which: int | str) -> Schema | None:
        self.asked.append(which)
        if which == 10:
            parse_schema("AVRO", "{", {})
        return self._schemas.get(which)

    def by_id(self, schema_id: int) -> str:
        raise NotImplementedError

    def latest(self, subject: str) -> str:
        raise NotImplementedError


@each_case(
    "content, headers, text, reason",
    [
        (b"\0\0\0\0\7\6", (), '{"total":3}', None),
        (b"\0\0\0\0\x08\0\x08\5", (), '{"total":5}', None),
        (b'\0\0\0\0\x09{"a": 1}', (), '{"a": 1}', None),
        (b"\6", IN_HEADER, '{"total":3}', None),
        (None, IN_HEADER, None, None),
        (b"plain", (), None, None),
        (b"\0\0\0\0\7", (), None, "value: schema 7: position 0: expected 1 more bytes, found 0"),
        (b"\0\0\0\0\x0a", (), None, "value: schema 10: schema: invalid JSON (Expecting property name"),
        (b"\0\0\0\0\x0b", (), None, "value: schema 11: not found in the registry"),
        ((1_700_000_000_000).to_bytes(8), (), None, None),
    ],
)
def test_values(content: bytes | None, headers: Any, text: str | None, reason: str | None) -> None:
    found = Decoder(Schemas()).shown("value", content, headers)
    assert found.text == text
    assert (found.reason or "").startswith(reason or "") and (found.reason is None) == (reason is None)


def test_each_schema_is_looked_up_once() -> None:
    schemas = Schemas()
    decoder = Decoder(schemas)
    for _ in range(3):
        for schema_id in (7, 8, 10, 11):
            decoder.shown("value", b"\0" + schema_id.to_bytes(4), ())
    assert schemas.asked == [7, 8, 10, 11]


def test_a_column_of_numbers_is_an_error_before_it_costs_many_requests() -> None:
    schemas = Schemas()
    decoder = Decoder(schemas)
    with pytest.raises(UsageError, match="too many schema ids") as refused:
        for number in range(1 << 24, 1 << 40, 1 << 24):
            decoder.shown("key", number.to_bytes(8), ())
    assert len(schemas.asked) == UNKNOWN_MAX + 5  # four ids have a schema, or an invalid one
    assert "option decode" in str(refused.value)


STRING = pa.string()
ROWS = [
    {"key": b"\0\0\0\0\7\2", "value": b"\0\0\0\0\7\6", "headers": None, "offset": 0},
    {"key": b"\0\0\0\0\7", "value": b"\0\0\0\0\x0b", "headers": [{"key": "a", "value": None}], "offset": 1},
    {"key": None, "value": b"", "headers": None, "offset": 2},
]


@each_case(
    "columns, parts, expected",
    [
        (("valueDecoded",), ("value",), [('{"total":3}',), (None,), (None,)]),
        (
            ("notDecoded", "offset", "valueDecoded"),
            ("value",),
            [(None, 0, '{"total":3}'), ("value: schema 11: not found in the registry", 1, None), (None, 2, None)],
        ),
        (
            ("keyDecoded", "notDecoded"),
            ("key", "value"),
            [
                ('{"total":1}', None),
                (
                    None,
                    "key: schema 7: position 0: expected 1 more bytes, found 0; value: schema 11: not found in the registry",
                ),
                (None, None),
            ],
        ),
        (("offset",), ("value",), [(0,), (1,), (2,)]),
    ],
)
def test_columns(
    columns: Sequence[str], parts: Sequence[Part], expected: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    folder = tmp_path / "schemas"
    folder.mkdir(exist_ok=True)
    (folder / "7.avsc").write_text(ORDER)
    wanted: list[set[str]] = []

    def read(schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        wanted.append(set(schema.names))
        yield pa.RecordBatch.from_pylist(ROWS, schema=schema)

    types = {"offset": pa.int64()} | dict.fromkeys(decoded_columns(parts), STRING)
    schema = pa.schema([pa.field(name, types[name]) for name in columns])
    (batch,) = with_decoded(schema, registry_address(str(folder), {}), parts, read)
    assert batch.schema == schema
    assert [tuple(row.values()) for row in batch.to_pylist()] == expected
    assert wanted[0] <= {"key", "value", "headers", "offset"}
    assert ("key" in wanted[0]) == ("key" in parts and columns != ("offset",))


@each_case(
    "options, message",
    [
        ({"decode": "key"}, "option decode needs option registry"),
        ({"registry": "host:8081"}, "registry: expected http://HOST:PORT, or a folder with ID.avsc, found host:8081"),
        ({"registry": "http://host:8081", "decode": "keys"}, "option decode: expected value, key, or key,value, found 'keys'"),
    ],
)  # fmt: skip
def test_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_options({"path": "x", **options})
    assert str(refused.value) == message


def test_the_options_of_a_registry() -> None:
    found = parse_options({"path": "x", "registry": "http://host:8081", "decode": "key,value"})
    assert found.registry is not None and found.decoded_parts == ("key", "value")
    assert decoded_columns(found.decoded_parts) == ("keyDecoded", "valueDecoded", "notDecoded")
