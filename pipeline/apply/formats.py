"""Bytes of a record to columns of a table: text, bytes and JSON, by Spark's own functions.

    format      a key's or a value's columns
    string      one, of UTF-8 text, cast to its type
    binary      one, as it is
    json        fields of an object, of the types of a schema (DDL); what the schema does not name is left out
    avro        fields of a record: `avro_format`
    protobuf    fields of a message: `protobuf_format`

What cannot be decoded is told from what is null: a converter gives a struct, and why there is none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType, _parse_datatype_string

from ..errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CORRUPT = "__ottla_corrupt"
FORMATS = ("json", "avro", "protobuf", "string", "binary")
SAMPLED = 1_000
"""Records that `--value-schema infer` looks at."""


class Format(Protocol):
    """
    fields: Of the struct that it makes, in the table's order.
    """

    @property
    def fields(self) -> StructType: ...

    def decoded(self, records: DataFrame, data: str) -> tuple[Column, Column]:
        """(the struct, why there is none or null) of a column of bytes that are not null.

        Args:
            records: With that column; a format may look into it first, for what it must fetch.
        """
        ...


@dataclass(frozen=True)
class FormatSpec:
    """How keys, or values, are to be understood, as the user says it.

    name: One of FORMATS.
    schema: Text, or `@FILE`: DDL for json (and for string: `name TYPE`), an Avro schema, a Protobuf descriptor file. None
        where it is found out: from the registry, or from the table.
    message: Protobuf's name of the message.
    registry: URL of a schema registry, or a folder with `ID.avsc`; for avro, and framed data.
    subject: Whose newest schema is the reader's; None is TOPIC-key or TOPIC-value.
    is_framed: Whether a magic byte and a schema id stand before the data; None: where there is a registry.
    what: `key` or `value`, for messages, and the name of the one column of a text or of bytes.
    """

    name: str
    what: str
    schema: str | None = None
    message: str | None = None
    registry: str | None = None
    subject: str | None = None
    is_framed: bool | None = None


def schema_text(spec: FormatSpec) -> str | None:
    """The schema itself, where it is text.

    Raises:
        UsageError: The file has no text.
        OSError: It cannot be read.
    """
    if spec.schema is None or not spec.schema.startswith("@"):
        return spec.schema
    path = spec.schema[1:]
    with open(path, "rb") as file:
        data = file.read()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"--{spec.what}-schema: expected a file of UTF-8 text, found byte {error.start} of {path} to be none"
        ) from error


def schema_path(spec: FormatSpec) -> str:
    if spec.schema is None or not os.path.isfile(spec.schema.removeprefix("@")):
        raise UsageError(
            f"--{spec.what}-schema: expected a descriptor file (protoc --descriptor_set_out), found {spec.schema}"
        )
    return spec.schema.removeprefix("@")


def ddl(text: str) -> StructType:
    """Columns as Spark's DDL has them."""
    found = _parse_datatype_string(text)
    assert isinstance(found, StructType)
    return found


def parsed_ddl(text: str, option: str) -> StructType:
    """UsageError: it is none."""
    try:
        found = _parse_datatype_string(text)
    except (PySparkException, ValueError) as error:
        raise UsageError(
            f"{option}: expected columns as in `city STRING, orders BIGINT`, found {' '.join(text.split())[:200]!r}"
        ) from error
    if not isinstance(found, StructType) or not found.fields:
        raise UsageError(f"{option}: expected columns as in `city STRING, orders BIGINT`, found {text[:200]!r}")
    return found


class TextFormat:
    """UTF-8, cast to the type of its column."""

    def __init__(self, spec: FormatSpec) -> None:
        text = schema_text(spec)
        option = f"--{spec.what}-schema"
        self.fields = StructType([StructField(spec.what, StringType())]) if text is None else parsed_ddl(text, option)
        if len(self.fields) != 1:
            raise UsageError(f"{option}: expected one column for the format string, found {len(self.fields)}")

    def decoded(self, records: DataFrame, data: str) -> tuple[Column, Column]:
        (field,) = self.fields
        text = f.col(data).cast("string")
        if hasattr(f, "is_valid_utf8"):
            is_text = f.is_valid_utf8(text)
        else:  # before Spark 4.0: what is no text does not come back as the same bytes
            is_text = f.encode(f.decode(data, "UTF-8"), "UTF-8") == f.col(data)
        found = f.expr(f"try_cast(CAST({data} AS STRING) AS {field.dataType.simpleString()})")
        why = f.when(~is_text, f.lit("not UTF-8")).when(found.isNull(), f.lit(f"no {field.dataType.simpleString()}"))
        return f.struct(found.alias(field.name)), why


class BinaryFormat:
    def __init__(self, spec: FormatSpec) -> None:
        text = schema_text(spec)
        text = f"{spec.what} BINARY" if text is None else text
        self.fields = parsed_ddl(text, f"--{spec.what}-schema")
        if self.fields.simpleString().rpartition(":")[2] != "binary>" or len(self.fields) != 1:
            raise UsageError(f"--{spec.what}-schema: expected one column of type BINARY, found {text!r}")

    def decoded(self, records: DataFrame, data: str) -> tuple[Column, Column]:
        return f.struct(f.col(data).alias(self.fields[0].name)), f.lit(None).cast("string")


class JsonFormat:
    """A JSON object. A field that is missing is null; one of another type makes the record undecodable."""

    def __init__(self, fields: StructType) -> None:
        self.fields = fields

    def decoded(self, records: DataFrame, data: str) -> tuple[Column, Column]:
        text = f.col(data).cast("string")
        schema = StructType([*self.fields, StructField(CORRUPT, StringType())])
        parsed = f.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})
        fits = parsed.isNotNull() & parsed.getField(CORRUPT).isNull()
        found = f.struct(*(parsed.getField(field.name).alias(field.name) for field in self.fields))
        return found, f.when(~fits, f.lit("no JSON object of the schema"))


def sampled_json(records: DataFrame, data: str, option: str) -> StructType:
    """What the JSON of some records looks like. UsageError: there are none, or they are no objects."""
    texts = records.where(f.col(data).isNotNull()).limit(SAMPLED).select(f.col(data).cast("string")).collect()
    if not texts:
        raise UsageError(f"{option} infer: expected records to look at, found none; give the schema")
    session = records.sparkSession
    found = session.read.json(session.sparkContext.parallelize([text for (text,) in texts], 1)).schema
    if "_corrupt_record" in found.names or not found.fields:
        raise UsageError(f"{option} infer: expected JSON objects in the topic, found others; give the schema")
    return found
