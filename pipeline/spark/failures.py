"""Conversion of task errors: Spark keeps only the text of what a task raised."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException, PythonException

from .. import errors
from ..errors import PipelineError

_RAISED = re.compile(r"ottla\.pipeline\.errors\.(\w+): (.*)")
_PYTHON_ERROR = re.compile(r"[A-Za-z]\w*(?:\.\w+)*(?:Error|Exception): .+")
_NOT_STARTED = re.compile(r'Cannot run program "[^"]*"[^\n]*')
_MISSING = re.compile(r"\b(?:ModuleNotFound|Import)Error: ")


@contextmanager
def failures_translated() -> Iterator[None]:
    """Convert Spark's errors during the block.

    Raises:
        PipelineError: The error that a task raised.
        PipelineError: Spark failed for another reason.
    """
    try:
        yield
    except PySparkException as error:
        raised = _RAISED.findall(str(error))
        if not raised:
            said = _reason(str(error))
            if isinstance(error, PythonException):
                said = f"on a worker: {said}"
            if _MISSING.search(said):
                said += "; the Python of PYSPARK_PYTHON must have ottla[spark] on every worker"
            raise PipelineError(said) from error
        name, message = raised[-1]
        kind: type[PipelineError] = getattr(errors, name, PipelineError)
        raise kind(message) from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise PipelineError(f"the driver's JVM has exited: {_reason(str(error))}") from error
    except Py4JError as error:  # not an error of the job: Spark itself did not start
        raise PipelineError(f"Spark's own process: {_reason(str(error))}") from error


def _reason(text: str) -> str:
    """Return the line with the reason: the error that Python raised on a worker, else Spark's first line.

    The rest is stack traces.
    """
    if (not_started := _NOT_STARTED.search(text)) is not None:
        return not_started[0].strip()
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("An error occurred while calling")] or ["it ended"]
    return next((line for line in reversed(lines) if _PYTHON_ERROR.fullmatch(line)), lines[0])
