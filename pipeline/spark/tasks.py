"""Jobs whose tasks are numbered pieces of work, with the tasks' input and output.

work(spark, count)                 the numbers below `count`
    -> mapped(…, task, schema)     a task makes rows of them
    -> collected(…)                the rows, on the driver
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext, TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from ..errors import PipelineError, UsageError
from ..steps import Counter, nobody_counts
from .failures import failures_translated

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]

DESCRIPTION = "spark.job.description"


def work(spark: SparkSession, count: int, tasks: int | None = None) -> DataFrame:
    """Return a frame of the numbers below `count`, in at most `tasks` tasks; one each by default."""
    return spark.range(0, count, 1, max(1, count if tasks is None else min(tasks, count)))


def tasks_at_once(spark: SparkSession) -> int:
    """Return the number of tasks that the cluster runs at a time, as Spark knows it now: executors may be added later."""
    if (context := context_if_any(spark)) is not None:
        return context.defaultParallelism
    with failures_translated():  # the number of tasks that Spark chooses for a range
        return spark.range(1 << 16).select(F.spark_partition_id().alias("number")).distinct().count()


def context_of(spark: SparkSession, what: str) -> SparkContext:
    """Return the session's SparkContext.

    Raises:
        UsageError: The session is one of Spark Connect, which has none.
    """
    context = context_if_any(spark)
    if context is None:
        raise UsageError(
            f"{what}: needs a SparkContext, which a session of Spark Connect does not have; call it from a driver:"
            " `ottla-spark --master`, spark-submit"
        )
    return context


def context_if_any(spark: SparkSession) -> SparkContext | None:
    """Return the session's SparkContext; None for a session of Spark Connect."""
    try:
        return spark.sparkContext
    except PySparkException:
        return None


def running_tasks(spark: SparkSession) -> str:
    """Return how many tasks of the running stages have finished; empty if none runs, or Spark has ended."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [stage for each in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(each)) is not None]
    except Py4JError:
        return ""
    total = sum(stage.numTasks for stage in stages)
    return f"tasks finished {sum(stage.numCompletedTasks for stage in stages)} of {total}" if total else ""


def numbers(batches: Batches) -> Iterator[int]:
    """Yield the numbers that `work` gives a task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


def mapped(frame: DataFrame, task: Task, schema: pa.Schema) -> DataFrame:
    """Run the task on the frame; it yields batches of exactly this schema."""
    return frame.mapInArrow(task, from_arrow_schema(schema))


def row(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    """Return a batch of one row."""
    columns = [pa.array([value], field.type) for value, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def collected(frame: DataFrame, what: str = "") -> list[Row]:
    """Run the job and return its rows. Errors as of `failures_translated`.

    Args:
        what: Appended in Spark's UI to the description of this thread's jobs.
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
        with suppress(Exception):  # its JVM may have exited
            context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]


def counter_of(spark: SparkSession) -> Counter:
    """Return a counter of finished pieces, updated as tasks end. With Spark Connect nothing is counted."""
    context = context_if_any(spark)
    if context is None:
        return nobody_counts()
    counted = context.accumulator(0)
    return counted.add, lambda: counted.value


def attempt_of(application_id: str) -> str:
    """In a task, return a name unique to this attempt, also among other jobs, as executors may outlive their driver."""
    context = TaskContext.get()
    if context is None:
        raise PipelineError("a task of a job was called outside of one")
    return f"{application_id}-{context.taskAttemptId()}"
