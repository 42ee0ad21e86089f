"""Avro's binary encoding, as fastavro writes it, becomes the JSON value that was written."""

from __future__ import annotations

import base64
import io
import json
import math
import uuid
from contextlib import suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from fastavro import schemaless_writer
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.schemas import parse_schema
from ottla.protocol.schemas.avro_values import decode_avro
from ottla.protocol.schemas.plain_json import MAX_DEPTH, MAX_SCALE, MAX_STEPS, NotDecodable
from ottla.protocol.schemas.values import Budget, SchemaTooLarge
from support.noted import each_case


def written(schema: Any, value: Any) -> bytes:
    data = io.BytesIO()
    schemaless_writer(data, schema, value)
    return data.getvalue()


def decoded(schema: Any, data: bytes, steps: int = 100_000) -> Any:
    return decode_avro(parse_schema("AVRO", json.dumps(schema), {}).parsed, data, Budget(steps))


def shown(value: Any) -> Any:
    """Return the JSON value that is expected for a value without logical types."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items()}
    return [shown(each) for each in value] if isinstance(value, list) else value


Typed = tuple[Any, st.SearchStrategy[Any]]
"""A schema, and its values."""
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
PRIMITIVES: list[Typed] = [
    ("null", st.none()),
    ("boolean", st.booleans()),
    ("int", INT),
    ("long", LONG),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=5)),
    ("string", st.text(max_size=5)),
]


def typed(names: Any, depth: int) -> st.SearchStrategy[Typed]:
    @st.composite
    def draw_one(draw: st.DrawFn) -> Typed:
        kind = draw(
            st.sampled_from(("plain", "fixed", "enum", *(("array", "map", "record", "union") if depth else ())))
        )
        inner = typed(names, depth - 1)
        if kind == "plain":
            return draw(st.sampled_from(PRIMITIVES))
        if kind == "fixed":
            size = draw(st.integers(0, 5))
            return {"type": "fixed", "name": f"n{next(names)}", "size": size}, st.binary(min_size=size, max_size=size)
        if kind == "enum":
            return {"type": "enum", "name": f"n{next(names)}", "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
        if kind == "array":
            schema, values = draw(inner)
            return {"type": "array", "items": schema}, st.lists(values, max_size=3)
        if kind == "map":
            schema, values = draw(inner)
            return {"type": "map", "values": schema}, st.dictionaries(st.text(max_size=3), values, max_size=3)
        if kind == "union":  # no two branches whose JSON values could be the same
            branches = [PRIMITIVES[at] for at in draw(st.permutations((0, 1, 3, 7)))]
            return [each[0] for each in branches], st.one_of(*(each[1] for each in branches))
        fields = draw(st.lists(inner, max_size=3))
        schema = {
            "type": "record",
            "name": f"n{next(names)}",
            "fields": [{"name": f"f{at}", "type": each[0]} for at, each in enumerate(fields)],
        }
        return schema, st.fixed_dictionaries({f"f{at}": each[1] for at, each in enumerate(fields)})

    return draw_one()


@given(st.data())
def test_values_are_those_that_fastavro_has_written(data: st.DataObject) -> None:
    schema, values = data.draw(typed(count(), 3))
    value = data.draw(values)
    found = decoded(schema, written(schema, value))
    assert json.loads(json.dumps(found, allow_nan=False)) == shown(rounded(schema, value))


def rounded(schema: Any, value: Any) -> Any:
    """Return a value whose numbers of 32 bits have the digits that are shown: as many as identify them."""
    if schema == "float" and isinstance(value, float) and math.isfinite(value):
        return next((short for digits in range(6, 9) if single(short := float(f"{value:.{digits}g}")) == value), value)
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind == "array":
        return [rounded(schema["items"], each) for each in value]
    if kind == "map":
        return {name: rounded(schema["values"], each) for name, each in value.items()}
    if kind == "record":
        return {each["name"]: rounded(each["type"], value[each["name"]]) for each in schema["fields"]}
    return value


def single(value: float) -> float | None:
    import numpy

    with numpy.errstate(over="ignore"):
        return float(numpy.float32(value))


def of(base: str, logical: str, **attributes: Any) -> dict[str, Any]:
    named = {"name": "F"} if base == "fixed" else {}
    return {"type": base, "logicalType": logical, **named, **attributes}


MOMENT = datetime(2026, 11, 30, 18, 22, 13, 123456, UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@each_case(
    "schema, value, expected",
    [
        (of("bytes", "decimal", precision=6, scale=2), Decimal("12.50"), "12.50"),
        (of("bytes", "decimal", precision=6, scale=2), Decimal("-0.05"), "-0.05"),
        (of("bytes", "decimal", precision=6), Decimal(-7), "-7"),
        (of("fixed", "decimal", precision=6, scale=6, size=4), Decimal("0.000001"), "0.000001"),
        (of("string", "uuid"), ID, str(ID)),
        (of("fixed", "uuid", size=16), ID.bytes, str(ID)),
        (of("int", "date"), date(2026, 11, 30), "2026-11-30"),
        (of("int", "date"), date(1, 1, 1), "0001-01-01"),
        (of("int", "time-millis"), time(18, 22, 13, 123000), "18:22:13.123"),
        (of("long", "time-micros"), time(0, 0, 0, 7), "00:00:00.000007"),
        (of("long", "timestamp-millis"), MOMENT, "2026-11-30T18:22:13.123Z"),
        (of("long", "timestamp-micros"), MOMENT, "2026-11-30T18:22:13.123456Z"),
        (of("long", "timestamp-micros"), datetime(1969, 12, 31, 23, 59, 59, 1, UTC), "1969-12-31T23:59:59.000001Z"),
        (of("long", "timestamp-nanos"), 1_000_000_007, "1970-01-01T00:00:01.000000007Z"),
        (of("long", "local-timestamp-millis"), MOMENT.replace(tzinfo=None), "2026-11-30T18:22:13.123"),
        (of("long", "local-timestamp-micros"), MOMENT.replace(tzinfo=None), "2026-11-30T18:22:13.123456"),
        (of("fixed", "duration", size=12), bytes((1, 0, 0, 0, 2, 0, 0, 0, 0xB8, 0xB, 0, 0)), "P1M2DT3.000S"),
        (of("bytes", "big-decimal"), b"\4\4\xe2\4", "12.50"),
        # Those that cannot be shown otherwise.
        (of("bytes", "decimal", precision=2, scale=3), b"\1", "AQ=="),
        (of("bytes", "decimal"), b"\1", "AQ=="),
        (of("bytes", "decimal", precision=10**9, scale=10**9), b"\1", "AQ=="),
        (of("bytes", "big-decimal"), b"\4\4\xe2", "BATi"),
        (of("bytes", "big-decimal"), b"", ""),
        (of("fixed", "duration", size=2), b"\1\2", "AQI="),
        (of("fixed", "uuid", size=2), b"\1\2", "AQI="),
        (of("int", "date"), 2**31 - 1, 2**31 - 1),
        (of("int", "time-millis"), 86_400_000, 86_400_000),
        (of("int", "time-millis"), -1, -1),
        (of("long", "timestamp-millis"), 2**63 - 1, 2**63 - 1),
        (of("long", "timestamp-micros"), -(2**63), -(2**63)),
        (of("string", "secret"), "text", "text"),
        ({"type": "int", "logicalType": ["date"]}, 1, 1),
    ],
)
def test_logical_types_are_shown_as_people_write_them(schema: Any, value: Any, expected: Any) -> None:
    plain = {name: each for name, each in schema.items() if name != "logicalType"}
    as_it_is = isinstance(value, int | str | bytes)
    assert decoded(schema, written(plain if as_it_is else schema, value)) == expected


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


def nested(levels: int) -> Any:
    found: Any = None
    for value in range(levels):
        found = {"value": value, "next": found}
    return found


def test_types_may_contain_themselves() -> None:
    value = nested(MAX_DEPTH - 1)
    assert decoded(NODE, written(NODE, value)) == value
    with pytest.raises(NotDecodable, match=rf"nested too deeply \(limit {MAX_DEPTH} levels\)"):
        decoded(NODE, written(NODE, nested(MAX_DEPTH + 1)))


def test_blocks_may_have_their_size() -> None:
    assert decoded({"type": "array", "items": "int"}, bytes((3, 4, 2, 4, 2, 6, 0))) == [1, 2, 3]
    assert decoded({"type": "map", "values": "int"}, bytes((1, 6, 2, 97, 2, 0))) == {"a": 1}


def test_bytes_without_length_are_shown_whole() -> None:
    """Confluent's serializer for Java writes values of the schema `bytes` in this way."""
    assert decoded("bytes", b"\4ab") == "YWI="
    assert decoded("bytes", b"abc") == "YWJj"


