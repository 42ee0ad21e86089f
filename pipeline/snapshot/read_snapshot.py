"""Snapshot as a frame, full or layered."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ...storage.disk.os_files import OsFiles
from ..errors import UsageError
from ..objects.addresses import is_address, parse_fs_options
from ..objects.object_files import ObjectFiles
from ..spark.blobs import BlobRows
from ..spark.tasks import Batches, mapped
from .manifest import Manifest, layer_directories, read_manifest
from .parquet_files import opened
from .snapshot import SCHEMA
from .store_snapshot import find

_PATHS = BlobRows()


def read_snapshot(spark: SparkSession, path: str, *, fs_options: Mapping[str, str] | None = None) -> DataFrame:
    """Read the current rows of a snapshot: one for each key.

    For a full snapshot this is `spark.read.parquet(path)`. A layered snapshot requires a join of each layer with the keys of the
    layers above it, which Spark broadcasts if they are few.

    Args:
        path: Directory written by `snapshot`, at the same path on all workers; or an address.
        fs_options: Options of the object store by name, e.g. `s3.region`, if `path` is an address.

    Raises:
        UsageError: No snapshot was found.
    """
    if is_address(path):
        objects = ObjectFiles(parse_fs_options(fs_options or {}))
        found_there = find(objects, path)
        if found_there is None:
            raise UsageError(f"{path}: expected a snapshot, found none")
        manifest = found_there.manifest
        layers = [_layer(spark, files, objects) for files in found_there.layers]
    else:
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


def _layer(spark: SparkSession, files: Sequence[str], objects: ObjectFiles) -> DataFrame:
    """Read the rows of files in a store with Ottla's own client; Spark itself would need Hadoop's client for the store."""

    def read(batches: Batches) -> Batches:
        for _, path in _PATHS.read(batches):
            with opened(str(path, "utf-8"), objects) as file:
                for batch in file.iter_batches(columns=SCHEMA.names):
                    columns = [batch.column(name).cast(SCHEMA.field(name).type) for name in SCHEMA.names]
                    yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

    paths = _PATHS.frame(spark, (((number,), path.encode()) for number, path in enumerate(files)))
    return mapped(_PATHS.exchanged(paths, None, max(1, len(files))), read, SCHEMA)


def _is_in_log(manifest: Manifest) -> Column:
    """Return the condition that retention has not removed a row's record."""
    starts = {number: span.log_start_offset for number, span in manifest.partitions.items() if span.log_start_offset}
    if not starts:
        return F.lit(True)
    pairs = [F.lit(each) for start in starts.items() for each in start]
    return F.col("offset") >= F.coalesce(F.create_map(*pairs)[F.col("partition")], F.lit(0))
