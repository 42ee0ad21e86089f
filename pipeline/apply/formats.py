"""Conversion of a record's bytes to columns of a table: text, bytes and JSON, by Spark's own functions.

    format      a key's or a value's columns
    string      one column of UTF-8 text, cast to its type
    binary      one column of the unchanged bytes
    json        fields of an object, of the types of a schema (DDL); a value's other fields are left out
    avro        fields of a record: `avro_format`
    debezium, debezium-avro    the same, of a row in an envelope: `debezium`
    protobuf    fields of a message: `protobuf_format`

Undecodable data differs from null: a converter returns a struct, and the reason if decoding failed.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    _parse_datatype_string,
)

from ..errors import UsageError
from .merge_sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CORRUPT = "__ottla_corrupt"
OBJECT = "object"
"""Field of the envelope around the JSON text."""
JSON_KEY_TYPES = (StringType, BooleanType, ByteType, ShortType, IntegerType, LongType)
"""Types for which different JSON values give different column values, with numbers written as integers."""
STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
FRAME_BYTES = 5
"""Size of Confluent's framing: a zero byte and the schema's id in four bytes."""
NOT_FRAMED = "not framed: magic byte and schema id are missing"
NAMED_MAX = 8
"""Number of fields that a message lists."""
SAMPLED = 1_000
"""Number of records that `--value-schema infer` reads."""


class Format(Protocol):
    """Converter of keys or values.

    fields: Those of the struct that it returns, in the table's order.
    """

    @property
    def fields(self) -> StructType: ...

    def parsed(self, records: DataFrame, data: str) -> Column:
        """Parse a column of bytes, which may be null. Spark runs a function as often as it is named, so this is a column for itself.

        Args:
            records: Frame with that column; a format may read it first to fetch what it needs.
        """
        ...

    def decoded(self, data: str, parsed: Column) -> tuple[Column, Column]:
        """Convert bytes that are not null, and what `parsed` has made of them.

        Returns the struct, and the reason why decoding failed or null.
        """
        ...


@dataclass(frozen=True)
class FormatSpec:
    """Format of keys, or of values, as the user specifies it.

    name: `json`, `avro`, `debezium`, `debezium-avro`, `protobuf`, `string` or `binary`.
    schema: Text, or `@FILE`: DDL for json (and for string: `name TYPE`), an Avro schema, a Protobuf descriptor file. None
        takes it from the registry, or from the table.
    message: Protobuf's name of the message.
    registry: URL of a schema registry, or a folder with `ID.avsc`; for avro, and framed data.
    subject: Subject whose newest schema is the reader's; None is TOPIC-key or TOPIC-value.
    is_framed: Whether a magic byte and a schema id precede the data; None is the format's default, which is True for avro
        with a registry.
    what: `key` or `value`, for messages, and the name of the only column of the formats string and binary.
    """

    name: str
    what: str
    schema: str | None = None
    message: str | None = None
    registry: str | None = None
    subject: str | None = None
    is_framed: bool | None = None


def schema_text(spec: FormatSpec) -> str | None:
    """Return the schema, if it is text.

    Raises:
        UsageError: The file is not UTF-8 text.
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
            f"--{spec.what}-schema: expected a file of UTF-8 text, found an invalid byte at position {error.start} of {path}"
        ) from error


def schema_path(spec: FormatSpec) -> str:
    if spec.schema is None or not os.path.isfile(spec.schema.removeprefix("@")):
        raise UsageError(
            f"--{spec.what}-schema: expected a descriptor file (protoc --descriptor_set_out), found {spec.schema}"
        )
    return spec.schema.removeprefix("@")


def ddl(text: str) -> StructType:
    """Parse columns in Spark's DDL."""
    found = _parse_datatype_string(text)
    assert isinstance(found, StructType)
    return found


def parsed_ddl(text: str, option: str) -> StructType:
    """Parse columns in Spark's DDL. Raises UsageError if the text is invalid."""
    try:
        found = _parse_datatype_string(text)
    except (PySparkException, ValueError) as error:
        raise UsageError(
            f"{option}: expected columns such as `city STRING, orders BIGINT`, found {' '.join(text.split())[:200]!r}"
        ) from error
    if not isinstance(found, StructType) or not found.fields:
        raise UsageError(f"{option}: expected columns such as `city STRING, orders BIGINT`, found {text[:200]!r}")
    return found


