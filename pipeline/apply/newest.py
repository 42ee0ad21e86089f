"""Contents of a batch of decoded records, and the newest record of each key.

A decoded record has the columns `key` (a struct of the table's key columns), `value` (a struct of the others, null for a
deletion), those of PLACE, and BAD: the reason why it cannot be decoded, or null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from .merge_sql import DELETED, OFFSET, PARTITION, PLACE, TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY, VALUE, BAD = "key", "value", "bad"


class BatchContents(NamedTuple):
    """Counts of a batch's records, and the undecodable ones.

    records: All records, including those that cannot be decoded.
    next_offsets: Partition -> the offset after the last record.
    bad: (partition, offset, reason) of the first undecodable record of each partition.
    """

    records: int
    bad_records: int
    next_offsets: dict[int, int]
    bad: Sequence[tuple[int, int, str]]


def contents(decoded: DataFrame) -> BatchContents:
    """Count the records of a batch. One row per partition comes to the driver."""
    is_bad = f.col(BAD).isNotNull()
    rows = (
        decoded.groupBy(PARTITION)
        .agg(
            f.count(f.lit(1)).alias("records"),
            f.count_if(is_bad).alias("bad_records"),
            f.max(OFFSET).alias("last"),
            f.min(f.when(is_bad, f.struct(OFFSET, BAD))).alias("first_bad"),
        )
        .collect()
    )
    return BatchContents(
        records=sum(row["records"] for row in rows),
        bad_records=sum(row["bad_records"] for row in rows),
        next_offsets={row[PARTITION]: row["last"] + 1 for row in rows},
        bad=sorted(
            (row[PARTITION], row["first_bad"][OFFSET], row["first_bad"][BAD]) for row in rows if row["bad_records"]
        ),
    )


MOVED = "ottla: a key is in two partitions"


def newest_of_one_partition(records: DataFrame) -> DataFrame:
    """Return the same as `newest`, with half the work. Spark fails with MOVED if a key is in two partitions."""
    keys, records = _flat(records)
    record = f.max_by(f.struct(VALUE, OFFSET, TIMESTAMP), OFFSET).alias("r")
    found = records.groupBy(*keys).agg(record, f.min(PARTITION).alias(PARTITION), f.max(PARTITION).alias("other"))
    is_one = f.col(PARTITION) == f.col("other")
    # In the value, as Spark looks at nothing else before it leaves out deletions.
    failed = f.raise_error(f.lit(MOVED)).cast(records.schema[VALUE].dataType)
    value = f.when(is_one, f.col(f"r.{VALUE}")).otherwise(failed).alias(VALUE)
    return found.select(_key(keys), value, PARTITION, f.col(f"r.{OFFSET}"), f.col(f"r.{TIMESTAMP}"))


def newest(records: DataFrame) -> DataFrame:
    """Return the newest record of each key: the columns KEY, VALUE, and those of PLACE."""
    keys, records = _flat(records)
    # Within a partition by offset, then between partitions by time, as in `merge_sql.NEWER`.
    of_partition = records.groupBy(*keys, PARTITION).agg(
        f.max_by(f.struct(VALUE, OFFSET, TIMESTAMP), OFFSET).alias("r")
    )
    of_partition = of_partition.select(
        *keys, PARTITION, f.col(f"r.{VALUE}"), f.col(f"r.{OFFSET}"), f.col(f"r.{TIMESTAMP}")
    )
    order = f.struct(TIMESTAMP, PARTITION)
    found = of_partition.groupBy(*keys).agg(f.max_by(f.struct(VALUE, *PLACE), order).alias("r"))
    return found.select(_key(keys), *(f.col(f"r.{name}") for name in (VALUE, *PLACE)))


def _flat(records: DataFrame) -> tuple[dict[str, str], DataFrame]:
    """Put the fields of KEY into columns of their own, which Spark sorts faster. Returns the columns' names, with the fields'."""
    kind = records.schema[KEY].dataType
    assert isinstance(kind, StructType)
    keys = {f"key_{number}": name for number, name in enumerate(kind.names)}
    columns = [f.col(KEY).getField(name).alias(column) for column, name in keys.items()]
    return keys, records.select(*columns, VALUE, *PLACE)


def _key(keys: Mapping[str, str]) -> Column:
    return f.struct(*(f.col(column).alias(name) for column, name in keys.items())).alias(KEY)


def columns_of(found: DataFrame, values: Sequence[str]) -> DataFrame:
    """Return the table's columns of such records, and DELETED.

    Args:
        values: Names of the table's columns that are in the value; other fields of the struct VALUE are left out.
    """
    value = f.col(VALUE)
    return found.select(
        f"{KEY}.*", *(value.getField(name).alias(name) for name in values), *PLACE, value.isNull().alias(DELETED)
    )
