"""Health of a data directory: which errors of the system mean that its disk has failed.

A failed disk takes its data directory, with all its logs, offline until the next start, as in Apache Kafka (KIP-112). Every
other error refuses only the one call: that changes nothing, and may be repeated when the cause is gone.

    disk failed   the device or its file system is no longer usable, or its content is unknown
    refused       no space, no memory, no descriptors, no permission, a missing name, all unexpected errors

Apache Kafka takes the directory offline for every IOException: a full disk then cannot be read either, and a process
out of descriptors loses its disks. If an error is in the wrong row, refusing is safe: what was refused is not acknowledged.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import count
from typing import ClassVar, Self

from ...protocol.errors import ErrorCode
from .files import SyncError
from .own_files import UntrustedFileError

DISK_FAILED = frozenset(
    number
    for name in (
        "EIO",
        "EROFS",  # ext4 and others become read-only after an error
        "ENXIO",
        "ENODEV",
        "ENOMEDIUM",
        "EUCLEAN",  # "structure needs cleaning": the file system has found damage
        "EBADMSG",  # a checksum of the file system is wrong
        "ESTALE",  # from a network file system: an open file no longer exists
        "EREMOTEIO",
        "ENOTCONN",  # from a file system in user space whose process has ended
        "ESHUTDOWN",
        "ETIMEDOUT",
    )
    if (number := getattr(errno, name, None)) is not None  # some systems lack some of them
)
"""Error numbers of the first row."""


def is_disk_failure(error: OSError) -> bool:
    """Whether `error` means that the disk has failed.

    A failed sync means that whatever its number is, as the data may be lost. So does an error without a number, which this
    program raises when a file of the data directory is invalid.
    """
    return error.errno is None or error.errno in DISK_FAILED or isinstance(error, SyncError)


_changes = count(1)


class DataDirectoryError(Exception):
    """A data directory cannot be used. One line with the directory, or the file and the line in it, and the reason."""

    failed_path: str | None = None
    """Path of the directory if its disk has failed: the others may be used without it."""

    @classmethod
    def from_error(cls, path: str, error: Exception) -> Self:
        """Make the error for a directory from an error of the system or an invalid file."""
        made = cls(str(error) if isinstance(error, UntrustedFileError) else f"data directory {path}: {error}")
        # A read-only file system has more likely been mounted so by mistake than failed.
        if isinstance(error, OSError) and error.errno in DISK_FAILED - {errno.EROFS}:
            made.failed_path = path
        return made


class Health:
    """Whether logs can be used. All logs of a data directory share one object: a failed disk takes all of them offline."""

    __slots__ = ("code", "failure", "leaves_alone", "on_failure")

    changes: ClassVar[int] = 0
    """A number that changes whenever logs go offline, anywhere in the process, so that caches can be invalidated."""

    def __init__(
        self,
        failure: str | None = None,
        code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR,
        *,
        leaves_alone: bool = False,
    ) -> None:
        self.leaves_alone = leaves_alone
        """Whether the files are valid, but of a format that this broker cannot read. A stop may be clean without them."""
        self.failure = failure
        """Reason of the failure; None while the logs can be used. Set once, until the next start."""
        self.code = code
        self.on_failure: Callable[[], None] | None = None
        """Called on a failure, in the thread that met it; more than once if several threads meet it at the same time."""

    def fail(self, reason: str) -> None:
        """Take the directory offline. Any thread."""
        if self.failure is None:
            self.failure = reason
            self.note_change()
            if self.on_failure is not None:
                self.on_failure()

    @staticmethod
    def note_change() -> None:
        """Change `changes`; called whenever logs have gone offline. Any thread."""
        Health.changes = next(_changes)

    def note(self, error: OSError) -> None:
        """Record an error of an access to the directory; takes it offline if the disk has failed. Any thread."""
        if self.failure is None and is_disk_failure(error):
            self.fail(str(error))
