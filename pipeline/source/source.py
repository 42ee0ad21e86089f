"""The format "ottla": a data directory as a frame.

    register(spark)
    spark.read.format("ottla").option("topic", "orders").load("/data")

A frame has the columns of Spark's Kafka connector, with options also `headers`, the batches' columns, and values as JSON. A schema chooses
columns, as Spark does not report to a Python source which ones a query needs. So one that names three columns is read faster
than one that names all:

    spark.read.format("ottla").schema("partition int, offset bigint, key binary").load("/data")

Damage raises, by default, an error that names file, position and offset. With mode=DROPMALFORMED damaged batches are
skipped, and `malformed` shows them, one row each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..errors import UsageError
from ..records.arrow import BATCH_COLUMNS, COLUMNS, KAFKA_COLUMNS
from ..spark.workers import check_workers
from .batch_reader import BatchReader, PushDownReader, SplitPartition, tasks
from .data_source_api import (
    HAS_FILTERS,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from .decoded import decoded_columns
from .push_down import Narrowing
from .read_options import ReadOptions, parse_options
from .split_reader import damage_in
from .stream import StreamReader

FORMAT = "ottla"
MALFORMED_FORMAT = "ottla-malformed"
PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
"""Option with which Spark offers filters to Python sources. Without it the query of a source that accepts them fails."""


def register(spark: SparkSession, *, checks_workers: bool = True) -> None:
    """Register the formats with a session. Changes nothing else; repeated calls have no effect.

    Args:
        checks_workers: If workers may run a different Python, run a task that checks whether they can load Ottla.

    Raises:
        UsageError: They cannot; the message says what to do.
    """
    for source in (OttlaSource, MalformedSource):
        try:
            spark.dataSource.register(source)
        except AnalysisException as error:
            if "DATA_SOURCE_ALREADY_EXISTS" not in str(error):
                raise
            # Spark used the thread's active session, not this one. Making a frame makes this one active.
            spark.createDataFrame([], "nothing int")
            spark.dataSource.register(source)
    if checks_workers:
        check_workers(spark)


def read(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    """Read a data directory as a DataFrame, with filters pushed down if the session allows it (PUSHDOWN_CONF).

    Args:
        options: Those of the format; `schema` chooses columns.
    """
    register(spark)
    reader = spark.read.format(FORMAT)
    if (schema := options.pop("schema", None)) is not None:
        reader = reader.schema(schema)
    pushdown = str(spark.conf.get(PUSHDOWN_CONF, "false")).lower()
    return reader.options(**{"pushdown": pushdown, **options}).load(path)


def malformed(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    """Return one row for each batch that mode=DROPMALFORMED drops: its position, what was expected there, how much is lost."""
    register(spark)
    return spark.read.format(MALFORMED_FORMAT).options(**options).load(path)


_IN_UTC: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
"""Time zone of Arrow schemas; before PySpark 4.1 it is always UTC."""


class OttlaSource(DataSource):
    """The data source "ottla"; see the module."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        """Return the columns that the options choose, as DDL."""
        options = parse_options(self.options)
        names = list(KAFKA_COLUMNS)
        if options.include_headers:
            names.append("headers")
        if options.include_batch_columns:
            names += BATCH_COLUMNS
        columns = [f"{name} {COLUMNS[name].spark_type}" for name in names]
        return ", ".join([*columns, *(f"{name} string" for name in _decoded(options))])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse_options(self.options)
        if options.max_offsets_per_trigger is not None:
            raise UsageError("option maxOffsetsPerTrigger is for streams only")
        if options.latest:
            return _latest_reader(options, arrow_schema(schema, _decoded(options)))
        # Only a session in which filters are enabled accepts a reader that uses them.
        kind = PushDownReader if options.pushdown and HAS_FILTERS else BatchReader
        return kind(options, arrow_schema(schema, _decoded(options)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = parse_options(self.options)
        if options.latest:
            raise UsageError(
                "option latest is for batch reads only: a stream has every version, the last of which counts"
            )
        return StreamReader(options, arrow_schema(schema, _decoded(options)))


def _latest_reader(options: ReadOptions, schema: pa.Schema) -> DataSourceReader:
    # A module of a folder above this one in the import order: imported by its name.
    found = import_module("..snapshot.latest_reader", __package__)
    kind = found.PushDownLatestReader if options.pushdown and HAS_FILTERS else found.LatestReader
    reader: DataSourceReader = kind(options, schema)
    return reader


def _decoded(options: ReadOptions) -> tuple[str, ...]:
    return () if options.registry is None else decoded_columns(options.decoded_parts)


def arrow_schema(schema: StructType, decoded: Sequence[str] = ()) -> pa.Schema:
    """Return the chosen columns in Spark's Arrow schema.

    Args:
        decoded: Further columns, of the type string.

    Raises:
        UsageError: The source does not have a column, or has it with another type.
    """
    types = {name: column.spark_type for name, column in COLUMNS.items()} | dict.fromkeys(decoded, "string")
    for field in schema.fields:
        kind = types.get(field.name)
        if kind is None:
            raise UsageError(f"unknown column {field.name}; columns are {', '.join(types)}")
        if field.dataType.simpleString() != kind:
            raise UsageError(f"column {field.name} is {kind}, not {field.dataType.simpleString()}")
    return to_arrow_schema(schema, **_IN_UTC)


_MALFORMED_SCHEMA = (
    "topic string, partition int, file string, position bigint, offset bigint, expected string, actual string, "
    "bytes bigint, records int"
)


class MalformedSource(DataSource):
    """The format of `malformed`. It has the options of "ottla" that choose partitions and offsets."""

    @classmethod
    def name(cls) -> str:
        return MALFORMED_FORMAT

    def schema(self) -> str:
        return _MALFORMED_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return _MalformedReader(parse_options(self.options))


class _MalformedReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        return [SplitPartition(task) for task in tasks(self.options, Narrowing())]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        if isinstance(partition, SplitPartition):
            split = partition.value.split
            for damage in damage_in(split):
                yield (*split.of, *damage)
