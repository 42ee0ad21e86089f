"""Log lines of tasks: the partition and the file, at the start and at the end.

On a cluster they go to the standard error of the executor's Python, which Spark's UI and `yarn logs` show. On this machine
that would be the user's terminal, so they need spark.log.level=INFO. Without Spark they go to handlers of `logging`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext, TaskContext

LOGS = "ottla.logs"
"""Local property of jobs: `true` if their tasks log."""
_LEVELS = ("INFO", "DEBUG", "TRACE", "ALL")

_log = logging.getLogger("ottla.tasks")


def are_wanted(context: SparkContext) -> bool:
    """Return whether the tasks of a session log."""
    master = str(context.master)
    is_here = master == "local" or master.startswith("local[")
    return not is_here or str(context.getConf().get("spark.log.level", "")).upper() in _LEVELS


@contextmanager
def logged(what: str) -> Iterator[None]:
    """Log a line at the start of the block, and one at its end; used in tasks.

    Args:
        what: The partition, the action, and the file.
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
