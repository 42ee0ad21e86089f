"""Bytes to columns: JSON that a strict parser refuses is undecodable, and two keys of a topic never become one row."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")

from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

from ottla.pipeline.apply.avro_format import names
from ottla.pipeline.apply.formats import (
    BinaryFormat,
    Format,
    FormatSpec,
    JsonFormat,
    TextFormat,
    ddl,
    sampled_json,
    sql_type,
)
from ottla.pipeline.errors import UsageError
from support.pipeline.changes import Change, batch
from support.sizes import size

pytestmark = pytest.mark.usefixtures("spark")
"""The JVM of this fixture reads types in DDL."""

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = 20261128
VALUES = FormatSpec("json", "value")
KEYS = FormatSpec("json", "key")
NO_OBJECT = "not a JSON object of the schema"
NO_FIELD = "not a JSON object with a field of the schema (city, orders)"
FRAME = b"\x00\x00\x00\x00\x07"


def decoded(session: SparkSession, made: Format, texts: list[bytes]) -> list[tuple[Any, str | None]]:
    """Return (columns or None, why it is undecodable) of each text."""
    records = batch(session, [Change(0, offset, b"", text) for offset, text in enumerate(texts)])
    records = records.withColumn("parsed", made.parsed(records, "value"))
    found, why = made.decoded("value", f.col("parsed"))
    rows = records.select("offset", found.alias("found"), why.alias("why")).collect()
    by_offset = {row["offset"]: row for row in rows}
    ordered = [by_offset[offset] for offset in range(len(texts))]
    return [(None if row["why"] else tuple(row["found"]), row["why"]) for row in ordered]


JSON_TEXTS = {
    b'{"city":"a","orders":1}': ("a", 1),
    b' \n{"orders" : 1, "city" : "a", "more": {"x": [1]}}\t': ("a", 1),
    b'{"city":"a"}': ("a", None),
    b'{"city":null,"orders":null}': (None, None),
    b'{"city":5,"orders":1}': ("5", 1),
    b'{"city":"\\u00e5","orders":-0}': ("å", 0),
    b"": NO_OBJECT,
    b" ": NO_OBJECT,
    b"null": NO_OBJECT,
    b"true": NO_OBJECT,
    b"[]": NO_OBJECT,
    b'[{"city":"a","orders":1}]': NO_OBJECT,
    b'{"city":"a","orders":1} garbage': NO_OBJECT,
    b'{"city":"a","orders":1}{"city":"b","orders":2}': NO_OBJECT,
    b'{"city":"a","orders":1},{"city":"b","orders":2}': NO_OBJECT,
    b'{"city":"a","orders":1}} garbage': NO_OBJECT,
    b'{"city":"a","orders":1},"x":1': NO_OBJECT,
    b'{"city":"a"},"object":{"city":"b"}': NO_OBJECT,
    b'{"x":NaN}': NO_OBJECT,
    b'{"city":"a","x":NaN}': NO_OBJECT,
    b'{"city":"a","orders":1}\x00': NO_OBJECT,
    b'{"city":"a","ord': NO_OBJECT,
    b"{'city':'a','orders':1}": NO_OBJECT,
    b'{"city":"a" /*c*/,"orders":1}': NO_OBJECT,
    b'{"city":"a","orders":"12"}': NO_OBJECT,
    b'{"city":"a","orders":1.5}': NO_OBJECT,
    b'{"city":"a","orders":9223372036854775808}': NO_OBJECT,
    b'\xef\xbb\xbf{"city":"a","orders":1}': NO_OBJECT,
    b'{"city":"Bod\xf8","orders":1}': "not UTF-8",
    b'{"City":"x","Orders":3}': NO_FIELD,
    b"{}": NO_FIELD,
}


def test_json_texts(spark: SparkSession) -> None:
    found = decoded(spark, JsonFormat(ddl("city STRING, orders BIGINT"), VALUES), [*JSON_TEXTS])
    assert {text: why or row for text, (row, why) in zip(JSON_TEXTS, found, strict=True)} == JSON_TEXTS


def test_framed_json_decodes_like_json(spark: SparkSession) -> None:
    made = JsonFormat(ddl("city STRING, orders BIGINT"), FormatSpec("json", "value", is_framed=True))
    texts = [FRAME + text for text in JSON_TEXTS]
    found = decoded(spark, made, texts)
    assert {text: why or row for text, (row, why) in zip(JSON_TEXTS, found, strict=True)} == JSON_TEXTS
    not_framed = [b'{"city":"a"}', b"", b"\x00\x00\x00\x07", b'\x01\x00\x00\x00\x07{"city":"a"}']
    assert {why for _, why in decoded(spark, made, not_framed)} == {"not framed: magic byte and schema id are missing"}
    records = batch(spark, [Change(0, 0, b"", FRAME + b'{"city":"a"}')])
    assert sampled_json(records, "value", FormatSpec("json", "value", is_framed=True)) == ddl("city STRING")


@pytest.mark.parametrize("kind", [TextFormat, BinaryFormat])
def test_an_unsupported_framing_is_refused(kind: type[TextFormat | BinaryFormat]) -> None:
    with pytest.raises(
        UsageError, match="--value-framing confluent: expected with avro, protobuf or json, found with x"
    ):
        kind(FormatSpec("x", "value", is_framed=True))


def strict_json(text: bytes) -> dict[str, Any] | None:
    """Return the result of Python's parser, without its own extensions."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        found = json.loads(text.decode(), parse_constant=refuse)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def test_damaged_json_is_refused_as_by_a_strict_parser(spark: SparkSession) -> None:
    rng = random.Random(SEED)
    pieces = [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"',
        b"'",
        b" ",
        b"\n",
        b"\x00",
        b"\xff",
        b"\\",
        b"1",
        b"-",
        b"null",
        b"x",
    ]
    whole = [text for text, said in JSON_TEXTS.items() if not isinstance(said, str)]
    texts = []
    for _ in range(size(250, 1_500)):
        damaged = bytearray(rng.choice(whole))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(damaged) + 1)
            damaged[at : at + rng.choice((0, 0, 1, 4))] = (
                rng.choice(pieces) if rng.random() < 0.7 else rng.choice(whole)
            )
        texts.append(bytes(damaged))
    made = JsonFormat(ddl("city STRING, orders BIGINT"), VALUES)
    taken = 0
    for text, (row, why) in zip(texts, decoded(spark, made, texts), strict=True):
        expected = strict_json(text)
        if why is not None:
            fits = expected is not None and isinstance(expected.get("orders"), int | None)
            assert not fits or not {"city", "orders"} & set(expected or ()), f"seed {SEED}: {text!r} is {why}"
            continue
        taken += 1
        assert expected is not None, f"seed {SEED}: {text!r} was taken as {row}"
        assert row[1] == expected.get("orders"), f"seed {SEED}: {text!r} was taken as {row}"
        if isinstance(expected.get("city"), str | None):
            assert row[0] == expected.get("city"), f"seed {SEED}: {text!r} was taken as {row}"
    assert taken > size(7, 50), "some are still whole"


