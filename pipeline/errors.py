"""What can go wrong in a job, as exceptions: each carries the exit code that `ottla-spark` ends with.

The text is one line that says everything: Spark shows the user no more than the last line of what a task raised.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..protocol.errors import KafkaError


class PipelineError(Exception):
    """A job cannot go on. `exit_code` tells scripts why."""

    exit_code = 1

    results: Sequence[Any] = ()
    """What became of each partition, where it was a job over several (`PartitionResult`)."""


class UsageError(PipelineError):
    """What was asked for makes no sense: no such topic, a topic that is not compacted, a directory that is no store."""


class StoreLockedError(PipelineError):
    """A live server holds the data directory."""

    exit_code = 2


class CorruptSourceError(PipelineError):
    """Bytes on disk that cannot be what a server wrote. Nothing is dropped because of it; nothing was changed."""

    exit_code = 3

    @classmethod
    def at(
        cls, file: str, position: int | None, offset: int | None, *, expected: object, actual: object
    ) -> CorruptSourceError:
        """Name the place.

        Args:
            position: Byte in the file where it begins; None for the file as a whole.
            offset: The record offset that stands there, or would.
        """
        where = file + ("" if position is None else f", byte {position}")
        where += "" if offset is None else f", offset {offset}"
        return cls(f"{where}: expected {expected}, found {actual}")


class SourceChangedError(PipelineError):
    """The segments are no longer those that the plan was made for: plan anew."""

    exit_code = 4


class VerifyFailedError(PipelineError):
    """The result does not hold what compaction promises."""

    exit_code = 5


class SparkFailedError(PipelineError):
    """A job failed for a reason outside of it: Spark, or a disk. What it staged stays, and `--resume` goes on from there."""

    exit_code = 6


class ServiceFailedError(PipelineError):
    """What a job reaches over the network does not answer for as long as the job waits, or has failed: an object store, a Kafka, or
    the server through which an install goes. The text names it. Another call may succeed; what an install did stays.
    """

    exit_code = 6


_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
"""What is not the caller's mistake, as a path that may not be read is."""


def as_pipeline_error(error: PipelineError | OSError | KafkaError) -> PipelineError:
    """What a job says of an error of the floors below."""
    if isinstance(error, PipelineError):
        return error
    if isinstance(error, KafkaError):
        found: PipelineError = CorruptSourceError(error.message)
    else:
        text = error.strerror or str(error)
        text = f"{error.filename}: {text}" if error.filename else text
        found = SparkFailedError(text) if error.errno in _DISK_ERRORS else UsageError(text)
    found.__cause__ = error
    return found


_OF_THE_EXTRA = ("pyspark", "py4j", "pyarrow", "pandas", "numpy")


def check_the_extra() -> None:
    """Refuse what needs the extra `spark` where that is not installed. UsageError."""
    try:
        for name in ("numpy", "pyarrow"):
            import_module(name)
    except ImportError as error:
        if (missing := without_the_extra(error)) is None:
            raise
        raise UsageError(missing) from error


def without_the_extra(error: ImportError) -> str | None:
    """What to install, where it is the extra `spark` that is not there; None for any other module."""
    if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
        return None
    return f"{error.name} is missing: pip install 'ottla[spark]'"
