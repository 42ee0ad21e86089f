"""A snapshot as a frame, full or layered."""

from __future__ import annotations

import os

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ...storage.disk.os_files import OsFiles
from ..errors import UsageError
from .manifest import Manifest, layer_directories, read_manifest
from .snapshot import SCHEMA


def read_snapshot(spark: SparkSession, path: str) -> DataFrame:
    """The rows that count: one for each key.

    Of a full snapshot it is `spark.read.parquet(path)`. A layered one costs a join of each layer with the keys of those above it,
    which Spark broadcasts where they are few.

    Args:
        path: A folder that `snapshot` has written; workers have it at the same path.

    Raises:
        UsageError: There is none.
    """
    if not os.path.isdir(path):
        raise UsageError(f"{path}: expected a snapshot, found none")
    manifest = read_manifest(OsFiles(), path)
    schema = from_arrow_schema(SCHEMA)
    layers = [spark.read.schema(schema).parquet(each) for each in layer_directories(path, manifest)]
    *older, newest = layers
    if manifest is None or not older:
        return newest
    found, changed = newest, newest.select("partition", "key")
    for layer in reversed(older):
        found = found.unionAll(layer.join(changed, ["partition", "key"], "left_anti").select(*SCHEMA.names))
        changed = changed.unionAll(layer.select("partition", "key"))
    return found.where(F.col("value").isNotNull() & _is_in_log(manifest))


def _is_in_log(manifest: Manifest) -> Column:
    """Retention may have taken a row's record since."""
    starts = {number: span.log_start_offset for number, span in manifest.partitions.items() if span.log_start_offset}
    if not starts:
        return F.lit(True)
    pairs = [F.lit(each) for start in starts.items() for each in start]
    return F.col("offset") >= F.coalesce(F.create_map(*pairs)[F.col("partition")], F.lit(0))