TEXT_KEYS = {
    "BIGINT": ["1", "01", " 1", "1 ", "+1", "1.0", "1L", "-0", "0", "-1", "9223372036854775807"],
    "INT": ["7", "07", "0x7", "7.9", "2147483648"],
    "DECIMAL(5,2)": ["1.50", "1.5", "1.500", "1.505", "-0.00", "0.00", "1e0"],
    "DOUBLE": ["1.0", "1", "1e0", "0.0", "-0.0", "NaN", "nan", "Infinity", "inf", "1.0D", "0.1", "0.10000000000000001"],
    "FLOAT": ["0.1", "0.10000000149", "-0.0", "0.0"],
    "BOOLEAN": ["true", "TRUE", "t", "1", "yes", "y", "false", "0"],
    "DATE": ["2026-11-28", "2026-11-28 ", "2026-11-8", "2026-11-08", "2026-11-28T10:00:00", "2026"],
    "TIMESTAMP": [
        "2026-11-28 10:00:00",
        "2026-11-28T10:00:00Z",
        "2026-11-28 11:00:00+01:00",
        "2026-11-28 10:00:00.000",
    ],
    "STRING": ["a", "A", " a", "", "\u00e5", "a\u030a"],
    "CHAR(3)": ["a", "a ", "a  ", "abc", "abcd"],
    "VARCHAR(3)": ["a", "a ", "abc", "abcd", "abc "],
}


@pytest.mark.parametrize("kind", sorted(TEXT_KEYS))
def test_two_text_keys_are_never_one_row(spark: SparkSession, kind: str) -> None:
    texts = [text.encode() for text in TEXT_KEYS[kind]]
    made = TextFormat(FormatSpec("string", "key", schema=f"id {kind}"))
    records = batch(spark, [Change(0, offset, b"", text) for offset, text in enumerate(texts)])
    found, why = made.decoded("value", made.parsed(records, "value"))
    taken = records.where(why.isNull()).select(found.alias("key"), "value")
    rows = taken.groupBy("key").agg(f.collect_list("value").alias("texts")).collect()  # as MERGE compares them
    assert rows, "at least one is written as Spark writes it"
    together = {str(row["key"]["id"]): [bytes(each) for each in row["texts"]] for row in rows if len(row["texts"]) > 1}
    assert together == {}


