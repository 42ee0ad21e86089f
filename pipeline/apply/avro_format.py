"""Conversion of Avro records to columns by Spark's `from_avro` (package spark-avro), each with its writer's schema.

Confluent's framing is a zero byte, the schema's id in four bytes, and the record. The ids of a batch are looked up in the
registry before anything is decoded. Records with another schema than the reader's are resolved by Avro's own rules: an extra
field is left out, and a missing one has its default.

A batch may contain a schema with fields that the reader's does not have. They would be lost silently, so the job fails and
names them. With `adds_columns` the newest schema of the subject becomes the reader's, and the table gets the columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from ..errors import CorruptSourceError, UsageError
from ..registry import Registry, registry_address
from .formats import NOT_FRAMED, FormatSpec, is_framed, schema_text, unframed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OK = "__ottla_ok"
"""A field with a default that only the reader's schema has: it is set whenever a record could be decoded."""


class AvroFormat:
    def __init__(
        self,
        spec: FormatSpec,
        topic: str,
        *,
        adds_columns: bool = False,
        part: Callable[[Any], Any] = lambda schema: schema,
    ) -> None:
        """
        Args:
            part: Returns the part of a schema that is read.

        Raises:
            UsageError: A schema is missing, or is not that of a record.
            PipelineError: The registry cannot be reached.
        """
        self._what, self._adds_columns, self._part = spec.what, adds_columns, part
        self._subject = spec.subject or f"{topic}-{spec.what}"
        self._registry: Registry | None = None if spec.registry is None else registry_address(spec.registry).opened()
        self._is_framed = self._registry is not None if spec.is_framed is None else spec.is_framed
        self._is_pinned = spec.schema is not None
        text = schema_text(spec)
        if text is None:
            if self._registry is None:
                raise UsageError(f"--{spec.what}-format avro: expected --registry or --{spec.what}-schema @FILE")
            text = self._registry.latest(self._subject)
        self._reader = part(parsed(text, f"--{spec.what}-schema"))
        self._seen: set[int] = set()
        self._ids: list[int] = []
        """Ids of the schemas of the last frame."""
        self._spark_type: StructType | None = None

    @property
    def fields(self) -> StructType:
        if self._spark_type is None:
            self._spark_type = spark_type(self._reader, self._what)
        return self._spark_type

    def parsed(self, records: DataFrame, data: str) -> Column:
        if not self._is_framed:
            return self._by(f.col(data), self._reader)
        schema_id = _schema_id(data)
        rows = records.where(f.col(data).isNotNull() & is_framed(data)).select(schema_id).distinct().collect()
        self._ids = sorted(row[0] for row in rows)
        found = self._by(f.lit(None).cast("binary"), self._reader)
        for each, writer in self._writers(self._ids).items():
            found = f.when(is_framed(data) & (schema_id == each), self._by(unframed(data), writer)).otherwise(found)
        return found

    def decoded(self, data: str, parsed: Column) -> tuple[Column, Column]:
        found = f.struct(*(parsed.getField(field.name).alias(field.name) for field in self.fields))
        bad = f.when(parsed.isNull() | parsed.getField(OK).isNull(), f.lit("not an Avro record of the schema"))
        if not self._is_framed:
            return found, bad
        why = f.when(~is_framed(data), f.lit(NOT_FRAMED))
        unknown = f.lit("of a schema id that was missing when the ids were looked up")
        return found, f.coalesce(why.when(~_schema_id(data).isin(self._ids), unknown), bad)

    def _writers(self, ids: list[int]) -> dict[int, Any]:
        """Return the schema of each id. With `adds_columns` the newest becomes the reader's if one of them is new."""
        if self._registry is None:
            if len(self._seen | set(ids)) > 1:
                found = ", ".join(map(str, sorted(self._seen | set(ids))))
                raise UsageError(f"the {self._what}s have the schema ids {found}: expected one, or --registry")
            self._seen |= set(ids)
            return dict.fromkeys(ids, self._reader)
        writers = {each: parsed(self._registry.by_id(each), f"schema {each}") for each in ids}
        new = [each for each in ids if each not in self._seen]
        self._seen |= set(ids)
        if new and not self._is_pinned:
            if self._adds_columns:
                self._reader = self._part(parsed(self._registry.latest(self._subject), f"subject {self._subject}"))
                self._spark_type = None
            for each in new:
                if more := names(self._part(writers[each])) - names(self._reader):
                    raise CorruptSourceError(
                        f"schema {each} of the {self._what}s has {', '.join(sorted(more))}, which the table does not have:"
                        f" --add-columns with the newest schema of {self._subject}, or --{self._what}-schema @FILE without it"
                    )
        return writers

    def _by(self, data: Column, writer: Any) -> Column:
        from pyspark.sql.avro.functions import from_avro

        reader = {**self._reader, "fields": [*self._reader["fields"], {"name": OK, "type": "int", "default": 1}]}
        # Avro resolves records of one name; a writer's namespace does not matter for a table.
        named = {**writer, "name": reader["name"], "namespace": reader.get("namespace", "")}
        options = {"mode": "PERMISSIVE", "avroSchema": json.dumps(reader)}
        return from_avro(data, json.dumps(named), options)


def _schema_id(data: str) -> Column:
    return f.conv(f.hex(f.substring(data, 2, 4)), 16, 10).cast("bigint")


def parsed(text: str, option: str) -> Any:
    """Parse a record's schema. Raises UsageError if the text is not one."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option}: expected an Avro schema, found invalid JSON ({error})") from error
    if not isinstance(found, dict) or found.get("type") != "record" or not found.get("fields") or "name" not in found:
        raise UsageError(f"{option}: expected an Avro schema of a record with fields, found {text[:200]!r}")
    return found


def names(schema: Any) -> set[str]:
    """Return the names of a record's fields, and of those of each record in it: `Address.street`."""
    found, left = {field["name"] for field in schema["fields"]}, [field["type"] for field in schema["fields"]]
    while left:
        kind = left.pop()
        if isinstance(kind, list):
            left += kind
        elif isinstance(kind, dict) and kind.get("type") == "record":
            found |= {f"{kind['name']}.{field['name']}" for field in kind["fields"]}
            left += [field["type"] for field in kind["fields"]]
        elif isinstance(kind, dict):
            left += [kind[name] for name in ("type", "items", "values") if name in kind]
    return found


def spark_type(schema: Any, what: str) -> StructType:
    """Return the columns to which Spark converts a schema. All may be null."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None and session._jvm is not None
    try:
        made = session._jvm.org.apache.spark.sql.avro.SchemaConverters.toSqlType(
            session._jvm.org.apache.avro.Schema.Parser().parse(json.dumps(schema))
        )
    except Exception as error:
        raise UsageError(f"the Avro schema of the {what}s: {' '.join(str(error).split())[:300]}") from error
    found = StructType.fromJson(json.loads(made.dataType().json()))
    return StructType([StructField(field.name, field.dataType) for field in found])
