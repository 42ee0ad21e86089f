"""Conversion of Protobuf messages to columns by Spark's `from_protobuf` (package spark-protobuf) and a descriptor file.

The framing of Confluent's serializers is a zero byte, the schema's id in four bytes, and the number of the message in the file:
a zero byte for the first, the only one that is supported.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.types import StructField, StructType

from ..errors import UsageError
from .formats import FormatSpec, schema_path, unframed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

HEADER_BYTES = 6


class ProtobufFormat:
    def __init__(self, spec: FormatSpec, session: SparkSession) -> None:
        """Read the descriptors. Raises UsageError if the descriptor file or the message in it is missing."""
        if spec.message is None:
            raise UsageError(f"--{spec.what}-format protobuf: expected --{spec.what}-message NAME")
        with open(schema_path(spec), "rb") as file:
            self._descriptors = file.read()
        self._message, self._is_framed = spec.message, bool(spec.is_framed)
        nothing = session.sql("SELECT CAST(NULL AS BINARY) AS data")
        try:
            found = nothing.select(self._decode_message(f.col("data")).alias("made")).schema["made"].dataType
        except Exception as error:
            raise UsageError(f"{spec.schema}: message {spec.message}: {' '.join(str(error).split())[:300]}") from error
        assert isinstance(found, StructType)
        self.fields = StructType([StructField(field.name, field.dataType) for field in found])

    def _body(self, data: str) -> Column:
        return unframed(data, HEADER_BYTES) if self._is_framed else f.col(data)

    def parsed(self, records: DataFrame, data: str) -> Column:
        return self._decode_message(self._body(data))

    def decoded(self, data: str, parsed: Column) -> tuple[Column, Column]:
        why, made = f.lit(None).cast("string"), parsed
        if self._is_framed:
            framed = (f.hex(f.substring(data, 1, 1)) == "00") & (f.hex(f.substring(data, HEADER_BYTES, 1)) == "00")
            why = f.when(~framed, f.lit("not framed: magic byte, schema id and first message are missing"))
        # An undecodable message is null in each field, or as a whole. So is one whose fields are all unset, which has no bytes.
        all_null = reduce(and_, (made.getField(field.name).isNull() for field in self.fields))
        found = f.struct(*(made.getField(field.name).alias(field.name) for field in self.fields))
        bad = made.isNull() | all_null & (f.length(self._body(data)) > 0)
        return found, f.coalesce(why, f.when(bad, f.lit(f"not a message {self._message}")))

    def _decode_message(self, data: Column) -> Column:
        from pyspark.sql.protobuf.functions import from_protobuf

        options = {"mode": "PERMISSIVE", "emit.default.values": "true"}
        return from_protobuf(data, self._message, options=options, binaryDescriptorSet=self._descriptors)
