"""Debezium's envelope around a row, as Kafka Connect's converters for JSON and Avro write it.

    value           op, before, after, source, …           the row is `after`; for the op "d" it was deleted
    JSON, either    {"schema": {…}, "payload": …}          with the converter's `schemas.enable`

An envelope is opened before the newest records are chosen, so that Spark exchanges only rows, without schemas and old values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from ..errors import UsageError
from .formats import Format, FormatSpec, JsonFormat, ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from .avro_format import AvroFormat

JSON, AVRO = "debezium", "debezium-avro"
"""Names of the formats."""
UPSERTS, DELETION = ("c", "u", "r"), "d"
"""Values of `op`: create, update, read (by a first snapshot); delete."""


class Envelope(Protocol):
    """Opens the envelopes of keys or of values.

    what: `key` or `value`, also the name of the column.
    """

    @property
    def what(self) -> str: ...

    def opened(self, records: DataFrame) -> DataFrame:
        """Replace a column of bytes by the row, or its key; null for a deletion. Adds a column with the reason why that failed.

        The new column's name is that of `reason_column`.
        """
        ...


def reason_column(what: str) -> str:
    return f"bad_{what}"


@dataclass(frozen=True)
class Enveloped:
    """Format of keys or values in an envelope: that of what is in it."""

    envelope: Envelope
    row: Format

    @property
    def fields(self) -> StructType:
        return self.row.fields

    def parsed(self, records: DataFrame, data: str) -> Column:
        return self.row.parsed(records, data)

    def decoded(self, data: str, parsed: Column) -> tuple[Column, Column]:
        return self.row.decoded(data, parsed)


class JsonKeys:
    """Opens keys. One without an envelope is left as it is."""

    what = "key"

    def __init__(self, spec: FormatSpec) -> None:
        self._json = JsonFormat(ddl("schema STRING, payload STRING"), replace(spec, name="json"))

    def opened(self, records: DataFrame) -> DataFrame:
        records = records.withColumn("parsed", self._json.parsed(records, "key"))
        found, why = self._json.decoded("key", f.col("parsed"))
        text = f.when(why.isNull(), found.getField("payload")).otherwise(self._json.bytes_of("key").cast("string"))
        return records.withColumns({"key": text.cast("binary"), reason_column("key"): f.lit(None).cast("string")}).drop(
            "parsed"
        )


class Changes:
    """Opens values."""

    what = "value"

    def __init__(self, decoder: Format) -> None:
        """
        Args:
            decoder: Its fields are `op` and `after`. They may also be those of a field `payload`.
        """
        self._decoder = decoder

    def opened(self, records: DataFrame) -> DataFrame:
        records = records.withColumn("parsed", self._decoder.parsed(records, "value"))
        found, why = self._decoder.decoded("value", f.col("parsed"))
        records = records.withColumns({"parsed": found, "why": why})
        change = {name: f.col(f"parsed.{name}") for name in ("op", "after")}
        if "payload" in self._decoder.fields.names:
            has_payload = f.col("parsed.payload").isNotNull()
            change = {
                name: f.when(has_payload, f.col(f"parsed.payload.{name}")).otherwise(own)
                for name, own in change.items()
            }
        records = records.withColumns(change).drop("parsed")
        op, after = f.col("op"), f.col("after")
        is_upsert = op.isin(*UPSERTS)
        why = f.coalesce(
            f.col("why"),
            f.when(op.isNull(), f.lit("not in Debezium's envelope: op is missing")),
            f.when(~is_upsert & (op != DELETION), f.concat(f.lit("in Debezium's envelope with the op "), op)),
            f.when(is_upsert & after.isNull(), f.lit("in Debezium's envelope without after")),
        )
        opened = {"value": f.when(is_upsert, after), reason_column("value"): f.when(f.col("value").isNotNull(), why)}
        return records.withColumns(opened).drop("op", "after", "why")


class AvroRow:
    """Format of the row that `Changes` has taken from a record of Avro."""

    def __init__(self, envelopes: AvroFormat) -> None:
        self._envelopes = envelopes

    @property
    def fields(self) -> StructType:
        found = self._envelopes.fields["after"].dataType
        assert isinstance(found, StructType)
        return found

    def parsed(self, records: DataFrame, data: str) -> Column:
        return f.col(data)

    def decoded(self, data: str, parsed: Column) -> tuple[Column, Column]:
        found = f.struct(*(parsed.getField(field.name).alias(field.name) for field in self.fields))
        return found, f.lit(None).cast("string")


def json_changes(spec: FormatSpec) -> Envelope:
    """Return the envelope of a key or a value in JSON."""
    if spec.what == "key":
        return JsonKeys(spec)
    return Changes(JsonFormat(ddl("payload STRUCT<op STRING, after STRING>, op STRING, after STRING"), spec))


def avro_changes(envelopes: AvroFormat) -> Enveloped:
    """Return the format of values in Avro, from that of their envelopes (`change_schema`)."""
    return Enveloped(Changes(envelopes), AvroRow(envelopes))


def row_spec(spec: FormatSpec) -> FormatSpec:
    """Return the format of the JSON in an envelope."""
    return replace(spec, name="json", is_framed=False)


def change_schema(schema: Any) -> Any:
    """Return the part of an envelope's Avro schema that is read: `op`, and `after` with the definition of the row.

    Raises UsageError if it is not that of an envelope.
    """
    fields = {field["name"]: field for field in schema["fields"]}
    rows = [
        kind
        for name in ("before", "after")
        for kind in (fields.get(name, {}).get("type") or ())
        if isinstance(kind, dict) and kind.get("type") == "record"
    ]
    if not rows or not {"op", "after"} <= fields.keys():
        raise UsageError(
            f"the Avro schema of the values: expected Debezium's envelope with the fields op and after, found {', '.join(fields)}"
        )
    after = {"name": "after", "type": ["null", rows[0]], "default": None}
    return {**schema, "fields": [after, {"name": "op", "type": "string"}]}
