"""Check of a session's workers before any job, with a one-line error instead of a Java stack trace.

Workers run the Python that PYSPARK_PYTHON names when the session starts. `session.builder` sets it to the driver's own Python.
Without it they run `python3`, the first one on each worker's path.
"""

from __future__ import annotations

import os
import shutil
import sys

from pyspark.sql import SparkSession

from ..errors import PipelineError, UsageError
from .failures import failures_translated
from .tasks import Batches, context_if_any

_checked: set[str] = set()
"""Applications whose workers passed the check."""


def check_workers(spark: SparkSession) -> None:
    """Run a task that needs ottla, once for each session whose workers may lack it.

    Raises:
        UsageError: A worker's Python cannot be started, has another version, or has no ottla or not the extra `spark`.
    """
    context = context_if_any(spark)
    application = "connect" if context is None else context.applicationId
    python = None if context is None else str(context.pythonExec)
    if application in _checked or (context is not None and runs_here(python or "", str(context.master))):
        return
    try:
        with failures_translated():
            spark.range(0, 1, 1, 1).mapInArrow(_nothing, "id bigint").collect()
    except PipelineError as error:
        raise UsageError(refusal(str(error), python, is_given="PYSPARK_PYTHON" in os.environ)) from None
    _checked.add(application)


def runs_here(python: str, master: str, executable: str = sys.executable) -> bool:
    """Return whether workers are processes of this machine that run this very Python, with its packages.

    Args:
        python: The workers' Python in Spark's options: a path, or a name on the path.
    """
    if not master.startswith("local"):
        return False
    found = shutil.which(python)
    # Links are resolved for the file, not for the folder: an environment has links to the Python it was made with.
    return (
        found is not None
        and os.path.dirname(os.path.abspath(found)) == os.path.dirname(os.path.abspath(executable))
        and os.path.realpath(found) == os.path.realpath(executable)
    )


def refusal(reason: str, python: str | None, *, is_given: bool) -> str:
    """Return the error text for workers that cannot run Ottla's tasks.

    Args:
        python: The workers' Python; None if the server chooses it (Spark Connect).
    """
    if python is None:
        return f"workers of the Connect server cannot run ottla's tasks: {reason}; install ottla[spark] there, in the Python they run"
    why = "as PYSPARK_PYTHON says" if is_given else "as PYSPARK_PYTHON is not set"
    return (
        f"workers run {python!r} ({why}), and cannot run ottla's tasks: {reason}; before the session starts set PYSPARK_PYTHON to a"
        f" Python {sys.version_info.major}.{sys.version_info.minor} that has ottla[spark] on every worker (this one is {sys.executable})"
    )


def _nothing(batches: Batches) -> Batches:
    import numpy  # noqa: F401 - needed by tasks

    for batch in batches:
        yield batch.slice(0, 0)