def is_utf8(data: Column) -> Column:
    """Return whether bytes are UTF-8."""
    return f.is_valid_utf8(data.cast("string"))


def is_framed(data: str) -> Column:
    """Return whether a column of bytes begins with Confluent's frame."""
    return (f.length(data) >= FRAME_BYTES) & (f.hex(f.substring(data, 1, 1)) == "00")


def unframed(data: str, frame_bytes: int = FRAME_BYTES) -> Column:
    """Return the bytes after the frame."""
    return f.expr(f"substring({data}, {frame_bytes + 1})")


def check_unframed(spec: FormatSpec) -> None:
    """Raise UsageError for a framing that the format does not support."""
    if spec.is_framed:
        raise UsageError(
            f"--{spec.what}-framing confluent: expected with avro, protobuf or json, found with {spec.name}"
        )


def check_collation(field: StructField) -> None:
    """Raise UsageError for a key's column that compares different texts as equal."""
    if "collate" in field.dataType.simpleString().lower():
        raise UsageError(
            f"--key-schema: column {field.name}: expected a type without a collation, found {field.dataType.simpleString()},"
            " which merges several keys into one row"
        )


class TextFormat:
    """UTF-8, cast to the type of its column.

    A key must be written as Spark writes the value ("7", not "07"), so that two keys of the topic never share a row.
    """

    def __init__(self, spec: FormatSpec) -> None:
        check_unframed(spec)
        self._is_key = spec.what == "key"
        text = schema_text(spec)
        option = f"--{spec.what}-schema"
        self.fields = StructType([StructField(spec.what, StringType())]) if text is None else parsed_ddl(text, option)
        if len(self.fields) != 1:
            raise UsageError(f"{option}: expected one column for the format string, found {len(self.fields)}")
        if self._is_key:
            check_collation(self.fields[0])

    def parsed(self, records: DataFrame, data: str) -> Column:
        return f.expr(f"try_cast(CAST({data} AS STRING) AS {sql_type(self.fields[0].dataType)})")

    def decoded(self, data: str, parsed: Column) -> tuple[Column, Column]:
        (field,) = self.fields
        kind, found = field.dataType.simpleString(), parsed
        why = f.when(~is_utf8(f.col(data)), f.lit("not UTF-8")).when(found.isNull(), f.lit(f"not a valid {kind}"))
        if self._is_key:
            if isinstance(field.dataType, FloatType | DoubleType):
                found += f.lit(0).cast(field.dataType)  # Spark compares -0.0 as 0.0
            written = found.cast("string")
            text = f.concat(f.lit(f"not in the canonical form of {kind}, which is "), written)
            why = why.when(written != f.col(data).cast("string"), text)
        return f.struct(found.alias(field.name)), why


class BinaryFormat:
    def __init__(self, spec: FormatSpec) -> None:
        check_unframed(spec)
        text = schema_text(spec)
        text = f"{spec.what} BINARY" if text is None else text
        self.fields = parsed_ddl(text, f"--{spec.what}-schema")
        if self.fields.simpleString().rpartition(":")[2] != "binary>" or len(self.fields) != 1:
            raise UsageError(f"--{spec.what}-schema: expected one column of type BINARY, found {text!r}")

    def parsed(self, records: DataFrame, data: str) -> Column:
        return f.col(data)

    def decoded(self, data: str, parsed: Column) -> tuple[Column, Column]:
        return f.struct(parsed.alias(self.fields[0].name)), f.lit(None).cast("string")


