"""A table of Parquet files with one row a key: every batch makes a new version from the one before and its changes.

    TABLE/batch=0000000003/…     the newest folder with `_SUCCESS` in it is the table

A version is complete or not there at all, and the same batch makes the same version again: so a job that is killed at
any moment and started again from its checkpoint leaves each change in the table once.
"""

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

KEPT_VERSIONS = 2
"""Those who began to read a version may finish while the next one is made."""


class KeyedTable:
    """Args:
    path: Folder of the versions; made with the first batch.
    key: Name of the key's column.
    columns: The other columns, as in DDL; fields of the JSON text.
    """

    def __init__(self, path: Path, key: str, columns: str) -> None:
        self.path, self.key, self.columns = path, key, columns

    def read(self, spark: SparkSession) -> DataFrame:
        """The newest version; FileNotFoundError before the first."""
        newest = self.newest()
        if newest is None:
            raise FileNotFoundError(f"no version of a table in {self.path}")
        return spark.read.parquet(str(newest))

    def newest(self, before: int | None = None) -> Path | None:
        """The newest complete version, or the newest one of an earlier batch."""
        done = sorted(marker.parent for marker in self.path.glob("batch=*/_SUCCESS"))
        return next((each for each in reversed(done) if before is None or number_of(each) < before), None)

    def upsert(self, changes: DataFrame, batch: int) -> None:
        """Make the version of this batch.

        Args:
            changes: Columns `key` and `value` (JSON text; null deletes the row) with `offset`, which orders the changes
                of a key: all of them are in one partition of the topic.
            batch: Its number; that of a batch which is run again stays the same.
        """
        last = changes.groupBy("key").agg(f.max_by("value", "offset").alias("value"))
        last = last.withColumnRenamed("key", self.key)
        parsed = f.from_json("value", self.columns).alias("row")
        version = last.where("value IS NOT NULL").select(self.key, parsed).select(self.key, "row.*")
        base = self.newest(before=batch)
        if base is not None:
            untouched = changes.sparkSession.read.parquet(str(base)).join(last.select(self.key), self.key, "left_anti")
            version = version.unionByName(untouched)
        version.coalesce(1).write.mode("overwrite").parquet(str(self.path / f"batch={batch:010}"))
        for old in sorted(self.path.glob("batch=*"))[:-KEPT_VERSIONS]:
            shutil.rmtree(old)


def number_of(version: Path) -> int:
    return int(version.name.partition("=")[2])
