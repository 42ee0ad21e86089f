"""The obvious first implementation: a Data Source that yields tuples, and queries that shuffle whole records."""

import sys
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.protocol.records import RecordBatch

FORMAT = "obvious"
_SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


class FilePartition(InputPartition):
    def __init__(self, path: str) -> None:
        super().__init__(None)
        self.path = path


class ObviousSource(DataSource):
    """One task a segment, one tuple a record, with the project's own batch code: options `path` and `topic`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return _SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return ObviousReader(self.options["path"])


class ObviousReader(DataSourceReader):
    def __init__(self, directory: str) -> None:
        self.directory = directory

    def partitions(self) -> list[InputPartition]:
        return [FilePartition(str(path)) for path in sorted(Path(self.directory).glob("*.log"))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from datetime import datetime

        assert isinstance(partition, FilePartition)
        path = Path(partition.path)
        topic, _, number = path.parent.name.rpartition("-")
        data, at = memoryview(path.read_bytes()), 0
        while at < len(data):
            batch = RecordBatch(data, at)
            if batch.computed_crc() != batch.crc:
                raise ValueError(f"{path}, byte {at}: CRC")
            if not batch.is_control:
                for record in batch.records():
                    timestamp = datetime.fromtimestamp(record.timestamp / 1000, UTC)
                    yield record.key, record.value, topic, int(number), record.offset, timestamp, 0
            at += batch.size_bytes


def latest_by_max_by(records: DataFrame) -> DataFrame:
    """Return the newest record of each key, without tombstones."""
    from pyspark.sql.functions import col, max_by, struct

    newest = records.groupBy("partition", "key").agg(max_by(struct("value", "offset"), "offset").alias("newest"))
    return newest.select("key", "newest.value", "partition", "newest.offset").where(col("value").isNotNull())


def latest_by_row_number(records: DataFrame) -> DataFrame:
    """Return the newest record of each key, in order of offsets, as a compacted log has them."""
    from pyspark.sql import Window
    from pyspark.sql.functions import col, row_number

    window = Window.partitionBy("partition", "key").orderBy(col("offset").desc())
    numbered = records.withColumn("number", row_number().over(window)).where("number = 1").drop("number")
    return numbered.repartitionByRange("partition", "offset").sortWithinPartitions("partition", "offset")


def register(spark: SparkSession) -> None:
    by_value: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    by_value(sys.modules[__name__])  # workers cannot import it
    spark.dataSource.register(ObviousSource)
