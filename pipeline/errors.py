"""Errors of a job, as exceptions: each has the exit code with which `ottla-spark` ends.

The text is one complete line: Spark shows the user only the last line of what a task raised.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from enum import IntEnum
from importlib import import_module
from typing import Any

from ..protocol.errors import KafkaError


class ExitCode(IntEnum):
    """Exit code with which `ottla-spark` ends, by the reason."""

    USAGE = 1
    LOCKED = 2
    CORRUPT = 3
    CHANGED = 4
    UNVERIFIED = 5
    """`verify` has found an error: the result does not hold what compaction promises. Or `prove-erased` has found a value."""
    FAILED = 6
    """Spark, a disk or a network service failed."""


class PipelineError(Exception):
    """Error that ends a job. `exit_code` gives scripts the reason.

    By itself: an external failure, FAILED. It is Spark, a disk, an object store, a Kafka, or the server through which an install
    goes; the text names it. Another call may succeed. What a job staged stays, and `--resume` continues from there. What an
    install did stays also.
    """

    exit_code = ExitCode.FAILED

    results: Sequence[Any] = ()
    """The result of each partition, for a job over several (`PartitionResult`)."""

    def __init__(self, text: str, exit_code: ExitCode | None = None) -> None:
        super().__init__(text)
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(PipelineError):
    """Request that makes no sense: an unknown topic, a topic that is not compacted, a directory that is not a store."""

    exit_code = ExitCode.USAGE


class StoreLockedError(PipelineError):
    """A live server holds the data directory."""

    exit_code = ExitCode.LOCKED


class CorruptSourceError(PipelineError):
    """Bytes on disk that a server cannot have written. Nothing is dropped because of them, and nothing was changed."""

    exit_code = ExitCode.CORRUPT

    @classmethod
    def from_position(
        cls, file: str, position: int | None, offset: int | None, *, expected: object, actual: object
    ) -> CorruptSourceError:
        """Make the error for one place.

        Args:
            position: Byte in the file where the damage begins; None for the file as a whole.
            offset: The record offset at this place, or expected there.
        """
        where = file + ("" if position is None else f", byte {position}")
        where += "" if offset is None else f", offset {offset}"
        return cls(f"{where}: expected {expected}, found {actual}")


class SourceChangedError(PipelineError):
    """The segments are no longer those that the plan was made for. A new plan is needed."""

    exit_code = ExitCode.CHANGED


_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)
"""Errors that are not the caller's mistake. A path that may not be read is one."""


def as_pipeline_error(error: PipelineError | OSError | KafkaError) -> PipelineError:
    """Convert an error of `protocol`, `storage` or the operating system to that of a job."""
    if isinstance(error, PipelineError):
        return error
    if isinstance(error, KafkaError):
        found: PipelineError = CorruptSourceError(error.message)
    else:
        text = error.strerror or str(error)
        text = f"{error.filename}: {text}" if error.filename else text
        found = PipelineError(text) if error.errno in _DISK_ERRORS else UsageError(text)
    found.__cause__ = error
    return found


_OF_THE_EXTRA = ("pyspark", "py4j", "pyarrow", "pandas", "numpy")


def check_the_extra() -> None:
    """Raise UsageError if the extra `spark`, which the caller needs, is not installed."""
    try:
        for name in ("numpy", "pyarrow"):
            import_module(name)
    except ImportError as error:
        if (missing := without_the_extra(error)) is None:
            raise
        raise UsageError(missing) from error


def without_the_extra(error: ImportError) -> str | None:
    """Return how to install the extra `spark` if the missing module is part of it, None for any other module."""
    if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
        return None
    return f"{error.name} is missing: pip install 'ottla[spark]'"
