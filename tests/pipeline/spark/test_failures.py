"""The error of a command when Spark fails: the one line with the reason, out of Spark's long output."""

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PythonException, SparkRuntimeException

from ottla.pipeline.errors import CorruptSourceError, PipelineError
from ottla.pipeline.spark.failures import failures_translated

RAISED_BY_US = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "key_scan.py", line 120, in run
ottla.pipeline.errors.CorruptSourceError: 0.log, byte 61, offset 7: expected a batch, found none
"""
RAISED_BY_PYTHON = """\
An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 9, in main
ModuleNotFoundError: No module named 'ottla'

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
"""
EXECUTORS_LOST = """\
Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: ExecutorLostFailure
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:1)
"""
NOT_STARTED = """\
An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
This stopped SparkContext was created at:
"""
RAISED_BY_NUMPY = RAISED_BY_PYTHON.replace("ModuleNotFoundError: No module named 'ottla'", "MemoryError: 2 GiB")
MODULE_MISSING = (
    "on a worker: ModuleNotFoundError: No module named 'ottla'; the Python of PYSPARK_PYTHON must have ottla[spark] on every"
    " worker"
)
LOST = EXECUTORS_LOST.splitlines()[0]
NOT_STARTED_LINE = (
    "Spark's own process: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (
            PythonException(RAISED_BY_US),
            CorruptSourceError,
            "0.log, byte 61, offset 7: expected a batch, found none",
        ),
        (PythonException(RAISED_BY_PYTHON), PipelineError, MODULE_MISSING),
        (PythonException(RAISED_BY_NUMPY), PipelineError, "on a worker: MemoryError: 2 GiB"),
        (SparkRuntimeException(EXECUTORS_LOST), PipelineError, LOST),
        (Py4JError(NOT_STARTED), PipelineError, NOT_STARTED_LINE),
        (Py4JNetworkError("Answer from Java side is empty"), PipelineError, "the driver's JVM has exited: Answer from Java side is empty"),
        (ConnectionRefusedError(111, "refused"), PipelineError, "the driver's JVM has exited: [Errno 111] refused"),
        (Py4JError(""), PipelineError, "Spark's own process: it ended"),
    ],
)  # fmt: skip
def test_a_failure_is_reported_with_its_cause(error: Exception, kind: type[PipelineError], text: str) -> None:
    with pytest.raises(PipelineError) as found, failures_translated():
        raise error
    assert (type(found.value), str(found.value)) == (kind, text)