def test_undecodable_text_keys_are_reported_and_text_values_accepted(spark: SparkSession) -> None:
    schema = "id BIGINT"
    found = decoded(spark, TextFormat(FormatSpec("string", "key", schema=schema)), [b"07", b"x", b"\xff", b"7"])
    assert [why for _, why in found] == [
        "not in the canonical form of bigint, which is 7",
        "not a valid bigint",
        "not UTF-8",
        None,
    ]
    assert decoded(spark, TextFormat(FormatSpec("string", "value", schema=schema)), [b"07"]) == [((7,), None)]


def test_json_keys_that_differ_in_another_field_are_never_one_row(spark: SparkSession) -> None:
    texts = [
        b'{"shop":"s","id":1}',
        b'{"id": 1, "shop": "s"}',
        b'{"shop":"s","id":1,"region":"x"}',
        b'{"shop":"s","id":1,"id":2}',
        b'{"shop":"s","ID":1}',
        b'{"shop":"s"}',
        b"{}",
        b'{"shop":"s","id":1},"x":1',
        b'{"shop":"s","id":1},"object":{"shop":"s","id":2}',
        b'{"shop":"s","id":1,"x":NaN}',
    ]
    found = decoded(spark, JsonFormat(ddl("shop STRING, id INT"), KEYS), texts)
    alone = "not a JSON object with only shop, id"
    assert found[:2] == [(("s", 1), None)] * 2, "the order of fields is no difference"
    assert found[2:7] == [(None, alone)] * 5
    assert found[7:] == [(None, NO_OBJECT)] * 3


@pytest.mark.parametrize(
    "kind", ["STRUCT<a: INT>", "ARRAY<INT>", "MAP<STRING, INT>", "DOUBLE", "DECIMAL(5,2)", "DATE", "BINARY"]
)
def test_a_type_that_merges_several_json_keys_into_one_row_is_refused(kind: str) -> None:
    with pytest.raises(UsageError, match="--key-schema: column id: expected STRING, BOOLEAN or an integer type"):
        JsonFormat(ddl(f"id {kind}"), KEYS)


def test_a_collation_of_keys_is_refused() -> None:
    field = StructField("id", StringType("UTF8_LCASE"))
    for make in (
        lambda: JsonFormat(StructType([field]), KEYS),
        lambda: TextFormat(FormatSpec("string", "key", schema="id STRING COLLATE UTF8_LCASE")),
    ):
        with pytest.raises(UsageError, match="--key-schema: column id: expected a type without a collation"):
            make()


def random_type(rng: random.Random, depth: int) -> DataType:
    names = ["zip-code", "a`b", "x:bigint>, admin boolean, b struct<y", "select", "ä", "a.b", " ", "plain", "1"]
    kind = rng.choice("ssllamt" if depth else "sl")
    if kind == "t":
        chosen = rng.sample(names, rng.randint(1, 3))
        return StructType([StructField(name, random_type(rng, depth - 1)) for name in chosen])
    if kind == "a":
        return ArrayType(random_type(rng, depth - 1))
    if kind == "m":
        return MapType(StringType(), random_type(rng, depth - 1))
    return StringType() if kind == "s" else LongType()


def test_names_of_nested_fields_are_quoted_in_sql(spark: SparkSession) -> None:
    rng = random.Random(SEED)
    by_kind: dict[str, int] = defaultdict(int)
    for _ in range(size(30, 300)):
        wanted = random_type(rng, 4)
        text = sql_type(wanted)
        assert ddl(f"one {text}") == StructType([StructField("one", wanted)]), f"seed {SEED}: {text}"
        by_kind[wanted.typeName()] += 1
    assert {"struct", "array", "map"} <= set(by_kind)


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


PLACE = record("Place", ("street", "string"), ("no", ["null", "int"]))


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        (record("a", ("n", "int"), ("t", {"type": "long", "logicalType": "timestamp-millis"})), "n t"),
        (record("a", ("at", ["null", PLACE])), "at Place.street Place.no"),
        (record("a", ("many", {"type": "array", "items": PLACE})), "many Place.street Place.no"),
        (record("a", ("by", {"type": "map", "values": ["null", PLACE]})), "by Place.street Place.no"),
        (record("a", ("one", PLACE), ("two", ["null", "Place"])), "one Place.street Place.no two"),
        (record("a", ("one", record("b", ("in", PLACE)))), "one b.in Place.street Place.no"),
        (record("a", ("kind", {"type": "enum", "name": "k", "symbols": ["x"]})), "kind"),
        (record("list", ("n", "int"), ("next", ["null", "list"])), "n next"),
    ],
)
def test_avro_fields_have_names_also_in_nested_records(schema: Any, wanted: str) -> None:
    assert names(schema) == set(wanted.split())
