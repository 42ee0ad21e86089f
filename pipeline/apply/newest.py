"""Of a batch of decoded records: what is in it, and the newest record of each key.

A decoded record has columns `key` (a struct of the table's key columns), `value` (a struct of the others, null for a deletion),
those of PLACE, and BAD: why it cannot be decoded, or null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as f

from .merge_sql import DELETED, OFFSET, PARTITION, PLACE, TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEY, VALUE, BAD = "key", "value", "bad"


class BatchContents(NamedTuple):
    """
    records: All of them, those that cannot be decoded among them.
    next_offsets: Partition -> the offset after the last one's.
    bad: (partition, offset, why) of the first in each partition that cannot be decoded.
    """

    records: int
    bad_records: int
    next_offsets: dict[int, int]
    bad: Sequence[tuple[int, int, str]]


def contents(decoded: DataFrame) -> BatchContents:
    """One row a partition comes to the driver."""
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


def newest(decoded: DataFrame, values: Sequence[str]) -> DataFrame:
    """The newest record of each key: the table's columns, and DELETED.

    Args:
        values: Names of the table's columns that are of the value; fields of the struct VALUE besides are left out.
    """
    # Within a partition by offset, then between partitions by time: as `merge_sql.NEWER` has it.
    of_partition = decoded.groupBy(KEY, PARTITION).agg(f.max_by(f.struct(VALUE, OFFSET, TIMESTAMP), OFFSET).alias("r"))
    of_partition = of_partition.select(
        KEY, PARTITION, f.col(f"r.{VALUE}"), f.col(f"r.{OFFSET}"), f.col(f"r.{TIMESTAMP}")
    )
    order = f.struct(TIMESTAMP, PARTITION)
    found = of_partition.groupBy(KEY).agg(f.max_by(f.struct(VALUE, *PLACE), order).alias("r"))
    value = f.col(f"r.{VALUE}")
    return found.select(
        f"{KEY}.*",
        *(value.getField(name).alias(name) for name in values),
        *(f.col(f"r.{name}") for name in PLACE),
        value.isNull().alias(DELETED),
    )
