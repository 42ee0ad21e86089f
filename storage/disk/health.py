"""Which errors of the system mean that a disk has failed, and what becomes of its data directory then.

A failed disk takes its data directory, with all logs in it, out of use until the next start, as in Apache Kafka
(KIP-112). Every other error refuses the one call that met it: the call leaves things as they were, and may be tried
again as soon as what was missing is there.

    disk failed   the device or its file system cannot be had any more, or nobody knows what it holds
    refused       no room, no memory, no descriptors, no rights, a name that is not there, all that nobody thought of

Apache Kafka takes the directory offline for every IOException: a full disk then cannot be read either, and a process
out of descriptors loses its disks. To refuse is safe for an error that was put into the wrong row, as nothing is
acknowledged that was refused.
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
        "EROFS",  # what ext4 and others make of themselves after an error
        "ENXIO",
        "ENODEV",
        "ENOMEDIUM",
        "EUCLEAN",  # "structure needs cleaning": the file system found itself damaged
        "EBADMSG",  # a checksum of the file system is wrong
        "ESTALE",  # of a network file system: what was opened is not there any more
        "EREMOTEIO",
        "ENOTCONN",  # of a file system in user space whose process is gone
        "ESHUTDOWN",
        "ETIMEDOUT",
    )
    if (number := getattr(errno, name, None)) is not None  # not every system has them all
)
"""Error numbers of the first row."""


def is_disk_failure(error: OSError) -> bool:
    """Whether `error` says that the disk has failed.

    A failed sync does whatever its number is: what it was to write may be lost for good. So does an error without a
    number, which is one of ours: a file of the data directory does not hold what it must.
    """
    return error.errno is None or error.errno in DISK_FAILED or isinstance(error, SyncError)


_changes = count(1)


class DataDirectoryError(Exception):
    """A data directory cannot be used. One line, naming the directory, or the file and the place in it, and what is wrong."""

    failed_path: str | None = None
    """The directory, if the system says that its disk has failed: the others may be used without it."""

    @classmethod
    def of(cls, path: str, error: Exception) -> Self:
        """That the system, or what lies there, is against using it."""
        made = cls(str(error) if isinstance(error, UntrustedFileError) else f"data directory {path}: {error}")
        # One that may only be read was rather mounted by mistake than has failed.
        if isinstance(error, OSError) and error.errno in DISK_FAILED - {errno.EROFS}:
            made.failed_path = path
        return made


class Health:
    """Whether logs can be used. One object for all logs of a data directory: the disk that fails one fails them all."""

    __slots__ = ("code", "failure", "leaves_alone", "on_failure")

    changes: ClassVar[int] = 0
    """Another number whenever logs have gone offline, anywhere in the process: for who keeps what follows from that."""

    def __init__(
        self,
        failure: str | None = None,
        code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR,
        *,
        leaves_alone: bool = False,
    ) -> None:
        self.leaves_alone = leaves_alone
        """Whether nothing is wrong with the files, which only are not for this broker: a clean stop is clean without them."""
        self.failure = failure
        """What is wrong; None while all is well. Set once, until the next start."""
        self.code = code
        self.on_failure: Callable[[], None] | None = None
        """Called when it fails, in the thread that met the failure; more than once if several do at the same time."""

    def fail(self, reason: str) -> None:
        """The directory is out of use from now on. Any thread."""
        if self.failure is None:
            self.failure = reason
            self.note_change()
            if self.on_failure is not None:
                self.on_failure()

    @staticmethod
    def note_change() -> None:
        """Logs answer otherwise from now on; to be called when they do. Any thread."""
        Health.changes = next(_changes)

    def note(self, error: OSError) -> None:
        """Whatever uses the directory has met `error`. Any thread."""
        if self.failure is None and is_disk_failure(error):
            self.fail(str(error))
