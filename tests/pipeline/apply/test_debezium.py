"""Debezium's envelopes, as Kafka Connect's JSON converters write them, with tables of delta-rs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="needs the extra ottla[spark]")
pytest.importorskip("deltalake", reason="needs the extra ottla[delta-rs]")

from ottla.pipeline.apply.applier import Applier
from ottla.pipeline.apply.debezium import change_schema
from ottla.pipeline.apply.formats import FormatSpec
from ottla.pipeline.apply.query import ApplyJob, applier
from ottla.pipeline.errors import CorruptSourceError, UsageError
from support.pipeline.changes import TOPIC, Change, batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = {"type": "struct", "fields": [{"field": "op", "type": "string", "optional": False}], "name": "shop.Envelope"}
FRAME = b"\x00\x00\x00\x00\x07"


def envelope(op: str, after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> dict[str, Any]:
    source = {"version": "3.3.1.Final", "connector": "postgresql", "db": "shop", "table": "customers", "lsn": 24023128}
    return {
        "before": before,
        "after": after,
        "source": source,
        "op": op,
        "ts_ms": 1_764_540_000_000,
        "transaction": None,
    }


def record(offset: int, key: int, value: dict[str, Any] | None, *, has_schemas: bool, frame: bytes = b"") -> Change:
    def text(part: dict[str, Any] | None) -> bytes | None:
        return (
            None
            if part is None
            else frame + json.dumps({"schema": SCHEMA, "payload": part} if has_schemas else part).encode()
        )

    return Change(0, offset, text({"id": key}), text(value))


def made_of(spark: SparkSession, path: Path, framing: bool = False, **options: Any) -> Applier:
    key = FormatSpec("debezium", "key", schema="id BIGINT", is_framed=framing)
    value = FormatSpec("debezium", "value", schema="id BIGINT, city STRING, tags ARRAY<STRING>", is_framed=framing)
    made = applier(
        spark, ApplyJob(TOPIC, str(path / "table"), "delta-rs", key=key, value=value, creates=True, **options)
    )
    made.begun_at = made.state(spark)
    return made


def rows(made: Applier, spark: SparkSession) -> dict[int, Any]:
    return {row["id"]: (row["city"], row["tags"]) for row in made.table.read(spark).collect()}


def oslo(key: int) -> dict[str, Any]:
    return {"id": key, "city": "Oslo", "tags": ["a", "}"], "more": {"x": 1}}


@pytest.mark.parametrize(
    ("has_schemas", "frame"), [(True, b""), (False, b""), (False, FRAME)], ids=["schemas", "bare", "framed"]
)
def test_rows_are_read_changed_and_deleted(
    spark: SparkSession, tmp_path: Path, has_schemas: bool, frame: bytes
) -> None:
    changes = [
        (1, envelope("r", oslo(1))),
        (2, envelope("c", oslo(2))),
        (3, envelope("c", oslo(3))),
        (2, envelope("u", {**oslo(2), "city": "Bergen", "tags": None}, oslo(2))),
        (3, envelope("d", None, oslo(3))),
        (4, envelope("c", oslo(4))),
        (4, envelope("d", None, oslo(4))),
        (4, None),
    ]
    feed = [
        record(offset, key, value, has_schemas=has_schemas, frame=frame) for offset, (key, value) in enumerate(changes)
    ]
    loaded, merged = (made_of(spark, tmp_path / name, bool(frame)) for name in ("loaded", "merged"))
    loaded.load(batch(spark, feed), {0: len(feed)})
    for number, part in enumerate((feed[:3], feed[3:])):
        merged(batch(spark, part), number)
    wanted = {1: ("Oslo", ["a", "}"]), 2: ("Bergen", None)}
    assert (rows(loaded, spark), rows(merged, spark)) == (wanted, wanted)


BAD: list[tuple[dict[str, Any], str]] = [
    (envelope("t", None), "in Debezium's envelope with the op t"),
    (envelope("u", None), "in Debezium's envelope without after"),
    ({"op": None, "after": oslo(1)}, "not in Debezium's envelope: op is missing"),
    (envelope("c", {**oslo(1), "tags": 7}), "not a JSON object of the schema"),
]


@pytest.mark.parametrize("has_schemas", [False, True])
def test_other_values_are_undecodable(spark: SparkSession, tmp_path: Path, has_schemas: bool) -> None:
    values = [envelope("c", oslo(1)), *(value for value, _ in BAD)]
    feed = [record(offset, offset, value, has_schemas=has_schemas) for offset, value in enumerate(values)]
    made = made_of(spark, tmp_path, undecodable_to=str(tmp_path / "aside"))
    made.load(batch(spark, feed), {0: len(feed)})
    assert rows(made, spark) == {0: ("Oslo", ["a", "}"])}
    assert made.aside is not None
    aside = made.aside.read(spark).collect()
    assert {row["offset"]: row["reason"] for row in aside} == {
        offset: f"a value that is {why}" for offset, (_, why) in enumerate(BAD, 1)
    }
    assert {row["offset"]: (row["key"], row["value"]) for row in aside} == {
        each.offset: (each.key, each.value) for each in feed[1:]
    }, "the bytes of the topic"


def test_a_key_without_the_columns_of_the_schema_is_undecodable(spark: SparkSession, tmp_path: Path) -> None:
    feed = [Change(0, 0, b'{"schema": {}, "payload": {"no": 1}}', json.dumps(envelope("c", oslo(1))).encode())]
    with pytest.raises(CorruptSourceError, match="found a key that is not a JSON object with only id"):
        made_of(spark, tmp_path)(batch(spark, feed), 0)


ROW = {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}
OP = {"name": "op", "type": "string"}
SOURCE = {"name": "source", "type": {"type": "record", "name": "Source", "fields": [{"name": "lsn", "type": "long"}]}}


def avro_schema(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Envelope", "namespace": "shop", "fields": list(fields)}


@pytest.mark.parametrize(("before", "after"), [(ROW, "Value"), ("Value", ROW), (ROW, "shop.Value")])
def test_only_the_row_and_the_op_of_an_avro_envelope_are_read(before: Any, after: Any) -> None:
    schema = avro_schema(
        {"name": "before", "type": ["null", before]}, {"name": "after", "type": ["null", after]}, SOURCE, OP
    )
    own = {"name": "after", "type": ["null", ROW], "default": None}
    assert change_schema(schema) == avro_schema(own, OP)


@pytest.mark.parametrize("fields", [[OP], [{"name": "after", "type": ["null", ROW]}, SOURCE], [OP, SOURCE]])
def test_an_avro_schema_without_an_envelope_is_refused(fields: list[dict[str, Any]]) -> None:
    with pytest.raises(UsageError, match="expected Debezium's envelope with the fields op and after, found"):
        change_schema(avro_schema(*fields))
