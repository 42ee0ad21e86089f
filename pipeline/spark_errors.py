"""What a task raised, here again: Spark itself knows only its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from . import errors
from .errors import PipelineError, SparkFailedError

_RAISED = re.compile(r"ottla\.pipeline\.errors\.(\w+): (.*)")


@contextmanager
def failures_translated() -> Iterator[None]:
    """
    Raises:
        PipelineError: The one that a task raised.
        SparkFailedError: Spark failed for another reason.
    """
    try:
        yield
    except PySparkException as error:
        raised = _RAISED.findall(str(error))
        if not raised:
            raise SparkFailedError(str(error).strip().splitlines()[-1]) from error
        name, message = raised[-1]
        kind: type[PipelineError] = getattr(errors, name, SparkFailedError)
        raise kind(message) from error
