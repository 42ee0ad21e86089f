"""What tasks say of their work: which partition and which file, when it begins and when it is done.

On a cluster that goes to the standard error of the executor's Python, which Spark's UI and `yarn logs` show. On this machine that would
be the user's terminal: there only with spark.log.level=INFO. Without Spark it is for whoever has asked `logging` for it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext, TaskContext

LOGS = "ottla.logs"
"""A property of jobs: `true` if their tasks are to be heard."""
_LEVELS = ("INFO", "DEBUG", "TRACE", "ALL")

_log = logging.getLogger("ottla.tasks")


def are_wanted(context: SparkContext) -> bool:
    """Whether the tasks of a session are to be heard."""
    master = str(context.master)
    is_here = master == "local" or master.startswith("local[")
    return not is_here or str(context.getConf().get("spark.log.level", "")).upper() in _LEVELS


@contextmanager
def logged(what: str) -> Iterator[None]:
    """In a task: a line when this begins, and one when it ends.

    Args:
        what: The partition, what is done, the file.
    """
    _hear()
    _log.info("%s: begins", what)
    try:
        yield
    except Exception as error:
        _log.info("%s: failed: %s", what, error)
        raise
    _log.info("%s: done", what)


def _hear() -> None:
    context = TaskContext.get()
    if context is None or context.getLocalProperty(LOGS) != "true":
        return
    if not _log.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        _log.addHandler(handler)
        _log.setLevel(logging.INFO)
        _log.propagate = False