class JsonFormat:
    """A JSON object, and nothing after it. Undecodable: a field of another type; an object with none of the fields.

    A missing field is null. A key has exactly the fields of the schema, so that two keys of the topic that differ in another
    field never share a row.
    """

    def __init__(self, fields: StructType, spec: FormatSpec) -> None:
        """
        Args:
            fields: At least one.

        Raises:
            UsageError: A key has a column of a type that maps several values to one.
        """
        for each in fields if spec.what == "key" else ():
            if type(each.dataType) not in JSON_KEY_TYPES:
                raise UsageError(
                    f"--key-schema: column {each.name}: expected STRING, BOOLEAN or an integer type for a JSON key, found"
                    f" {each.dataType.simpleString()}, which merges several keys into one row; or --key-format string"
                )
            check_collation(each)
        self.fields = fields
        self._end = secrets.token_hex(8)
        """Name of the envelope's last field, which no text can contain."""
        self._is_key, self._is_framed = spec.what == "key", bool(spec.is_framed)

    def bytes_of(self, data: str) -> Column:
        """Return the JSON of a column, without its frame."""
        return unframed(data) if self._is_framed else f.col(data)

    def _envelope(self, data: str) -> Column:
        return f.concat(f.lit(f'{{"{OBJECT}":'), self.bytes_of(data).cast("string"), f.lit(f',"{self._end}":true}}'))

    def parsed(self, records: DataFrame, data: str) -> Column:
        # Spark's parser stops at the object's end, and fails for text without an object. An envelope prevents both. The text has not
        # closed the envelope if the last field is there, and added none without other fields.
        schema = StructType(
            [
                StructField(OBJECT, self.fields),
                StructField(self._end, BooleanType()),
                StructField(CORRUPT, StringType()),
            ]
        )
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        return f.from_json(self._envelope(data), schema, options | STRICT)

    def decoded(self, data: str, parsed: Column) -> tuple[Column, Column]:
        bytes_ = self.bytes_of(data)
        text, found = bytes_.cast("string"), parsed.getField(OBJECT)
        fits = parsed.getField(CORRUPT).isNull() & parsed.getField(self._end) & found.isNotNull()
        # A text whose only closing brace is its end cannot close the envelope; others are parsed once more.
        keys = f.json_object_keys(self._envelope(data)) == f.array(f.lit(OBJECT), f.lit(self._end))
        is_flat = text.startswith("{") & (f.instr(text, "}") == f.char_length(text))
        fits &= is_flat | keys
        made = f.struct(*(found.getField(name).alias(name) for name in self.fields.names))
        why = f.when(f.lit(self._is_framed) & ~is_framed(data), f.lit(NOT_FRAMED))
        why = why.when(~is_utf8(bytes_), f.lit("not UTF-8"))
        why = why.when(~f.coalesce(fits, f.lit(False)), f.lit("not a JSON object of the schema"))
        names, expected = f.json_object_keys(text), f.array(*map(f.lit, sorted(self.fields.names)))
        if self._is_key:
            only = f.coalesce(f.sort_array(names) == expected, f.lit(False))
            return made, why.when(~only, f.lit(f"not a JSON object with only {', '.join(self.fields.names)}"))
        all_null = reduce(and_, (found.getField(name).isNull() for name in self.fields.names))
        listed = ", ".join(self.fields.names[:NAMED_MAX]) + (", …" if len(self.fields) > NAMED_MAX else "")
        return made, why.when(
            all_null & ~f.coalesce(f.arrays_overlap(names, expected), f.lit(False)),
            f.lit(f"not a JSON object with a field of the schema ({listed})"),
        )


def sampled_json(records: DataFrame, data: str, spec: FormatSpec) -> StructType:
    """Infer the schema of the JSON of some records. Raises UsageError if the topic has none, or they are not objects."""
    option = f"--{spec.what}-schema"
    bytes_ = unframed(data) if spec.is_framed else f.col(data)
    texts = records.where(f.col(data).isNotNull()).limit(SAMPLED).select(bytes_.cast("string")).collect()
    if not texts:
        raise UsageError(f"{option} infer: expected records to look at, found none; give the schema")
    session = records.sparkSession
    found = session.read.json(session.sparkContext.parallelize([text for (text,) in texts], 1)).schema
    if "_corrupt_record" in found.names or not found.fields:
        raise UsageError(f"{option} infer: expected JSON objects in the topic, found others; give the schema")
    return found


def sql_type(kind: DataType) -> str:
    """Return a type in Spark's SQL, with the names of nested fields quoted."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{quoted(each.name)}: {sql_type(each.dataType)}' for each in kind)}>"
    if isinstance(kind, ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return kind.simpleString()