@each_case(
    "schema, data, reason",
    [
        ("int", b"", "position 0: expected 1 more bytes, found 0"),
        ("int", b"\2\2", "bytes after the value: 1"),
        ("int", b"\x80\x80\x80\x80\x10", r"position 4: number out of range \(32 bits\)"),
        ("long", b"\xff" * 11, "position 9: number too long"),
        ("long", b"\xff" * 9 + b"\2", r"position 9: number out of range \(64 bits\)"),
        ("string", b"\6ab", "position 1: expected 3 more bytes, found 2"),
        ("string", b"\1", r"position 1: negative length \(-1\)"),
        ("string", b"\2\xff", "string: invalid UTF-8 before position 2"),
        ("boolean", b"\2", "boolean: expected 0 or 1, found 2"),
        ("double", b"\0\0", "position 0: expected 8 more bytes, found 2"),
        (["null", "int"], b"\4", r"union: index out of range \(2, of 2\)"),
        ([], b"\0", r"union: index out of range \(0, of 0\)"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\1", r"enum: index out of range \(-1, of 1\)"),
        ({"type": "array", "items": "int"}, b"\2", "position 1: expected 1 more bytes, found 0"),
        (
            {"type": "array", "items": {"type": "fixed", "name": "F", "size": 2**31 - 1}},
            b"\2\0",
            "expected 2147483647 more bytes",
        ),
    ],
)
def test_other_bytes_are_refused_with_the_reason(schema: Any, data: bytes, reason: str) -> None:
    with pytest.raises(NotDecodable, match=reason):
        decoded(schema, data)


LOGICAL = {
    "type": "array",
    "items": [
        {
            "type": "record",
            "name": f"r{at}",
            "fields": [{"name": "x", "type": each | ({"name": f"f{at}"} if "name" in each else {})}],
        }
        for at, each in enumerate(
            [
                *(of("bytes", name, precision=9, scale=3) for name in ("decimal", "big-decimal")),
                *(
                    of("fixed", name, size=size, precision=9)
                    for name in ("decimal", "uuid", "duration")
                    for size in (12, 16)
                ),
                *(of("int", name) for name in ("date", "time-millis")),
                *(
                    of("long", f"{name}-{unit}")
                    for name in ("time", "timestamp", "local-timestamp")
                    for unit in ("millis", "micros", "nanos")
                ),
            ]
        )
    ],
}


@given(st.binary(max_size=60))
def test_any_bytes_have_a_form_of_a_logical_type(data: bytes) -> None:
    with suppress(NotDecodable, SchemaTooLarge):
        decoded(LOGICAL, data)
    for branch in range(len(LOGICAL["items"])):
        with suppress(NotDecodable, SchemaTooLarge):
            shown_now = decoded(LOGICAL, bytes((2, branch * 2)) + data[:16] + b"\0")
            assert json.loads(json.dumps(shown_now)) == shown_now


@given(st.binary(max_size=40), st.sampled_from([NODE, {"type": "map", "values": ["bytes", "double"]}, "string"]))
def test_any_bytes_are_a_value_or_refused(data: bytes, schema: Any) -> None:
    with suppress(NotDecodable, SchemaTooLarge):
        decoded(schema, data)


@each_case(
    "items",
    ["null", {"type": "record", "name": "R", "fields": []}, {"type": "fixed", "name": "F", "size": 0}],
)
def test_items_without_bytes_are_limited(items: Any) -> None:
    endless = b"\xfe" + b"\xff" * 8 + b"\1"
    with pytest.raises(SchemaTooLarge):
        decoded({"type": "array", "items": items}, endless)


@each_case(
    "items, item, count",
    [
        ({"type": "array", "items": "int"}, b"\0", 60_000),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\0", 60_000),
        ("float", bytes(4), 60_000),
    ],
)
def test_items_that_take_longer_are_fewer(items: Any, item: bytes, count: int) -> None:
    encoded_count = written("long", count)
    with pytest.raises(SchemaTooLarge):
        decoded({"type": "array", "items": items}, encoded_count + item * count + b"\0", MAX_STEPS)
    decoded({"type": "array", "items": items}, written("long", 30_000) + item * 30_000 + b"\0", MAX_STEPS)


def test_long_names_are_limited() -> None:
    """An item without bytes could be shown as a kilobyte."""
    item = {"type": "record", "name": "R", "fields": [{"name": "n" * 1_000, "type": "null"}]}
    with pytest.raises(SchemaTooLarge):
        decoded({"type": "array", "items": item}, b"\xc0\x9a\x0c\0")  # 100 000 items


@each_case("logical, item", [("decimal", b"\0"), ("big-decimal", b"\x08\2\5\xc0\x25")])
def test_decimals_with_many_zeros_are_limited(logical: str, item: bytes) -> None:
    """An item of few bytes could be shown as kilobytes."""
    schema = {
        "type": "array",
        "items": {"type": "bytes", "logicalType": logical, "precision": MAX_SCALE, "scale": MAX_SCALE},
    }
    assert len(decoded(schema, b"\2" + item + b"\0")[0]) > 2_000
    with pytest.raises(SchemaTooLarge):
        decoded(schema, b"\xa0\x9c\1" + item * 10_000 + b"\0")
