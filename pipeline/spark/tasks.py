"""Jobs whose tasks are pieces of work that have numbers, and what such a task is told and says.

work(spark, count)                 the numbers below `count`
    -> mapped(…, task, schema)     a task makes rows of them
    -> collected(…)                the rows, on the driver
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ..errors import SparkFailedError, UsageError
from ..steps import Counter, nobody_counts
from .failures import failures_translated

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]

DESCRIPTION = "spark.job.description"


def work(spark: SparkSession, count: int, tasks: int | None = None) -> DataFrame:
    """The numbers below `count`, in so many tasks at most; one each unless given."""
    return spark.range(0, count, 1, max(1, count if tasks is None else min(tasks, count)))


def tasks_at_once(spark: SparkSession) -> int:
    """How many tasks the cluster runs at a time, as far as Spark knows: executors may come later."""
    if (context := context_if_any(spark)) is not None:
        return context.defaultParallelism
    with failures_translated():  # so many tasks Spark makes of a range that it may part as it likes
        return spark.range(1 << 16).select(F.spark_partition_id().alias("number")).distinct().count()


def context_of(spark: SparkSession, what: str) -> SparkContext:
    """
    Raises:
        UsageError: There is none: the session is one of Spark Connect.
    """
    context = context_if_any(spark)
    if context is None:
        raise UsageError(
            f"{what}: needs a SparkContext, which a session of Spark Connect has not; call it from a driver of its own:"
            " `ottla-spark --master`, spark-submit"
        )
    return context


def context_if_any(spark: SparkSession) -> SparkContext | None:
    """None of a session of Spark Connect."""
    try:
        return spark.sparkContext
    except PySparkException:
        return None


def numbers(batches: Batches) -> Iterator[int]:
    """What `work` gives a task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def mapped(frame: DataFrame, task: Task, schema: pa.Schema) -> DataFrame:
    """What the task makes of the frame: batches of exactly this schema."""
    return frame.mapInArrow(task, from_arrow_schema(schema))


def row(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    """A batch of one row."""
    columns = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def collected(frame: DataFrame, what: str = "") -> list[Row]:
    """Run the job. Errors as of `failures_translated`.

    Args:
        what: Behind the description that this thread's jobs have, in Spark's UI.
    """
    with _described(frame.sparkSession, what), failures_translated():
        return frame.collect()


@contextmanager
def _described(spark: SparkSession, what: str) -> Iterator[None]:
    context = context_if_any(spark)
    if context is None:
        yield
        return
    with failures_translated():
        before = context.getLocalProperty(DESCRIPTION)
        if what:
            context.setLocalProperty(DESCRIPTION, f"{before or 'ottla'}: {what}")
    try:
        yield
    finally:
        with suppress(Exception):  # its JVM may be gone
            context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]


def counter_of(spark: SparkSession) -> Counter:
    """Counts what tasks have done, as they end. Of Spark Connect nothing is known."""
    context = context_if_any(spark)
    if context is None:
        return nobody_counts()
    counted = context.accumulator(0)
    return counted.add, lambda: counted.value


def attempt_of(application_id: str) -> str:
    """In a task: a name that no other attempt has, of this job or another: executors outlive a driver that dies, and write."""
    context = TaskContext.get()
    if context is None:
        raise SparkFailedError("a task of a job was called outside of one")
    return f"{application_id}-{context.taskAttemptId()}"
